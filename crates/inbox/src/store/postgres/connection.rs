//! A connection to a PostgreSQL server, for threads that block on replies.
//!
//! A separate thread drives the connection, so callers need no async runtime, but may run inside one. Both
//! this module and the server limit how long each query may take.
//!
//! Behind a pooler, nothing outlives a transaction: each one begins with its settings, statements have no
//! names on the server, and a single statement becomes a transaction.

use std::cell::{Cell as Slot, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
#[cfg(test)]
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use tokio::sync::oneshot;
use tokio_postgres::error::Severity;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

use super::connection_registration::Registration;
use crate::store::database_url::DatabaseUrl;
use crate::store::error::StoreError;
use crate::store::sql::{Cell, Dialect, Row, Sql, Value};
#[cfg(test)]
use crate::store::test_statement_recorder as recorder;
use frontdesk_postgres::pooler::{self, Described, FailedPart};
use frontdesk_postgres::session_settings::{option_settings, set_calls};
use frontdesk_postgres::{Connected, OnNotification, Server, block_on_with_timeout, connect};

/// How much longer than the server's statement timeout the client waits for a reply.
const GRACE: Duration = Duration::from_secs(2);
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The server ends a session whose transaction has been idle for this long, because its client must be gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Identifies this connection's server process by its id and start time, because ids are reused.
pub(super) const BACKEND: &str = "SELECT concat_ws(' ', pid, extract(epoch FROM backend_start)) FROM pg_stat_activity WHERE pid = pg_backend_pid()";
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionOptions {
    /// Whether the server must accept changes.
    pub writes: bool,
    /// The maximum time that the server may take to execute one statement.
    pub statement: Duration,
}

/// An open connection. Dropping it closes the connection in the background; behind a pooler, the drop first
/// ends the registration, and waits up to [`DROP_TIMEOUT`] for that.
pub struct PgConnection {
    pub(super) client: Client,
    server: Server,
    patience: Duration,
    /// Whether the server has sent a warning since the last check.
    warned: Arc<AtomicBool>,
    prepared: RefCell<HashMap<String, Statement>>,
    /// The state of a connection through a pooler; `None` if the connection certainly has its own session.
    pooled: Option<Pooled>,
    _alive: oneshot::Sender<Infallible>,
}

impl PgConnection {
    /// Connects like [`PgConnection::open_listening`], and ignores notifications.
    pub(crate) fn open(server: &Server, session: ConnectionOptions) -> Result<PgConnection, StoreError> {
        PgConnection::open_listening(server, session, None)
    }

    /// Connects, starts the thread that drives the connection, looks for a pooler, and sets the session's
    /// timeouts unless there is one. Marks the server as pooled if it finds one. The thread calls `heard` for
    /// each notification.
    pub(crate) fn open_listening(
        server: &Server,
        session: ConnectionOptions,
        heard: Option<OnNotification>,
    ) -> Result<PgConnection, StoreError> {
        let unreachable = |reason| StoreError::Unreachable { server: server.clone(), reason };
        let Connected { client, warned, alive } =
            connect(server, session.writes, heard).map_err(unreachable)?;
        let mut connection = PgConnection {
            client,
            server: server.clone(),
            patience: session.statement + GRACE,
            warned,
            prepared: RefCell::default(),
            pooled: None,
            _alive: alive,
        };
        let settings = settings(session);
        if server.pooler().is_pooled() || !connection.set_in_own_session(&settings)? {
            server.pooler().set_pooled();
            connection.pooled = Some(Pooled::new(server, settings));
        }
        Ok(connection)
    }

    /// Applies the settings to the session, and returns true, if its process is the announced one (see
    /// [`pooler`]). Otherwise changes nothing and returns false, because other clients may share the session.
    fn set_in_own_session(&self, settings: &[(String, String)]) -> Result<bool, StoreError> {
        let process = pooler::announced_process(&self.client);
        let calls = set_calls(settings, false);
        // Check and set in one request, so that a pooler cannot choose another session in between.
        let set =
            format!("SELECT CASE WHEN pg_backend_pid() = {process} THEN concat({calls}) END IS NOT NULL");
        Ok(self.query_text(&set)? == "t")
    }

    /// Fixes a setting of this connection, so that later changes to its default have no effect. Behind a
    /// pooler, the setting applies from the next transaction on.
    pub(super) fn fix_setting(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let setting = [(name.to_owned(), value.to_owned())];
        match &self.pooled {
            Some(pooled) => pooled.settings.borrow_mut().extend(setting),
            None => {
                self.query_text(&format!("SELECT {}", set_calls(&setting, false)))?;
            }
        }
        Ok(())
    }

    /// Stores the registration that this connection needs behind a pooler; see [`Registration`]. Does nothing
    /// without a pooler.
    pub(super) fn set_registration(&self, registration: Registration) {
        if let Some(pooled) = &self.pooled {
            *pooled.registration.borrow_mut() = Some(registration);
        }
    }

    /// The id of this connection's registration; `None` without a pooler, or if it has none yet.
    pub(super) fn registered(&self) -> Option<uuid::Uuid> {
        self.pooled.as_ref()?.registration.borrow().as_ref().map(|registration| registration.holder)
    }

    /// Executes statements without parameters.
    pub(super) fn run_statements(&self, statements: &str) -> Result<(), StoreError> {
        self.wait(self.client.batch_execute(statements))
    }

    /// Executes a query without a prepared statement, and returns the first value in its first column that is
    /// not null, as text. Fails if there is none.
    pub(super) fn query_text(&self, sql: &str) -> Result<String, StoreError> {
        let messages = self.wait(self.client.simple_query(sql))?;
        let value = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        value.map(str::to_owned).ok_or(StoreError::Damaged("a value has an unexpected type"))
    }

    /// Blocks until the server replies. Fails with [`StoreError::Unreachable`] if that takes longer than the
    /// statement timeout and [`GRACE`].
    pub(super) fn wait<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
        match block_on_with_timeout(asked, self.patience) {
            Some(answer) => answer.map_err(|error| self.to_store_error(&error)),
            None => Err(self.unreachable("no reply in time")),
        }
    }

    /// Prepares a statement, or returns it if this connection has prepared it before. Each `?` in `sql` must
    /// begin a parameter.
    pub(super) fn prepare(&self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.prepared.borrow().get(sql) {
            return Ok(statement.clone());
        }
        // Statements are written for both databases; PostgreSQL numbers parameters with `$`.
        let statement = self.wait(self.client.prepare(&sql.replace('?', "$")))?;
        self.prepared.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Prepares an `INSERT` that takes each column as an array. `into` names the table and its columns.
    fn prepare_insert(&self, into: &str) -> Result<Statement, StoreError> {
        let described = self.prepare(&select_nothing(into))?;
        let types = described.columns().iter().map(|column| column.type_().name());
        self.prepare(&insert_arrays(into, types))
    }

    /// Like [`PgConnection::prepare_insert`], but for a connection behind a pooler.
    fn describe_insert(&self, pooled: &Pooled, into: &str) -> Result<Arc<Described>, StoreError> {
        let described = self.describe(pooled, &select_nothing(into))?;
        self.describe(pooled, &insert_arrays(into, described.column_types.iter().map(Type::name)))
    }

    /// Prepares the INSERT statement of a table (behind a pooler: looks up and caches its types), so that
    /// later calls of [`Sql::insert`] take no extra round trip for that.
    pub(super) fn warm_up_insert(&self, into: &str) -> Result<(), StoreError> {
        match &self.pooled {
            Some(pooled) => self.describe_insert(pooled, into).map(drop),
            None => self.prepare_insert(into).map(drop),
        }
    }

    /// The types of a statement's parameters and columns. Cached after the first query to the server.
    fn describe(&self, pooled: &Pooled, sql: &str) -> Result<Arc<Described>, StoreError> {
        if let Some(described) = pooled.described.borrow().get(sql) {
            return Ok(Arc::clone(described));
        }
        let ask = || {
            let text = sql.replace('?', "$");
            let statement = self.wait(self.client.prepare(&text))?;
            let columns = statement.columns();
            Ok(Arc::new(Described {
                sql: text,
                parameters: statement.params().to_vec(),
                columns: columns.iter().map(|column| column.name().to_owned()).collect(),
                column_types: columns.iter().map(|column| column.type_().clone()).collect(),
            }))
            // The statement is closed here, in the transaction that has prepared it, so that the session
            // does not keep it.
        };
        let described =
            if pooled.is_in_transaction.get() { ask()? } else { (self as &dyn Sql).transaction(ask)? };
        pooled.described.borrow_mut().insert(sql.to_owned(), Arc::clone(&described));
        Ok(described)
    }

    /// Executes a statement behind a pooler, in the current transaction or else in a new one.
    fn wait_pooled<T>(
        &self,
        pooled: &Pooled,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        if pooled.is_in_transaction.get() {
            return self.wait(asked);
        }
        let begin = pooled.begin("BEGIN");
        let asked = pooler::in_transaction(&self.client, &begin, asked);
        match block_on_with_timeout(asked, self.patience) {
            Some(answer) => answer.map_err(|failure| match failure {
                FailedPart::Begin(error) => self.begin_error(&error),
                FailedPart::Later(error) => self.to_store_error(&error),
            }),
            None => Err(self.unreachable("no reply in time")),
        }
    }

    /// Converts an error of the statements from [`Pooled::begin`]: to [`StoreError::Unreachable`] if the
    /// registration has ended or `fsync` is off.
    fn begin_error(&self, error: &Error) -> StoreError {
        // `Registration::check` divides by zero (22012) if the registration is gone or `fsync` is off.
        if error.as_db_error().is_some_and(|error| error.code().code() == "22012") {
            return self.unreachable("it no longer lists this process as using the inbox, or `fsync` is off");
        }
        self.to_store_error(error)
    }

    /// Executes a statement without parameters, in a transaction of its own. Returns whether it succeeded;
    /// `None` on a timeout, after which the transaction may be open.
    pub(super) fn run_alone(&self, statement: &str, patience: Duration) -> Option<bool> {
        let asked = self.client.batch_execute(statement);
        let Some(pooled) = &self.pooled else {
            return block_on_with_timeout(asked, patience).map(|done| done.is_ok());
        };
        // Send `BEGIN` and `COMMIT` as separate requests: after an error, the server skips the rest of a
        // request.
        let begin = pooled.begin("BEGIN");
        let asked = pooler::in_transaction(&self.client, &begin, asked);
        block_on_with_timeout(asked, patience).map(|done| done.is_ok())
    }

    /// Begins or ends a transaction, or executes another statement without parameters. Behind a pooler, a
    /// `BEGIN` also applies the settings and checks the registration ([`Pooled::begin`]); if that fails,
    /// rolls the transaction back. After a timeout, the server may still have a transaction open.
    fn control(&self, sql: &str) -> Result<(), StoreError> {
        let Some(pooled) = &self.pooled else { return self.run_statements(sql) };
        if sql.starts_with("BEGIN") {
            pooled.is_in_transaction.set(true);
            let begin = pooled.begin(sql);
            let answer = match block_on_with_timeout(self.client.batch_execute(&begin), self.patience) {
                Some(answer) => answer.map_err(|error| self.begin_error(&error)),
                None => return Err(self.unreachable("no reply in time")),
            };
            if answer.is_err() {
                // After a failed statement, the transaction is still open, so roll it back.
                pooled.is_in_transaction.set(false);
                let _ = self.run_statements("ROLLBACK");
            }
            return answer;
        }
        if sql == "COMMIT" || sql == "ROLLBACK" {
            pooled.is_in_transaction.set(false);
        }
        self.run_statements(sql)
    }

    /// Whether the server has sent a warning since the last call. The server does so if it stops waiting for
    /// a standby but reports the commit as successful.
    pub(super) fn was_warned(&self) -> bool {
        self.warned.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn unreachable(&self, reason: &str) -> StoreError {
        StoreError::Unreachable { server: self.server.clone(), reason: reason.to_owned() }
    }

    /// Converts an error. Omits the server's message, because it could quote data. Marks the server as pooled
    /// if the error reveals a pooler.
    pub(super) fn to_store_error(&self, error: &Error) -> StoreError {
        let Some(error) = error.as_db_error() else {
            return if self.client.is_closed() || error.is_closed() {
                self.unreachable("the connection is lost")
            } else if let Some(source) =
                std::error::Error::source(error).filter(|source| source.is::<io::Error>())
            {
                self.unreachable(&source.to_string())
            } else {
                StoreError::Damaged("a value does not match its column's type")
            };
        };
        // PgBouncer answers `BEGIN` with this error if it pools by statement.
        if error.code().code() == "08P01" && error.message().contains("pooling mode") {
            return StoreError::SharedSessions(DatabaseUrl::Postgres(self.server.clone()));
        }
        // A fatal error closes the connection, and leaves the outcome of a commit unknown.
        if matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) {
            return self.unreachable("the server has ended the connection");
        }
        match error.code().code() {
            // Read-only transaction: the pooler still connects to a former primary.
            "25006" if self.is_pooled() => {
                self.unreachable("the server behind the pooler accepts no changes")
            }
            "53100" => StoreError::Full,
            "25006" => StoreError::ReadOnly,
            // Lock timeouts, deadlocks and concurrent inserts: a retry may succeed.
            "55P03" | "40001" | "40P01" => StoreError::Locked,
            // The server is shutting down, or has ended the session.
            "57P01" | "57P02" | "25P03" => self.unreachable("the server has ended the connection"),
            "57P03" => self.unreachable("the server is starting or shutting down"),
            "53300" => self.unreachable("the server has too many connections"),
            // The session has changed: the statement was prepared in another session or by another client.
            "26000" | "42P05" => {
                self.server.pooler().set_pooled();
                self.unreachable("a connection pooler has changed the session")
            }
            "57014" => self.unreachable("a statement took too long"),
            code => StoreError::Postgres(code.to_owned()),
        }
    }
}

/// The settings of a session. Only the first `LOCAL_SETTINGS` apply to a transaction behind a pooler.
fn settings(session: ConnectionOptions) -> Vec<(String, String)> {
    let millis = |duration: Duration| duration.as_millis().to_string();
    let settings = [
        ("client_min_messages", "warning".to_owned()),
        ("statement_timeout", millis(session.statement)),
        ("lock_timeout", millis(LOCK_TIMEOUT.min(session.statement / 5))),
        ("idle_in_transaction_session_timeout", millis(IDLE_TIMEOUT)),
        // JIT compilation of a query over all rows takes longer than its execution.
        ("jit", "off".to_owned()),
        // Behind a pooler, this setting and those below are omitted, because they have no effect there.
        ("default_transaction_isolation", "read committed".to_owned()),
        ("tcp_keepalives_idle", "10".to_owned()),
        ("tcp_keepalives_interval", "5".to_owned()),
        ("tcp_keepalives_count", "3".to_owned()),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The number of leading [`settings`] that each transaction applies behind a pooler.
const LOCAL_SETTINGS: usize = 5;

/// The state of a connection through a pooler.
struct Pooled {
    settings: RefCell<Vec<(String, String)>>,
    registration: RefCell<Option<Registration>>,
    is_in_transaction: Slot<bool>,
    described: RefCell<HashMap<String, Arc<Described>>>,
}

impl Pooled {
    /// Keeps the first `LOCAL_SETTINGS` of `settings`, and adds those in the `options` of the URL.
    fn new(server: &Server, mut settings: Vec<(String, String)>) -> Pooled {
        settings.truncate(LOCAL_SETTINGS);
        settings.extend(server.options().map(option_settings).unwrap_or_default());
        Pooled {
            settings: RefCell::new(settings),
            registration: RefCell::default(),
            is_in_transaction: Slot::new(false),
            described: RefCell::default(),
        }
    }

    /// The statements that begin a transaction, apply its settings, and check the registration unless the
    /// transaction is read-only. `begin` is a statement `BEGIN`; without a mode, the isolation level is READ
    /// COMMITTED.
    fn begin(&self, begin: &str) -> String {
        let calls = set_calls(&self.settings.borrow(), true);
        let begin = if begin == "BEGIN" { "BEGIN ISOLATION LEVEL READ COMMITTED" } else { begin };
        let registration = self.registration.borrow();
        let check = registration.as_ref().filter(|_| !begin.ends_with("READ ONLY")).map(Registration::check);
        format!("{begin}; SELECT {calls}{}", check.unwrap_or_default())
    }
}

impl Drop for PgConnection {
    /// Ends the registration, so that this connection no longer counts as a user of the inbox. If that fails,
    /// or if a transaction is open, the registration expires later.
    fn drop(&mut self) {
        let Some(pooled) = self.pooled.take() else { return };
        if let Some(registration) = pooled.registration.take()
            && !pooled.is_in_transaction.get()
            && !self.client.is_closed()
        {
            let end = format!("{}; {}; COMMIT", pooled.begin("BEGIN"), registration.delete());
            let _ = block_on_with_timeout(self.client.batch_execute(&end), DROP_TIMEOUT);
        }
    }
}

/// How long dropping a connection waits for the server.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// A query of the columns that an `INSERT` fills. Only the types of its columns are used.
fn select_nothing(into: &str) -> String {
    let (table, names) = into.split_once(' ').unwrap_or_default();
    format!("SELECT {} FROM {table} LIMIT 0", names.trim_matches(['(', ')']))
}

/// An `INSERT` of many rows, with one array parameter per column. `types` are the types of the columns.
fn insert_arrays<'a>(into: &str, types: impl Iterator<Item = &'a str>) -> String {
    let arrays: Vec<String> = types.zip(1..).map(|(name, number)| format!("?{number}::{name}[]")).collect();
    format!("INSERT INTO {into} SELECT * FROM unnest({})", arrays.join(", "))
}

/// Prepares each statement once, except those that control a transaction. `insert` is one statement, however
/// many rows there are.
impl Sql for PgConnection {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn is_pooled(&self) -> bool {
        self.pooled.is_some()
    }

    /// Returns zero for statements such as `BEGIN` and `NOTIFY`, which are not prepared. Behind a pooler,
    /// executes any other statement in a transaction of its own unless one is open.
    fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, StoreError> {
        // Do not prepare transaction control: that gains nothing, and some poolers do not support it.
        if values.is_empty() {
            let statement = sql.split_ascii_whitespace().next().unwrap_or_default();
            if ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "NOTIFY", "LISTEN"]
                .contains(&statement)
            {
                return self.control(sql).map(|()| 0);
            }
        }
        #[cfg(test)]
        let began = Instant::now();
        let changed = match &self.pooled {
            None => {
                let statement = self.prepare(sql)?;
                self.wait(self.client.execute_raw(&statement, sql_parameters(values)))?
            }
            Some(pooled) => {
                let described = self.describe(pooled, sql)?;
                let parameters = described.bind(values);
                self.wait_pooled(pooled, self.client.execute_typed(&described.sql, &parameters))?
            }
        };
        #[cfg(test)]
        recorder::record(self.server.config().get_application_name(), sql, values, began, 0, || 0);
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// Inserts all rows with one statement. Does nothing if there are no rows.
    fn insert(&self, into: &str, columns: usize, values: &[Value<'_>]) -> Result<(), StoreError> {
        if values.is_empty() {
            return Ok(());
        }
        let column = |at| values.iter().skip(at).step_by(columns).copied().collect::<Vec<_>>();
        let all: Vec<Vec<Value<'_>>> = (0..columns).map(column).collect();
        let Some(pooled) = &self.pooled else {
            let statement = self.prepare_insert(into)?;
            return self.wait(self.client.execute_raw(&statement, &all)).map(drop);
        };
        let described = self.describe_insert(pooled, into)?;
        let parameters = described.bind(&all);
        self.wait_pooled(pooled, self.client.execute_typed(&described.sql, &parameters)).map(drop)
    }

    /// Executes a query like `execute`. Fails if a value has a type that [`Cell`] cannot hold, such as a
    /// floating-point number.
    fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        #[cfg(test)]
        let began = Instant::now();
        let (rows, columns) = match &self.pooled {
            None => {
                let statement = self.prepare(sql)?;
                let parameters: Vec<&(dyn ToSql + Sync)> = sql_parameters(values).collect();
                let rows = self.wait(self.client.query(&statement, &parameters))?;
                (rows, statement.columns().iter().map(|column| column.name().to_owned()).collect())
            }
            Some(pooled) => {
                let described = self.describe(pooled, sql)?;
                let parameters = described.bind(values);
                let rows = self.wait_pooled(pooled, self.client.query_typed(&described.sql, &parameters))?;
                (rows, Arc::clone(&described.columns))
            }
        };
        #[cfg(test)]
        recorder::record(self.server.config().get_application_name(), sql, values, began, rows.len(), || 0);
        let damaged = |_| StoreError::Damaged("a value has an unexpected type");
        let row = |row: &tokio_postgres::Row| {
            let cells = (0..row.len()).map(|column| row.try_get::<_, Cell>(column));
            Ok(Row { columns: columns.clone(), cells: cells.collect::<Result<_, _>>().map_err(damaged)? })
        };
        rows.iter().map(row).collect()
    }
}

fn sql_parameters<'a>(values: &'a [Value<'a>]) -> impl ExactSizeIterator<Item = &'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync))
}

