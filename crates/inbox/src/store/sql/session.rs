//! Login links and sessions of the web interface. The database has hashes only: a reader of the database
//! cannot use them to log in.

use jiff::{SignedDuration, Timestamp};

use super::inbox_editor::Editor;
use super::inbox_reader::InboxReader;
use super::operator_log::OperatorAction;
use super::{FromRow as _, Sql, from_row, values};
use crate::store::error::StoreError;

/// A BLAKE3 hash of a random token of 256 bits.
pub type TokenHash = [u8; 32];

/// How long a login link is valid.
pub const LOGIN_LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// A session ends after this time without a request.
pub const SESSION_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// A session on a trusted device ends this long after its login.
pub const TRUSTED_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 30);
/// A session or login link from the future is not valid: it was created while a clock was ahead, and would
/// be valid for longer than others. The clocks of replicas may differ by this much.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
/// Minimum interval between two updates of a session's time of last use.
pub const SESSION_TOUCH_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// Maximum number of unused printed login links per user. A new link replaces the oldest.
const MAX_LOGINS: usize = 20;
/// Maximum number of sessions per user. A new session replaces the least recently used one.
const MAX_SESSIONS: usize = 100;
/// Maximum number of valid login links of a user that mails contain. No more are created until one expires or
/// is used.
pub const MAX_MAILED_LOGINS: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub hash: TokenHash,
    pub user: String,
    pub created_at: Timestamp,
    /// When the session was last used, to the minute.
    pub used_at: Timestamp,
    /// Whether the session's login link was sent by mail. If false, a command printed it.
    pub is_mailed: bool,
    /// Whether the session lasts for [`TRUSTED_LIFETIME`].
    pub is_trusted: bool,
    /// The browser and its system, such as `Firefox on Linux`; empty if they are not known.
    pub client: String,
}

/// A session that a login starts.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub hash: TokenHash,
    pub is_trusted: bool,
    pub client: String,
}

/// Whether a login link can be used, or the reason why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginState {
    Valid,
    /// The link was requested in another browser.
    OtherBrowser,
    /// The link is unknown, expired or used.
    Invalid,
}

