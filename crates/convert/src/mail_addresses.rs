//! Restores the e-mail addresses that a page hides from programs and that a script or a style shows to every
//! visitor.

use super::dom::{DOCUMENT, Dom, NodeId, Tag};

/// Maximum length in bytes of an encoded address. Longer ones stay as they are.
const MAX_ENCODED: usize = 2000;

/// The replacement for a hidden address.
enum Change {
    /// The new text of the element, in a link with the target `link` if that is set.
    Content { text: String, link: Option<String> },
    /// The new target of a link that keeps its text.
    Target(String),
    /// The text that replaces the whole element.
    Text(String),
}

/// Decodes the addresses that Cloudflare, Joomla and TYPO3 encode, and those written backwards with a style
/// that reverses them. Addresses that cannot be decoded stay as they are.
pub(super) fn show_mail_addresses(dom: &mut Dom) {
    let changes: Vec<(NodeId, Change)> =
        dom.descendants(DOCUMENT).filter_map(|id| Some((id, find_change(dom, id)?))).collect();
    for (id, change) in changes {
        match change {
            Change::Target(target) => dom.set_attribute(id, "href", &target),
            Change::Text(text) => {
                let text = dom.push_text(&text);
                dom.insert_before(id, text);
                dom.detach(id);
            }
            Change::Content { text, link } => {
                dom.detach_children(id);
                let text = dom.push_text(&text);
                match link {
                    Some(link) => {
                        let link = dom.push_element("a", &[("href", &link)]);
                        dom.append(link, text);
                        dom.append(id, link);
                    }
                    None => dom.append(id, text),
                }
            }
        }
    }
}

/// The change that shows the address that an element hides. `None` if it hides none, or if the address cannot
/// be decoded. A text counts as written backwards if it is in ASCII, has an `@`, is all that the element
/// contains, and the element's own `style` and `dir` reverse it.
fn find_change(dom: &Dom, id: NodeId) -> Option<Change> {
    dom.element(id)?;
    if let Some(encoded) = dom.attribute(id, "data-cfemail") {
        return decode_xor(encoded).map(Change::Text);
    }
    if dom.tag(id) == Tag::A
        && let Some(address) = dom.attribute(id, "href")
        && let Some((path, encoded)) = address.split_once('#')
        && path.ends_with("/cdn-cgi/l/email-protection")
    {
        return decode_xor(encoded).map(|address| Change::Target(format!("mailto:{address}")));
    }
    if let Some(target) = decode_shifted_link(dom, id) {
        return Some(Change::Target(target));
    }
    if dom.name(id) == "joomla-hidden-mail" {
        return decode_parts(dom, id);
    }
    let is_backwards = || {
        dom.style(id, "unicode-bidi").is_some_and(|value| value.ends_with("bidi-override"))
            && (dom.style(id, "direction") == Some("rtl") || dom.attribute(id, "dir") == Some("rtl"))
    };
    let only = dom.node(id).first.filter(|&only| dom.node(id).last == Some(only))?;
    // The style reverses text that runs from left to right, so accept only ASCII.
    let text = dom.text(only).filter(|text| text.is_ascii() && text.contains('@') && is_backwards())?;
    let text = text.trim().chars().rev().collect();
    Some(Change::Content { text, link: None })
}

/// The target of a link of TYPO3, whose script shifts the characters of a `mailto:` address by a number. The
/// link has the shifted address and the number in attributes. In older versions, it calls the script with the
/// shifted address, and only the script has the number, so each one is tried. `None` for other links, and if
/// the result is no address.
fn decode_shifted_link(dom: &Dom, id: NodeId) -> Option<String> {
    let decode = |encoded: &str, by: i32| {
        let target = encoded.chars().map(|c| shift_back(c, by)).collect::<Option<String>>()?;
        as_address(target.into_bytes()).filter(|target| target.starts_with("mailto:"))
    };
    if dom.tag(id) != Tag::A {
        return None;
    }
    if let Some(token) = dom.attribute(id, "data-mailto-token").filter(|token| token.len() <= MAX_ENCODED) {
        return decode(token, dom.attribute(id, "data-mailto-vector")?.trim().parse().ok()?);
    }
    let script = dom.attribute(id, "href")?.strip_prefix("javascript:linkTo_UnCryptMailto(")?;
    let script = script.replace("%27", "'").replace("%5C", "\\").replace("%2F", "/").replace("%2B", "+");
    let encoded = script.split('\'').nth(1).filter(|encoded| encoded.len() <= MAX_ENCODED)?;
    let encoded = encoded.replace('\\', "");
    (-25..=25).find_map(|by| decode(&encoded, by))
}

