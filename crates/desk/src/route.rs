//! All URLs of the web interface, their parameters, and the checks that precede every page.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, StatusCode};
use minijinja::context;
use uuid::Uuid;

use super::action::{Change, Removal, Revocation, SubmissionForm};
use super::annotations::WorkChange;
use super::auth::{Cookies, InboxUser, identify};
use super::export::export;
use super::html::{Reply, reply, see_other, set_cookie, stream_reply};
use super::list_query::ListQuery;
use super::options::DeskOptions;
use super::pages::PageRequest;
use super::request::{Pairs, read_form};
use super::response_body::DeskBody;
use super::role::Role;
use super::state::DeskState;
use super::submitter::person_in;
use super::{action, auth, cross_site_guard, html, live};
use frontdesk_http::{Address, Handler, Peer, Request, RequestContext, Scheme};
use frontdesk_inbox::store::{DatabaseUrl, Hash, Store, StoreError};
use frontdesk_process::panics::{self, Part};

/// How long a request may take before [`timeout_message`] replaces its page.
const PATIENCE: Duration = Duration::from_secs(30);
/// The page after the login: the open submissions.
pub(super) const HOME: &str = "/?state=open";
/// Maximum number of submissions that one form may change; further ones are ignored.
const MAX_IDS: usize = 500;

/// A page of the interface, selected by the path of the URL.
pub(super) enum Page {
    List,
    Review,
    Channels,
    Statistics,
    Log,
    Sessions,
    /// The event stream that keeps lists in browsers up to date.
    Events,
    Export {
        is_csv: bool,
    },
    Submission(Uuid),
    Person(Hash),
}

impl Page {
    /// Returns the page at `path`; `None` if there is none.
    pub(super) fn parse(path: &str) -> Option<Self> {
        Some(match path {
            "/" => Self::List,
            "/review" => Self::Review,
            "/channels" => Self::Channels,
            "/statistics" => Self::Statistics,
            "/log" => Self::Log,
            "/sessions" => Self::Sessions,
            "/events" => Self::Events,
            "/export.csv" => Self::Export { is_csv: true },
            "/export.jsonl" => Self::Export { is_csv: false },
            _ => match person_in(path) {
                Some(person) => Self::Person(person),
                None => Self::Submission(submission_in(path)?),
            },
        })
    }
}

/// A submitted form, with the values from its path and its fields.
enum Form {
    /// A change to the submissions selected in a list, and the path of that list.
    Selected(Vec<Uuid>, Change, String),
    Submission(Uuid, SubmissionForm),
    /// The change to undo, and the path to return to.
    Undo(Uuid, String),
    SaveView {
        name: String,
        list: ListQuery,
        is_removal: bool,
    },
    ErasePerson {
        person: Hash,
        is_confirmed: bool,
    },
    Sessions(Revocation),
    TestChannel(String),
    LogOut,
}

