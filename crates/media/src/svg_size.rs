//! Reads the size that an SVG image states.

/// The start tag of the root element must be within this many bytes from the beginning.
const MAX_HEADER: usize = 64 << 10;

/// Width and height in CSS pixels: the attributes of the root element, completed from its `viewBox` (SVG 2
/// §8.3). Lengths in percent or in another unit than pixels count as missing. `None` if the attributes and
/// the `viewBox` together do not state two positive sides, or if the root's start tag is not within
/// [`MAX_HEADER`] bytes.
pub(crate) fn read_size(bytes: &[u8]) -> Option<(f64, f64)> {
    let header = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_HEADER)]);
    let attributes = root_attributes(&header)?;
    let attribute = |name| attributes.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
    let length = |name| {
        let number: f64 = attribute(name)?.trim().trim_end_matches("px").trim().parse().ok()?;
        Some(number).filter(|number| number.is_finite() && *number > 0.0)
    };
    let view_box: Option<Vec<f64>> = attribute("viewBox").and_then(|text| {
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

/// The attributes of the root element, if that is an `svg`, also with a namespace prefix. `None` if the start
/// tag is incomplete or not well-formed.
fn root_attributes(header: &str) -> Option<Vec<(&str, &str)>> {
    let (name, mut rest) = split_name(skip_prolog(header)?.strip_prefix('<')?);
    if name.rsplit(':').next() != Some("svg") {
        return None;
    }
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.starts_with(['>', '/']) {
            return Some(attributes);
        }
        let (name, after) = split_name(rest);
        let value = after.trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, after) = value[1..].split_once(quote)?;
        attributes.push((name, value));
        rest = after;
    }
}

/// Splits the name of an element or attribute from the text after it.
fn split_name(text: &str) -> (&str, &str) {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '=' | '/' | '>' | '<' | '"' | '\'');
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

/// Skips what may precede the root element: a byte order mark, the XML declaration, processing instructions,
/// comments and the document type. `None` if one of them does not end.
fn skip_prolog(text: &str) -> Option<&str> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
    loop {
        rest = if let Some((inner, end)) = open_comment(rest) {
            inner.split_once(end)?.1
        } else if let Some(doctype) = rest.strip_prefix("<!DOCTYPE") {
            skip_document_type(doctype)?
        } else {
            return Some(rest);
        };
        rest = rest.trim_start();
    }
}

/// The text after the beginning of a comment or processing instruction, such as the XML declaration, and the
/// characters that end it. `None` if the text does not begin with one.
fn open_comment(text: &str) -> Option<(&str, &str)> {
    let delimiters = [("<!--", "-->"), ("<?", "?>")];
    delimiters.into_iter().find_map(|(begin, end)| Some((text.strip_prefix(begin)?, end)))
}

/// Skips a document type after `<!DOCTYPE`, with its internal subset, whose literals and comments may contain
/// any character. Entities are not expanded. `None` if it does not end.
fn skip_document_type(text: &str) -> Option<&str> {
    let (mut rest, mut is_in_subset) = (text, false);
    loop {
        rest = &rest[rest.find(['"', '\'', '<', '[', ']', '>'])?..];
        if let Some((inner, end)) = open_comment(rest) {
            rest = inner.split_once(end)?.1;
            continue;
        }
        let (mark, after) = rest.split_at(1);
        rest = match mark {
            "\"" | "'" => after.split_once(mark)?.1,
            ">" if !is_in_subset => return Some(after),
            _ => after,
        };
        is_in_subset = mark == "[" || (is_in_subset && mark != "]");
    }
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
            ("<svg aria-label='a > b' data-a=\" width='1'\" width='30' height='20'>", Some((30.0, 20.0))),
            ("<svg:svg width='30' height='20'>", Some((30.0, 20.0))),
            ("\u{feff}<svg width='30' height='20'>", Some((30.0, 20.0))),
            (
                "<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \"svg11.dtd\" [\n<!ENTITY a \"<svg width='1' ]>\">\n\
                 <!-- it's ]> <svg width='1' height='1'> --><?a ]> ?>\n<!ATTLIST svg b CDATA 'c'>\n]>\n\
                 <svg width='30' height='20'>",
                Some((30.0, 20.0)),
            ),
            ("<svg width=\"100%\" height=\"2em\"/>", None),
            ("<svg viewBox=\"0 0 0 1\"/>", None),
            ("<svg viewBox=\"0 0 1", None),
            ("<svg viewBox=\"0 0 nan inf\">", None),
            ("<svg>", None),
            ("<!-- <svg width=\"1\" height=\"1\">", None),
            ("<!DOCTYPE svg [<!ENTITY a '<svg width=\"1\" height=\"1\">'", None),
            ("<?a <svg width='1' height='1'>", None),
            ("<svg width='30' height='20'", None),
            ("<svg width=30 height='20'>", None),
            ("<svgs width='30' height='20'>", None),
            ("<p><svg width='30' height='20'></p>", None),
            ("<p>", None),
        ] {
            assert_eq!(read_size(text.as_bytes()), expected, "{text}");
        }
    }
}
