//! Reads preferences for automated use: `Content-Signal` (contentsignals.org) and `Content-Usage` (AIPREF,
//! draft-ietf-aipref-attach and draft-ietf-aipref-vocab), in `robots.txt` and in responses.

use std::rc::Rc;
use std::sync::Arc;

use frontdesk_convert::Url;
use sfv::{Dictionary, ListEntry, Parser, TokenRef};

use crate::exchange::{Exchange, Response};
use crate::robots::is_match;
use crate::survey::first_requests::FirstRequests;

/// A purpose for which content may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Search,
    /// The content is the input of a model that answers a question.
    Input,
    Training,
}

impl Use {
    /// The name of the use in messages.
    pub fn title(self) -> &'static str {
        match self {
            Use::Search => "search",
            Use::Input => "AI answers",
            Use::Training => "AI training",
        }
    }
}

/// The syntax of a statement: `Content-Signal` or `Content-Usage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Signal,
    Usage,
}

impl Syntax {
    pub const ALL: [Syntax; 2] = [Syntax::Signal, Syntax::Usage];

    /// The usual spelling of the header field's name.
    pub fn field(self) -> &'static str {
        match self {
            Syntax::Signal => "Content-Signal",
            Syntax::Usage => "Content-Usage",
        }
    }

    /// The use that a label in lower case names in this syntax; `None` if the syntax does not define the
    /// label.
    fn find_use(self, label: &str) -> Option<Use> {
        match (self, label) {
            (_, "search") => Some(Use::Search),
            (Syntax::Signal, "ai-input") | (Syntax::Usage, "ai-use") => Some(Use::Input),
            (Syntax::Signal, "ai-train") | (Syntax::Usage, "train-ai") => Some(Use::Training),
            _ => None,
        }
    }
}

/// A statement about automated use: a line of `robots.txt` or a header field of a response.
pub(crate) struct Statement {
    pub syntax: Syntax,
    /// The value of the statement, without the path.
    pub value: String,
    /// The crawlers of the group in `robots.txt`, in lower case; empty for a header field.
    pub agents: Rc<[String]>,
    /// The pattern of paths that the statement applies to; empty except for `Content-Usage` in `robots.txt`.
    pub path: String,
    pub exchange: Arc<Exchange>,
    /// The uses that the value names, with `true` if the value allows the use.
    pub preferences: Vec<(Use, bool)>,
    /// The reasons why crawlers ignore the value or a part of it, each a clause such as "it is empty".
    pub faults: Vec<String>,
    /// Labels that the syntax does not define. Crawlers ignore them.
    pub unknown: Vec<String>,
}

impl Statement {
    /// Quotes the statement with its source, such as "robots.txt says `Content-Signal: search=yes`".
    pub fn quote(&self) -> String {
        let place = if self.agents.is_empty() {
            let kind = self.exchange.response().map(Response::media_type).unwrap_or_default();
            format!("the response ({kind})")
        } else {
            "robots.txt".to_owned()
        };
        let path = if self.path.is_empty() { String::new() } else { format!("{} ", self.path) };
        format!("{place} says `{}: {path}{}`", self.syntax.field(), self.value)
    }

    /// Parses a value. In `robots.txt`, a `Content-Usage` value may begin with the path that it applies to.
    fn read(syntax: Syntax, value: &str, agents: Rc<[String]>, exchange: &Arc<Exchange>) -> Statement {
        let value = value.trim();
        let is_ruled = syntax == Syntax::Usage && !agents.is_empty() && value.starts_with('/');
        let (path, value) =
            if is_ruled { value.split_once([' ', '\t']).unwrap_or((value, "")) } else { ("", value) };
        let mut statement = Statement {
            syntax,
            value: value.trim().to_owned(),
            agents,
            path: path.to_owned(),
            exchange: exchange.clone(),
            preferences: Vec::new(),
            faults: Vec::new(),
            unknown: Vec::new(),
        };
        match syntax {
            Syntax::Signal => statement.read_signal(),
            Syntax::Usage => statement.read_usage(),
        }
        statement
    }

    /// Reads the value of `Content-Signal` into preferences, faults and unknown labels. Ignores case and
    /// empty members; a valid `use` is dropped. An empty value is a fault.
    fn read_signal(&mut self) {
        for member in self.value.clone().split(',').map(str::trim).filter(|member| !member.is_empty()) {
            let lower = member.to_ascii_lowercase();
            match lower.split_once('=').map(|(label, value)| (label.trim(), value.trim())) {
                // Ignore a valid `use`: it states the degree of use, not a preference about a purpose.
                Some(("use", "immediate" | "reference" | "full")) => {}
                Some(("use", value)) => self.faults.push(format!(
                    "`use` has the value `{value}`: `immediate`, `reference` and `full` are defined"
                )),
                Some((label, value)) => self.add(label, value, "yes", "no"),
                None => self.faults.push(format!("`{member}` is not `NAME=yes` or `NAME=no`")),
            }
        }
        if self.value.is_empty() {
            self.faults.push("it is empty".to_owned());
        }
    }

