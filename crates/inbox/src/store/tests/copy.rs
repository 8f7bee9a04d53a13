//! Copies an inbox from one database to another.

use std::collections::BTreeSet;

use super::*;
use crate::store::open::open_and_lock;
use crate::store::sql::copy::{Sum, TABLES, Table};
use crate::store::sql::values;
use crate::submission::delivery::Capacity;
use crate::submission::delivery_outcome::Cause;

#[test]
fn an_inbox_goes_over_and_comes_back_as_it_was() {
    let (from, over, back) = (Fresh::file(), Fresh::place(), Fresh::file());
    let expected = full(&from.url);
    let copied = copy_inbox(&from.url, &over.url).unwrap();
    assert_eq!((copied.submissions, copied.rows), (451, expected.iter().map(|sum| sum.rows).sum()));
    assert_eq!(sums(&over.url), expected);
    assert_eq!(copy_inbox(&over.url, &back.url).unwrap(), copied);
    assert_eq!(sums(&back.url), expected);
    // The copied inbox can be used: it recognizes a repeat.
    let store = TestInbox::open(&Options::new(over.url.clone())).unwrap();
    let arrival = contact("number 7");
    let again = runtime().block_on(store.accept_and_process(arrival)).unwrap();
    assert!(matches!(again, Accepted::Duplicate(_)), "{again:?}");
}

#[test]
fn nothing_is_carried_to_where_something_is_or_from_what_is_in_use() {
    let (from, to) = (Fresh::file(), Fresh::place());
    full(&from.url);
    assert!(matches!(copy_inbox(&from.url, &from.url), Err(CopyError::Same(_))));
    let lock = lock::Lock::try_acquire(&from.url).unwrap();
    assert!(matches!(copy_inbox(&from.url, &to.url), Err(CopyError::InUse(_))));
    drop(lock);
    let missing = Fresh::file();
    assert!(matches!(copy_inbox(&missing.url, &to.url), Err(CopyError::Store(StoreError::Missing(_)))));
    assert!(!missing.url.file().unwrap().exists());
    copy_inbox(&from.url, &to.url).unwrap();
    assert!(matches!(copy_inbox(&from.url, &to.url), Err(CopyError::Occupied(_))));
    if to.url.file().is_none() {
        let store = TestInbox::open(&Options::new(to.url.clone())).unwrap();
        let back = Fresh::file();
        assert!(matches!(copy_inbox(&to.url, &back.url), Err(CopyError::InUse(_))));
        store.close();
        copy_inbox(&to.url, &back.url).unwrap();
    }
}

#[test]
fn every_column_is_copied() {
    let fresh = Fresh::file();
    TestInbox::open(&Options::new(fresh.url.clone())).unwrap().close();
    let sql = fresh.sql();
    let query =
        |statement: &str| -> BTreeSet<String> { sql.column(statement, &[]).unwrap().into_iter().collect() };
    let copied: BTreeSet<String> = TABLES.iter().map(|table| table.name.to_owned()).collect();
    assert_eq!(query("SELECT name FROM sqlite_schema WHERE type = 'table'"), copied);
    for Table { name, key, rest } in &TABLES {
        let copied: BTreeSet<String> = key.split(", ").chain(rest.split(", ")).map(str::to_owned).collect();
        assert_eq!(query(&format!("SELECT name FROM pragma_table_info('{name}')")), copied, "{name}");
    }
}

