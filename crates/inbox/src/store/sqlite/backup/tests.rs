//! Backups, restores, and files that are refused as backups.

use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;
use crate::intake::Arrival;
use crate::store::ids::Ids;
use crate::store::sqlite::SqliteWriter;
use crate::store::{Filter, InboxReader};
use frontdesk_forms::{CONTACT, parse};
use frontdesk_limits::Source;
use frontdesk_screening::Evidence;
use frontdesk_screening::verdict::ScreeningVerdict;

const NOW: &str = "2026-11-20T14:03:05Z";

#[test]
fn a_backup_holds_what_the_inbox_holds_and_is_one_file_for_one_user() {
    let fixture = Fixture::new();
    let _writer = fixture.store(["one", "two"]);
    let backup = fixture.backup().unwrap();
    assert_eq!(backup.submissions, 2);
    assert_eq!(backup.newest, Some("2026-11-20T14:03:05.120Z".parse().unwrap()));
    assert_eq!(verify(&fixture.copy).unwrap(), backup);
    assert_eq!(messages(&fixture.copy), ["one", "two"]);
    assert_eq!(names(fixture.copy.parent().unwrap()), ["copy.sqlite"]);
    let metadata = fs::metadata(&fixture.copy).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    // Bytes 18 and 19 of the header state whether there is a log: 1 means no, 2 means yes.
    assert_eq!(fs::read(&fixture.copy).unwrap()[18..20], [1, 1]);
}

#[test]
fn an_inbox_that_nobody_has_open_is_backed_up_as_well() {
    let fixture = Fixture::new();
    drop(fixture.store(["one"]));
    assert_eq!(fixture.backup().unwrap().submissions, 1);
}

#[test]
fn nothing_that_was_deleted_is_in_a_backup() {
    let fixture = Fixture::new();
    let _writer = fixture.store(["to be forgotten", "to be kept"]);
    fixture.sql("PRAGMA secure_delete = off; DELETE FROM submission WHERE fields LIKE '%forgotten%'");
    fixture.backup().unwrap();
    let bytes = fs::read(&fixture.copy).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("to be kept"));
    assert!(!holds("to be forgotten"));
}

#[test]
fn an_existing_file_is_replaced_only_if_forced() {
    let fixture = Fixture::new();
    let mut writer = fixture.store(["one"]);
    fixture.backup().unwrap();
    store_message(&mut writer, "two");
    let error = fixture.backup().unwrap_err();
    assert!(matches!(error, BackupError::Exists(_)), "{error}");
    assert_eq!(messages(&fixture.copy), ["one"]);
    assert_eq!(backup(&fixture.database, &fixture.copy, true).unwrap().submissions, 2);
    assert_eq!(messages(&fixture.copy), ["one", "two"]);
}

#[test]
fn the_inbox_itself_is_never_overwritten_by_its_backup() {
    let fixture = Fixture::new();
    let _writer = fixture.store(["one"]);
    let link = fixture.database.with_file_name("link.sqlite");
    fs::hard_link(&fixture.database, &link).unwrap();
    for name in
        ["inbox.sqlite", "inbox.sqlite-wal", "inbox.sqlite-lock", "../data/inbox.sqlite", "link.sqlite"]
    {
        let file = fixture.database.with_file_name(name);
        let error = backup(&fixture.database, &file, true).unwrap_err();
        assert!(matches!(error, BackupError::IsTheInbox(_)), "{name}: {error}");
        let error = restore(&file, &fixture.database, true, NOW.parse().unwrap()).unwrap_err();
        assert!(matches!(error, BackupError::IsTheInbox(_)), "{name}: {error}");
    }
    assert_eq!(messages(&fixture.database), ["one"]);
}

#[test]
fn a_backup_that_fails_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let error = fixture.backup().unwrap_err();
    assert!(matches!(error, BackupError::Store(StoreError::Missing(_))), "{error}");
    assert_eq!(names(fixture.copy.parent().unwrap()), [""; 0]);
    let _writer = fixture.store(["one"]);
    let error = backup(&fixture.database, &fixture.copy.join("nowhere"), false).unwrap_err();
    assert!(matches!(error, BackupError::Store(StoreError::Io { .. })), "{error}");
}

