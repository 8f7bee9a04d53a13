//! Reads the links in the header field `Link`.

use frontdesk_convert::Url;

use crate::page::resolve;

/// A link in a `Link` header field (RFC 8288).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkValue {
    /// The target of the link as written.
    pub target: String,
    /// The relation types in lower case, separated by spaces.
    pub rel: String,
    /// The media type in the parameter `type`, in lower case and without its own parameters.
    pub media_type: String,
    /// The language in the parameter `hreflang`.
    pub language: String,
}

impl LinkValue {
    /// Whether the link has this relation type, which is in lower case.
    pub fn has_rel(&self, rel: &str) -> bool {
        self.rel.split_ascii_whitespace().any(|own| own == rel)
    }

    /// Resolves the target against the URL of the response, which `<base href>` does not change (RFC 8288
    /// §3.2); without the fragment. `None` for targets that are not `http` or `https`, or that are too long
    /// to request.
    pub fn resolve(&self, response: &Url) -> Option<Url> {
        resolve(response, &self.target)
    }
}

/// Reads the field `Link`. Skips values that are not links, and parameters other than those of [`LinkValue`].
/// If a parameter is repeated, the first one counts (RFC 8288 §3.3, §3.4.1).
pub fn parse_link_header(value: &str) -> Vec<LinkValue> {
    let mut links = Vec::new();
    let mut rest = value;
    while let Some(start) = rest.find('<') {
        let Some((target, after)) = rest[start + 1..].split_once('>') else { break };
        let (mut parameters, next) = split_unquoted(after, ',');
        let mut own = Vec::new();
        while !parameters.is_empty() {
            let (parameter, others) = split_unquoted(parameters, ';');
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            own.push((name.trim(), value.trim().trim_matches('"')));
            parameters = others;
        }
        let first = |name: &str| {
            own.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map_or("", |(_, value)| *value)
        };
        links.push(LinkValue {
            target: target.trim().to_owned(),
            rel: first("rel").to_ascii_lowercase(),
            media_type: first("type").split(';').next().unwrap_or_default().trim().to_ascii_lowercase(),
            language: first("hreflang").to_owned(),
        });
        rest = next;
    }
    links
}

/// Splits at the first separator outside of quotation marks, and removes it. In quotation marks, a backslash
/// escapes the next character (RFC 9110 §5.6.4). The second part is empty if there is no such separator.
fn split_unquoted(text: &str, separator: char) -> (&str, &str) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = text.find(|c: char| {
        let is_literal = std::mem::take(&mut is_escaped);
        is_escaped = is_quoted && !is_literal && c == '\\';
        is_quoted ^= c == '"' && !is_literal;
        c == separator && !is_quoted
    });
    end.map_or((text, ""), |end| (&text[..end], &text[end + separator.len_utf8()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_field_is_read() {
        let links = parse_link_header(
            "</a,b.md>; rel=\"alternate\"; type=\"text/markdown\"; title=\"x, y\", <https://example.com/>; REL=Canonical, nonsense",
        );
        assert_eq!(links.len(), 2, "{links:?}");
        assert_eq!((&*links[0].target, &*links[0].media_type), ("/a,b.md", "text/markdown"));
        assert!(links[0].has_rel("alternate") && links[1].has_rel("canonical"));
    }

    #[test]
    fn the_first_of_repeated_link_parameters_counts() {
        for (value, expected) in [
            ("</a>; rel=preload; rel=canonical", ["preload", "", ""]),
            ("</a>; rel=\"\"; rel=canonical", ["", "", ""]),
            ("</a>; rel; REL=canonical", ["", "", ""]),
            ("</a>; rel=alternate; type=text/html; type=text/markdown", ["alternate", "text/html", ""]),
            ("</a>; rel=alternate; hreflang=de; hreflang=fr", ["alternate", "", "de"]),
        ] {
            let links = parse_link_header(value);
            assert_eq!(links.len(), 1, "{value}");
            let LinkValue { rel, media_type, language, .. } = &links[0];
            assert_eq!([rel, media_type, language], expected, "{value}");
        }
    }

    #[test]
    fn quoted_separators_do_not_split_links() {
        for (value, expected) in [
            ("</a>; rel=preload; title=\"x; rel=canonical\"", &["preload"][..]),
            ("</a>; title=\"x; rel=canonical\"; rel=preload", &["preload"]),
            ("</a>; title=\"x, </b>; rel=next\"; rel=preload", &["preload"]),
            (r#"</a>; title="\"; rel=canonical, </b>"; rel=preload, </c>; rel=next"#, &["preload", "next"]),
            (r#"</a>; title="\\"; rel=preload"#, &["preload"]),
            ("</a>; title=\"x; rel=preload, </b>; rel=next", &[""]),
            ("</a>;rel=preload;,</b>;;rel=next", &["preload", "next"]),
            ("</a>", &[""]),
        ] {
            let links = parse_link_header(value);
            assert_eq!(links.iter().map(|link| &*link.rel).collect::<Vec<_>>(), expected, "{value}");
        }
        let links = parse_link_header("</a>; rel=alternate; type=\"Text/Markdown ; charset=utf-8\"");
        assert_eq!(links[0].media_type, "text/markdown");
    }

    #[test]
    fn targets_of_the_link_field_are_resolved_without_fragment() {
        let response = Url::parse("https://example.com/docs/a").unwrap();
        for (target, expected) in [
            ("b#c", Some("https://example.com/docs/b")),
            ("/#c", Some("https://example.com/")),
            ("http://example.net/b", Some("http://example.net/b")),
            ("mailto:a@example.com", None),
            ("https://[", None),
        ] {
            let link = LinkValue { target: target.to_owned(), ..LinkValue::default() };
            assert_eq!(link.resolve(&response).as_ref().map(Url::as_str), expected, "{target}");
        }
    }
}