impl Form {
    /// `None` if there is no form at this path, if its action is not known, or if a field that it needs is
    /// missing or has an invalid id. Sorts the ids of selected submissions, and skips those that are invalid,
    /// repeated or beyond [`MAX_IDS`].
    fn parse(path: &str, fields: &Pairs) -> Option<Self> {
        let action = fields.get("action").unwrap_or_default();
        let removal =
            |is_erasure| Removal { is_erasure, is_confirmed: fields.get("confirmed") == Some("yes") };
        Some(match path {
            "/selected" => {
                let ids = fields.all("id").filter_map(|id| Uuid::try_parse(id).ok());
                let mut ids: Vec<Uuid> = ids.take(MAX_IDS).collect();
                ids.sort_unstable();
                ids.dedup();
                let change = match action {
                    "discard" => Change::Remove(removal(false)),
                    action => change_in(action, fields)?,
                };
                let is_from_review = fields.get("from") == Some("review");
                let back = if is_from_review { "/review".to_owned() } else { list_in(fields).path() };
                Self::Selected(ids, change, back)
            }
            "/undo" => {
                let on = fields.get("on").and_then(|id| Uuid::try_parse(id).ok());
                let back = match on {
                    Some(id) => action::submission_path(id),
                    None if fields.get("from") == Some("review") => "/review".to_owned(),
                    None => list_in(fields).path(),
                };
                Self::Undo(Uuid::try_parse(fields.get("undo")?).ok()?, back)
            }
            "/views" => Self::SaveView {
                name: fields.get("name")?.to_owned(),
                list: list_in(fields).first_page(),
                is_removal: match action {
                    "save" => false,
                    "remove" => true,
                    _ => return None,
                },
            },
            "/sessions" => Self::Sessions(match action {
                "own" => Revocation::Own,
                "all" => Revocation::Everyone,
                "user" => Revocation::User(fields.get("user")?.to_owned()),
                // The buttons that end one session have the name `id` instead of `action`.
                "" => Revocation::One(fields.get("id")?.to_owned()),
                _ => return None,
            }),
            "/channels/test" => Self::TestChannel(fields.get("channel")?.to_owned()),
            "/logout" => Self::LogOut,
            path if path.starts_with("/people/") => {
                if action != "erase" {
                    return None;
                }
                Self::ErasePerson { person: person_in(path)?, is_confirmed: removal(true).is_confirmed }
            }
            _ => {
                let change = match action {
                    "discard" => Change::Remove(removal(false)),
                    "erase" => Change::Remove(removal(true)),
                    action => change_in(action, fields)?,
                };
                let list = fields.get("view").is_some().then(|| list_in(fields));
                Self::Submission(submission_in(path)?, SubmissionForm { change, list })
            }
        })
    }
}

/// Returns the change of a submission that `action` names; `None` for a removal or an unknown name, or if a
/// field that the change needs is missing.
fn change_in(action: &str, fields: &Pairs) -> Option<Change> {
    Change::parse(action).or_else(|| Some(Change::Work(WorkChange::parse(action, fields)?)))
}

/// The list whose URL is in a form; the default list without one. Only known parameters are taken from it, so
/// it cannot lead to another site.
fn list_in(fields: &Pairs) -> ListQuery {
    let query = fields.get("view").and_then(|view| view.split_once('?')).map_or("", |(_, query)| query);
    ListQuery::from_pairs(Pairs::parse(query.as_bytes()).iter())
}

/// A request for a page or a change.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Page(&'a Page),
    Change(&'a Form),
}

/// The lowest role that permits a request. [`action::revoke`] also checks whose sessions end.
fn needed_role(wanted: Wanted<'_>) -> Role {
    match wanted {
        Wanted::Page(page) => match page {
            Page::List
            | Page::Review
            | Page::Channels
            | Page::Statistics
            | Page::Log
            | Page::Sessions
            | Page::Events
            | Page::Export { .. }
            | Page::Person(_)
            | Page::Submission(_) => Role::Read,
        },
        Wanted::Change(form) => match form {
            Form::Sessions(Revocation::One(_) | Revocation::Own) | Form::LogOut => Role::Read,
            Form::Selected(..) | Form::Undo(..) | Form::SaveView { .. } | Form::ErasePerson { .. } => {
                Role::Edit
            }
            Form::Submission(_, form) => match form.change {
                Change::Hold
                | Change::Release { .. }
                | Change::Retry
                | Change::Deliver
                | Change::SetDone(_)
                | Change::SetSpam(_)
                | Change::UndoSpam
                | Change::MarkUnread
                | Change::Work(_)
                | Change::Remove(_) => Role::Edit,
            },
            Form::Sessions(Revocation::User(_) | Revocation::Everyone) | Form::TestChannel(_) => Role::Admin,
        },
    }
}

/// The id of the submission in a path such as `/submissions/ID`.
fn submission_in(path: &str) -> Option<Uuid> {
    Uuid::try_parse(path.strip_prefix("/submissions/")?).ok()
}

