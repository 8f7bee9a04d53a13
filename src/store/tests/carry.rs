//! An inbox that is carried from one database into another.

use super::*;
use crate::store::sql::carry::{Sum, TABLES, Table, open};
use crate::store::sql::values;
use crate::submission::delivery::Room;
use crate::submission::outcome::Cause;

#[test]
fn an_inbox_goes_over_and_comes_back_as_it_was() {
    let (from, over, back) = (Fresh::file(), Fresh::place(), Fresh::file());
    let expected = full(&from.place);
    let carried = carry(&from.place, &over.place).unwrap();
    assert_eq!((carried.submissions, carried.rows), (451, expected.iter().map(|sum| sum.rows).sum()));
    assert_eq!(sums(&over.place), expected);
    assert_eq!(carry(&over.place, &back.place).unwrap(), carried);
    assert_eq!(sums(&back.place), expected);
    // It goes on from there: what was known is known.
    let store = Store::open(&Options::in_place(over.place.clone())).unwrap();
    let arrival = contact("number 7");
    let again = runtime().block_on(store.keep(arrival)).unwrap();
    assert!(matches!(again, Accepted::Duplicate(_)), "{again:?}");
}

#[test]
fn nothing_is_carried_to_where_something_is_or_from_what_is_in_use() {
    let (from, to) = (Fresh::file(), Fresh::place());
    full(&from.place);
    assert!(matches!(carry(&from.place, &from.place), Err(CarryError::Same(_))));
    let lock = lock::Lock::of(&from.place).unwrap();
    assert!(matches!(carry(&from.place, &to.place), Err(CarryError::InUse(_))));
    drop(lock);
    let missing = Fresh::file();
    assert!(matches!(carry(&missing.place, &to.place), Err(CarryError::Store(StoreError::Missing(_)))));
    assert!(!missing.place.file().unwrap().exists());
    carry(&from.place, &to.place).unwrap();
    assert!(matches!(carry(&from.place, &to.place), Err(CarryError::Occupied(_))));
    if to.place.file().is_none() {
        let store = Store::open(&Options::in_place(to.place.clone())).unwrap();
        let back = Fresh::file();
        assert!(matches!(carry(&to.place, &back.place), Err(CarryError::InUse(_))));
        store.close();
        carry(&to.place, &back.place).unwrap();
    }
}

/// An inbox in which every table has rows, more of them than are read at a time.
fn full(place: &Place) -> Vec<Sum> {
    let options = Options { channels: channels(&["box", "crm"], &[]), ..Options::in_place(place.clone()) };
    let options = Options { form_quota: Some(Quota { per_minute: 9, per_hour: 9 }), ..options };
    let store = Store::open(&options).unwrap();
    let id = runtime().block_on(async {
        let target = Target { name: "box".to_owned(), leads_to: String::new() };
        let want = Want { target, room: Room { any: 9, again: 9 }, turn: 0 };
        for n in 0..450 {
            store.keep(contact(&format!("number {n}"))).await.unwrap();
        }
        let claims = store.claim(vec![want], Vec::new(), at(0), Duration::from_mins(3)).await.unwrap();
        for claimed in claims.into_iter().flat_map(|claims| claims.claimed) {
            let failed = Outcome::failed(Cause::Channel, "451 \u{1f600}");
            store.record(claimed.lease, failed, Verdict::Again(at(9)), at(1)).await.unwrap();
        }
        store.pause("box".to_owned(), "451".to_owned(), at(2)).await.unwrap();
        let refused = Refused { source: None, form: "contact", count: 3 };
        store.pressed(vec![refused], at(3)).await.unwrap();
        store.keep(contact("number 1")).await.unwrap();
        store.keep(contact("to be set aside")).await.unwrap().id()
    });
    store.close();
    {
        let (sql, _lock) = open(place, false).unwrap();
        let set_aside = "INSERT INTO intake (id, form, received_at, fields, source, evidence, channels, content, error)
            SELECT id, form, received_at, fields, source, '{}', 0, source, 'damaged' FROM submission WHERE id = ?1";
        sql.execute(set_aside, values![id.as_bytes()]).unwrap();
        sql.execute("DELETE FROM submission WHERE id = ?1", values![id.as_bytes()]).unwrap();
    }
    let sums = sums(place);
    assert!(sums.iter().all(|sum| sum.rows > 0), "{sums:?}");
    sums
}

fn sums(place: &Place) -> Vec<Sum> {
    let (sql, _lock) = open(place, false).unwrap();
    let sum = |table: &Table| {
        let mut sum = Sum::default();
        table
            .each(&*sql, |rows| {
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
