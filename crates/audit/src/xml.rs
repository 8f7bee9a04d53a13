//! Parses XML of a site: sitemaps and feeds.

use roxmltree::{Document, Error, ParsingOptions};

/// Maximum number of elements, attributes and texts of a document.
const MAX_NODES: u32 = 1_000_000;

/// Maximum number of attributes of a tag: the parser compares each attribute with all earlier ones.
const MAX_ATTRIBUTES: usize = 200;

/// Parses a document, and with `has_entities` also the entities that it declares; otherwise a document type
/// declaration is an error. Skips byte order marks, and then white space, at its start. The error
/// [`Error::NodesLimitReached`] stands for every limit of the audit.
pub(crate) fn parse(text: &str, has_entities: bool) -> Result<Document<'_>, Error> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut tags = text.split('<').map(|tag| tag.split('>').next().unwrap_or_default());
    if tags.any(|tag| tag.matches('=').count() > MAX_ATTRIBUTES) {
        return Err(Error::NodesLimitReached);
    }
    let options = ParsingOptions { allow_dtd: has_entities, nodes_limit: MAX_NODES, ..Default::default() };
    Document::parse_with_options(text, options)
}

/// Whether white space or a second byte order mark precedes the XML declaration, which parsers refuse there
/// (XML 1.0 §2.8). `text` is decoded, so it has no byte order mark if the response begins with one.
pub(crate) fn has_late_declaration(text: &str) -> bool {
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    start.len() < text.len() && start.starts_with("<?xml") && start[5..].starts_with(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_may_precede_the_declaration() {
        for (text, expected) in [
            ("\n<?xml version='1.0'?><urlset/>", true),
            ("\u{feff}<?xml version='1.0'?><urlset/>", true),
            ("<?xml version='1.0'?>\n<urlset/>", false),
            ("\n<urlset/>", false),
            ("\n<?xml-stylesheet href='a.xsl'?><urlset/>", false),
            ("", false),
        ] {
            assert_eq!(has_late_declaration(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_tag_with_many_attributes_is_refused() {
        let attributes = (0..10_000).map(|number| format!(" a{number}='x'")).collect::<String>();
        let parsed = parse(&format!("<urlset><url{attributes}/></urlset>"), false).err();
        assert!(matches!(parsed, Some(Error::NodesLimitReached)), "{parsed:?}");
        let text = format!("<feed><title>{}</title></feed>", "a=b ".repeat(1_000));
        assert!(parse(&text, false).is_ok());
    }
}
