//! All URLs of the web interface, and the checks that precede every page.

use std::io::ErrorKind;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use minijinja::context;
use uuid::Uuid;

use super::app::InboxApp;
use super::auth::{Cookies, InboxUser, identify};
use super::body::{ChunkWriter, stream};
use super::html::{ICON, Reply, SCRIPT, STYLE, reply, see_other, set_cookie, stream_reply};
use super::page::PageRequest;
use super::request::{Pairs, read_form};
use super::{action, guard, live};
use crate::web::private_conns::PrivateConn;
use crate::web::socket::Peer;
use frontdesk_inbox::query::ListQuery;
use frontdesk_inbox::session::{self, SecretToken};
use frontdesk_inbox::store::{Filter, InboxReader, StoreError};
use frontdesk_inbox::submission::Submission;
use frontdesk_inbox::{csv, json};
use frontdesk_process::panics::{self, Part};

/// How long a request may take before a page says that it continues in the background.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where an operator begins.
const HOME: &str = "/?state=open";

/// Answers a request on the connection `conn`.
pub(super) async fn respond(
    inbox: &Arc<InboxApp>,
    conn: &Arc<PrivateConn>,
    peer: Peer,
    request: Request<Incoming>,
) -> Reply {
    let (head, body) = request.into_parts();
    let names = inbox.app.snapshot.load().options.inbox_pages.hosts.clone();
    if let Err(refusal) = guard::check(&head, &inbox.address, &names) {
        return plain(StatusCode::FORBIDDEN, refusal.sentence());
    }
    let form = match head.method {
        Method::GET | Method::HEAD => None,
        Method::POST => match read_form(&head.headers, body).await {
            Some(form) => Some(form),
            None => return plain(StatusCode::BAD_REQUEST, "The form is incomplete or too long."),
        },
        _ => return plain(StatusCode::METHOD_NOT_ALLOWED, "Allowed methods: GET, HEAD, POST."),
    };
    let answering = conn.answer();
    match head.uri.path() {
        "/inbox.css" => return reply(StatusCode::OK, "text/css; charset=utf-8", STYLE),
        "/inbox.js" => return reply(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT),
        "/icon.svg" | "/favicon.ico" => return reply(StatusCode::OK, "image/svg+xml", ICON),
        _ => {}
    }
    let app = inbox.clone();
    let work = tokio::task::spawn_blocking(move || {
        panics::catch(Part::Inbox, || {
            panics::inject("inbox-page", head.uri.path());
            answer(&app, peer, &head, form.as_ref())
        })
    });
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(Ok(mut reply))) => {
            reply.body_mut().keep_busy(answering);
            reply
        }
        Ok(Ok(Err(panic))) => {
            tracing::error!("{panic}: a page of the inbox cannot be shown");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "This page cannot be shown.")
        }
        Ok(Err(_)) => plain(StatusCode::INTERNAL_SERVER_ERROR, "This page cannot be shown."),
        Err(_) => inbox.templates.message(
            StatusCode::OK,
            "This takes longer",
            "The change continues in the background. The log shows how far it got.",
        ),
    }
}

fn plain(status: StatusCode, sentence: &str) -> Reply {
    reply(status, "text/plain; charset=utf-8", format!("{sentence}\n"))
}

/// Identifies the operator and answers the request, on a thread that may block.
fn answer(inbox: &Arc<InboxApp>, peer: Peer, head: &Parts, form: Option<&Pairs>) -> Reply {
    let query = Pairs::parse(head.uri.query().unwrap_or_default());
    let answered = match (head.uri.path(), form) {
        ("/login", None) => show_login(inbox, &query),
        ("/login", Some(form)) => log_in(inbox, peer, head, form),
        (path, form) => match identify(inbox, peer, head) {
            Ok(Some(operator)) => {
                let mut answered = answer_operator(inbox, &operator, path, &query, form, head, peer);
                if let (Ok(reply), Some(cookie)) = (&mut answered, operator.new_cookie) {
                    set_cookie(reply, cookie);
                }
                answered
            }
            Ok(None) => {
                let path = is_plain_path(path).then_some(path);
                Ok(inbox.templates.page(StatusCode::UNAUTHORIZED, "login.html", context! { path }))
            }
            Err(error) => Err(error),
        },
    };
    answered.unwrap_or_else(|error| {
        tracing::warn!(%error, "a page of the inbox could not be shown");
        let sentence = format!("The inbox cannot be used at the moment: {error}.");
        inbox.templates.message(StatusCode::SERVICE_UNAVAILABLE, "The inbox is not available", &sentence)
    })
}

/// Whether a link to this path stays on this site: `//host/` would not.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-.".contains(&byte);
    path.bytes().all(is_plain) && !path.contains("//")
}

