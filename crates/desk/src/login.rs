//! Logs users in: by a link that a command prints, or by one in a mail to an address of a user.
//!
//! A link in a mail works once, for ten minutes, and only in the browser that asked for it: that browser has
//! a cookie whose hash is stored with the link. Its URL consists of configured names only, because the client
//! chooses the `Host` header. The response to a request for a link is the same for all addresses, and is sent
//! before the mail is.

use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use minijinja::{Value, context};

use super::browser_name::describe_client;
use super::html::{Reply, see_other, set_cookie};
use super::login_sources::{MAX_LINKS, PERIOD};
use super::request::{Pairs, cookie, encode};
use super::role::find_user;
use super::route::{HOME, Page, Visit};
use frontdesk_deliver::smtp::SmtpOptions;
use frontdesk_deliver::user_mail::UserMail;
use frontdesk_forms::text::visible;
use frontdesk_http::{Address, ForwardedHeader, client_ip, reachable};
use frontdesk_inbox::login_session::{self, SecretToken};
use frontdesk_inbox::store::{DatabaseUrl, LOGIN_LIFETIME, LoginState, MAX_MAILED_LOGINS, StoreError};
use frontdesk_inbox::submission::delivery_outcome::Outcome;
use frontdesk_limits::{Admission, Source};

/// A mail with a login link for a user.
struct LoginMail {
    database: DatabaseUrl,
    smtp: SmtpOptions,
    user: String,
    browser: SecretToken,
    /// The URL of the web interface, without a slash at its end.
    base: String,
    /// The page to open after the login.
    to: Option<String>,
    site: String,
    /// A description of the browser that requested the link, such as `Firefox on Linux`.
    client: String,
    at: Timestamp,
}

impl LoginMail {
    /// Stores the link and sends the mail, unless the user has [`MAX_MAILED_LOGINS`] links that are still
    /// valid. Only logs a failure, because the response has already been sent.
    async fn send(self) {
        let Self { database, user, browser, at, .. } = &self;
        let created = {
            let (database, user, browser, at) = (database.clone(), user.clone(), browser.clone(), *at);
            let create = move || login_session::create_mailed_login(&database, &user, &browser, at);
            tokio::task::spawn_blocking(create).await
        };
        let token = match created {
            Ok(Ok(Some(token))) => token,
            Ok(Ok(None)) => {
                tracing::warn!(
                    user,
                    "a user has {MAX_MAILED_LOGINS} login links that are still valid: no mail was sent; the user can ask again when one has expired, which takes at most {} minutes",
                    LOGIN_LIFETIME.as_mins()
                );
                return;
            }
            Ok(Err(error)) => {
                tracing::warn!(user, %error, "a login link could not be stored: no mail was sent; the user can ask again");
                return;
            }
            Err(_) => {
                tracing::error!(
                    user,
                    "creating a login link ended in a panic: no mail was sent; the user can ask again"
                );
                return;
            }
        };
        let mail = UserMail {
            to: user,
            subject: if self.site.is_empty() {
                "Log in to the inbox".to_owned()
            } else {
                format!("Log in to the inbox of {}", self.site)
            },
            text: self.text(&token),
            id: format!("{}.login", uuid::Uuid::now_v7().simple()),
            at: *at,
        };
        let outcome = mail.send(&self.smtp).await;
        if let Outcome::Failed(failure) = outcome {
            // The reply is not logged, because replies of mail servers can contain personal data.
            tracing::warn!(user, cause = %failure.cause, "the mail with a login link could not be sent: test the mail channel with `frontdesk doctor`");
        }
    }

    /// The text of the mail: the link, which client requested it, and when.
    fn text(&self, token: &SecretToken) -> String {
        let to = self.to.as_ref().map(|path| format!("&to={}", encode(path))).unwrap_or_default();
        let at = self.at.to_zoned(TimeZone::system()).strftime("%-d %B %Y, %H:%M %Z");
        format!(
            "Open this link in the browser in which you asked for it:\r\n\r\n{}/login?token={}{to}\r\n\r\n\
             It works once and expires in ten minutes. {} asked for it on {at}.\r\n\r\n\
             If that was not you, ignore this mail: the link is useless in any other browser.\r\n",
            self.base,
            token.as_str(),
            self.client,
        )
    }
}

