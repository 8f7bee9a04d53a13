//! Writes `_headers` and `_redirects`, which several static hosts read (`docs/pages/export.md`).

use super::layout::{ExportLayout, UrlContent};
use frontdesk_site::path;

/// Renders `_headers`: the headers that all responses have in common, then the others of each page (as HTML)
/// and file. Leaves out URLs with a redirect or the status 410. If two matching rules set the same header,
/// hosts join the values, so each header is written in only one rule.
pub(super) fn headers(layout: &ExportLayout) -> String {
    let mut text = String::from("# Written by `frontdesk export`.\n/*\n");
    write_headers(&mut text, &layout.common);
    for (path, content) in &layout.urls {
        let reply = match content {
            // Skip removed pages: static hosts cannot send the status 410, so they answer 404.
            content if content.is_gone() => continue,
            UrlContent::Page { html, .. } => &html.identity().reply,
            UrlContent::File(stored) => &stored.identity().reply,
            UrlContent::Moved(_) | UrlContent::RemovedEndpoint(_) => continue,
        };
        text.push_str(&format!("\n{}\n", literal(&path::encode(path))));
        // Leave out `Content-Encoding`, `ETag` and `Vary`: static hosts generate validators and encodings
        // themselves.
        write_headers(&mut text, layout.own_headers(reply, &["content-encoding", "etag", "vary"]));
    }
    text
}

/// Renders `_redirects`: one line such as `/from /to 308` for each path that redirects, then `rules`: the
/// lines of redirects with placeholders or query parameters.
pub(super) fn redirects(layout: &ExportLayout, rules: &[String]) -> String {
    let mut text = String::from("# Written by `frontdesk export`.\n");
    for (path, content) in &layout.urls {
        if let UrlContent::Moved(reply) = content {
            let to = reply.header("location").unwrap_or_default();
            let to = if to.starts_with('/') { literal(to) } else { to.to_owned() };
            text.push_str(&format!("{} {to} {}\n", literal(&path::encode(path)), reply.status));
        }
    }
    for rule in rules {
        text.push_str(&format!("{rule}\n"));
    }
    text
}

/// Also encodes `*` and `:` in an encoded path, because static hosts would treat them as patterns.
fn literal(path: &str) -> String {
    path.replace('*', "%2A").replace(':', "%3A")
}

fn write_headers<'a>(text: &mut String, headers: impl IntoIterator<Item = &'a (String, String)>) {
    for (name, value) in headers {
        text.push_str(&format!("  {name}: {value}\n"));
    }
}