#[test]
fn leftovers_of_a_killed_backup_are_overwritten_unless_locked() {
    let fixture = Fixture::new();
    let _writer = fixture.store(["one"]);
    let left = with_suffix(&fixture.copy, ".partial");
    fs::write(&left, "half a backup").unwrap();
    fs::write(with_suffix(&left, "-snapshot"), "half a snapshot").unwrap();
    let other = PartialFile::create_locked(&fixture.copy, ".partial").unwrap();
    let error = fixture.backup().unwrap_err();
    assert!(matches!(error, BackupError::UnderWay(_)), "{error}");
    drop(other);
    fixture.backup().unwrap();
    assert_eq!(names(fixture.copy.parent().unwrap()), ["copy.sqlite"]);
}

#[test]
fn a_flipped_bit_in_a_text_is_noticed() {
    let fixture = Fixture::new();
    let _writer = fixture.store(["one"]);
    fixture.backup().unwrap();
    let mut bytes = fs::read(&fixture.copy).unwrap();
    let at = bytes.windows(3).position(|three| three == b"one").unwrap();
    bytes[at] ^= 1;
    fs::write(&fixture.copy, bytes).unwrap();
    refused(&fixture, "its content does not match its digest");
}

#[test]
fn a_file_that_lost_its_end_is_refused() {
    let fixture = Fixture::new();
    let _writer = fixture.store([&*"x".repeat(9_000)]);
    fixture.backup().unwrap();
    let bytes = fs::read(&fixture.copy).unwrap();
    for length in [bytes.len() - 1, bytes.len() - 4096, bytes.len() / 2, 4096, 100, 50] {
        fs::write(&fixture.copy, &bytes[..length]).unwrap();
        let error = verify(&fixture.copy).unwrap_err();
        assert!(
            matches!(error, BackupError::Damaged { .. } | BackupError::Store(StoreError::NotAnInbox(_))),
            "{length} of {}: {error}",
            bytes.len()
        );
    }
    fs::write(&fixture.copy, "").unwrap();
    let error = verify(&fixture.copy).unwrap_err();
    assert!(matches!(error, BackupError::Store(StoreError::Missing(_))), "{error}");
}

#[test]
fn a_file_that_is_not_an_inbox_is_refused() {
    let fixture = Fixture::new();
    fs::write(&fixture.copy, "a text file, and long enough to look like something".repeat(100)).unwrap();
    refused(&fixture, "is not a frontdesk inbox");
    fs::remove_file(&fixture.copy).unwrap();
    Connection::open(&fixture.copy).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
    refused(&fixture, "is not a frontdesk inbox");
    for (sql, words) in [
        ("PRAGMA user_version = 1000", "was created by a newer version of frontdesk"),
        ("DELETE FROM meta", "its secret is missing"),
        ("DROP TABLE submission", "a table or a column is missing"),
    ] {
        let fixture = Fixture::new();
        let _writer = fixture.store(["one"]);
        fixture.backup().unwrap();
        Connection::open(&fixture.copy)
            .unwrap()
            .execute_batch(&format!("PRAGMA foreign_keys = off; {sql}"))
            .unwrap();
        refused(&fixture, words);
    }
}

#[test]
fn an_inbox_is_restored_where_there_was_none_and_goes_on_from_there() {
    let fixture = Fixture::new();
    drop(fixture.store(["one", "two"]));
    fixture.backup().unwrap();
    fs::remove_dir_all(fixture.database.parent().unwrap()).unwrap();
    let restored = fixture.restore(false).unwrap();
    assert_eq!((restored.backup.submissions, restored.kept), (2, None));
    assert_eq!(names(fixture.database.parent().unwrap()), ["inbox.sqlite", "inbox.sqlite-lock"]);
    assert_eq!(fs::metadata(&fixture.database).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fixture.count("SELECT count(*) FROM meta WHERE name <> 'secret'"), 0);
    // Still the same inbox: a repeat is recognized.
    drop(fixture.store(["two", "three"]));
    assert_eq!(messages(&fixture.database), ["one", "three", "two"]);
}

