//! Authenticates the operator who sends a request: by a trusted proxy's header, or by a session's cookie.

use std::sync::{Arc, PoisonError};

use http::request::Parts;
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;

use super::options::DeskOptions;
use super::request::cookie;
use super::role::{Role, User, find_user, proxy_role};
use super::state::DeskState;
use frontdesk_forms::text::has_unsafe;
use frontdesk_http::trusted_proxies::all_proxies_report;
use frontdesk_http::{Address, Peer, Scheme, is_trusted};
use frontdesk_inbox::login_session::{self, SecretToken};
use frontdesk_inbox::store::{Editor, LOGIN_LIFETIME, Session, StoreError, TRUSTED_LIFETIME, TokenHash};

/// Maximum length of a user's name in a header, in characters.
const MAX_USER: usize = 100;

/// The authenticated user of a request.
#[derive(Clone)]
pub(super) struct InboxUser {
    pub(super) user: String,
    pub(super) role: Role,
    /// The value of the cookie, from which form tokens are computed.
    token: SecretToken,
    /// The hash of the session's token; `None` if a proxy names the user.
    pub(super) session: Option<TokenHash>,
    /// The value of `Set-Cookie` with a new token for forms, which the response must send. `None` if the
    /// request has one, or if the user has logged in.
    pub(super) new_cookie: Option<HeaderValue>,
}

impl InboxUser {
    /// The token that each form of this operator contains, so that another site cannot forge one (CSRF).
    pub(super) fn form_token(&self) -> String {
        self.token.form_token(&self.user)
    }

    /// Whether a form's token belongs to this operator. Takes the same time for all tokens of one length.
    pub(super) fn owns_form(&self, token: &str) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(token.as_bytes(), self.form_token().as_bytes())
            .is_ok()
    }

    /// Whether the session has not ended since the request was authenticated. Does not extend the session.
    /// Always true if a proxy names the user; false if the database cannot be read.
    pub(super) fn is_still_logged_in(&self, inbox: &DeskState) -> bool {
        let Some(hash) = self.session else { return true };
        let found = inbox.readers.with(|reader| reader.session(&hash, Timestamp::now()));
        matches!(found, Ok(Some(_)))
    }
}

/// Authenticates the operator. The user named by a trusted proxy takes precedence, and gets a new form token
/// if the request has none. If no trusted proxy names a valid user, the session cookie identifies the
/// operator, and the session is resumed ([`session::resume`]). Returns `None` without a valid session, or if
/// its user is no longer configured.
pub(super) fn identify(
    inbox: &DeskState,
    options: &DeskOptions,
    peer: Peer,
    scheme: Scheme,
    head: &Parts,
) -> Result<Option<InboxUser>, StoreError> {
    let cookies = Cookies::of(inbox, options, (peer, scheme), head);
    let trusted = options.user_header.as_ref().filter(|_| is_trusted(&options.trusted_proxies, peer));
    if let Some(user) = trusted.and_then(|header| user_in(head, header)) {
        let known = cookie(&head.headers, &cookies.form_name()).and_then(SecretToken::parse);
        let new = if known.is_none() { Some(SecretToken::generate()?) } else { None };
        let new_cookie = new.as_ref().map(|token| cookies.value(&cookies.form_name(), token));
        let Some(token) = known.or(new) else { return Ok(None) };
        let role = proxy_role(&options.users, &user);
        return Ok(Some(InboxUser { user, role, token, session: None, new_cookie }));
    }
    let Some(token) = cookie(&head.headers, &cookies.name()).and_then(SecretToken::parse) else {
        return Ok(None);
    };
    let database = inbox.readers.database();
    let found =
        inbox.readers.with(|reader| login_session::resume(database, reader, &token, Timestamp::now()))?;
    let Some(found) = found else { return Ok(None) };
    let Some(role) = session_role(&found, &options.users) else { return Ok(None) };
    Ok(Some(InboxUser { user: found.user, role, token, session: Some(found.hash), new_cookie: None }))
}