/// Serves the web interface.
pub struct Desk(Arc<DeskState>);

impl Desk {
    /// Starts to watch the inbox in `database` for changes. Requires a Tokio runtime. `address` is the
    /// listener's, if it has its own.
    pub fn start(store: Store, database: DatabaseUrl, address: Option<Address>) -> Self {
        let state = Arc::new(DeskState::new(store, database.clone(), address));
        tokio::spawn(live::watch_list(state.clone(), database));
        Self(state)
    }

    /// The refusal of a request that another site may have caused, that is for another host, or whose source
    /// has sent too many requests without a login; `None` if the request is permitted. Assets are exempt from
    /// that limit.
    fn refuse(&self, options: &DeskOptions, context: &RequestContext, head: &Parts) -> Option<Reply> {
        let (listen, domain) = (self.0.address.as_ref(), options.domain.as_ref());
        if let Err(refusal) = cross_site_guard::check(head, context.scheme, listen, domain, &options.hosts) {
            return Some(plain(refusal.status(), refusal.sentence()));
        }
        let is_exhausted = self.0.strangers.is_exhausted(&options.trusted_proxies, context);
        (is_exhausted && !is_asset(head.uri.path())).then(|| {
            let sentence = "Too many requests without a login came from your network. Try again in a minute.";
            let mut refusal = plain(StatusCode::TOO_MANY_REQUESTS, sentence);
            refusal.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
            refusal
        })
    }
}

impl Handler for Desk {
    type Snapshot = DeskOptions;
    type Body = DeskBody;

    /// Checks the request, reads its form, and responds on a blocking thread. If that takes longer than
    /// `PATIENCE`, the response says so: see `timeout_message`. Assets need no login and no thread. A panic
    /// is logged, and the response is then a 500.
    async fn respond(&self, options: &Arc<DeskOptions>, request: Request<'_>) -> Reply {
        let Request { head, body, context } = request;
        let inbox = &self.0;
        if let Some(refusal) = self.refuse(options, &context, head) {
            return refusal;
        }
        let form = match head.method {
            Method::GET | Method::HEAD => None,
            Method::POST => match read_form(&head.headers, body).await {
                Some(form) => Some(form),
                None => {
                    return plain(
                        StatusCode::BAD_REQUEST,
                        "The form is too long, incomplete or of another type, or it arrived too slowly.",
                    );
                }
            },
            _ => return plain(StatusCode::METHOD_NOT_ALLOWED, "Allowed methods: GET, HEAD, POST."),
        };
        if let Some(asset) = html::asset(head.uri.path(), &head.headers) {
            return asset;
        }
        let is_change = form.is_some();
        let visit = Visit {
            inbox: inbox.clone(),
            options: options.clone(),
            peer: context.peer,
            scheme: context.scheme,
            head: head.clone(),
        };
        let work = tokio::task::spawn_blocking(move || {
            panics::catch(Part::Inbox, || {
                panics::inject("inbox-page", visit.head.uri.path());
                visit.answer(form.as_ref())
            })
        });
        match tokio::time::timeout(PATIENCE, work).await {
            Ok(Ok(Ok(reply))) => {
                inbox.strangers.count(&options.trusted_proxies, &context, reply.status());
                reply
            }
            Ok(Ok(Err(panic))) => {
                tracing::error!(
                    path = head.uri.path(),
                    "{panic} ended a request to the inbox; the response is a 500"
                );
                plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "This page cannot be shown. The server's log has the reason.",
                )
            }
            Ok(Err(_)) => plain(StatusCode::INTERNAL_SERVER_ERROR, "This page cannot be shown."),
            Err(_) => {
                let (status, heading, sentence) = timeout_message(is_change);
                inbox.templates.message(status, heading, sentence)
            }
        }
    }
}

