//! Reads the size that an SVG image states.

/// The start tag of the root element must be within this many bytes from the beginning.
const MAX_HEADER: usize = 64 << 10;

/// Width and height in CSS pixels: the attributes of the root element, completed from its `viewBox` (SVG 2
/// §8.3). Lengths in percent or in another unit than pixels count as missing. `None` if the attributes and
/// the `viewBox` together do not state two positive sides, or if the root's start tag is not within
/// [`MAX_HEADER`] bytes.
pub(crate) fn read_size(bytes: &[u8]) -> Option<(f64, f64)> {
    let header = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_HEADER)]);
    let root = root_tag(&header)?;
    let length = |name| {
        let number: f64 = attribute(root, name)?.trim().trim_end_matches("px").trim().parse().ok()?;
        Some(number).filter(|number| number.is_finite() && *number > 0.0)
    };
    let view_box: Option<Vec<f64>> = attribute(root, "viewBox").and_then(|text| {
        let numbers = text.split(|c: char| c.is_whitespace() || c == ',').filter(|part| !part.is_empty());
        numbers.map(|part| part.parse().ok()).collect()
    });
    let ratio = match view_box.as_deref() {
        Some([_, _, width, height]) => Some((*width, *height)),
        _ => None,
    };
    let ratio = ratio
        .filter(|(width, height)| width.is_finite() && height.is_finite() && *width > 0.0 && *height > 0.0);
    match (length("width"), length("height"), ratio) {
        (Some(width), Some(height), _) => Some((width, height)),
        (Some(width), None, Some(ratio)) => Some((width, width * ratio.1 / ratio.0)),
        (None, Some(height), Some(ratio)) => Some((height * ratio.0 / ratio.1, height)),
        (None, None, ratio) => ratio,
        _ => None,
    }
}

/// The start tag of the first `<svg>` outside of comments, without its angle brackets.
fn root_tag(header: &str) -> Option<&str> {
    let mut rest = header;
    loop {
        let element = rest.find("<svg")?;
        match rest.find("<!--").filter(|comment| *comment < element) {
            Some(comment) => rest = rest[comment + 4..].split_once("-->")?.1,
            None => return rest[element + 1..].split_once('>').map(|(tag, _)| tag),
        }
    }
}

/// The quoted value of an attribute in a start tag. `None` if the attribute is missing, or if its value is
/// not quoted.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let is_name = |(at, _): &(usize, &str)| tag[..*at].ends_with(char::is_whitespace);
    tag.match_indices(name).filter(is_name).find_map(|(at, _)| {
        let value = tag[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        value[1..].split_once(quote).map(|(value, _)| value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_svg_states_its_size_in_its_start_tag() {
        for (text, expected) in [
            (
                "<?xml version=\"1.0\"?><!-- <svg width=\"1\" height=\"1\"> --><svg width=\"24px\" height='12.4'>",
                Some((24.0, 12.4)),
            ),
            ("<svg viewBox=\"0 0 300 150\" width=\"100%\" height=\"100%\">", Some((300.0, 150.0))),
            ("<svg viewBox='0,0,300,150' height=\"75\">", Some((150.0, 75.0))),
            ("<?xml version='1.0'?>\n<svg viewBox=\"0 0 30 15.5\">", Some((30.0, 15.5))),
            ("<svg viewBox='-1,-1, 4,2' width='8'/>", Some((8.0, 4.0))),
            ("<svg stroke-width=\"3\" width=\"20px\" height = '10'></svg>", Some((20.0, 10.0))),
            ("<svg width=\"100%\" height=\"2em\"/>", None),
            ("<svg viewBox=\"0 0 0 1\"/>", None),
            ("<svg viewBox=\"0 0 1", None),
            ("<svg viewBox=\"0 0 nan inf\">", None),
            ("<svg>", None),
            ("<!-- <svg width=\"1\" height=\"1\">", None),
            ("<p>", None),
        ] {
            assert_eq!(read_size(text.as_bytes()), expected, "{text}");
        }
    }
}