impl Session {
    /// The first eight hexadecimal digits of the hash, which identify the session in lists.
    pub fn short_id(&self) -> String {
        self.hash[..4].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Editor {
    /// Stores a login link for the editor's user, which any browser can use. Removes expired links and
    /// sessions, and the user's oldest links of this kind beyond `MAX_LOGINS`.
    pub fn create_login(&mut self, login: &TokenHash, now: Timestamp) -> Result<(), StoreError> {
        let entry = self.log_entry(OperatorAction::Open);
        let user = self.user().to_owned();
        self.commit_and_notify(|tx| {
            remove_expired(tx, now)?;
            tx.execute(
                "DELETE FROM login_token WHERE hash IN (SELECT hash FROM login_token WHERE actor = ?1
                     AND browser IS NULL ORDER BY expires_at DESC, hash LIMIT 1000 OFFSET ?2)",
                values![user, MAX_LOGINS - 1],
            )?;
            insert_login(tx, login, &user, None, now)?;
            entry.add(tx, 1)
        })
    }

    /// Stores a login link for the editor's user that only the browser with this cookie can use. Returns
    /// whether it is stored: not if the user has `MAX_MAILED_LOGINS` of them. Removes expired links and
    /// sessions. Not logged.
    pub fn create_mailed_login(
        &mut self,
        login: &TokenHash,
        browser: &TokenHash,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let user = self.user().to_owned();
        self.commit_and_notify(|tx| {
            remove_expired(tx, now)?;
            let count = "SELECT count(*) FROM login_token WHERE actor = ?1 AND browser IS NOT NULL";
            if tx.one_value::<usize>(count, values![user])? >= MAX_MAILED_LOGINS {
                return Ok(false);
            }
            insert_login(tx, login, &user, Some(browser), now)?;
            Ok(true)
        })
    }

    /// Removes the mailed login links of all users for whom `is_removed` returns true.
    pub fn remove_mailed_logins(&mut self, is_removed: &dyn Fn(&str) -> bool) -> Result<(), StoreError> {
        self.commit_and_notify(|tx| {
            let users = "SELECT DISTINCT actor FROM login_token WHERE browser IS NOT NULL";
            let users: Vec<String> = tx.column(users, &[])?;
            let remove = "DELETE FROM login_token WHERE actor = ?1 AND browser IS NOT NULL";
            users
                .iter()
                .filter(|user| is_removed(user))
                .try_for_each(|user| tx.execute(remove, values![user]).map(drop))
        })
    }

    /// Uses up a login link, and stores a session in its place. Returns the user, or `None` if the link does
    /// not exist, has expired or was used before, or if another browser has asked for it; the link then stays
    /// valid for that browser. Removes expired links and sessions, and the user's least recently used
    /// sessions beyond `MAX_SESSIONS`.
    pub fn log_in(
        &mut self,
        login: &TokenHash,
        browser: Option<&TokenHash>,
        session: &NewSession,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        self.commit_and_notify(|tx| {
            let take = "DELETE FROM login_token WHERE hash = ?1 AND (browser IS NULL OR browser = ?2)
                 RETURNING actor, expires_at, browser IS NOT NULL AS is_mailed";
            let Some(row) = tx.row(take, values![login, browser])? else { return Ok(None) };
            let [earliest, latest] = valid_expiries(now);
            if !(earliest..=latest).contains(&row.get::<i64>("expires_at")?) {
                return Ok(None);
            }
            let user: String = row.get("actor")?;
            remove_expired(tx, now)?;
            tx.execute(
                "DELETE FROM session WHERE hash IN (SELECT hash FROM session WHERE actor = ?1
                     ORDER BY used_at DESC, hash LIMIT 1000 OFFSET ?2)",
                values![user, MAX_SESSIONS - 1],
            )?;
            let NewSession { hash, is_trusted, client } = session;
            let is_mailed: bool = row.get("is_mailed")?;
            tx.execute(
                "INSERT INTO session (hash, actor, created_at, used_at, is_mailed, is_trusted, client)
                 VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6)",
                values![hash, user, now, i64::from(is_mailed), i64::from(*is_trusted), client],
            )?;
            self.log_entry(OperatorAction::LogIn).by(&user).add(tx, 1)?;
            Ok(Some(user))
        })
    }

    /// Records that a session was used now, without checking that it is valid.
    pub fn touch_session(&mut self, session: &TokenHash, now: Timestamp) -> Result<(), StoreError> {
        self.commit_and_notify(|tx| {
            tx.execute("UPDATE session SET used_at = ?2 WHERE hash = ?1", values![session, now]).map(drop)
        })
    }

    /// Ends sessions, and makes all unused login links invalid if `sessions` is `None`, which means all
    /// sessions. Returns the number of ended sessions. Logs that number unless nothing was removed.
    pub fn revoke(&mut self, sessions: Option<&[TokenHash]>) -> Result<usize, StoreError> {
        let entry = self.log_entry(OperatorAction::Revoke);
        self.commit_and_notify(|tx| {
            let (count, logins) = if let Some(hashes) = sessions {
                let remove = |hash| tx.execute("DELETE FROM session WHERE hash = ?1", values![hash]);
                (hashes.iter().map(remove).sum::<Result<usize, _>>()?, 0)
            } else {
                let logins = tx.execute("DELETE FROM login_token", &[])?;
                (tx.execute("DELETE FROM session", &[])?, logins)
            };
            if count + logins > 0 {
                entry.add(tx, count)?;
            }
            Ok(count)
        })
    }
}

/// Stores a login link that is valid for `LOGIN_LIFETIME`, for any browser or only for `browser`.
fn insert_login(
    tx: &dyn Sql,
    login: &TokenHash,
    user: &str,
    browser: Option<&TokenHash>,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO login_token (hash, actor, browser, expires_at) VALUES (?1, ?2, ?3, ?4)",
        values![login, user, browser, now + LOGIN_LIFETIME],
    )
    .map(drop)
}