/// The status, heading and text of the page shown after [`PATIENCE`]. A change continues in the background.
fn timeout_message(is_change: bool) -> (StatusCode, &'static str, &'static str) {
    if is_change {
        let sentence = "The change continues in the background, and then appears in the log.";
        (StatusCode::ACCEPTED, "This is taking longer than usual", sentence)
    } else {
        let sentence = "The server could not read the inbox in time. Try again in a moment.";
        (StatusCode::SERVICE_UNAVAILABLE, "This took too long", sentence)
    }
}

/// The page for a user whose role is not sufficient.
pub(super) fn role_message(inbox: &DeskState, role: Role, needed: Role) -> Reply {
    let sentence = format!(
        "This needs the role \"{needed}\", and yours is \"{role}\". Nothing was changed. The operator of this server \
         sets the roles in `inbox.users`."
    );
    inbox.templates.message(StatusCode::FORBIDDEN, "You may not do this", &sentence)
}

fn plain(status: StatusCode, sentence: &str) -> Reply {
    reply(status, "text/plain; charset=utf-8", format!("{sentence}\n"))
}

/// A request that [`cross_site_guard::check`] has permitted.
pub(super) struct Visit {
    pub(super) inbox: Arc<DeskState>,
    pub(super) options: Arc<DeskOptions>,
    pub(super) peer: Peer,
    pub(super) scheme: Scheme,
    pub(super) head: Parts,
}

impl Visit {
    /// Authenticates the operator and responds, on a thread that may block. If this fails, 401 with a page
    /// that explains how to log in. The page `/login` needs no operator, and redirects operators who are
    /// logged in. 503, which is logged, if the inbox cannot be read or changed. Also ends the sessions of
    /// users who are no longer in the configuration.
    fn answer(&self, form: Option<&Pairs>) -> Reply {
        let Self { inbox, options, peer, scheme, head } = self;
        let query = Pairs::parse(head.uri.query().unwrap_or_default().as_bytes());
        auth::end_sessions_of_removed_users(inbox, options);
        let answered = match (head.uri.path(), form) {
            // Also redirect if `identify` fails: the home page reports the error.
            ("/login", None) if !matches!(identify(inbox, options, *peer, *scheme, head), Ok(None)) => {
                Ok(see_other(HOME))
            }
            ("/login", None) => self.show_login(&query),
            ("/login", Some(form)) => self.log_in(form),
            (path, form) => match identify(inbox, options, *peer, *scheme, head) {
                Ok(Some(operator)) => {
                    let mut answered = self.respond_to_operator(&operator, path, &query, form);
                    if let (Ok(reply), Some(cookie)) = (&mut answered, operator.new_cookie) {
                        set_cookie(reply, cookie);
                    }
                    answered
                }
                Ok(None) => {
                    let to = Page::parse(path).is_some().then_some(path);
                    let path = is_plain_path(path).then_some(path).filter(|_| form.is_none());
                    // If the session ended while the operator wrote a note, the login page shows the note, so
                    // that it is not lost.
                    let lost = form.and_then(|form| form.get("note")).filter(|note| !note.trim().is_empty());
                    Ok(self.login_page(StatusCode::UNAUTHORIZED, context! { path, to, lost }))
                }
                Err(error) => Err(error),
            },
        };
        answered.unwrap_or_else(|error| {
            tracing::warn!(path = self.head.uri.path(), %error, "a request to the inbox failed; the response is a 503");
            let sentence = format!("The inbox cannot be used at the moment: {error}.");
            inbox.templates.message(StatusCode::SERVICE_UNAVAILABLE, "The inbox is not available", &sentence)
        })
    }

