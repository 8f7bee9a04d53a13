//! Registrations of connections that change the inbox through a pooler, in the table `lease`.

use std::cell::Cell;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::store::error::StoreError;
use crate::store::sql::{Sql, values};

/// An SQL expression for the current time of the database in milliseconds. It advances during a transaction.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How long a registration is valid without being renewed.
const REGISTRATION_DURATION: Duration = Duration::from_mins(1);
const REGISTRATION_RENEWAL: Duration = Duration::from_secs(20);
/// The prefix of the names of registrations in the table `lease`.
const REGISTERED: &str = "writer ";

/// The registration of a connection that changes the inbox through a pooler.
///
/// Each of its transactions fails unless the registration exists, so ending the registration of a lost
/// connection prevents a late commit. An unexpired registration also shows that the inbox is in use.
pub(super) struct Registration {
    pub holder: Uuid,
    renewed: Cell<Instant>,
}

impl Registration {
    /// Inserts a registration in the current transaction, and removes rows that expired more than a day ago.
    pub fn insert(sql: &dyn Sql) -> Result<Registration, StoreError> {
        let registration = Registration { holder: Uuid::now_v7(), renewed: Cell::new(Instant::now()) };
        remove_expired(sql)?;
        let insert = format!("INSERT INTO lease (name, holder, expires_at) VALUES (?1, ?2, {NOW} + ?3)");
        let name = name(registration.holder);
        sql.execute(&insert, values![name, registration.holder, millis(REGISTRATION_DURATION)])?;
        Ok(registration)
    }

    /// Statements at the beginning of each transaction. They fail if the registration has ended, or if the
    /// server that the pooler has chosen does not sync its commits. Every 20 seconds, they also renew the
    /// registration, so the caller must execute them.
    pub fn check(&self) -> String {
        let name = name(self.holder);
        // The lock comes first: the second statement then sees what the last holder of the lock has done.
        // It divides by zero if the registration is missing.
        let mut check = format!(
            "; SELECT pg_advisory_xact_lock_shared({})
             ; SELECT 1 / count(*) FROM lease WHERE name = '{name}' AND current_setting('fsync') <> 'off'",
            key(self.holder),
        );
        if self.renewed.get().elapsed() > REGISTRATION_RENEWAL {
            self.renewed.set(Instant::now());
            let duration = millis(REGISTRATION_DURATION);
            check += &format!("; UPDATE lease SET expires_at = {NOW} + {duration} WHERE name = '{name}'");
        }
        check
    }

    /// The statement that ends the registration.
    pub fn delete(&self) -> String {
        format!("DELETE FROM lease WHERE name = '{}'", name(self.holder))
    }
}

/// Removes the rows of `lease` that expired more than a day ago, which lost connections and killed processes
/// have left behind.
pub(super) fn remove_expired(sql: &dyn Sql) -> Result<(), StoreError> {
    // Skip a row that a hung transaction has locked: the next call removes it.
    let expired =
        format!("SELECT name FROM lease WHERE expires_at < {NOW} - 86400000 FOR UPDATE SKIP LOCKED");
    sql.execute(&format!("DELETE FROM lease WHERE name IN ({expired})"), &[]).map(drop)
}

fn name(holder: Uuid) -> String {
    format!("{REGISTERED}{holder}")
}

/// The key of the advisory lock that all transactions of a registration share: random bits of the id.
fn key(holder: Uuid) -> i64 {
    let (_, low) = holder.as_u64_pair();
    low.cast_signed()
}

/// Ends the registration of a lost connection, in the current transaction. Returns false if one of its
/// transactions is still under way, which may be waiting for a standby. After true, and as soon as the
/// current transaction is committed, none can be committed any more.
pub(super) fn end_registration(sql: &dyn Sql, holder: Uuid) -> Result<bool, StoreError> {
    let is_over = sql.one_value(&format!("SELECT pg_try_advisory_xact_lock({})", key(holder)), &[])?;
    if is_over {
        sql.execute("DELETE FROM lease WHERE name = ?1", values![name(holder)])?;
    }
    Ok(is_over)
}

/// Ends the expired registrations, except `own`. Stops and returns false at one that has not expired, or
/// whose transaction is under way; others may have ended by then. `lock` is the query that locks a key: until
/// the lock is released, the ended registration can begin no transaction.
pub(super) fn end_all(sql: &dyn Sql, own: Option<Uuid>, lock: &str) -> Result<bool, StoreError> {
    let all = format!(
        "SELECT holder, CASE WHEN expires_at > {NOW} THEN 1 ELSE 0 END AS is_alive FROM lease WHERE name LIKE '{REGISTERED}%'"
    );
    for row in sql.query(&all, &[])? {
        let holder: Uuid = row.get("holder")?;
        if Some(holder) == own {
            continue;
        }
        if row.get("is_alive")? || !sql.one_value::<bool>(lock, values![key(holder)])? {
            return Ok(false);
        }
        sql.execute("DELETE FROM lease WHERE name = ?1", values![name(holder)])?;
    }
    Ok(true)
}