/// Shows the button that uses up a login link: programs that only follow links must not use it up.
fn show_login(inbox: &InboxApp, query: &Pairs) -> Result<Reply, StoreError> {
    let token = query.get("token").and_then(SecretToken::parse);
    let is_valid = match &token {
        Some(token) => inbox.readers.with(|reader| reader.has_login(&token.hash(), Timestamp::now()))?,
        None => false,
    };
    let status = if is_valid { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    let token = token.filter(|_| is_valid);
    let values = context! { token => token.as_ref().map(SecretToken::as_str), is_used => query.get("token").is_some() };
    Ok(inbox.templates.page(status, "login.html", values))
}

fn log_in(inbox: &InboxApp, peer: Peer, head: &Parts, form: &Pairs) -> Result<Reply, StoreError> {
    let place = inbox.readers.place();
    let token = form.get("token").and_then(SecretToken::parse);
    let now = Timestamp::now();
    let session = match &token {
        // A guess must not cost a write transaction.
        Some(token) if inbox.readers.with(|reader| reader.has_login(&token.hash(), now))? => {
            session::log_in(place, token, now)?
        }
        _ => None,
    };
    let Some(session) = session else {
        let values = context! { is_used => true };
        return Ok(inbox.templates.page(StatusCode::UNAUTHORIZED, "login.html", values));
    };
    let cookies = Cookies::of(inbox, peer, head);
    let mut reply = see_other(HOME);
    set_cookie(&mut reply, cookies.value(&cookies.name(), &session));
    Ok(reply)
}

/// Responds to an authenticated request.
fn answer_operator(
    inbox: &Arc<InboxApp>,
    operator: &InboxUser,
    path: &str,
    query: &Pairs,
    form: Option<&Pairs>,
    head: &Parts,
    peer: Peer,
) -> Result<Reply, StoreError> {
    let request = PageRequest::new(inbox, operator, query);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let Some(form) = form else {
        return Ok(match parts[..] {
            [""] => request.list()?,
            ["review"] => request.review()?,
            ["channels"] => request.channels()?,
            ["statistics"] => request.statistics()?,
            ["log"] => request.log()?,
            ["sessions"] => request.sessions()?,
            ["events"] => match live::open_stream(inbox, operator.clone()) {
                Some(body) => stream_reply("text/event-stream", body),
                None => plain(StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open."),
            },
            ["export.csv"] => export(inbox, query, true),
            ["export.jsonl"] => export(inbox, query, false),
            ["submissions", id] => match Uuid::try_parse(id) {
                Ok(id) => request.submission(id)?.unwrap_or_else(|| not_found(inbox)),
                Err(_) => not_found(inbox),
            },
            _ => not_found(inbox),
        });
    };
    if !form.get("form_token").is_some_and(|token| operator.owns_form(token)) {
        return Ok(action::refuse_form(inbox));
    }
    let answered = match parts[..] {
        ["review"] => action::change_selected(&request, form)?,
        ["sessions"] => action::revoke(&request, form)?,
        ["channels", "test"] => {
            action::test_channel(inbox, operator, form.get("channel").unwrap_or_default())?
        }
        ["submissions", id] => match Uuid::try_parse(id) {
            Ok(id) => action::change_one(&request, id, form)?,
            Err(_) => None,
        },
        ["logout"] => {
            action::log_out(inbox, operator)?;
            let mut reply = see_other("/login");
            set_cookie(&mut reply, Cookies::of(inbox, peer, head).removal());
            Some(reply)
        }
        _ => None,
    };
    Ok(answered.unwrap_or_else(|| not_found(inbox)))
}

fn not_found(inbox: &InboxApp) -> Reply {
    inbox.templates.message(
        StatusCode::NOT_FOUND,
        "There is nothing here",
        "The submission may have been removed, or the address is wrong.",
    )
}

/// Streams all submissions of a list as a file.
fn export(inbox: &Arc<InboxApp>, query: &Pairs, is_csv: bool) -> Reply {
    let Ok(place) = inbox.exports.clone().try_acquire_owned() else {
        let sentence = "Other exports are still being downloaded. Try again in a minute.";
        let mut reply =
            inbox.templates.message(StatusCode::SERVICE_UNAVAILABLE, "Too many exports", sentence);
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
        return reply;
    };
    let query = ListQuery::from_pairs(query.iter()).from_start();
    let (sender, body) = stream();
    let inbox = inbox.clone();
    tokio::runtime::Handle::current().spawn_blocking(move || {
        let written = panics::catch(Part::Inbox, || {
            inbox.readers.with(|reader| {
                panics::inject("export", "");
                let mut out = ChunkWriter::new(sender);
                Ok(write_export(reader, &query, is_csv, &mut out).and_then(|()| out.finish()))
            })
        });
        let failure = match written {
            Ok(Ok(Ok(()))) => None,
            // The client is gone, or too slow.
            Ok(Ok(Err(error))) if error.kind() == ErrorKind::BrokenPipe => None,
            Ok(Ok(Err(error))) => Some(error.to_string()),
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(panic.to_string()),
        };
        if let Some(error) = failure {
            tracing::warn!(%error, "an export of the inbox failed: its download is cut off");
        }
        drop(place);
    });
    let (media_type, name) = if is_csv {
        ("text/csv; charset=utf-8", "attachment; filename=\"submissions.csv\"")
    } else {
        ("application/jsonl", "attachment; filename=\"submissions.jsonl\"")
    };
    let mut response = stream_reply(media_type, body);
    let disposition = HeaderName::from_static("content-disposition");
    response.headers_mut().insert(disposition, HeaderValue::from_static(name));
    response
}

fn write_export(
    reader: &InboxReader,
    query: &ListQuery,
    is_csv: bool,
    out: &mut ChunkWriter,
) -> std::io::Result<()> {
    let words = query.words();
    let filter = Filter { limit: None, ..query.filter() };
    let listing = reader.list(&filter).map_err(std::io::Error::other)?;
    let is_wanted = |found: &Result<Submission, StoreError>| match (&words, found) {
        (Some(words), Ok(submission)) => words.are_in(&submission.fields),
        _ => true,
    };
    let mut found = listing.filter(is_wanted).map(|found| found.map_err(std::io::Error::other));
    if is_csv {
        csv::write(&mut found, true, &TimeZone::system(), false, out)?;
    } else {
        json::write(&mut found, out)?;
    }
    out.flush()
}