    /// Reads the value of `Content-Usage` into preferences, faults and unknown labels. Ignores parameters. A
    /// value that is no structured dictionary is one fault, as is each defined label with another value than
    /// the tokens `y` and `n`.
    fn read_usage(&mut self) {
        let Ok(dictionary) = Parser::new(&self.value).parse::<Dictionary>() else {
            self.faults
                .push("it is not a structured dictionary (RFC 9651), so crawlers ignore it".to_owned());
            return;
        };
        for (label, value) in dictionary {
            let token = match &value {
                ListEntry::Item(item) => item.bare_item.as_token().map(TokenRef::as_str),
                ListEntry::InnerList(_) => None,
            };
            self.add(label.as_str(), token.unwrap_or("another type than a token"), "y", "n");
        }
    }

    /// Adds a preference if `value` is `allowed` or `disallowed`, and otherwise a fault. An undefined label
    /// is only added to `unknown`, with any value.
    fn add(&mut self, label: &str, value: &str, allowed: &str, disallowed: &str) {
        let Some(used) = self.syntax.find_use(label) else {
            self.unknown.push(label.to_owned());
            return;
        };
        if value == allowed || value == disallowed {
            self.preferences.push((used, value == allowed));
        } else {
            self.faults.push(format!(
                "`{label}` has the value `{value}`, which means nothing: `{allowed}` and `{disallowed}` are defined"
            ));
        }
    }

    /// Whether the statement's path matches `url`, or the statement has no path. Does not check its crawlers.
    pub fn is_about(&self, url: &Url) -> bool {
        self.path.is_empty() || is_match(&self.path, url.path())
    }
}

/// The statements in the groups of `robots.txt`, in the order of the file. Leaves out lines before the first
/// group.
pub(crate) fn robots_statements(first_requests: &FirstRequests) -> Vec<Statement> {
    let mut statements = Vec::new();
    for group in first_requests.rules.groups() {
        let agents: Rc<[String]> = group.agents.clone().into();
        for (name, value) in &group.fields {
            let syntax = Syntax::ALL.into_iter().find(|syntax| name.eq_ignore_ascii_case(syntax.field()));
            let read = |syntax| Statement::read(syntax, value, agents.clone(), &first_requests.robots);
            statements.extend(syntax.map(read));
        }
    }
    statements
}

/// The statements in the header of a response with status 200, at most one of each syntax.
pub(crate) fn header_statements(exchange: &Arc<Exchange>) -> Vec<Statement> {
    let Some(response) = exchange.success() else { return Vec::new() };
    let present = Syntax::ALL.into_iter().filter(|syntax| response.headers.contains_key(syntax.field()));
    present
        .map(|syntax| Statement::read(syntax, &response.header(syntax.field()), Rc::from([]), exchange))
        .collect()
}

/// The statements in the headers of all pages' HTML and of the responses to agents, if the status is 200.
pub(crate) fn page_statements(first_requests: &FirstRequests) -> Vec<Statement> {
    let exchanges = first_requests.pages.iter().flat_map(|page| [Some(&page.html), page.agent.as_ref()]);
    exchanges.flatten().flat_map(header_statements).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(syntax: Syntax, value: &str) -> Statement {
        let exchange = Arc::new(Exchange::with_body("https://example.com/robots.txt", ""));
        Statement::read(syntax, value, Rc::from(["*".to_owned()]), &exchange)
    }

    #[test]
    fn both_syntaxes_are_read() {
        let signal = read(Syntax::Signal, "search=yes, AI-Train=no,ai_input=no, x, ai-input=maybe,use=full");
        assert_eq!(signal.preferences, [(Use::Search, true), (Use::Training, false)]);
        assert_eq!((signal.faults.len(), &signal.unknown[..]), (2, &["ai_input".to_owned()][..]));
        let usage = read(Syntax::Usage, "/docs/ train-ai=n, ai-use=y;x=1, search=?1, other=y");
        assert_eq!(usage.preferences, [(Use::Training, false), (Use::Input, true)]);
        assert_eq!((usage.faults.len(), &*usage.path), (1, "/docs/"));
        assert!(usage.is_about(&Url::parse("https://example.com/docs/a").unwrap()));
        assert!(!usage.is_about(&Url::parse("https://example.com/").unwrap()));
        assert_eq!(read(Syntax::Usage, "train-ai=n").preferences, [(Use::Training, false)]);
        assert!(!read(Syntax::Usage, "train-ai: n").faults.is_empty());
        assert!(!read(Syntax::Signal, "use=yes").faults.is_empty());
        assert!(!read(Syntax::Signal, "").faults.is_empty());
    }
}
