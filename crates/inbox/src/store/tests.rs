//! Tests of the store with either database, and of failures and recovery of SQLite.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use tempfile::TempDir;

use std::path::PathBuf;

use super::sql::intake::UnresolvedCommit;
use super::sqlite::LAYOUT;
use super::*;
use crate::intake::{Arrival, IntakeOptions};
use crate::store::sql::Dialect;
use crate::submission::Status;
use crate::submission::Submission;
use crate::submission::delivery::{ChannelTarget, DeliveryState};
use crate::submission::delivery_outcome::Outcome;
use crate::submission::schedule::NextStep;
use crate::testing::fixture::*;
use crate::testing::fresh::Fresh;
use crate::testing::inbox::{Options, TestInbox};
use frontdesk_forms::CONTACT;
use frontdesk_limits::{Quota, Source};
use frontdesk_screening::Evidence;
use frontdesk_screening::Repeats;
use frontdesk_screening::verdict::{ScreeningVerdict, Signal};

mod batches;
mod canary;
mod confirmations;
mod copy;
mod definitions;
mod deliveries;
mod discard;
mod floods;
mod held;
mod held_bench;
mod intake;
mod interleavings;
mod leads;
mod lessons;
mod operators;
mod opinions;
mod plans;
mod readership;
mod repeats;
mod routing;
mod screened;
mod steps;
mod views;
mod visitor_mails;
mod work;

const DAY: Duration = Duration::from_hours(24);

#[test]
fn accepted_submissions_are_in_the_inbox() {
    let fixture = Fixture::new();
    let arrival = contact("Hello\n\"there\" 😀");
    let id = fixture.accept_new(&arrival);
    assert_eq!(id.get_version_num(), 7);
    let [submission] = &fixture.list()[..] else { panic!() };
    assert_eq!(submission.id, id);
    assert_eq!(submission.form, "contact");
    assert_eq!(submission.received_at_text(), "2026-11-20T14:03:05.120Z");
    assert_eq!(submission.status.name(), "kept");
    assert_eq!(submission.repeats, 0);
    let fields: Vec<_> = submission.fields.iter().map(|(n, v)| (n.as_str(), v.as_str().unwrap())).collect();
    assert_eq!(fields, [("name", "Ada"), ("email", "ada@example.com"), ("message", "Hello\n\"there\" 😀")]);
}

#[test]
fn the_newest_comes_first_even_within_a_millisecond() {
    let fixture = Fixture::new();
    let ids: Vec<_> = (0..600).map(|n| fixture.accept_new(&contact(&n.to_string()))).collect();
    let listed: Vec<_> = fixture.list().iter().map(|s| s.id).collect();
    assert!(listed.iter().rev().eq(&ids));
    let reader = fixture.reader();
    let some = reader.list(&Filter { limit: Some(300), ..Filter::default() }).unwrap();
    assert_eq!(some.map(|s| s.unwrap().id).collect::<Vec<_>>(), listed[..300]);
}

#[test]
fn a_listing_can_be_of_one_form() {
    let fixture = Fixture::new();
    fixture.accept_new(&contact("a"));
    let waiting = fixture.accept_new(&waitlist("ada@example.com"));
    fixture.accept_new(&contact("b"));
    let filter = Filter { form: Some("waitlist".to_owned()), ..Filter::default() };
    let listed: Vec<_> = fixture.reader().list(&filter).unwrap().map(|s| s.unwrap().id).collect();
    assert_eq!(listed, [waiting]);
}

#[test]
fn a_submission_is_found_by_the_beginning_of_its_id() {
    let fixture = Fixture::new();
    let (a, b) = (fixture.accept_new(&contact("a")), fixture.accept_new(&contact("b")));
    let reader = fixture.reader();
    let IdMatch::One(found) = reader.find(&a.to_string()).unwrap() else { panic!() };
    assert_eq!(found.id, a);
    let IdMatch::One(found) = reader.find(&b.simple().to_string()[..31].to_uppercase()).unwrap() else {
        panic!()
    };
    assert_eq!(found.id, b);
    assert_eq!(reader.find(&a.to_string()[..8]).unwrap(), IdMatch::Several(vec![b, a]));
    for nothing in ["ffff", "", "-", "x", "%", &format!("{a}0")] {
        assert_eq!(reader.find(nothing).unwrap(), IdMatch::None, "{nothing}");
    }
    assert_eq!(reader.get(a).unwrap().unwrap().id, a);
    assert_eq!(reader.get(Uuid::nil()).unwrap(), None);
}

