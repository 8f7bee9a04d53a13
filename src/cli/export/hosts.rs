//! `_headers` and `_redirects`, which several hosts of static sites read. What they cannot say, `docs/export.md` does.

use super::layout::{Layout, Place};
use crate::pages::path;
use crate::web::describe::Reply;

/// Headers by URL. Where two rules match, hosts join the values, so that no header is in two of them.
pub(super) fn headers(layout: &Layout) -> String {
    let mut text = String::from("# Written by `frontdesk export`.\n/*\n");
    write(&mut text, layout.common.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    for (path, place) in &layout.urls {
        let reply = match place {
            Place::Page { html, .. } => &html.identity().reply,
            Place::File(stored) => &stored.identity().reply,
            Place::Moved(_) => continue,
        };
        text.push_str(&format!("\n{}\n", pattern(path)));
        write(&mut text, own(layout, reply));
    }
    text
}

/// `/from /to 308`, one a line. Aliases and addresses without their slash; a file in its place wins over a rule.
pub(super) fn redirects(layout: &Layout) -> String {
    let mut text = String::from("# Written by `frontdesk export`.\n");
    for (path, place) in &layout.urls {
        if let Place::Moved(reply) = place {
            let to = reply.header("location").unwrap_or_default();
            text.push_str(&format!("{} {to} {}\n", path::encode(path), reply.status));
        }
    }
    text
}

/// A `*` would match anything, and a `:` begin a name.
fn pattern(path: &str) -> String {
    path::encode(path).replace('*', "%2A").replace(':', "%3A")
}

/// What the host does not know by itself. Its validators and encodings are its own.
fn own<'a>(layout: &Layout, reply: &'a Reply) -> impl Iterator<Item = (&'a str, &'a str)> {
    let is_own = |header: &&(String, String)| {
        !layout.common.contains(header) && !["etag", "vary"].contains(&&*header.0)
    };
    reply
        .headers
        .iter()
        .filter(is_own)
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect::<Vec<_>>()
        .into_iter()
}

fn write<'a>(text: &mut String, headers: impl Iterator<Item = (&'a str, &'a str)>) {
    for (name, value) in headers {
        text.push_str(&format!("  {name}: {value}\n"));
    }
}