/// Fills every table of an inbox, some with more rows than are read at a time, and returns their checksums.
fn full(place: &DatabaseUrl) -> Vec<Sum> {
    let options = Options { channels: channels(&["box", "crm"], &[]), ..Options::new(place.clone()) };
    let mut options = options;
    options.intake.form_quota = Some(Quota { per_minute: 9, per_hour: 9 });
    let store = TestInbox::open(&options).unwrap();
    let id = runtime().block_on(async {
        let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
        let want = ClaimRequest { target, capacity: Capacity { any: 9, retries: 9 }, earlier_attempts: 0 };
        for n in 0..450 {
            store.accept_and_process(contact(&format!("number {n}"))).await.unwrap();
        }
        store.accept_and_process(contact("number 1")).await.unwrap();
        let claims =
            store.claim_by_rank(vec![want], Vec::new(), at(0), Duration::from_mins(3)).await.unwrap();
        for claimed in claims.into_iter().flat_map(|claims| claims.claimed) {
            let failed = Outcome::failed(Cause::Channel, "451 \u{1f600}");
            store.record(claimed.lease, failed, NextStep::RetryAt(at(9)), at(1)).await.unwrap();
        }
        store.pause("box".to_owned(), "451".to_owned(), at(2)).await.unwrap();
        let refused = RefusedRequests { source: None, form: "contact", count: 3 };
        store.record_refusals(vec![refused], views::date(20_777)).await.unwrap();
        let mut views = views::view_counts(&[("/", "html", "browser", 3)], &[("a.example", 1)]);
        store.record_views(&mut views, views::date(20_777)).await.unwrap();
        store.accept_and_process(contact("to be set aside")).await.unwrap().id()
    });
    store.close();
    {
        let (sql, _lock) = open_and_lock(place, false).unwrap().unwrap();
        let set_aside = "INSERT INTO intake (id, form, received_at, fields, source, evidence, channels, content, error)
            SELECT id, form, received_at, fields, source, '{}', 0, source, 'damaged' FROM submission WHERE id = ?1";
        sql.execute(set_aside, values![id.as_bytes()]).unwrap();
        sql.execute("DELETE FROM submission WHERE id = ?1", values![id.as_bytes()]).unwrap();
        sql.execute("INSERT INTO confirmation (submission, state, expires_at) SELECT id, 'open', 7 FROM submission LIMIT 1", &[])
            .unwrap();
        sql.execute("INSERT INTO visitor_mail VALUES (?1, 'visitor:x', 7)", values![id.as_bytes()]).unwrap();
        sql.execute("INSERT INTO visitor_rate VALUES (?1, 7)", values![id.as_bytes()]).unwrap();
        let note = "INSERT INTO note (id, submission, at, actor, text) SELECT id, id, 7, 'ada', 'Called' FROM submission LIMIT 1";
        sql.execute(note, &[]).unwrap();
        sql.execute(
            "INSERT INTO canary (nonce, form, sent_at) VALUES (?1, 'contact', 7)",
            values![[7_u8; 16]],
        )
        .unwrap();
        sql.execute("INSERT INTO saved_view VALUES ('Mine', 'state=open', 'ada')", &[]).unwrap();
        let lesson = "INSERT INTO lesson (submission, taught_at, teaching, judged, senders, tokens) VALUES (?1, 7, 1, 0, ?2, ?3)";
        sql.execute(lesson, values![id.as_bytes(), Vec::<u8>::new(), vec![3_u8, 1, 2, 3, 4]]).unwrap();
        sql.execute("INSERT INTO undo VALUES (?1, 'ada', '{}', 7)", values![id]).unwrap();
    }
    let mut editor = Editor::open(place).unwrap().on_behalf_of("ada");
    let listed = list(place).remove(1).id;
    editor.assign(listed, Some("ada")).unwrap();
    for n in 1..=2 {
        editor.create_login(&[n; 32], at(0)).unwrap();
    }
    let session = NewSession { hash: [3; 32], is_trusted: true, client: "Firefox".to_owned() };
    editor.log_in(&[1; 32], None, &session, at(0)).unwrap().unwrap();
    drop(editor);
    let sums = sums(place);
    assert!(sums.iter().all(|sum| sum.rows > 0), "{sums:?}");
    sums
}

fn sums(place: &DatabaseUrl) -> Vec<Sum> {
    let (sql, _lock) = open_and_lock(place, false).unwrap().unwrap();
    let sum = |table: &Table| {
        let mut sum = Sum::default();
        table
            .for_each_page(&*sql, |rows| {
                sum.add(rows);
                Ok(())
            })
            .unwrap();
        sum
    };
    TABLES.iter().map(sum).collect()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}