#[test]
fn an_address_is_on_the_waitlist_once_in_whatever_case_and_for_ever() {
    let fixture = Fixture::new();
    let id = fixture.accept_new(&waitlist("Ada@Example.com"));
    fixture.accept_repeat(&waitlist("ada@example.COM"), id);
    let mut years_later = waitlist("ada@example.com");
    years_later.received_at += DAY * 3650;
    fixture.accept_repeat(&years_later, id);
    fixture.accept_new(&waitlist("ada@example.org"));
    let listed = fixture.list();
    assert_eq!(listed.iter().map(|s| s.repeats).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(listed[1].get("email"), Some("Ada@Example.com"));
}

#[test]
fn the_same_content_is_one_submission_within_the_window() {
    let fixture = Fixture::new();
    let first = contact("Hello");
    let id = fixture.accept_new(&first);
    fixture
        .accept_repeat(&Arrival { source: source(2), ..later(&first, DAY.saturating_sub(MILLISECOND)) }, id);
    let next = fixture.accept_new(&later(&first, DAY));
    fixture.accept_repeat(&later(&first, DAY + MILLISECOND), next);
    fixture.accept_new(&contact("Hello "));
    let other_shape =
        r#"{"firstname":"Ada","lastname":"L","company":"x","email":"ada@example.com","message":"Hello"}"#;
    fixture.accept_new(&Arrival { entry: entry(&CONTACT, other_shape), ..contact("Hello") });
}

#[test]
fn an_idempotency_key_never_makes_other_content_a_repeat() {
    let fixture = Fixture::new();
    let keyed = |message: &str, n: u8| Arrival {
        idempotency_key: Some("key".to_owned()),
        source: source(n),
        ..contact(message)
    };
    let one = fixture.accept_new(&keyed("one", 1));
    let two = fixture.accept_new(&keyed("two", 1));
    fixture.accept_repeat(&keyed("one", 1), one);
    fixture.accept_repeat(&keyed("two", 2), two);
    fixture.accept_repeat(&contact("two"), two);
}

#[test]
fn equal_arrivals_at_the_same_moment_are_one_submission() {
    let fixture = Fixture::new();
    let arrivals: Vec<_> = (0..400)
        .map(|n| match n % 4 {
            0 => contact("same"),
            1 => waitlist("ada@example.com"),
            2 => Arrival { idempotency_key: Some("key".to_owned()), ..contact(&format!("{n}")) },
            _ => contact(&format!("{n}")),
        })
        .collect();
    let accepted = fixture.accept_all(&arrivals);
    let new = accepted.iter().filter(|a| matches!(a, Ok(Accepted::New(_)))).count();
    assert_eq!(new, 202);
    let listed = fixture.list();
    assert_eq!(listed.len(), 202);
    assert_eq!(listed.iter().map(|s| s.repeats).sum::<u64>(), 198);
    for accepted in accepted {
        assert!(listed.iter().any(|s| s.id == accepted.as_ref().unwrap().id()));
    }
}

#[test]
fn a_source_is_kept_as_a_keyed_hash() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    for (n, message) in [(1, "a"), (1, "b"), (2, "c")] {
        fixture.accept_new(&Arrival { source: source(n), ..contact(message) });
    }
    other.accept_new(&Arrival { source: source(1), ..contact("a") });
    let hashes: Vec<_> = fixture.list().into_iter().map(|s| s.source).collect();
    assert_eq!(hashes[1], hashes[2]);
    assert_ne!(hashes[0], hashes[1]);
    assert_ne!(hashes[1], other.list()[0].source);
    assert!(hashes[0].len() == 32 && hashes[0].bytes().all(|b| b.is_ascii_hexdigit()), "{hashes:?}");
}

#[test]
fn the_newest_submission_with_the_same_content_counts_on_any_day() {
    let fixture = Fixture::with_options(|options| options.intake.duplicate_window = 3 * DAY);
    let first = fixture.accept_new(&contact("one"));
    fixture.accept_repeat(&later(&contact("one"), 2 * DAY), first);
    let second = fixture.accept_new(&later(&contact("one"), 3 * DAY));
    fixture.accept_repeat(&later(&contact("one"), 4 * DAY), second);
    // Received on the day before, a little earlier than the submission that was processed before it.
    let midnight = Arrival { received_at: "2026-12-01T00:00:00Z".parse().unwrap(), ..contact("two") };
    let third = fixture.accept_new(&midnight);
    let before = Arrival { received_at: midnight.received_at - MILLISECOND, ..midnight };
    fixture.accept_repeat(&before, third);
}

