//! Login links and sessions of the web interface. The database has hashes only: a reader of the database
//! cannot use them to log in.

use jiff::{SignedDuration, Timestamp};

use super::editor::Editor;
use super::operator_log::OperatorAction;
use super::read::InboxReader;
use super::{FromRow as _, Sql, from_row, values};
use crate::store::error::StoreError;

/// A BLAKE3 hash of a random token of 256 bits.
pub type TokenHash = [u8; 32];

/// How long a login link is valid.
pub const LOGIN_LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// A session ends after this time without a request.
pub const SESSION_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// A session or login link from the future is not valid: it was created while a clock was ahead, and would
/// be valid for longer than others. The clocks of replicas may differ by this much.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
/// The use of a session is recorded at most this often.
pub const SESSION_TOUCH_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// Maximum number of unused login links, and of sessions. A new one replaces the oldest.
const MAX_LOGINS: usize = 20;
const MAX_SESSIONS: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub hash: TokenHash,
    pub user: String,
    pub created_at: Timestamp,
    /// When the session was last used, to the minute.
    pub used_at: Timestamp,
}

impl Session {
    /// The first eight hexadecimal digits of the hash, which identify the session in lists.
    pub fn short_id(&self) -> String {
        self.hash[..4].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Editor {
    /// Stores a login link for the editor's user. Removes expired links and sessions, and the oldest links
    /// beyond `MAX_LOGINS`.
    pub fn create_login(&mut self, login: &TokenHash, now: Timestamp) -> Result<(), StoreError> {
        let entry = self.log_entry(OperatorAction::Open);
        let user = self.user().to_owned();
        self.commit_and_notify(|tx| {
            remove_expired(tx, now)?;
            make_room(tx, "login_token", "expires_at", MAX_LOGINS)?;
            let expires_at = now + LOGIN_LIFETIME;
            tx.execute("INSERT INTO login_token VALUES (?1, ?2, ?3)", values![login, user, expires_at])?;
            entry.add(tx, 1)
        })
    }

    /// Uses up a login link, and stores a session in its place. Returns the user, or `None` if the link does
    /// not exist, has expired or was used before. Removes expired links and sessions, and the least recently
    /// used sessions beyond `MAX_SESSIONS`.
    pub fn log_in(
        &mut self,
        login: &TokenHash,
        session: &TokenHash,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        self.commit_and_notify(|tx| {
            let take = "DELETE FROM login_token WHERE hash = ?1 RETURNING actor, expires_at";
            let Some(row) = tx.row(take, values![login])? else { return Ok(None) };
            let [earliest, latest] = valid_expiries(now);
            if !(earliest..=latest).contains(&row.get::<i64>("expires_at")?) {
                return Ok(None);
            }
            let user: String = row.get("actor")?;
            remove_expired(tx, now)?;
            make_room(tx, "session", "used_at", MAX_SESSIONS)?;
            tx.execute("INSERT INTO session VALUES (?1, ?2, ?3, ?3)", values![session, user, now])?;
            self.log_entry(OperatorAction::LogIn).by(&user).add(tx, 1)?;
            Ok(Some(user))
        })
    }

    /// Records that a session was used.
    pub fn touch_session(&mut self, session: &TokenHash, now: Timestamp) -> Result<(), StoreError> {
        self.commit_and_notify(|tx| {
            tx.execute("UPDATE session SET used_at = ?2 WHERE hash = ?1", values![session, now]).map(drop)
        })
    }

    /// Ends sessions, and makes all unused login links invalid if `sessions` is `None`, which means all
    /// sessions. Returns the number of ended sessions.
    pub fn revoke(&mut self, sessions: Option<&[TokenHash]>) -> Result<usize, StoreError> {
        let entry = self.log_entry(OperatorAction::Revoke);
        self.commit_and_notify(|tx| {
            let count = if let Some(hashes) = sessions {
                let remove = |hash| tx.execute("DELETE FROM session WHERE hash = ?1", values![hash]);
                hashes.iter().map(remove).sum::<Result<usize, _>>()?
            } else {
                tx.execute("DELETE FROM login_token", &[])?;
                tx.execute("DELETE FROM session", &[])?
            };
            if count > 0 {
                entry.add(tx, count)?;
            }
            Ok(count)
        })
    }
}

/// Removes login links and sessions that have expired, or are from the future.
fn remove_expired(tx: &dyn Sql, now: Timestamp) -> Result<(), StoreError> {
    let [earliest, latest] = valid_expiries(now);
    tx.execute("DELETE FROM login_token WHERE expires_at NOT BETWEEN ?1 AND ?2", values![earliest, latest])?;
    let [earliest, latest] = valid_uses(now);
    tx.execute("DELETE FROM session WHERE used_at NOT BETWEEN ?1 AND ?2", values![earliest, latest]).map(drop)
}

/// The earliest and the latest expiry of a login link that is valid, as Unix times in milliseconds.
fn valid_expiries(now: Timestamp) -> [i64; 2] {
    [now.as_millisecond() + 1, (now + LOGIN_LIFETIME + CLOCK_TOLERANCE).as_millisecond()]
}

/// The earliest and the latest use of a session that is valid, as Unix times in milliseconds.
fn valid_uses(now: Timestamp) -> [i64; 2] {
    [(now - SESSION_LIFETIME).as_millisecond() + 1, (now + CLOCK_TOLERANCE).as_millisecond()]
}

/// Removes the oldest rows, so that one more row is within the limit.
fn make_room(tx: &dyn Sql, table: &str, age: &str, most: usize) -> Result<(), StoreError> {
    let excess = format!(
        "DELETE FROM {table} WHERE hash IN (SELECT hash FROM {table} ORDER BY {age} DESC, hash LIMIT 1000 OFFSET ?1)"
    );
    tx.execute(&excess, values![most - 1]).map(drop)
}

impl InboxReader {
    /// Whether a login link can be used now.
    pub fn has_login(&self, login: &TokenHash, now: Timestamp) -> Result<bool, StoreError> {
        let [earliest, latest] = valid_expiries(now);
        let find = "SELECT 1 FROM login_token WHERE hash = ?1 AND expires_at BETWEEN ?2 AND ?3";
        self.sql.exists(find, values![login, earliest, latest])
    }

    /// The session with this hash, unless it has expired or was last used in the future.
    pub fn session(&self, hash: &TokenHash, now: Timestamp) -> Result<Option<Session>, StoreError> {
        let find = "SELECT hash, actor AS \"user\", created_at, used_at FROM session
             WHERE hash = ?1 AND used_at BETWEEN ?2 AND ?3";
        let [earliest, latest] = valid_uses(now);
        self.sql.row(find, values![hash, earliest, latest])?.as_ref().map(Session::from_row).transpose()
    }

    /// Whether a session was last used in the future. It must be ended, because time would make it valid.
    pub fn is_session_from_future(&self, hash: &TokenHash, now: Timestamp) -> Result<bool, StoreError> {
        let [_, latest] = valid_uses(now);
        self.sql.exists("SELECT 1 FROM session WHERE hash = ?1 AND used_at > ?2", values![hash, latest])
    }

    /// All valid sessions, the most recently used first.
    pub fn sessions(&self, now: Timestamp) -> Result<Vec<Session>, StoreError> {
        let list = "SELECT hash, actor AS \"user\", created_at, used_at FROM session
             WHERE used_at BETWEEN ?1 AND ?2 ORDER BY used_at DESC, created_at DESC, hash";
        let [earliest, latest] = valid_uses(now);
        self.sql.query_as(list, values![earliest, latest])
    }
}

from_row! { Session { hash, user, created_at, used_at } }