type Failure = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for Value<'_> {
    /// Encodes a value as the type that the statement expects: an integer of any width, bytes or a UUID, text
    /// or JSON. Replaces each NUL in a text by U+FFFD. Fails if a number is too large for the type.
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match *self {
            Value::Null => return Ok(IsNull::Yes),
            Value::Integer(number) => match *ty {
                Type::INT2 => out.put_i16(number.try_into()?),
                Type::INT4 => out.put_i32(number.try_into()?),
                Type::INT8 => out.put_i64(number),
                _ => return Err(format!("cannot encode a number as {ty}").into()),
            },
            Value::Blob(bytes) => match *ty {
                Type::BYTEA | Type::UUID => out.put_slice(bytes),
                _ => return Err(format!("cannot encode bytes as {ty}").into()),
            },
            // PostgreSQL cannot store NUL in text.
            Value::Text(text) if text.contains('\0') => {
                out.put_slice(text.replace('\0', "\u{fffd}").as_bytes());
            }
            Value::Text(text) => out.put_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        // Accept every PostgreSQL type here: `to_sql` checks whether the value fits the type.
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Cell {
    /// Decodes a value; a boolean becomes a number. Fails for types that no statement of the store returns,
    /// such as floating-point numbers.
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Cell, Failure> {
        Ok(match *ty {
            Type::BOOL => Cell::Integer(i64::from(bool::from_sql(ty, raw)?)),
            Type::INT2 => Cell::Integer(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Cell::Integer(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Cell::Integer(i64::from_sql(ty, raw)?),
            Type::BYTEA | Type::UUID => Cell::Blob(raw.to_vec()),
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::JSON | Type::UNKNOWN => {
                Cell::Text(str::from_utf8(raw)?.to_owned())
            }
            // A function without a result, such as one that takes a lock, returns `void`.
            Type::VOID => Cell::Null,
            _ => return Err(format!("unexpected type {ty} in a result").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Cell, Failure> {
        Ok(Cell::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
