//! Login links and sessions of the web interface. Both are random tokens; the inbox stores only their hashes.

use jiff::Timestamp;

use crate::store::{
    DatabaseUrl, Editor, InboxReader, NewSession, SESSION_TOUCH_INTERVAL, Session, StoreError, TokenHash,
};

/// The number of random bytes in a token.
const TOKEN_BYTES: usize = 32;

/// A random token of 256 bits, as 64 hexadecimal digits. It gives access to the inbox, so it has no `Debug`
/// output and must not be logged.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretToken(String);

impl SecretToken {
    /// Generates a token with a cryptographic random number generator. Fails if that generator fails.
    pub fn generate() -> Result<SecretToken, StoreError> {
        let mut bytes = [0; TOKEN_BYTES];
        let random = aws_lc_rs::rand::fill(&mut bytes);
        random.map_err(|_| {
            let error = std::io::Error::other("the operating system's generator failed");
            StoreError::io("random numbers".as_ref(), error)
        })?;
        Ok(SecretToken(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Parses the digits of a token. `None` unless they are 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<SecretToken> {
        let is_token = text.len() == 2 * TOKEN_BYTES
            && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_token.then(|| SecretToken(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hash that the database stores.
    pub fn hash(&self) -> TokenHash {
        *blake3::hash(self.0.as_bytes()).as_bytes()
    }

    /// The CSRF token that each form must send back, for this session and user. Another site can neither read
    /// nor compute it.
    pub fn form_token(&self, user: &str) -> String {
        let key = blake3::derive_key("frontdesk 2026-11 inbox form token", self.0.as_bytes());
        blake3::keyed_hash(&key, user.as_bytes()).to_hex().to_string()
    }
}

/// Creates the token of a login link for a user, valid once and for ten minutes. Replaces the oldest unused
/// link if there are too many.
pub fn create_login(place: &DatabaseUrl, user: &str, now: Timestamp) -> Result<SecretToken, StoreError> {
    let token = SecretToken::generate()?;
    Editor::open(place)?.on_behalf_of(user).create_login(&token.hash(), now)?;
    Ok(token)
}

/// Creates the token of a login link in a mail to a user, valid once and for ten minutes, for the browser
/// with the cookie `browser` only. `None` if the user has too many unused ones.
pub fn create_mailed_login(
    place: &DatabaseUrl,
    user: &str,
    browser: &SecretToken,
    now: Timestamp,
) -> Result<Option<SecretToken>, StoreError> {
    let token = SecretToken::generate()?;
    let mut editor = Editor::open(place)?.on_behalf_of(user);
    let is_stored = editor.create_mailed_login(&token.hash(), &browser.hash(), now)?;
    Ok(is_stored.then_some(token))
}

/// Uses up a login token, and starts a session, which replaces the least recently used one if there are too
/// many. With `is_trusted`, the session lasts for 30 days, otherwise until a day passes without a request.
/// Returns the session's token, or `None` if the login token is unknown, expired or used, or if another
/// browser than that with the cookie `browser` has asked for it.
pub fn log_in(
    place: &DatabaseUrl,
    login: &SecretToken,
    browser: Option<&SecretToken>,
    is_trusted: bool,
    client: String,
    now: Timestamp,
) -> Result<Option<SecretToken>, StoreError> {
    let token = SecretToken::generate()?;
    let session = NewSession { hash: token.hash(), is_trusted, client };
    let browser = browser.map(SecretToken::hash);
    let user = Editor::open(place)?.log_in(&login.hash(), browser.as_ref(), &session, now)?;
    Ok(user.map(|_| token))
}

/// Returns the session with this token, and records its use, at most once a minute, which extends it unless
/// it is trusted; a failure to do so is ignored. `None` if it has ended or expired. Also ends a session that
/// was last used more than five minutes in the future, because a clock was ahead, and returns `None`.
pub fn resume(
    place: &DatabaseUrl,
    reader: &InboxReader,
    token: &SecretToken,
    now: Timestamp,
) -> Result<Option<Session>, StoreError> {
    let hash = token.hash();
    let Some(session) = reader.session(&hash, now)? else {
        if reader.is_session_from_future(&hash, now)? {
            Editor::open(place)?.revoke(Some(&[hash]))?;
        }
        return Ok(None);
    };
    if now.duration_since(session.used_at) >= SESSION_TOUCH_INTERVAL {
        // Ignore a failure, for example on a full disk: the session is then valid, but not extended.
        let _ = Editor::open(place).and_then(|mut editor| editor.touch_session(&hash, now));
    }
    Ok(Some(session))
}

/// The sessions whose short id begins with `prefix`, which must be in lower case; none if it is empty.
pub fn find<'a>(sessions: &'a [Session], prefix: &str) -> Vec<&'a Session> {
    let matches = |session: &&Session| !prefix.is_empty() && session.short_id().starts_with(prefix);
    sessions.iter().filter(matches).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_64_hexadecimal_digits() {
        let (one, other) = (SecretToken::generate().unwrap(), SecretToken::generate().unwrap());
        assert!(one != other && SecretToken::parse(one.as_str()).is_some_and(|parsed| parsed == one));
        let digits = "0123456789abcdef".repeat(4);
        assert!(SecretToken::parse(&digits).is_some());
        for wrong in
            ["", &digits[1..], &format!("{digits}0"), &digits.to_uppercase(), &digits.replace('0', "-")]
        {
            assert!(SecretToken::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_form_token_belongs_to_a_session_and_a_user() {
        let (one, other) = (SecretToken::generate().unwrap(), SecretToken::generate().unwrap());
        assert_eq!(one.form_token("ada"), one.form_token("ada"));
        assert_ne!(one.form_token("ada"), one.form_token("bob"));
        assert_ne!(one.form_token("ada"), other.form_token("ada"));
        assert!(!one.form_token("ada").contains(one.as_str()));
    }
}
