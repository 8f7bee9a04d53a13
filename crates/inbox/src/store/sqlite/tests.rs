//! Tests that apply only to SQLite.

use rusqlite::params;
use rusqlite::types::Value;
use tempfile::TempDir;

use jiff::Timestamp;

use super::*;
use crate::intake::Arrival;
use crate::testing::inbox::{Options, process};
use frontdesk_forms::{CONTACT, parse};
use frontdesk_limits::Source;
use frontdesk_screening::Evidence;
use frontdesk_screening::verdict::ScreeningVerdict;

#[test]
fn every_connection_is_durable_and_wary() {
    let (database, _folder) = open();
    let pragma =
        |name| database.connection.pragma_query_value(None, name, |row| row.get::<_, Value>(0)).unwrap();
    assert_eq!(pragma("journal_mode"), Value::Text("wal".to_owned()));
    assert_eq!(pragma("synchronous"), Value::Integer(2));
    assert_eq!(pragma("foreign_keys"), Value::Integer(1));
    assert_eq!(pragma("trusted_schema"), Value::Integer(0));
    assert_eq!(pragma("busy_timeout"), Value::Integer(2000));
    assert_eq!(pragma("application_id"), Value::Integer(APPLICATION_ID));
    assert_eq!(pragma("user_version"), Value::Integer(LAYOUT));
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[test]
fn a_database_that_does_not_log_ahead_is_refused() {
    let connection = Connection::open_in_memory().unwrap();
    let error = make_durable(&connection).unwrap_err();
    assert!(
        matches!(&error, StoreError::NotDurable { setting: "journal_mode", found, .. } if found == "memory"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_not_utf8_or_compares_texts_otherwise_is_refused() {
    let with = |prepare: &str| {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("inbox.sqlite");
        Connection::open(&path).unwrap().execute_batch(prepare).unwrap();
        let opened = SqliteWriter::open(&path).map(drop);
        (opened, folder)
    };
    // A file without tables keeps its encoding.
    for encoding in ["UTF-16le", "UTF-16be"] {
        let make = format!("PRAGMA encoding = '{encoding}'; CREATE TABLE a (a); DROP TABLE a");
        let error = with(&make).0.unwrap_err();
        assert!(matches!(&error, StoreError::WrongEncoding { found, .. } if found == encoding), "{error}");
        assert!(error.hint().unwrap().contains("store move"));
    }
    let tables = format!(
        "{TABLES}; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {LAYOUT};
         INSERT INTO meta VALUES ('secret', x'{}')",
        "00".repeat(32)
    );
    with(&tables).0.unwrap();
    for collation in ["NOCASE", "RTRIM"] {
        let error = with(&format!("{tables}; CREATE INDEX a ON submission (form COLLATE {collation})")).0;
        let error = error.unwrap_err();
        assert!(
            matches!(&error, StoreError::WrongCollation { collation: found, .. } if found == collation),
            "{error}"
        );
    }
}

#[test]
fn of_a_batch_that_does_not_fit_nothing_is_kept() {
    let (mut database, _folder) = open();
    database.commit(&jobs(["one"]), &mut [], &mut Ids::default(), &mut Vec::new()).unwrap();
    let pages =
        database.connection.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0)).unwrap();
    let set_most = |database: &SqliteWriter, most: i64| {
        database.connection.pragma_update_and_check(None, "max_page_count", most, |_| Ok(())).unwrap();
    };
    set_most(&database, pages + 1);
    let big = "x".repeat(19_000);
    let error =
        database.commit(&jobs(["two", &big]), &mut [], &mut Ids::default(), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, StoreError::Full), "{error}");
    assert_eq!(count(&database), 1);
    set_most(&database, 1_000_000);
    database.commit(&jobs(["two", &big]), &mut [], &mut Ids::default(), &mut Vec::new()).unwrap();
    assert_eq!(count(&database), 3);
}

#[test]
fn deliveries_scheduled_by_a_fast_clock_do_not_wait_for_it() {
    let (mut database, _folder) = open();
    let accepted = database.commit(&jobs(["one"]), &mut [], &mut Ids::default(), &mut Vec::new()).unwrap();
    database.process();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let (minute, hour) = (60_000, 3_600_000);
    // The time until each delivery is due, before and after the correction.
    let cases = [
        ("new", 0, None, 20 * hour, 0),
        ("interrupted", 0, None, 4 * minute, 4 * minute),
        ("failed", 1, Some("channel"), 20 * hour, 0),
        ("failed-again", 2, Some("notice"), 5 * minute, 5 * minute),
        ("failed-often", 9, Some("notice"), 24 * hour, 24 * hour),
        ("asked", 1, Some("asked"), 20 * hour, 20 * hour),
        ("overdue", 1, Some("channel"), -hour, -hour),
    ];
    for (channel, failures, blame, ahead, _) in cases {
        database
            .connection
            .execute(
                "INSERT INTO delivery (submission, channel, state, due_at, failures, blame)
                 VALUES (?1, ?2, 'waiting', ?3, ?4, ?5)",
                params![accepted[0].as_bytes(), channel, now.as_millisecond() + ahead, failures, blame],
            )
            .unwrap();
    }
    crate::testing::inbox::transaction(&database.connection).clamp_due_times(now).unwrap();
    for (channel, _, _, _, expected) in cases {
        let due_at: i64 = database
            .connection
            .query_row("SELECT due_at FROM delivery WHERE channel = ?1", [channel], |row| row.get(0))
            .unwrap();
        assert_eq!(due_at - now.as_millisecond(), expected, "{channel}");
    }
}

#[test]
fn rows_of_a_failed_commit_are_removed() {
    let (mut database, _folder) = open();
    let mut ids = Ids::default();
    // As if the commit had been reported as failed but had reached the disk anyway.
    let accepted = database.commit(&jobs(["refused"]), &mut [], &mut ids, &mut Vec::new()).unwrap();
    let doubt = |id| UnresolvedCommit { id, backend: None };
    let mut unresolved: Vec<UnresolvedCommit> = accepted.into_iter().map(doubt).collect();
    database.commit(&[], &mut [], &mut ids, &mut unresolved).unwrap();
    assert_eq!((count(&database), unresolved.len()), (0, 0));
    // The same submission is new again.
    let again = database.commit(&jobs(["refused"]), &mut [], &mut ids, &mut unresolved).unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!(count(&database), 1);
}

#[test]
fn a_database_that_is_overwritten_in_place_is_not_trusted() {
    let (mut database, folder) = open();
    database.commit(&jobs(["one"]), &mut [], &mut Ids::default(), &mut Vec::new()).unwrap();
    database.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    database.commit(&jobs(["two"]), &mut [], &mut Ids::default(), &mut Vec::new()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(folder.path().join("inbox.db")).unwrap();
    file.set_len(4096).unwrap();
    let error = database.commit(&jobs(["three"]), &mut [], &mut Ids::default(), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, StoreError::Moved(_)), "{error}");
}

#[test]
fn of_a_batch_that_may_not_be_written_nothing_is_kept() {
    let (mut database, _folder) = open();
    database.connection.pragma_update(None, "query_only", "on").unwrap();
    for batch in [&jobs(["one"])[..], &[]] {
        let error = database.commit(batch, &mut [], &mut Ids::default(), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly), "{error}");
    }
    assert_eq!(count(&database), 0);
    database.connection.pragma_update(None, "query_only", "off").unwrap();
    database.commit(&jobs(["one"]), &mut [], &mut Ids::default(), &mut Vec::new()).unwrap();
    database.commit(&[], &mut [], &mut Ids::default(), &mut Vec::new()).unwrap();
}

