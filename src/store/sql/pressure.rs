//! Who was refused: written down in bounded room.

use jiff::Timestamp;

use super::rows::DAY_IN_MILLISECONDS;
use super::{Sql, values};
use crate::limits::pressure::Refused;
use crate::store::StoreError;
use crate::store::fingerprint::Secret;

/// How many pairs of source and form have a row of their own on one day.
const MOST_A_DAY: i64 = 10_000;

/// Adds to what is known of who was refused, on the day of `now` in UTC.
pub(in crate::store) fn press(
    tx: &dyn Sql,
    secret: &Secret,
    refused: &[Refused],
    now: Timestamp,
) -> Result<(), StoreError> {
    let day = day(now);
    let mut rows: i64 = tx.one("SELECT count(*) FROM pressure WHERE day = ?1", values![day])?.get(0)?;
    for Refused { source, form, count } in refused {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let mut source = source.map(|source| secret.source(source).to_vec()).unwrap_or_default();
        let known = tx.execute(
            "UPDATE pressure SET refused = refused + ?4 WHERE day = ?1 AND source = ?2 AND form = ?3",
            values![day, source, form, count],
        )?;
        if known == 1 {
            continue;
        }
        if rows >= MOST_A_DAY {
            source.clear();
        }
        tx.execute(
            "INSERT INTO pressure (day, source, form, refused) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (day, source, form) DO UPDATE SET refused = pressure.refused + ?4",
            values![day, source, form, count],
        )?;
        rows += 1;
    }
    Ok(())
}

/// Removes up to `most` rows of days before that of `before`.
pub(in crate::store) fn forget_pressure(
    tx: &dyn Sql,
    before: Timestamp,
    most: usize,
) -> Result<usize, StoreError> {
    tx.execute(
        "DELETE FROM pressure WHERE (day, source, form) IN
         (SELECT day, source, form FROM pressure WHERE day < ?1 LIMIT ?2)",
        values![day(before), i64::try_from(most).unwrap_or(i64::MAX)],
    )
}

/// The days of which there are rows.
pub(super) fn days(sql: &dyn Sql) -> Result<Vec<i64>, StoreError> {
    sql.query("SELECT DISTINCT day FROM pressure", &[])?.iter().map(|row| row.get(0)).collect()
}

/// Removes what is known of these sources on these days. Each day is looked up: the key begins with it.
pub(super) fn forget_sources(tx: &dyn Sql, days: &[i64], sources: &[[u8; 16]]) -> Result<(), StoreError> {
    for day in days {
        tx.execute_with_in("DELETE FROM pressure WHERE day = ?1 AND source", values![day], sources)?;
    }
    Ok(())
}

pub(in crate::store) fn day(time: Timestamp) -> i64 {
    time.as_millisecond().div_euclid(DAY_IN_MILLISECONDS)
}
