//! Compares the version of a PostgreSQL database's collation with that of the server's libraries.

use super::{Dialect, Sql};
use crate::store::error::StoreError;

/// The first version of PostgreSQL that records the version of a database's collation.
const RECORDS_COLLATION_VERSION: i64 = 150_000;

/// The warning if a PostgreSQL server's libraries may sort texts in another order than when the database was
/// created, for example after an update of the operating system: its indexes may then miss rows. `None` for
/// SQLite, and for PostgreSQL before version 15, which does not record what to compare.
pub(crate) fn warning(sql: &dyn Sql) -> Result<Option<String>, StoreError> {
    if sql.dialect() == Dialect::Sqlite {
        return Ok(None);
    }
    let version = "SELECT CAST(current_setting('server_version_num') AS bigint)";
    if sql.one_value::<i64>(version, &[])? < RECORDS_COLLATION_VERSION {
        return Ok(None);
    }
    let mismatch = "SELECT CAST(quote_ident(datname) AS text) AS name, datcollversion AS before, coalesce(now, 'none') AS now
         FROM pg_database, pg_database_collation_actual_version(oid) AS now
         WHERE datname = current_database() AND datcollversion <> coalesce(now, 'none')";
    let Some(row) = sql.row(mismatch, &[])? else { return Ok(None) };
    let (name, before, now): (String, String, String) =
        (row.get("name")?, row.get("before")?, row.get("now")?);
    Ok(Some(format!(
        "the database was created with version {before} of its collation, and the server now has version \
         {now}, so its indexes may miss rows: run `REINDEX DATABASE {name}` and then `ALTER DATABASE {name} \
         REFRESH COLLATION VERSION`"
    )))
}
