//! Applies the rules of a build's `_headers` to single files.

use std::sync::Arc;

use frontdesk_convert::forbids_index;
use http::header::{CONTENT_TYPE, LINK};
use http::{HeaderName, HeaderValue};

use super::file::{File, cors_header, noindex_header};
use super::rules::{HeaderRule, RuleList, headers_for, removes_header};

/// Replaces the headers of a file with `headers` and those of the rules that match `path`. The rules take
/// precedence, with the exceptions that `add_headers` names.
pub(crate) fn with_headers(
    mut file: File,
    headers: Vec<(HeaderName, HeaderValue)>,
    rules: &RuleList<HeaderRule>,
    path: &str,
) -> File {
    file.headers = headers;
    add_headers(file, headers_for(rules, path))
}

/// The file with the header that forbids indexing, in addition to other directives for crawlers. Unchanged
/// unless `is_unlisted`.
pub(crate) fn with_noindex(mut file: File, is_unlisted: bool) -> File {
    if !is_unlisted {
        return file;
    }
    let (name, noindex) = noindex_header();
    let others = file.headers.extract_if(.., |(own, _)| *own == name).collect();
    file.headers.push((name, noindex));
    add_headers(file, others)
}

/// Adds headers, which replace earlier ones of the same name, also in `added`, with two exceptions: a `Link`,
/// which must be ASCII, is appended to the file's own, and the `noindex` of [`noindex_header`] stays in front
/// of an added value that permits indexing.
fn add_headers(mut file: File, added: Vec<(HeaderName, HeaderValue)>) -> File {
    for (name, mut value) in added {
        let is_hidden = |(own, value): &(HeaderName, HeaderValue)| {
            *own == noindex_header().0 && value.as_bytes().starts_with(noindex_header().1.as_bytes())
        };
        let is_allowing = || value.to_str().is_ok_and(|value| !forbids_index(value));
        if name == noindex_header().0 && file.headers.iter().any(is_hidden) && is_allowing() {
            let both = [noindex_header().1.as_bytes(), b", ", value.as_bytes()].concat();
            value = HeaderValue::from_bytes(&both).unwrap_or(value);
        }
        if name == LINK {
            let ours = file.link.take().unwrap_or_default();
            let both = [&*String::from_utf8_lossy(&ours), &*String::from_utf8_lossy(value.as_bytes())];
            file = file.with_link(both.join(if ours.is_empty() { "" } else { ", " }));
        } else {
            file.headers.retain(|(own, _)| *own != name);
            file.headers.push((name, value));
        }
    }
    file
}

/// A generated file as served at `path`: with the headers of the rules for this path in addition to its own,
/// and without its header of [`cors_header`] if a rule removes that. The rules take precedence as in
/// `add_headers`, but their `Content-Type` only labels it as Markdown or plain text, so that a rule for all
/// paths does not make an HTML page of it. Returns the same file if nothing changes.
pub(crate) fn at_path(file: Arc<File>, rules: &RuleList<HeaderRule>, path: &str) -> Arc<File> {
    if rules.all().is_empty() {
        return file;
    }
    let link = String::from_utf8_lossy(file.link.as_deref().unwrap_or_default());
    let mut added = headers_for(rules, path);
    // Skip headers that `file` already has: a rule for the page may also match the path of its Markdown.
    added.retain(|header| !file.headers.contains(header));
    added.retain(|(name, value)| name != LINK || !link.contains(&*String::from_utf8_lossy(value.as_bytes())));
    let mut own = file.without_encodings();
    if let Some(cors) = cors_header(path).filter(|(name, _)| removes_header(rules, path, name)) {
        own.headers.retain(|(name, _)| *name != cors.0);
    }
    let mut new = add_headers(own, added);
    restrict_content_type(&mut new, &["text/markdown", "text/plain"]);
    if new.is_like(&file) { file } else { Arc::new(new) }
}

/// Removes a `Content-Type` that is not among `permitted`: rules for the HTML also apply to the Markdown at
/// the same URL.
pub(crate) fn restrict_content_type(file: &mut File, permitted: &[&str]) {
    file.headers.retain(|(name, value)| {
        let media_type = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        name != CONTENT_TYPE
            || permitted.iter().any(|permitted| permitted.eq_ignore_ascii_case(media_type.trim()))
    });
}
