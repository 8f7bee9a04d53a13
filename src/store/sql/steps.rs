//! Bounds transactions of commands that change many submissions: visitors wait while a transaction has the lock of a SQLite file.

use super::{Dialect, Row};
use crate::store::StoreError;

/// How many rows one transaction of an operator's command changes at most.
pub(super) const ROWS: usize = 200;
/// How many bytes of fields one transaction of an operator's command removes at most. Each page of 4 KiB that a row occupies is read,
/// overwritten and logged.
pub(super) const BYTES: i64 = 1024 * 1024;

/// A submission that may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removable {
    pub id: [u8; 16],
    /// About how many bytes its fields take.
    pub bytes: i64,
}

impl Removable {
    /// Reads the id and the size in these columns.
    pub fn read(row: &Row, id: usize, bytes: usize) -> Result<Removable, StoreError> {
        Ok(Removable { id: row.get(id)?, bytes: row.get(bytes)? })
    }
}

/// The size of a submission's fields, as an expression. Neither database reads the text for it.
pub(super) fn size_of(dialect: Dialect, table: &str) -> String {
    let size = match dialect {
        Dialect::Sqlite => "octet_length",
        Dialect::Postgres => "pg_column_size",
    };
    format!("{size}({table}.fields) + coalesce({size}({table}.sealed), 0)")
}

/// How many of these, from the first on, have no more than `most` bytes together; at least one.
pub(super) fn fitting(removables: &[Removable], most: i64) -> usize {
    let mut bytes = 0_i64;
    let fits = |removable: &&Removable| {
        bytes = bytes.saturating_add(removable.bytes);
        bytes <= most
    };
    removables.iter().take_while(fits).count().max(1).min(removables.len())
}

/// The ids in groups, each for one transaction and in ascending order.
pub(super) fn groups(mut rest: &[Removable]) -> Vec<Vec<[u8; 16]>> {
    let mut groups = Vec::new();
    while !rest.is_empty() {
        let (group, after) = rest.split_at(fitting(&rest[..rest.len().min(ROWS)], BYTES));
        let mut ids: Vec<[u8; 16]> = group.iter().map(|removable| removable.id).collect();
        ids.sort_unstable();
        groups.push(ids);
        rest = after;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_bounded_by_rows_and_by_bytes() {
        let sizes = |bytes: &[i64]| -> Vec<usize> {
            let removable = |(n, bytes): (usize, &i64)| {
                let id = (n as u128).to_be_bytes();
                Removable { id, bytes: *bytes }
            };
            let all: Vec<_> = bytes.iter().enumerate().map(removable).collect();
            let groups = groups(&all);
            assert!(groups.concat().into_iter().eq(all.iter().map(|removable| removable.id)));
            groups.iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[0; 450]), [200, 200, 50]);
        assert_eq!(sizes(&[BYTES / 4; 9]), [4, 4, 1]);
        assert_eq!(sizes(&[1, BYTES * 2, 1, 1]), [1, 1, 2], "one that is too large goes by itself");
    }
}