    /// Responds to an authenticated request. 403, without a change, if a form's token is not the operator's
    /// (CSRF), or if the operator's role is not sufficient; 404 if the page, form, submission, person or
    /// channel does not exist.
    fn respond_to_operator(
        &self,
        operator: &InboxUser,
        path: &str,
        query: &Pairs,
        form: Option<&Pairs>,
    ) -> Result<Reply, StoreError> {
        let inbox = &self.inbox;
        let request = PageRequest::new(inbox, &self.options, operator, query);
        let found = match form {
            None => match Page::parse(path) {
                Some(page) => match self.refuse(operator, Wanted::Page(&page)) {
                    Some(refusal) => Some(refusal),
                    None => self.show(&request, &page)?,
                },
                None => None,
            },
            Some(form) if form.get("form_token").is_some_and(|token| operator.owns_form(token)) => {
                match Form::parse(path, form) {
                    Some(form) => match self.refuse(operator, Wanted::Change(&form)) {
                        Some(refusal) => Some(refusal),
                        None => self.make_change(&request, form)?,
                    },
                    None => None,
                }
            }
            Some(_) => Some(inbox.templates.message(
                StatusCode::FORBIDDEN,
                "This form has expired",
                "Go back, reload the page, and send the form again. Nothing was changed.",
            )),
        };
        Ok(found.unwrap_or_else(|| {
            inbox.templates.message(
                StatusCode::NOT_FOUND,
                "There is nothing here",
                "The submission may have been removed, or the address is wrong.",
            )
        }))
    }

    /// The response to a user whose role is not sufficient: 403 with a page that names the needed role.
    /// `None` if the role is sufficient.
    fn refuse(&self, operator: &InboxUser, wanted: Wanted<'_>) -> Option<Reply> {
        let needed = needed_role(wanted);
        (operator.role < needed).then(|| {
            tracing::info!(user = %operator.user, role = %operator.role, %needed, path = self.head.uri.path(), "refused a request to the inbox: the user's role is not sufficient");
            role_message(&self.inbox, operator.role, needed)
        })
    }