/// Moves a character back by `by` places within its range, as the script of TYPO3 does: `+` to `:`, `@` to
/// `Z`, or `a` to `z`. Other characters stay. `None` if `by` is not from -26 to 26.
fn shift_back(c: char, by: i32) -> Option<char> {
    if !(-26..=26).contains(&by) {
        return None;
    }
    let ranges = ['+'..=':', '@'..='Z', 'a'..='z'];
    let Some(range) = ranges.iter().find(|range| range.contains(&c)) else { return Some(c) };
    let (start, end) = (*range.start() as i32, *range.end() as i32);
    let length = end - start + 1;
    let moved = start + (c as i32 - start - by).rem_euclid(length);
    u8::try_from(moved).ok().map(char::from)
}

/// Decodes an address that is written as hexadecimal bytes. The first byte is the key: XOR with it gives each
/// byte of the address. `None` for other text, for more than [`MAX_ENCODED`] bytes, and if the result is no
/// address.
fn decode_xor(encoded: &str) -> Option<String> {
    let encoded = encoded.trim().as_bytes();
    if encoded.len() > MAX_ENCODED || !encoded.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> =
        encoded.chunks_exact(2).map(|pair| Some(digit(&pair[0])? << 4 | digit(&pair[1])?)).collect();
    let bytes = bytes?;
    let (key, rest) = bytes.split_first()?;
    as_address(rest.iter().map(|byte| byte ^ key).collect())
}

/// The address whose two halves are attributes in Base64, with the text that the page gives for it. Without
/// such a text, or if it is HTML, the address is the text. It is a link unless the page says otherwise.
/// `None` if the halves cannot be decoded or are no address.
fn decode_parts(dom: &Dom, id: NodeId) -> Option<Change> {
    let part = |name| String::from_utf8(decode_base64(dom.attribute(id, name)?)?).ok();
    let address = as_address(format!("{}@{}", part("first")?, part("last")?).into_bytes())?;
    let text = part("text").filter(|text| !text.trim().is_empty() && !text.contains('<'));
    let link = (dom.attribute(id, "is-link") != Some("0")).then(|| format!("mailto:{address}"));
    Some(Change::Content { text: text.unwrap_or(address), link })
}

/// The decoded bytes as text; `None` unless they are UTF-8 with an `@` and without control characters.
fn as_address(bytes: Vec<u8>) -> Option<String> {
    let is_address = |text: &String| text.contains('@') && !text.contains(|c: char| c.is_control());
    String::from_utf8(bytes).ok().filter(is_address)
}