#[test]
fn errors_do_not_quote_what_was_written() {
    let (mut database, _folder) = open();
    database
        .connection
        .execute_batch(
            "CREATE TEMP TRIGGER gossip BEFORE INSERT ON intake
             BEGIN SELECT RAISE(ABORT, 'I was told sesame'); END",
        )
        .unwrap();
    let error =
        database.commit(&jobs(["sesame"]), &mut [], &mut Ids::default(), &mut Vec::new()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
}

#[test]
fn two_processes_may_set_up_the_same_database() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("inbox.db");
    // Threads simulate processes. Create the file first: closing a file that this process has open elsewhere
    // would drop its locks.
    files::create_database(&path).unwrap();
    let databases: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || SqliteWriter::open(&path).unwrap())
        })
        .collect();
    let secrets: Vec<_> = databases.into_iter().map(|d| d.join().unwrap().secret.0).collect();
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
    assert_ne!(secrets[0], [0; 32]);
}

#[test]
fn a_row_is_found_without_reading_large_columns() {
    let (database, _folder) = open();
    for table in ["intake", "submission"] {
        let without_rowid: bool = database
            .connection
            .query_row("SELECT wr FROM pragma_table_list WHERE name = ?1", [table], |row| row.get(0))
            .unwrap();
        assert!(!without_rowid, "{table}: a search would compare whole rows");
        let mut columns =
            database.connection.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid DESC").unwrap();
        let columns: Vec<String> =
            columns.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(columns[..2], ["sealed", "fields"], "{table}: a column after them is read through them");
    }
}

#[test]
fn a_listing_never_scans() {
    let (database, _folder) = open();
    for query in [
        "SELECT id FROM submission WHERE id < ?1 AND form = ?2 ORDER BY id DESC LIMIT 256",
        "SELECT * FROM accepted WHERE id = ?1",
        "SELECT * FROM accepted WHERE id < ?1 AND form = ?2 ORDER BY id DESC LIMIT 256",
    ] {
        let mut statement = database.connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let step: String = row.get(3).unwrap();
            let is_part =
                ["COMPOUND QUERY", "LEFT-MOST SUBQUERY", "UNION ALL", "MERGE (UNION ALL)", "LEFT", "RIGHT"];
            assert!(step.starts_with("SEARCH") || is_part.contains(&&*step), "{query}: {step}");
        }
    }
}

fn open() -> (SqliteWriter, TempDir) {
    let folder = TempDir::new().unwrap();
    (SqliteWriter::open(&folder.path().join("inbox.db")).unwrap(), folder)
}

fn jobs<const N: usize>(messages: [&str; N]) -> Vec<Accepting> {
    messages
        .map(|message| {
            let body = serde_json::json!({"name": "Ada", "email": "ada@example.com", "message": message});
            let arrival = Arrival {
                entry: parse(&CONTACT, body.to_string().as_bytes()).unwrap(),
                idempotency_key: None,
                source: Source::V4([192, 0, 2, 1]),
                received_at: Timestamp::UNIX_EPOCH,
                evidence: Evidence::Verdict(ScreeningVerdict::default()),
                agent: None,
                lead: frontdesk_forms::LeadSource::default(),
            };
            arrival.into_row(&crate::intake::IntakeOptions::default(), &[])
        })
        .into()
}

/// The number of accepted submissions.
fn count(database: &SqliteWriter) -> i64 {
    database.connection.query_row("SELECT count(*) FROM accepted", [], |row| row.get(0)).unwrap()
}

impl SqliteWriter {
    /// Processes the intake.
    pub(super) fn process(&self) {
        let screener = crate::intake::batch_processing::Screener::new(
            frontdesk_screening::Repeats::new(Instant::now()).into(),
        );
        let all = Uuid::nil()..=Uuid::max();
        process(&self.connection, &Options::new(Path::new("unused")), &screener, 64, all).unwrap();
    }
}