/// Removes login links and sessions that have expired, or whose times are too far in the future.
fn remove_expired(tx: &dyn Sql, now: Timestamp) -> Result<(), StoreError> {
    let [earliest, latest] = valid_expiries(now);
    tx.execute("DELETE FROM login_token WHERE expires_at NOT BETWEEN ?1 AND ?2", values![earliest, latest])?;
    let [used, created, latest] = valid_times(now);
    tx.execute(&format!("DELETE FROM session WHERE NOT ({IS_VALID})"), values![used, created, latest])
        .map(drop)
}

/// The earliest and the latest expiry time of valid login links, as Unix times in milliseconds.
fn valid_expiries(now: Timestamp) -> [i64; 2] {
    [now.as_millisecond() + 1, (now + LOGIN_LIFETIME + CLOCK_TOLERANCE).as_millisecond()]
}

/// The condition of a valid session. Its parameters are the times from [`valid_times`].
const IS_VALID: &str =
    "used_at <= ?3 AND ((is_trusted = 0 AND used_at >= ?1) OR (is_trusted = 1 AND created_at >= ?2))";

/// The earliest last use of a session that is valid, the earliest login on a trusted device, and the latest
/// use, as Unix times in milliseconds.
fn valid_times(now: Timestamp) -> [i64; 3] {
    [
        (now - SESSION_LIFETIME).as_millisecond() + 1,
        (now - TRUSTED_LIFETIME).as_millisecond() + 1,
        (now + CLOCK_TOLERANCE).as_millisecond(),
    ]
}

const COLUMNS: &str = "hash, actor AS \"user\", created_at, used_at, is_mailed, is_trusted, client";

impl InboxReader {
    /// Whether the browser with this cookie can use a login link now.
    pub fn login_state(
        &self,
        login: &TokenHash,
        browser: Option<&TokenHash>,
        now: Timestamp,
    ) -> Result<LoginState, StoreError> {
        let [earliest, latest] = valid_expiries(now);
        let find = "SELECT browser FROM login_token WHERE hash = ?1 AND expires_at BETWEEN ?2 AND ?3";
        let Some(row) = self.sql.row(find, values![login, earliest, latest])? else {
            return Ok(LoginState::Invalid);
        };
        let asked: Option<TokenHash> = row.get("browser")?;
        let is_same = asked.is_none_or(|asked| browser == Some(&asked));
        Ok(if is_same { LoginState::Valid } else { LoginState::OtherBrowser })
    }

    /// The session with this hash. `None` if it has ended or expired, or was last used more than
    /// `CLOCK_TOLERANCE` in the future.
    pub fn session(&self, hash: &TokenHash, now: Timestamp) -> Result<Option<Session>, StoreError> {
        let [used, created, latest] = valid_times(now);
        let find = format!("SELECT {COLUMNS} FROM session WHERE hash = ?4 AND {IS_VALID}");
        self.sql.row(&find, values![used, created, latest, hash])?.as_ref().map(Session::from_row).transpose()
    }

    /// Whether a session was last used more than `CLOCK_TOLERANCE` in the future. The caller must end such a
    /// session, because it would become valid in time.
    pub fn is_session_from_future(&self, hash: &TokenHash, now: Timestamp) -> Result<bool, StoreError> {
        let [.., latest] = valid_times(now);
        self.sql.exists("SELECT 1 FROM session WHERE hash = ?1 AND used_at > ?2", values![hash, latest])
    }

    /// All valid sessions, the most recently used first.
    pub fn sessions(&self, now: Timestamp) -> Result<Vec<Session>, StoreError> {
        let [used, created, latest] = valid_times(now);
        let list = format!(
            "SELECT {COLUMNS} FROM session WHERE {IS_VALID} ORDER BY used_at DESC, created_at DESC, hash"
        );
        self.sql.query_as(&list, values![used, created, latest])
    }
}

from_row! { Session { hash, user, created_at, used_at, is_mailed, is_trusted, client } }