/// Decodes Base64 (RFC 4648 §4) with or without padding or white space around it. `None` for other
/// characters, and for input of more than [`MAX_ENCODED`] bytes. Drops incomplete bytes at the end.
fn decode_base64(encoded: &str) -> Option<Vec<u8>> {
    let encoded = encoded.trim().trim_end_matches('=');
    if encoded.len() > MAX_ENCODED {
        return None;
    }
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in encoded.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn hidden_addresses_are_shown() {
        let hex = "543931142127213931273b7a363d2e";
        let address = "me@usumeso.biz";
        for (html, expected) in [
            (
                format!("<p>Mail <a href=/cdn-cgi/l/email-protection class=__cf_email__ data-cfemail={hex}>[email&#160;protected]</a>."),
                format!("Mail {address}.\n"),
            ),
            (
                format!("<p><a href='/cdn-cgi/l/email-protection#{hex}'>Write</a>"),
                format!("[Write](mailto:{address})\n"),
            ),
            (
                format!("<p><a href='/cdn-cgi/l/email-protection#{hex}'><b data-cfemail={hex}>x</b></a>"),
                format!("{address}\n"),
            ),
            (
                format!("<pre><code>git clone <a data-cfemail={hex}>x</a>:a</code></pre>"),
                format!("```\ngit clone {address}:a\n```\n"),
            ),
            (
                "<p><joomla-hidden-mail is-link=1 first='aW5mbw==' last='ZXhhbXBsZS5jb20=' text='V3JpdGU='>x</joomla-hidden-mail>".to_owned(),
                "[Write](mailto:info@example.com)\n".to_owned(),
            ),
            (
                "<p><joomla-hidden-mail is-link=0 first=aW5mbw last=ZXhhbXBsZS5jb20>x</joomla-hidden-mail>".to_owned(),
                "info@example.com\n".to_owned(),
            ),
            (
                "<p><b style='unicode-bidi:bidi-override; direction: rtl'>moc.elpmaxe@ofni</b>".to_owned(),
                "**info@example.com**\n".to_owned(),
            ),
            (
                "<p><a style='unicode-bidi:bidi-override; direction: rtl'>moc.elpmaxe@ofni</a>".to_owned(),
                "info@example.com\n".to_owned(),
            ),
        ] {
            assert_eq!(markdown(&html), expected, "{html}");
        }
    }

    #[test]
    fn addresses_with_shifted_characters_are_decoded() {
        for (attributes, target) in [
            ("href=# data-mailto-token=nbjmup+tpnfAfnbjm/ume data-mailto-vector=1", "some@email.tld"),
            ("href=# data-mailto-token=ocknvq,kphqBqcm0gzcorng data-mailto-vector=2", "info@oak.example"),
            ("href=# data-mailto-token=lzhksn9hmenZnzj-dwzlokd data-mailto-vector=-1", "info@oak.example"),
            (
                "href='javascript:linkTo_UnCryptMailto(%27nbjmup%2BjogpApbl%5C%2Ffybnqmf%27);'",
                "info@oak.example",
            ),
            ("href=\"javascript:linkTo_UnCryptMailto('ocknvq,kphqBqcm0gzcorng');\"", "info@oak.example"),
        ] {
            let html = format!("<p>Write to <a {attributes}>us</a>.");
            assert_eq!(markdown(&html), format!("Write to [us](mailto:{target}).\n"), "{attributes}");
        }
        for attributes in [
            "href=# data-mailto-token=nbjmup+tpnfAfnbjm/ume",
            "href=# data-mailto-token=nbjmup+tpnfAfnbjm/ume data-mailto-vector=2",
            "href=# data-mailto-token=nbjmup+tpnfAfnbjm/ume data-mailto-vector=99999999999",
            "href=# data-mailto-token=nbjmup+tpnfAfnbjm/ume data-mailto-vector=-2147483648",
            "href=# data-mailto-token=nbjmup+tpnfAfnbjm/ume data-mailto-vector=2147483647",
            "href=# data-mailto-token=nbjmup+tpnfAfnbjm/ume data-mailto-vector=27",
            "href='javascript:linkTo_UnCryptMailto(x)'",
            "href=\"javascript:linkTo_UnCryptMailto('x')\"",
        ] {
            assert_eq!(markdown(&format!("<p><a {attributes}>us</a>")), "us\n", "{attributes}");
        }
    }

    #[test]
    fn what_is_no_hidden_address_stays() {
        for value in ["", "5", "54", "zz", "5439311", "5400", "00ff40", "\u{e9}\u{e9}", "0061"] {
            let html = format!("<p><b data-cfemail='{value}'>x</b>");
            assert_eq!(markdown(&html), "**x**\n", "{value}");
            let html = format!("<p><a href='/cdn-cgi/l/email-protection#{value}'>x</a>");
            assert!(markdown(&html).starts_with("[x](/cdn-cgi/"), "{value}");
            let html = format!("<p><joomla-hidden-mail first='{value}' last='\u{e9}'>x</joomla-hidden-mail>");
            assert_eq!(markdown(&html), "x\n", "{value}");
        }
        for html in ["<b style='unicode-bidi:bidi-override'>a@b</b>", "<b style='direction:rtl'>a@b</b>"] {
            assert_eq!(markdown(html), "**a@b**\n", "{html}");
        }
    }
}
