//! Reads the width and height of SVG and PNG pictures.

/// The start tag of an SVG picture must be within this many bytes from the beginning.
const MAX_SVG_PROLOGUE: usize = 8192;

/// Width and height of a picture, both positive: in pixels for a PNG, in user units for an SVG. `None` for
/// other formats, and for an SVG that states neither `viewBox` nor width and height.
pub(super) fn size(bytes: &[u8]) -> Option<(f64, f64)> {
    let (width, height) = png_size(bytes).or_else(|| svg_size(bytes))?;
    let is_size = |length: f64| length.is_finite() && length > 0.0;
    (is_size(width) && is_size(height)).then_some((width, height))
}

fn png_size(bytes: &[u8]) -> Option<(f64, f64)> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?.strip_prefix(b"\0\0\0\rIHDR")?;
    let number = |at: usize| {
        let bytes = header.get(at..at + 4)?.try_into().ok()?;
        Some(f64::from(u32::from_be_bytes(bytes)))
    };
    Some((number(0)?, number(4)?))
}

fn svg_size(bytes: &[u8]) -> Option<(f64, f64)> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SVG_PROLOGUE)]);
    let tag = text.split_once("<svg")?.1.split_once('>')?.0;
    let from_view_box = || {
        let numbers: Vec<f64> = attribute(tag, "viewBox")?
            .split([' ', ',', '\n', '\t'])
            .filter(|part| !part.is_empty())
            .map_while(|part| part.parse().ok())
            .collect();
        match numbers[..] {
            [_, _, width, height] => Some((width, height)),
            _ => None,
        }
    };
    let length = |name| attribute(tag, name)?.trim().trim_end_matches("px").parse().ok();
    from_view_box().or_else(|| Some((length("width")?, length("height")?)))
}

/// The value of an attribute in a start tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let places = tag.match_indices(name).filter(|(at, _)| tag[..*at].ends_with(char::is_whitespace));
    places.into_iter().find_map(|(at, _)| {
        let value = tag[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        Some(value[1..].split_once(quote)?.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_svg_states_its_size_in_its_start_tag() {
        for (text, found) in [
            ("<?xml version='1.0'?>\n<svg viewBox=\"0 0 30 15.5\">", Some((30.0, 15.5))),
            ("<svg viewBox='-1,-1, 4,2' width='8'/>", Some((4.0, 2.0))),
            ("<svg stroke-width=\"3\" width=\"20px\" height = '10'></svg>", Some((20.0, 10.0))),
            ("<svg width=\"100%\" height=\"2em\"/>", None),
            ("<svg viewBox=\"0 0 0 1\"/>", None),
            ("<svg viewBox=\"0 0 1", None),
            ("<p>", None),
        ] {
            assert_eq!(size(text.as_bytes()), found, "{text}");
        }
    }

    #[test]
    fn a_png_states_its_size_in_its_header() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\xb0\0\0\x02\x76\x08\x06";
        assert_eq!(size(png), Some((1200.0, 630.0)));
        assert_eq!(size(&png[..20]), None);
    }
}