/// The role of a session: that of its user in the configuration; an admin if a command printed its link, for
/// which access to the server is needed. `None` if the user is no longer in the configuration.
fn session_role(session: &Session, users: &[User]) -> Option<Role> {
    match find_user(users, &session.user) {
        _ if !session.is_mailed => Some(Role::Admin),
        user => user.map(|user| user.role),
    }
}

/// Ends the sessions and mailed login links of users who are no longer in the configuration, so that they
/// stay ended if the users return: once after the start and each reload. Keeps links that a command printed,
/// and their sessions. Other requests do not wait for that, because the sessions are refused anyway. An error
/// is logged, and the next request tries again.
pub(super) fn end_sessions_of_removed_users(inbox: &DeskState, options: &Arc<DeskOptions>) {
    let known = || inbox.known_options.lock().unwrap_or_else(PoisonError::into_inner);
    // Each reload creates new options in memory, so compare their addresses.
    let previous = known().replace(Arc::downgrade(options));
    if previous.is_some_and(|previous| std::ptr::eq(previous.as_ptr(), Arc::as_ptr(options))) {
        return;
    }
    let ended = inbox.readers.with(|reader| {
        let sessions = reader.sessions(Timestamp::now())?;
        let is_removed = |session: &&Session| session_role(session, &options.users).is_none();
        let hashes: Vec<TokenHash> = sessions.iter().filter(is_removed).map(|session| session.hash).collect();
        let mut editor = Editor::open(inbox.readers.database())?.on_behalf_of("configuration");
        editor.remove_mailed_logins(&|user| find_user(&options.users, user).is_none())?;
        if hashes.is_empty() { Ok(0) } else { editor.revoke(Some(&hashes)) }
    });
    if let Err(error) = ended {
        *known() = None;
        tracing::warn!(%error, "could not find and end the sessions and login links of users who are no longer in `inbox.users`; such users are refused anyway, and the next request tries again");
    }
}

/// The user's name in a header, without white space at both ends. `None` if the header is missing or
/// repeated, or if the name is empty, longer than [`MAX_USER`] or has invisible characters. Proxies send
/// names in UTF-8 or in ISO 8859-1, which RFC 9110 §5.5 leaves to them.
fn user_in(head: &Parts, header: &HeaderName) -> Option<String> {
    let mut lines = head.headers.get_all(header).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let bytes = line.as_bytes();
    let name =
        str::from_utf8(bytes).map_or_else(|_| bytes.iter().copied().map(char::from).collect(), str::to_owned);
    let name = name.trim();
    let is_name = !name.is_empty() && name.chars().count() <= MAX_USER && !has_unsafe(name);
    is_name.then(|| name.to_owned())
}

/// The names and attributes of cookies for a request.
pub(super) struct Cookies {
    /// Whether the browser uses HTTPS.
    is_secure: bool,
    /// The listener's port, part of the cookies' names because a host's cookies are shared by all its ports.
    port: Option<u16>,
}

impl Cookies {
    /// The cookies of the browser that sent the request. The browser uses HTTPS if the connection does, or if
    /// the request comes from a trusted proxy and every entry of its `X-Forwarded-Proto` is `https`.
    pub(super) fn of(
        inbox: &DeskState,
        options: &DeskOptions,
        (peer, scheme): (Peer, Scheme),
        head: &Parts,
    ) -> Self {
        let is_from_proxy = is_trusted(&options.trusted_proxies, peer);
        let is_https = all_proxies_report("https", &head.headers);
        let port = inbox.address.as_ref().and_then(Address::tcp).map(|address| address.port());
        Self { is_secure: scheme == Scheme::Https || (is_from_proxy && is_https), port }
    }