#[test]
fn a_submission_that_was_removed_can_be_sent_again() {
    let fixture = Fixture::new();
    let arrival = Arrival { idempotency_key: Some("key".to_owned()), ..contact("one") };
    let id = fixture.accept_new(&arrival);
    fixture.sql("DELETE FROM submission");
    let again = fixture.accept_new(&arrival);
    assert_ne!(id, again);
    fixture.accept_repeat(&arrival, again);
}

#[test]
fn everything_is_there_after_the_store_was_closed_and_opened_again() {
    let fixture = Fixture::new();
    let id = fixture.accept_new(&contact("one"));
    let fixture = fixture.reopen();
    fixture.accept_repeat(&contact("one"), id);
    assert_eq!(fixture.list().len(), 1);
}

#[test]
fn closing_writes_what_waits_and_refuses_the_rest() {
    let fixture = Fixture::new();
    let (store, place) = (fixture.store.clone(), fixture.options.url.clone());
    let runtime = runtime();
    let waiting: Vec<_> = (0..100)
        .map(|n| {
            let store = store.clone();
            runtime.spawn(async move { store.accept(contact(&n.to_string())).await })
        })
        .collect();
    let accepted = runtime.block_on(async {
        tokio::task::yield_now().await;
        store.clone().close();
        let mut accepted = 0;
        for handle in waiting {
            accepted += usize::from(handle.await.unwrap().is_ok());
        }
        accepted
    });
    assert_eq!(InboxReader::open(&place).unwrap().list(&Filter::default()).unwrap().count(), accepted);
    assert!(accepted > 0);
    assert!(matches!(runtime.block_on(store.accept(contact("late"))), Err(StoreError::Closed)));
    assert!(matches!(store.health(), Err(StoreError::Closed)));
}

#[test]
fn the_last_store_to_go_closes_the_database() {
    let fixture = Fixture::in_file();
    fixture.accept_new(&contact("one"));
    let Fixture { store, options, fresh, .. } = fixture;
    let log = options.url.file().unwrap().with_extension("db-wal");
    assert!(log.exists());
    let clone = store.clone();
    drop(store);
    assert!(log.exists());
    drop(clone);
    assert!(!log.exists(), "SQLite removes the log when the last connection is closed properly");
    drop(fresh);
}

#[test]
fn a_reader_sees_accepted_submissions_at_once_and_blocks_no_writer() {
    let fixture = Fixture::new();
    let reader = fixture.reader();
    for n in 1..50 {
        fixture.accept_new(&contact(&n.to_string()));
        let mut listing = reader.list(&Filter { limit: Some(1), ..Filter::default() }).unwrap();
        assert_eq!(listing.next().unwrap().unwrap().get("message"), Some(n.to_string().as_str()));
    }
    let mut open_listing = reader.list(&Filter::default()).unwrap();
    open_listing.next();
    fixture.accept_new(&contact("meanwhile"));
}

#[test]
fn an_inbox_can_be_read_and_written_after_a_crash() {
    let fixture = Fixture::in_file();
    let id = fixture.accept_new(&contact("one"));
    // Copies of the open files are like those that a killed process leaves behind.
    let after = TempDir::new().unwrap();
    for name in ["inbox.db", "inbox.db-wal"] {
        fs::copy(fixture.fresh.folder.path().join("data").join(name), after.path().join(name)).unwrap();
    }
    let path = after.path().join("inbox.db");
    assert_eq!(list(&path).len(), 1);
    let store = TestInbox::open(&Options::new(path.clone())).unwrap();
    assert_eq!(
        runtime().block_on(store.accept_and_process(contact("one"))).unwrap(),
        Accepted::Duplicate(id)
    );
    assert_eq!(list(&path).len(), 1);
}

#[test]
fn folder_and_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a/b/inbox.db");
    let store = TestInbox::open(&Options::new(path.clone())).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("a")), 0o700);
    assert_eq!(mode(&folder.path().join("a/b")), 0o700);
    for suffix in ["db", "db-wal", "db-shm"] {
        assert_eq!(mode(&path.with_extension(suffix)), 0o600, "{suffix}");
    }
    drop(store);
}

#[test]
fn there_is_nothing_to_read_before_a_store_was_opened() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("inbox.db");
    assert!(matches!(InboxReader::open(&path), Err(StoreError::Missing(_))));
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    assert!(matches!(InboxReader::open(&path), Err(StoreError::Missing(_))));
}