    /// The response to a GET request: a page, a download or a stream of events (503 if too many are open).
    /// `None` if the submission or the person does not exist.
    fn show(&self, request: &PageRequest<'_>, page: &Page) -> Result<Option<Reply>, StoreError> {
        let inbox = &self.inbox;
        Ok(Some(match page {
            Page::List => request.list()?,
            Page::Review => request.review()?,
            Page::Channels => request.channels()?,
            Page::Statistics => request.statistics()?,
            Page::Log => request.log()?,
            Page::Sessions => request.sessions()?,
            Page::Events => match live::open_stream(inbox, request.operator.clone()) {
                Some(body) => stream_reply("text/event-stream", body),
                None => plain(StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open."),
            },
            Page::Export { is_csv } => {
                export(inbox, &request.query, request.filter_of(&request.query), *is_csv)
            }
            Page::Submission(id) => return request.submission(*id),
            Page::Person(person) => return request.person(person),
        }))
    }

    /// Makes the change that a form requests. Logging out also removes the cookie. `None` if the channel to
    /// test or the person to erase does not exist.
    fn make_change(&self, request: &PageRequest<'_>, form: Form) -> Result<Option<Reply>, StoreError> {
        Ok(Some(match form {
            Form::Selected(ids, change, back) => action::change_selected(request, &ids, &change, &back)?,
            Form::Undo(id, back) => action::undo(request, id, &back)?,
            Form::SaveView { name, list, is_removal } => {
                action::change_view(request, &name, &list, is_removal)?
            }
            Form::Submission(id, form) => action::change_one(request, id, &form)?,
            Form::ErasePerson { person, is_confirmed } => {
                return request.erase_person(&person, is_confirmed);
            }
            Form::Sessions(which) => action::revoke(request, &which)?,
            Form::TestChannel(name) => return action::test_channel(&self.inbox, request, &name),
            Form::LogOut => {
                action::log_out(&self.inbox, request.operator)?;
                let mut reply = see_other("/login");
                set_cookie(&mut reply, self.cookies().removal());
                reply
            }
        }))
    }

    pub(super) fn cookies(&self) -> Cookies {
        Cookies::of(&self.inbox, &self.options, (self.peer, self.scheme), &self.head)
    }
}

/// Whether the path leads to an asset, such as the style sheet. Assets need no login and are in memory.
fn is_asset(path: &str) -> bool {
    ["/inbox.css", "/inbox.js", "/icon.svg", "/favicon.ico"].contains(&path)
}

/// Whether a path has only ASCII letters, digits, `/`, `-` and `.`, and no `//`, so that a link to it stays
/// on this site.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-.".contains(&byte);
    path.bytes().all(is_plain) && !path.contains("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "/submissions/0190b0a0-0000-7000-8000-000000000000";

    const PERSON: &str = "/people/00112233445566778899aabbccddeeff";

    #[test]
    fn each_page_and_each_form_needs_a_role() {
        use Role::{Admin, Edit, Read};
        let submission = ID;
        for path in [
            "/",
            "/review",
            "/channels",
            "/statistics",
            "/log",
            "/sessions",
            "/events",
            "/export.csv",
            "/export.jsonl",
            submission,
            PERSON,
        ] {
            let page = Page::parse(path).unwrap();
            assert_eq!(needed_role(Wanted::Page(&page)), Read, "{path}");
        }
        let check = |path: &str, fields: &str, expected| {
            let form = Form::parse(path, &Pairs::parse(fields.as_bytes())).unwrap();
            assert_eq!(needed_role(Wanted::Change(&form)), expected, "{path} {fields}");
        };
        for action in [
            "hold",
            "release",
            "deliver-unconfirmed",
            "retry",
            "deliver",
            "done",
            "reopen",
            "spam",
            "not-spam",
            "undo-spam",
            "unread",
            "note",
            "edit-note&note_id=0190b0a0-0000-7000-8000-000000000000",
            "assign&assignee=ada",
            "assign-me",
            "follow-up&day=2026-11-30",
            "tomorrow",
            "no-follow-up",
            "replied",
            "not-replied",
            "discard",
            "erase",
        ] {
            check(submission, &format!("action={action}"), Edit);
            check(submission, &format!("action={action}&confirmed=yes"), Edit);
        }
        for action in ["release", "done", "spam", "unread", "discard", "discard&confirmed=yes"] {
            check("/selected", &format!("action={action}"), Edit);
        }
        check("/undo", &format!("undo={}", &ID["/submissions/".len()..]), Edit);
        check("/views", "action=save&name=a", Edit);
        check("/views", "action=remove&name=a", Edit);
        check(PERSON, "action=erase", Edit);
        check(PERSON, "action=erase&confirmed=yes", Edit);
        check("/sessions", "id=00000000", Read);
        check("/sessions", "action=own", Read);
        check("/logout", "", Read);
        check("/sessions", "action=user&user=ada%40example.com", Admin);
        check("/sessions", "action=all", Admin);
        check("/channels/test", "channel=team", Admin);
    }

    #[test]
    fn an_unknown_action_is_no_form() {
        let is_form = |path, fields: &str| Form::parse(path, &Pairs::parse(fields.as_bytes())).is_some();
        for (path, fields) in [
            ("/sessions", "id=00000000"),
            ("/views", "name=a"),
            ("/selected", "id=0190b0a0-0000-7000-8000-000000000000"),
            (ID, ""),
            (PERSON, ""),
        ] {
            assert!(!is_form(path, &format!("{fields}&action=unknown")), "{path}");
        }
        assert!(is_form("/sessions", "id=00000000"));
        assert!(!is_form("/views", "name=a"));
    }

    #[test]
    fn only_a_change_that_takes_long_continues() {
        let check = |is_change, expected_status, continues| {
            let (status, _, sentence) = timeout_message(is_change);
            assert_eq!((status, sentence.contains("continues")), (expected_status, continues));
        };
        check(true, StatusCode::ACCEPTED, true);
        // The script of a live list keeps the list if the status is an error.
        check(false, StatusCode::SERVICE_UNAVAILABLE, false);
    }
}
