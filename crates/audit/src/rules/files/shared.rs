//! Code that rules of the group files share.

use std::sync::Arc;

use serde_json::Value;

use crate::exchange::{Exchange, Response};
use crate::rule::{Findings, Fix, Platform, Severity};
use crate::survey::Survey;
use crate::survey::files::json_of;
use crate::usage_preferences::{Statement, Syntax, page_statements, robots_statements};

/// The fixes for a server that sends the application's page for each unknown path.
pub(super) const NO_FALLBACK: &[Fix] = &[
    Fix {
        platform: Platform::Any,
        text: "Publish the file, or return 404: exclude `/robots.txt`, `/sitemap.xml`, `/llms.txt` and \
               `/.well-known/` from the rule that serves a page for unknown paths.",
    },
    Fix {
        platform: Platform::Nginx,
        text: "`location ^~ /.well-known/ { try_files $uri =404; }` and the same for `location = /robots.txt`.",
    },
    Fix {
        platform: Platform::Caddy,
        text: "A block `handle /.well-known/*` with `file_server`, beside the `handle` block with `try_files \
               {path} /index.html`.",
    },
    Fix {
        platform: Platform::Netlify,
        text: "`/.well-known/* /404.html 404` in `_redirects`, before `/* /index.html 200`.",
    },
    Fix {
        platform: Platform::Apache,
        text: "`RewriteCond %{REQUEST_URI} !^/(robots\\.txt|sitemap\\.xml|llms\\.txt|\\.well-known/)` before \
               the rule that rewrites to `index.html`.",
    },
];

/// Maximum number of findings of one kind per file: a generated file may repeat one fault everywhere.
pub(super) const MAX_FINDINGS: usize = 3;

/// The exchange and response of a file if it exists: its final status is 200 and it is not an HTML page.
pub(super) fn existing(exchange: Option<&Arc<Exchange>>) -> Option<(&Arc<Exchange>, &Response)> {
    let exchange = exchange?;
    let response = exchange.success().filter(|response| !response.is_page())?;
    Some((exchange, response))
}

/// The value of a JSON file that exists. Reports a file that is not JSON, and notes a file that did not
/// arrive completely as not judged; both give `None`, as does a file that does not exist.
pub(super) fn read_json<'a>(
    exchange: Option<&'a Arc<Exchange>>,
    findings: &mut Findings,
) -> Option<(&'a Arc<Exchange>, Value)> {
    let (exchange, response) = existing(exchange)?;
    if !response.is_whole {
        findings.not_judged(format!("{} did not arrive completely", exchange.url().path()));
        return None;
    }
    match json_of(exchange)? {
        Ok(value) => Some((exchange, value)),
        Err(error) => {
            let path = exchange.url().path();
            findings.report(&[exchange], format!("{path} returns 200, but is not JSON: {error}"));
            None
        }
    }
}

/// Field names in lower case, with their values.
type Fields = Vec<(String, String)>;

/// The fields of `security.txt`, in order, without comments and lines without a colon. `None` if the file
/// does not exist.
pub(super) fn security_fields(survey: &Survey) -> Option<(&Arc<Exchange>, Fields)> {
    let (exchange, response) = existing(survey.files.security_txt.as_ref())?;
    let text = response.text();
    let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
    let fields = lines.map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    Some((exchange, fields.collect()))
}

/// Reports the first [`MAX_FINDINGS`] statements of a syntax that crawlers ignore, in `robots.txt` and in the
/// responses with pages. An unknown label counts only in `Content-Signal`, and is advice.
pub(super) fn check_statements(survey: &Survey, syntax: Syntax, findings: &mut Findings) {
    let statements =
        robots_statements(&survey.first_requests).into_iter().chain(page_statements(&survey.first_requests));
    let is_faulty = |statement: &Statement| {
        let unknown = if syntax == Syntax::Signal { statement.unknown.len() } else { 0 };
        statement.syntax == syntax && statement.faults.len() + unknown > 0
    };
    for statement in statements.filter(is_faulty).take(MAX_FINDINGS) {
        let evidence = [&statement.exchange];
        if let Some(fault) = statement.faults.first() {
            findings.report(&evidence, format!("{}, but {fault}", statement.quote()));
        } else if let Some(label) = statement.unknown.first() {
            let message = format!(
                "{}, but `{label}` is not a defined signal (`search`, `ai-input`, `ai-train`, `use`)",
                statement.quote()
            );
            findings.report_as(Severity::Advice, &evidence, message);
        }
    }
}