#[test]
fn a_file_that_is_no_inbox_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("inbox.db");
    let open = || TestInbox::open(&Options::new(path.clone())).map(|_| ());

    let notes = "These are somebody's notes. ".repeat(1000);
    fs::write(&path, &notes).unwrap();
    assert!(matches!(open(), Err(StoreError::NotAnInbox(_))));
    assert!(matches!(InboxReader::open(&path), Err(StoreError::NotAnInbox(_))));
    assert_eq!(fs::read_to_string(&path).unwrap(), notes);

    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE bookmark (url)").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(open(), Err(StoreError::NotAnInbox(_))));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn another_layout_is_not_touched() {
    for found in [LAYOUT - 1, 99] {
        let fixture = Fixture::in_file();
        fixture.sql(&format!("PRAGMA user_version = {found}"));
        let Fixture { store, options, fresh, .. } = fixture;
        drop(store);
        let is_refused = |error: &StoreError| match error {
            StoreError::TooOld { found: old, known: LAYOUT, .. } => found < LAYOUT && *old == found,
            StoreError::TooNew { found: new, known: LAYOUT, .. } => found > LAYOUT && *new == found,
            _ => false,
        };
        let error = TestInbox::open(&options).err().unwrap();
        assert!(is_refused(&error), "{error}");
        let error = InboxReader::open(&options.url).err().unwrap();
        assert!(is_refused(&error), "{error}");
        drop(fresh);
    }
}

#[test]
fn a_locked_database_costs_an_error_and_nothing_else() {
    let fixture = Fixture::in_file();
    let other = fixture.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let accepted = fixture.accept_all(&[contact("one"), contact("two")]);
    assert!(accepted.iter().all(|a| matches!(a, Err(StoreError::Locked))), "{accepted:?}");
    assert!(matches!(fixture.store.health(), Err(StoreError::Locked)));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(fixture.list(), []);
    fixture.accept_new(&contact("one"));
    fixture.store.health().unwrap();
}

#[test]
fn a_short_lock_is_waited_for() {
    // The writer waits for two seconds. A busy machine may sometimes take longer to release the lock, but not
    // ten times in a row.
    let is_waited_for = || {
        let fixture = Fixture::in_file();
        let other = fixture.connection();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            other.execute_batch("ROLLBACK").unwrap();
        });
        let accepted = fixture.accept(&contact("one"));
        release.join().unwrap();
        accepted.is_ok()
    };
    assert!((0..10).any(|_| is_waited_for()));
}

#[test]
fn health_is_found_again_without_a_submission() {
    let fixture = Fixture::in_file();
    let data = fixture.fresh.folder.path().join("data");
    fs::rename(&data, fixture.fresh.folder.path().join("away")).unwrap();
    fs::write(&data, "in the way").unwrap();
    assert!(matches!(fixture.check(), Err(StoreError::Io { .. })));
    fixture.store.health().unwrap_err();
    fs::remove_file(&data).unwrap();
    fs::rename(fixture.fresh.folder.path().join("away"), &data).unwrap();
    let patience = std::time::Instant::now();
    while fixture.store.health().is_err() {
        assert!(patience.elapsed() < Duration::from_mins(2));
        std::thread::sleep(Duration::from_millis(20));
    }
    fixture.check().unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_to_costs_an_error_until_it_can() {
    let fixture = Fixture::in_file();
    let id = fixture.accept_new(&contact("before"));
    let data = fixture.fresh.folder.path().join("data");
    // Not even root can create a file inside a file.
    fs::rename(&data, fixture.fresh.folder.path().join("away")).unwrap();
    fs::write(&data, "in the way").unwrap();
    for n in 0..3 {
        let error = fixture.accept(&contact(&n.to_string())).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
    }
    fs::remove_file(&data).unwrap();
    fs::rename(fixture.fresh.folder.path().join("away"), &data).unwrap();
    fixture.accept_repeat(&contact("before"), id);
    fixture.accept_new(&contact("after"));
    assert_eq!(fixture.list().len(), 2);
}

#[test]
fn a_store_may_open_before_its_folder_can_be_used() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    fs::write(&data, "in the way").unwrap();
    let options = Options::new(data.join("inbox.db"));
    let store = TestInbox::open(&options).unwrap();
    store.health().unwrap_err();
    let runtime = runtime();
    runtime.block_on(store.accept(contact("too early"))).unwrap_err();
    fs::remove_file(&data).unwrap();
    runtime.block_on(store.accept(contact("still too early"))).unwrap_err();
    fs::create_dir(&data).unwrap();
    runtime.block_on(store.accept(contact("in time"))).unwrap();
    store.health().unwrap();
    assert_eq!(list(&options.url).len(), 1);
}