impl Visit {
    /// The page for a request without a login: a field for an address, if mails can be sent, and the command
    /// that prints a link. `values` has the state of the login, such as what is wrong with a link that was
    /// used.
    pub(super) fn login_page(&self, status: StatusCode, values: Value) -> Reply {
        let has_mail = self.options.login_mail.is_some();
        let site = self.options.title.clone();
        self.inbox.templates.page(status, "login.html", context! { has_mail, site, ..values })
    }

    /// Shows the button that uses up a login link, so that programs that only follow links do not use it up.
    /// 401 without a token, or if the link is not valid (any more), 403 if another browser has asked for it.
    pub(super) fn show_login(&self, query: &Pairs) -> Result<Reply, StoreError> {
        let Some(text) = query.get("token") else {
            return Ok(self.login_page(StatusCode::UNAUTHORIZED, context! {}));
        };
        let token = SecretToken::parse(text);
        let state = match &token {
            Some(token) => self.login_state(token)?,
            None => LoginState::Invalid,
        };
        Ok(match state {
            LoginState::Valid => {
                let token = token.as_ref().map(SecretToken::as_str);
                self.login_page(StatusCode::OK, context! { token, to => page_in(query) })
            }
            other => self.refusal(other),
        })
    }

    /// The login page, with the reason why a link was refused: 403 in another browser, otherwise 401.
    fn refusal(&self, state: LoginState) -> Reply {
        match state {
            LoginState::OtherBrowser => {
                self.login_page(StatusCode::FORBIDDEN, context! { is_other_browser => true })
            }
            _ => self.login_page(StatusCode::UNAUTHORIZED, context! { is_used => true }),
        }
    }

    /// Whether this browser can use the link with the token now.
    fn login_state(&self, token: &SecretToken) -> Result<LoginState, StoreError> {
        let browser = self.browser().map(|browser| browser.hash());
        let now = Timestamp::now();
        self.inbox.readers.with(|reader| reader.login_state(&token.hash(), browser.as_ref(), now))
    }

    /// The token in the cookie of a browser that has requested a link. `None` for other browsers.
    fn browser(&self) -> Option<SecretToken> {
        cookie(&self.head.headers, &self.cookies().login_name()).and_then(SecretToken::parse)
    }

    /// Mails a link if the form has an address and mails can be sent, otherwise uses up the link of its
    /// token.
    pub(super) fn log_in(&self, form: &Pairs) -> Result<Reply, StoreError> {
        match form.get("email") {
            Some(email) if self.options.login_mail.is_some() => {
                self.ask_for_link(email.trim(), page_in(form))
            }
            _ => self.use_link(form),
        }
    }

    /// Uses up a login link, starts a session and sets its cookie. Redirects to the page that the form names,
    /// or else to [`HOME`]. 401 if the link is not valid (any more), 403 if another browser has asked for it:
    /// the link then stays valid.
    fn use_link(&self, form: &Pairs) -> Result<Reply, StoreError> {
        let Some(token) = form.get("token").and_then(SecretToken::parse) else {
            return Ok(self.refusal(LoginState::Invalid));
        };
        // Read the state before writing: a guessed token must not cost a write transaction.
        let state = self.login_state(&token)?;
        if state != LoginState::Valid {
            return Ok(self.refusal(state));
        }
        let is_trusted = form.get("trust") == Some("yes");
        let (browser, now) = (self.browser(), Timestamp::now());
        let database = self.inbox.readers.database();
        let session =
            login_session::log_in(database, &token, browser.as_ref(), is_trusted, self.client(), now)?;
        let Some(session) = session else { return Ok(self.refusal(LoginState::Invalid)) };
        let cookies = self.cookies();
        let mut reply = see_other(&page_in(form).unwrap_or_else(|| HOME.to_owned()));
        set_cookie(&mut reply, cookies.session(&session, is_trusted));
        if browser.is_some() {
            set_cookie(&mut reply, cookies.login_removal());
        }
        Ok(reply)
    }

