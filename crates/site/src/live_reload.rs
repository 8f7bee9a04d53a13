//! Adds a script to pages, which reloads them while an author edits the site (`frontdesk serve --watch`).

/// The path of the script that reloads pages.
pub const RELOAD_SCRIPT_PATH: &str = "/_frontdesk/reload.js";

/// The text of the script that reloads pages.
pub const RELOAD_SCRIPT: &str = include_str!("live_reload.js");

const ELEMENT: &[u8] = b"<script defer src=\"/_frontdesk/reload.js\"></script>";

/// Adds the reload script at the end of the page's head, or of the page if its head has no end tag.
pub(super) fn add_reload_script(html: &[u8]) -> Vec<u8> {
    insert_at(html, end_of_head(html).unwrap_or(html.len()), ELEMENT)
}

/// The position of the first `</head>`, ignoring case, even in a comment or a script; `None` if there is
/// none.
pub(super) fn end_of_head(html: &[u8]) -> Option<usize> {
    html.windows(7).position(|part| part.eq_ignore_ascii_case(b"</head>"))
}

pub(super) fn insert_at(html: &[u8], at: usize, element: &[u8]) -> Vec<u8> {
    [&html[..at], element, &html[at..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_added_to_the_head_or_to_the_end() {
        let check = |html: &str, before: &str, after: &str| {
            let changed = String::from_utf8(add_reload_script(html.as_bytes())).expect("text");
            let element = format!("<script defer src=\"{RELOAD_SCRIPT_PATH}\"></script>");
            assert_eq!(changed, format!("{before}{element}{after}"));
        };
        check("<head><title>a</title></head><p>b", "<head><title>a</title>", "</head><p>b");
        check("<HEAD></HEAD></head>", "<HEAD>", "</HEAD></head>");
        check("<title>a</title><p>b", "<title>a</title><p>b", "");
    }
}
