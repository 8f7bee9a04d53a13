//! Records the statements that writer threads execute, for tests of how long visitors wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::store::database_url::DatabaseUrl;
use crate::store::sql::{Cell, Value};

/// The executions of each statement, keyed by the text of the statement.
pub(super) type Recorded = BTreeMap<String, Executions>;

/// Statistics of all executions of one statement.
#[derive(Debug, Default)]
pub(super) struct Executions {
    /// The maximum number of steps of SQLite's virtual machine in one execution.
    pub steps: i32,
    /// The number of different parameters in the execution with the most steps: lists of keys are padded with
    /// repeated values.
    pub different: i32,
    /// The number of rows read or changed by the execution with the most steps.
    pub rows: i32,
    /// The duration of each execution.
    pub times: Vec<Duration>,
    /// The parameters of the last execution.
    pub values: Vec<Cell>,
}

/// The recorded statements of each database, by its name.
static RECORDED: Mutex<BTreeMap<String, Recorded>> = Mutex::new(BTreeMap::new());

/// The name of the writer threads.
pub(super) const WRITER: &str = "inbox-writer";

/// The database's key in [`RECORDED`]: the path of a SQLite file, or the application name for PostgreSQL.
fn name(place: &DatabaseUrl) -> String {
    match place {
        DatabaseUrl::Sqlite(path) => std::path::absolute(path).unwrap().to_str().unwrap().to_owned(),
        DatabaseUrl::Postgres(server) => server.config().get_application_name().unwrap().to_owned(),
    }
}

/// Starts recording the statements of a database. Call this before the database is opened.
pub(super) fn start(place: &DatabaseUrl) {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner).insert(name(place), Recorded::new());
}

/// Stops recording, and returns the recorded statements.
pub(super) fn stop(place: &DatabaseUrl) -> Recorded {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner).remove(&name(place)).unwrap()
}

/// Records an executed statement, which read or changed this many `rows`. Ignores statements of other threads
/// than writers, and of databases that are not recorded. `steps` returns its virtual machine steps and resets
/// their counter.
pub(super) fn record(
    name: Option<&str>,
    sql: &str,
    values: &[Value<'_>],
    began: Instant,
    rows: usize,
    steps: impl FnOnce() -> i32,
) {
    let time = began.elapsed();
    if std::thread::current().name() != Some(WRITER) {
        return;
    }
    let mut databases = RECORDED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(recorded) = name.and_then(|name| databases.get_mut(name)) {
        let executions = recorded.entry(sql.to_owned()).or_default();
        let steps = steps();
        if steps > executions.steps {
            let different: BTreeSet<String> =
                values.iter().map(|value| format!("{:?}", cell(value))).collect();
            executions.steps = steps;
            executions.different = i32::try_from(different.len()).unwrap();
            executions.rows = i32::try_from(rows).unwrap();
        }
        executions.times.push(time);
        executions.values = values.iter().map(cell).collect();
    }
}

fn cell(value: &Value<'_>) -> Cell {
    match *value {
        Value::Null => Cell::Null,
        Value::Integer(number) => Cell::Integer(number),
        Value::Text(text) => Cell::Text(text.to_owned()),
        Value::Blob(bytes) => Cell::Blob(bytes.to_vec()),
    }
}