#[test]
fn an_inbox_is_replaced_only_if_forced_and_kept_with_its_log() {
    let fixture = Fixture::new();
    drop(fixture.store(["one"]));
    fixture.backup().unwrap();
    drop(fixture.store(["two"]));
    let error = fixture.restore(false).unwrap_err();
    assert!(matches!(error, BackupError::Occupied { submissions: 2, .. }), "{error}");
    // As a killed server leaves the inbox: the newest submission is only in the log.
    let writer = fixture.store(["three"]);
    let killed = tempfile::tempdir().unwrap();
    for suffix in ["", "-wal"] {
        let to = with_suffix(&killed.path().join("inbox.sqlite"), suffix);
        fs::copy(with_suffix(&fixture.database, suffix), to).unwrap();
    }
    drop(writer);
    let database = killed.path().join("inbox.sqlite");
    let restored = restore(&fixture.copy, &database, true, NOW.parse().unwrap()).unwrap();
    let kept = killed.path().join("inbox.sqlite.before-restore-20261120T140305Z");
    assert_eq!(restored.kept.as_ref(), Some(&kept));
    assert_eq!(
        names(killed.path()),
        ["inbox.sqlite", "inbox.sqlite-lock", "inbox.sqlite.before-restore-20261120T140305Z"]
    );
    assert_eq!(messages(&database), ["one"]);
    assert_eq!(verify(&kept).unwrap().submissions, 3);
    // A replaced inbox that was kept is never overwritten.
    let error = restore(&fixture.copy, &database, true, NOW.parse().unwrap()).unwrap_err();
    assert!(matches!(error, BackupError::Exists(_)), "{error}");
    assert_eq!(messages(&database), ["one"]);
}

#[test]
fn a_log_without_its_inbox_is_never_replayed_into_another() {
    let fixture = Fixture::new();
    let writer = fixture.store(["one"]);
    fixture.backup().unwrap();
    let orphan = tempfile::tempdir().unwrap();
    let database = orphan.path().join("inbox.sqlite");
    fs::copy(with_suffix(&fixture.database, "-wal"), with_suffix(&database, "-wal")).unwrap();
    drop(writer);
    restore(&fixture.copy, &database, false, NOW.parse().unwrap()).unwrap();
    assert!(!with_suffix(&database, "-wal").exists());
    assert!(with_suffix(&database, ".before-restore-20261120T140305Z-wal").exists());
    assert_eq!(messages(&database), ["one"]);
}

#[test]
fn an_unreadable_inbox_is_replaced_only_if_forced_and_kept() {
    let fixture = Fixture::new();
    drop(fixture.store(["one"]));
    fixture.backup().unwrap();
    let broken = "not a database at all".repeat(500);
    fs::write(&fixture.database, &broken).unwrap();
    let error = fixture.restore(false).unwrap_err();
    assert!(matches!(error, BackupError::Unreadable { .. }), "{error}");
    assert_eq!(fs::read_to_string(&fixture.database).unwrap(), broken);
    let kept = fixture.restore(true).unwrap().kept.unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), broken);
    assert_eq!(messages(&fixture.database), ["one"]);
}

#[test]
fn an_inbox_that_is_in_use_is_not_replaced() {
    let fixture = Fixture::new();
    let writer = fixture.store(["one"]);
    fixture.backup().unwrap();
    // A process that has the inbox open is detected even if it does not hold the lock.
    let error = fixture.restore(true).unwrap_err();
    assert!(matches!(error, BackupError::InUse(_)), "{error}");
    drop(writer);
    let lock = Lock::try_lock_file(&fixture.database).unwrap().unwrap();
    let error = fixture.restore(true).unwrap_err();
    assert!(matches!(error, BackupError::InUse(_)), "{error}");
    drop(lock);
    assert_eq!(names(fixture.database.parent().unwrap()), ["inbox.sqlite", "inbox.sqlite-lock"]);
    fixture.restore(true).unwrap();
}