#[test]
fn no_debug_output_has_visitors_data() {
    let arrival = Arrival { idempotency_key: Some("sesame".to_owned()), ..contact("sesame") };
    assert!(!format!("{arrival:?}").contains("sesame"));
}

#[test]
fn a_deleted_log_never_swallows_a_submission() {
    let remove = |names: &'static [&'static str]| {
        let fixture = Fixture::in_file();
        fixture.accept_new(&contact("before"));
        for name in names {
            fs::remove_file(fixture.data().join(name)).unwrap();
        }
        let id = fixture.accept_new(&contact("after"));
        assert_eq!(fixture.list()[0].id, id, "{names:?}");
        let fixture = fixture.reopen();
        assert_eq!(fixture.list()[0].id, id, "{names:?}");
        assert_eq!(fixture.list().len(), 2, "{names:?}");
        fixture.accept_new(&contact("and on"));
    };
    remove(&["inbox.db-wal"]);
    remove(&["inbox.db-wal", "inbox.db-shm"]);
    remove(&["inbox.db-shm"]);
}

#[test]
fn a_database_that_disappears_is_created_only_by_a_start() {
    let (database, log) = (["inbox.db"], ["inbox.db-wal", "inbox.db-shm"]);
    for names in [&database[..], &[database[0], log[0]], &[database[0], log[0], log[1]]] {
        let fixture = Fixture::in_file();
        let before = fixture.accept_new(&contact("before"));
        // Like the mount point of an unmounted file system, the folder remains.
        let (data, away) = (fixture.data(), fixture.fresh.folder.path().join("away"));
        fs::create_dir(&away).unwrap();
        let carry = |from: &Path, to: &Path| {
            for name in names {
                fs::rename(from.join(name), to.join(name)).unwrap();
            }
        };
        carry(&data, &away);
        fixture.expect_lost("during");
        carry(&away, &data);
        fixture.accept_repeat(&contact("before"), before);
        fixture.accept_new(&contact("during"));
        assert_eq!(fixture.list().len(), 2, "{names:?}");
        // An empty file is not an inbox either.
        carry(&data, &away);
        fs::write(fixture.file(), "").unwrap();
        let error = fixture.accept(&contact("late")).unwrap_err();
        assert!(error.to_string().ends_with("created only when the server starts"), "{error}");
        let fixture = fixture.reopen();
        fixture.accept_new(&contact("after"));
        assert_eq!(fixture.list().len(), 1, "{names:?}");
    }
}