    /// Answers a request for a link in a mail: the same for all addresses, with a cookie for the browser.
    /// The mail is sent afterwards, if the address is that of a user. 429 if the client has asked too often.
    fn ask_for_link(&self, email: &str, to: Option<String>) -> Result<Reply, StoreError> {
        let header = self.options.forwarded_header.unwrap_or(ForwardedHeader::XForwardedFor);
        let source =
            Source::from(client_ip(self.peer, &self.head.headers, &self.options.trusted_proxies, header));
        let decision = self.inbox.login_requests.check(source, std::time::Instant::now());
        if decision.admission != Admission::Allowed {
            let mut reply = self.login_page(StatusCode::TOO_MANY_REQUESTS, context! { is_limited => true });
            reply.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("600"));
            return Ok(reply);
        }
        // Keep the browser's cookie: a new one would invalidate the link of an earlier request.
        let browser = self.browser().map_or_else(SecretToken::generate, Ok)?;
        let mut reply = self.login_page(StatusCode::OK, context! { is_sent => true });
        set_cookie(&mut reply, self.cookies().login(&browser));
        if let Some(smtp) = self.options.login_mail.clone() {
            self.mail_link(email.to_owned(), source, smtp, browser, to);
        }
        Ok(reply)
    }

    /// Starts to send a mail with a link if the address is that of a user, unless the URL of the inbox is not
    /// known, too many mails are being sent, or the client's network has asked for too many. Looks up the
    /// user in the background, so that the time of the response does not reveal the result. Failures are only
    /// logged.
    fn mail_link(
        &self,
        email: String,
        source: Source,
        smtp: SmtpOptions,
        browser: SecretToken,
        to: Option<String>,
    ) {
        let Some(base) = self.base_url() else {
            tracing::error!(
                "the URL of the inbox is not known, so no login link can be mailed: set `inbox.host` or `inbox.domain`"
            );
            return;
        };
        let Ok(permit) = self.inbox.login_mails.clone().try_acquire_owned() else {
            tracing::warn!(
                "too many login links are being mailed at once: no mail was sent for a further request"
            );
            return;
        };
        let mail = LoginMail {
            database: self.inbox.readers.database().clone(),
            smtp,
            user: email,
            browser,
            base,
            to,
            site: visible(&self.options.title),
            client: self.client(),
            at: Timestamp::now(),
        };
        let (inbox, options) = (self.inbox.clone(), self.options.clone());
        tokio::runtime::Handle::current().spawn(async move {
            match find_user(&options.users, &mail.user).map(|user| user.address.clone()) {
                Some(user) if inbox.login_sources.take(&user, source, mail.at) => {
                    LoginMail { user, ..mail }.send().await;
                }
                Some(user) => {
                    tracing::warn!(
                        user,
                        "a network has asked for {MAX_LINKS} login links for this user within {0} minutes, or too many networks have asked for links: no mail was sent; they can ask again in {0} minutes at the latest",
                        PERIOD.as_mins()
                    );
                }
                None => {}
            }
            drop(permit);
        });
    }

    /// Describes the browser that sent the request, such as `Firefox on Linux`.
    fn client(&self) -> String {
        let agent = self.head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        describe_client(agent.unwrap_or_default())
    }

    /// The URL of the web interface for links in mails, without a slash at its end: its domain, or the first
    /// of its names, or its address. A name has `https`, unless clients connect to the listener directly.
    /// `Host` decides only between `localhost` and the loopback address, because the client chooses it.
    /// `None` without any of these.
    fn base_url(&self) -> Option<String> {
        let own = self.inbox.address.as_ref().and_then(Address::tcp);
        if let Some(domain) = &self.options.domain {
            let port = own.map_or(self.options.tls_port, |own| own.port());
            return Some(if port == 443 {
                format!("https://{domain}")
            } else {
                format!("https://{domain}:{port}")
            });
        }
        let is_local = own.is_some_and(|own| own.ip().is_loopback());
        if let Some(name) = self.options.hosts.first() {
            // Without a trusted proxy, which would add TLS, clients reach the listener itself under this
            // name.
            let direct = own.filter(|_| !is_local && self.options.trusted_proxies.is_empty());
            let url = |own: std::net::SocketAddr| format!("http://{name}:{}", own.port());
            return Some(direct.map_or_else(|| format!("https://{name}"), url));
        }
        // The browser's cookie is valid only for the host name to which the browser sent this request.
        let host = self.head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if is_local && host.split(':').next() == Some("localhost") {
            return own.map(|own| format!("http://localhost:{}", own.port()));
        }
        own.map(|own| format!("http://{}", reachable(own)))
    }
}

/// The page to open after the login. `None` unless `to` is the path of a page, so that it cannot lead to
/// another site.
fn page_in(pairs: &Pairs) -> Option<String> {
    pairs.get("to").filter(|path| Page::parse(path).is_some()).map(str::to_owned)
}