#[test]
fn without_hard_links_the_inbox_is_copied() {
    let fixture = Fixture::new();
    drop(fixture.store(["one"]));
    let name = fixture.database.with_file_name("kept.sqlite");
    let copy = PartialFile::create_locked(&name, ".partial").unwrap();
    fs::copy(&fixture.database, &copy.path).unwrap();
    copy.rename_to(&name, false).unwrap();
    let again = PartialFile::create_locked(&name, ".partial").unwrap();
    assert!(matches!(again.rename_to(&name, false), Err(BackupError::Exists(_))));
    assert_eq!(names(name.parent().unwrap()), ["inbox.sqlite", "kept.sqlite"]);
    assert_eq!(messages(&name), ["one"]);
}

#[test]
fn a_digest_distinguishes_rows_and_columns() {
    let digest = |sql: &str| {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a, b)").unwrap();
        connection.execute_batch(sql).unwrap();
        let mut hasher = blake3::Hasher::new();
        hash_rows(&connection, "t", &mut hasher).unwrap();
        *hasher.finalize().as_bytes()
    };
    let rows =
        ["('ab', 'c')", "('a', 'bc')", "(x'6162', 'c')", "(1, 2)", "(1.0, 2)", "(NULL, '')", "('', NULL)"];
    let mut digests: Vec<_> = rows.iter().map(|row| digest(&format!("INSERT INTO t VALUES {row}"))).collect();
    digests.push(digest(""));
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), rows.len() + 1);
}

struct Fixture {
    database: PathBuf,
    copy: PathBuf,
    _folder: TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("backups")).unwrap();
        Fixture {
            database: folder.path().join("data/inbox.sqlite"),
            copy: folder.path().join("backups/copy.sqlite"),
            _folder: folder,
        }
    }

    /// Stores these messages and returns the database, still open.
    fn store<const N: usize>(&self, messages: [&str; N]) -> SqliteWriter {
        files::create_folder(&self.database).unwrap();
        let mut database = SqliteWriter::open(&self.database).unwrap();
        for message in messages {
            store_message(&mut database, message);
        }
        database
    }

    fn backup(&self) -> Result<Backup> {
        backup(&self.database, &self.copy, false)
    }

    fn restore(&self, force: bool) -> Result<Restored> {
        restore(&self.copy, &self.database, force, NOW.parse().unwrap())
    }

    fn sql(&self, sql: &str) {
        Connection::open(&self.database).unwrap().execute_batch(sql).unwrap();
    }

    fn count(&self, sql: &str) -> i64 {
        Connection::open(&self.database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

fn store_message(database: &mut SqliteWriter, message: &str) {
    let body = serde_json::json!({"message": message, "email": "ada@example.com", "name": "Ada"});
    let arrival = Arrival {
        entry: parse(&CONTACT, body.to_string().as_bytes()).unwrap(),
        idempotency_key: None,
        source: Source::V4([192, 0, 2, 1]),
        received_at: "2026-11-20T14:03:05.12Z".parse().unwrap(),
        evidence: Evidence::Verdict(ScreeningVerdict::default()),
        agent: None,
        lead: frontdesk_forms::LeadSource::default(),
    };
    let job = arrival.into_row(&crate::intake::IntakeOptions::default(), &[]);
    database.commit(&[job], &mut [], &mut Ids::default(), &mut Vec::new()).unwrap();
    database.process();
}

/// Asserts that verifying and restoring the copy both fail with these words, and that nothing is created.
fn refused(fixture: &Fixture, words: &str) {
    let error = verify(&fixture.copy).unwrap_err().to_string();
    assert!(error.contains(words) && error.contains("copy.sqlite"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("data/inbox.sqlite");
    let error = restore(&fixture.copy, &database, true, NOW.parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
    assert_eq!(names(folder.path()), [""; 0]);
}

/// The messages in the inbox, sorted.
fn messages(file: &Path) -> Vec<String> {
    let reader = InboxReader::open(file).unwrap();
    let listing = reader.list(&Filter::default()).unwrap();
    let mut messages: Vec<_> =
        listing.map(|submission| submission.unwrap().get("message").unwrap().to_owned()).collect();
    messages.sort();
    messages
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