#[test]
fn an_idle_store_notices_that_its_database_disappears() {
    let fixture = Fixture::in_file();
    fixture.accept_new(&contact("before"));
    let (data, away) = (fixture.data(), fixture.fresh.folder.path().join("away"));
    let wait_until = |is_healthy| {
        let patience = std::time::Instant::now();
        while fixture.store.health().is_ok() != is_healthy {
            assert!(patience.elapsed() < Duration::from_mins(2));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    fs::rename(&data, &away).unwrap();
    fs::create_dir(&data).unwrap();
    wait_until(false);
    fs::remove_dir(&data).unwrap();
    fs::rename(&away, &data).unwrap();
    wait_until(true);
    assert_eq!(fixture.list().len(), 1);
}

#[test]
fn a_data_folder_that_was_removed_is_not_recreated() {
    let fixture = Fixture::in_file();
    fixture.accept_new(&contact("before"));
    let data = fixture.data();
    fs::remove_dir_all(&data).unwrap();
    fixture.expect_lost("during");
    assert!(!data.exists());
    fs::create_dir(&data).unwrap();
    fixture.expect_lost("still");
    let fixture = fixture.reopen();
    fixture.accept_new(&contact("after"));
    assert_eq!(fixture.list().len(), 1);
}

#[test]
fn an_earlier_copy_of_the_inbox_is_written_to() {
    let fixture = Fixture::in_file();
    let earlier = contact("saved");
    let saved = fixture.accept_new(&Arrival { received_at: earlier.received_at - MILLISECOND, ..earlier });
    let fixture = fixture.reopen();
    let copy = fixture.fresh.folder.path().join("copy");
    fs::copy(fixture.file(), &copy).unwrap();
    fixture.accept_new(&contact("lost"));
    fs::rename(&copy, fixture.file()).unwrap();
    for log in ["inbox.db-wal", "inbox.db-shm"] {
        fs::remove_file(fixture.data().join(log)).unwrap();
    }
    let id = fixture.accept_new(&contact("after"));
    assert_eq!(fixture.list().iter().map(|s| s.id).collect::<Vec<_>>(), [id, saved]);
    fixture.accept_repeat(&contact("saved"), saved);
}

#[test]
fn another_inbox_is_written_to_only_after_a_start() {
    let (fixture, other) = (Fixture::in_file(), Fixture::in_file());
    fixture.accept_new(&contact("lost"));
    let earlier = contact("saved");
    let saved = other.accept_new(&Arrival { received_at: earlier.received_at - MILLISECOND, ..earlier });
    let Fixture { store, fresh, .. } = other;
    drop(store);
    fs::rename(fresh.folder.path().join("data/inbox.db"), fixture.file()).unwrap();
    for log in ["inbox.db-wal", "inbox.db-shm"] {
        fs::remove_file(fixture.data().join(log)).unwrap();
    }
    let error = fixture.accept(&contact("during")).unwrap_err();
    assert!(error.to_string().contains("another inbox is there now"), "{error}");
    let fixture = fixture.reopen();
    let id = fixture.accept_new(&contact("after"));
    assert_eq!(fixture.list().iter().map(|s| s.id).collect::<Vec<_>>(), [id, saved]);
    fixture.accept_repeat(&contact("saved"), saved);
}

const MILLISECOND: Duration = Duration::from_millis(1);

impl Fixture {
    fn reopen(self) -> Fixture {
        let Fixture { store, options, runtime, fresh } = self;
        store.close();
        Fixture { store: TestInbox::open(&options).unwrap(), options, runtime, fresh }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.change(|tx| tx.sql.execute(sql::TOUCH, &[]).map(drop)))
    }

    fn list(&self) -> Vec<Submission> {
        list(&self.options.url)
    }

    /// The folder of the database file.
    fn data(&self) -> PathBuf {
        self.file().parent().unwrap().to_owned()
    }

    /// Expects that a submission is refused because the database is missing, and that no file is created.
    fn expect_lost(&self, message: &str) {
        let error = self.accept(&contact(message)).unwrap_err();
        assert!(error.to_string().ends_with("created only when the server starts"), "{error}");
        self.store.health().unwrap_err();
        assert!(!self.file().exists());
    }

    fn editor(&self) -> Editor {
        Editor::open(&self.options.url).unwrap()
    }

    /// Whether this text is in any file of the database or, with PostgreSQL, in a row of most of its tables.
    fn files_hold(&self, text: &str) -> bool {
        if self.options.url.file().is_none() {
            let sql = self.fresh.sql();
            let tables = [
                "meta",
                "intake",
                "repeat",
                "submission",
                "delivery",
                "attempt",
                "channel",
                "pressure",
                "page_view",
                "referrer",
                "annotation",
                "note",
                "saved_view",
                "undo",
            ];
            let mut rows =
                tables.map(|table| sql.query(&format!("SELECT t::text AS t FROM {table} t"), &[]).unwrap());
            return rows.iter_mut().flatten().any(|row| row.text("t").unwrap().contains(text));
        }
        let files = fs::read_dir(self.file().parent().unwrap()).unwrap();
        let mut contents = files.map(|file| fs::read(file.unwrap().path()).unwrap());
        contents.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    fn file(&self) -> PathBuf {
        self.options.url.file().expect("the inbox is in a file").to_owned()
    }

    /// A separate connection, as another program would have.
    fn connection(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }

    fn sql(&self, sql: &str) {
        self.fresh.sql().execute(sql, &[]).unwrap();
    }

    fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.fresh.sql().one_value(&sql, &[]).unwrap()
    }
}

fn list(place: impl Into<DatabaseUrl>) -> Vec<Submission> {
    InboxReader::open(place).unwrap().list(&Filter::default()).unwrap().map(Result::unwrap).collect()
}

/// The row for the table `intake`.
fn row(arrival: Arrival, options: &Options) -> Accepting {
    arrival.into_row(&options.intake, &options.channels)
}

impl Arrival {
    pub(crate) fn into_row(self, options: &IntakeOptions, channels: &[Route]) -> Accepting {
        self.prepare_row(options, channels, &Repeats::new(Instant::now())).unwrap()
    }
}