    /// The name of the session's cookie, which ends with the listener's port, if it has one. Over HTTPS, the
    /// prefix `__Host-` makes browsers accept it only from this host.
    pub(super) fn name(&self) -> String {
        let prefix = if self.is_secure { "__Host-" } else { "" };
        let port = self.port.map(|port| format!("-{port}")).unwrap_or_default();
        format!("{prefix}frontdesk-inbox{port}")
    }

    /// The name of the cookie for users that a proxy names. Their form tokens are computed from its value.
    fn form_name(&self) -> String {
        format!("{}-form", self.name())
    }

    /// The name of the cookie that identifies a browser that has requested a login link.
    pub(super) fn login_name(&self) -> String {
        format!("{}-login", self.name())
    }

    /// A `Set-Cookie` value for a new session. The cookie ends with the browser's session or, on a trusted
    /// device, with the login.
    pub(super) fn session(&self, token: &SecretToken, is_trusted: bool) -> HeaderValue {
        let age =
            if is_trusted { format!("; Max-Age={}", TRUSTED_LIFETIME.as_secs()) } else { String::new() };
        self.strict_header(&format!("{}={}{age}", self.name(), token.as_str()))
    }

    /// A `Set-Cookie` value for a browser that has asked for a link. The browser also sends this cookie when
    /// a link in a web mail program leads to this site (`Lax`); the cookie alone permits nothing.
    pub(super) fn login(&self, token: &SecretToken) -> HeaderValue {
        let pair = format!("{}={}; Max-Age={}", self.login_name(), token.as_str(), LOGIN_LIFETIME.as_secs());
        self.header_for(&pair, "Lax")
    }

    /// A `Set-Cookie` value that removes the cookie of a browser that has requested a login link.
    pub(super) fn login_removal(&self) -> HeaderValue {
        self.strict_header(&format!("{}=; Max-Age=0", self.login_name()))
    }

    /// A `Set-Cookie` value for a cookie that ends with the browser's session.
    fn value(&self, name: &str, token: &SecretToken) -> HeaderValue {
        self.strict_header(&format!("{name}={}", token.as_str()))
    }

    /// A `Set-Cookie` value that removes the session's cookie.
    pub(super) fn removal(&self) -> HeaderValue {
        self.strict_header(&format!("{}=; Max-Age=0", self.name()))
    }

    /// Like [`Self::header_for`], with `SameSite=Strict`. `cookie` is `NAME=VALUE`, with `Max-Age` if it has
    /// one.
    fn strict_header(&self, cookie: &str) -> HeaderValue {
        self.header_for(cookie, "Strict")
    }

    /// A `Set-Cookie` value for a cookie that scripts cannot read. Adds `Secure` if the browser uses HTTPS.
    fn header_for(&self, pair: &str, same_site: &str) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("{pair}; Path=/; HttpOnly; SameSite={same_site}{secure}");
        // Tokens and names are ASCII, so the conversion does not fail.
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_may_name_users_in_any_script() {
        let header = HeaderName::from_static("remote-user");
        let user = |lines: &[&[u8]]| {
            let mut request = http::Request::builder();
            for line in lines {
                request = request.header(&header, *line);
            }
            user_in(&request.body(()).expect("a request").into_parts().0, &header)
        };
        for (line, name) in [
            ("ada".as_bytes(), "ada"),
            (" Zoë ".as_bytes(), "Zoë"),
            ("山田太郎".as_bytes(), "山田太郎"),
            (b"J\xfcrgen", "Jürgen"),
        ] {
            assert_eq!(user(&[line]).as_deref(), Some(name));
        }
        let long = "ä".repeat(MAX_USER + 1);
        let empty: &[u8] = b"";
        let refused: [&[&[u8]]; 6] = [
            &[],
            &[empty],
            &[b"ada", b"bob"],
            &["a\u{202e}b".as_bytes()],
            &[b"a\x85b\xff"],
            &[long.as_bytes()],
        ];
        for lines in refused {
            assert_eq!(user(lines), None, "{lines:?}");
        }
    }
}
