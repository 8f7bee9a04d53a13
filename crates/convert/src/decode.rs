//! Decodes HTML files in the encodings that browsers choose.

use std::borrow::Cow;

use encoding_rs::{Encoding, ISO_2022_JP, WINDOWS_1252, X_USER_DEFINED};
use memchr::memchr;

use super::tag_scan::{Markup, Tag, find_end_tag, next_attribute, next_markup, position_after};

/// The byte that switches between the character sets of ISO-2022-JP.
const ESCAPE: u8 = 0x1b;

/// The text of an HTML file, and its media type. A file that is not UTF-8, or that declares ISO-2022-JP and
/// has escape sequences, has the encoding of its byte order mark, or the one that it declares, or else the
/// default of its language (`DEFAULTS`), or else Windows-1252. The media type has a `charset` only for valid
/// UTF-8 and for the default of the language: browsers find the other encodings without one. Invalid bytes
/// become U+FFFD.
pub fn decode_html(bytes: &[u8]) -> (Cow<'_, str>, &'static str) {
    // Valid UTF-8 with escape bytes may be ISO-2022-JP, so only then check the declaration.
    let is_utf8 = |_: &&str| memchr(ESCAPE, bytes).is_none() || declared_encoding(bytes) != Some(ISO_2022_JP);
    if let Some(text) = std::str::from_utf8(bytes).ok().filter(is_utf8) {
        return (text.into(), "text/html; charset=utf-8");
    }
    let declared = declared_encoding(bytes).or_else(|| Some(Encoding::for_bom(bytes)?.0));
    let by_language = if declared.is_none() { decode_by_language(bytes) } else { None };
    by_language.unwrap_or_else(|| (declared.unwrap_or(WINDOWS_1252).decode(bytes).0, "text/html"))
}

/// Each line has language tags, and media types with the encodings that files in these languages usually have
/// (HTML §13.2.3.2). The first encoding in which all bytes of a file are valid applies. The standard's table
/// has neither EUC-JP, in which Shift_JIS is not valid, nor Windows encodings beside those of ISO 8859, nor
/// Serbian in Latin script, which has the encodings of Croatian.
const DEFAULTS: &str = "\
cs_hr_hu_pl_sk_sl_sr-latn|text/html; charset=iso-8859-2|text/html; charset=windows-1250
ru_uk_be_bg_mk_sr_kk_ky_tg_tt_ba_sah|text/html; charset=windows-1251
ja|text/html; charset=euc-jp|text/html; charset=shift_jis
zh-hant_zh-tw_zh-hk_zh-mo|text/html; charset=big5
zh|text/html; charset=gbk
ko|text/html; charset=euc-kr
el|text/html; charset=iso-8859-7|text/html; charset=windows-1253
tr_az_ku|text/html; charset=windows-1254
iw_he|text/html; charset=windows-1255
ar_fa|text/html; charset=windows-1256
et_lt_lv|text/html; charset=windows-1257
th|text/html; charset=windows-874
vi|text/html; charset=windows-1258";

/// The text of a file in a default encoding of its language, and its media type. `None` if it declares no
/// language with a default, or if the bytes are not valid in any of these encodings.
fn decode_by_language(bytes: &[u8]) -> Option<(Cow<'_, str>, &'static str)> {
    let language = find_language(bytes)?.to_ascii_lowercase();
    let is_own =
        |tag: &str| language.strip_prefix(tag).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    let mut lines = DEFAULTS.lines().filter_map(|line| line.split_once('|'));
    let (_, media_types) = lines.find(|(tags, _)| tags.split('_').any(is_own))?;
    media_types.split('|').find_map(|media_type| {
        let (_, label) = media_type.split_once('=')?;
        // In ISO 8859, the bytes 0x80 to 0x9F are control characters, which do not occur in text.
        let has_controls = label.starts_with("iso") && bytes.iter().any(|byte| matches!(byte, 0x80..=0x9f));
        let encoding = Encoding::for_label(label.as_bytes()).filter(|_| !has_controls)?;
        Some((encoding.decode_without_bom_handling_and_without_replacement(bytes)?, media_type))
    })
}

/// The language of the first `<html>` tag outside of comments: the value of `lang`, or else of `xml:lang`.
fn find_language(bytes: &[u8]) -> Option<&str> {
    let tag = tags(bytes).find(|tag| tag.name.eq_ignore_ascii_case(b"html") && !tag.is_end)?;
    let mut rest = &bytes[tag.name_end..];
    let mut language = None;
    while let Some((attribute, value)) = next_attribute(&mut rest) {
        let value = value.unwrap_or_default();
        if attribute.eq_ignore_ascii_case(b"lang") {
            return str::from_utf8(value).ok();
        }
        if attribute.eq_ignore_ascii_case(b"xml:lang") {
            language = str::from_utf8(value).ok();
        }
    }
    language
}

/// The encoding in the first `<meta>` of an HTML file that declares a known one, or else in the XML
/// declaration (HTML §13.2.3.2). UTF-8 instead of UTF-16 and of encodings that browsers refuse, and
/// Windows-1252 instead of `x-user-defined`.
pub fn declared_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let encoding = find_meta_encoding(bytes).or_else(|| find_xml_encoding(bytes))?;
    // A file whose declaration is readable as ASCII is not UTF-16, even if it declares UTF-16: assume UTF-8.
    let encoding = encoding.output_encoding();
    Some(if encoding == X_USER_DEFINED { WINDOWS_1252 } else { encoding })
}

/// The encoding in the XML declaration at the start of a file, which must end within its first 1,024 bytes.
fn find_xml_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = bytes[..bytes.len().min(1024)].trim_ascii_start().strip_prefix(b"<?xml")?;
    let start = String::from_utf8_lossy(start);
    let (_, label) = start.split_once("?>")?.0.split_once("encoding")?;
    let label = label.trim_start().trim_start_matches('=').trim_start().trim_start_matches(['"', '\'']);
    Encoding::for_label(label.split(['"', '\'']).next()?.as_bytes())
}

/// The encoding in the first `<meta>` that declares one. Reads tags as the prescan of the HTML standard does,
/// but does not stop after 1,024 bytes, and skips the text of scripts, because parsers do so too.
fn find_meta_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    tags(bytes).find_map(|tag| {
        if tag.is_end || !tag.name.eq_ignore_ascii_case(b"meta") {
            return None;
        }
        let (mut is_pragma, mut content, mut charset) = (None, None, None);
        let mut rest = &bytes[tag.name_end..];
        while let Some((attribute, value)) = next_attribute(&mut rest) {
            let value = value.unwrap_or_default();
            // If an attribute is repeated, the first one counts.
            if attribute.eq_ignore_ascii_case(b"http-equiv") {
                is_pragma.get_or_insert(value.eq_ignore_ascii_case(b"content-type"));
            } else if attribute.eq_ignore_ascii_case(b"content") {
                content.get_or_insert(value);
            } else if attribute.eq_ignore_ascii_case(b"charset") {
                charset.get_or_insert(value);
            }
        }
        let in_content = || content.filter(|_| is_pragma == Some(true)).and_then(find_charset);
        charset.or_else(in_content).and_then(Encoding::for_label)
    })
}

/// The tags outside of comments and raw text, such as scripts. Reads all tags as HTML, even those in SVG.
fn tags(bytes: &[u8]) -> impl Iterator<Item = Tag<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let (start, markup) = next_markup(bytes, at, usize::MAX)?;
            match markup {
                Markup::Tag(tag) => {
                    let text_end = || find_end_tag(bytes, tag.end, tag.name, usize::MAX);
                    at = if tag.may_begin_raw_text() {
                        text_end().map_or(bytes.len(), |end_tag| end_tag.end)
                    } else {
                        tag.end
                    };
                    return Some(tag);
                }
                Markup::Cdata => at = position_after(bytes, start, b">"),
                Markup::Other(end) => at = end,
            }
        }
    })
}

/// The label after `charset=` in the value of an attribute `content` (HTML, "extracting a character encoding
/// from a meta element").
fn find_charset(content: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"charset";
    let mut rest = content;
    loop {
        let at = rest.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))?;
        rest = rest[at + NAME.len()..].trim_ascii_start();
        let Some(value) = rest.strip_prefix(b"=") else { continue };
        return match value.trim_ascii_start() {
            [quote @ (b'"' | b'\''), label @ ..] => {
                label.iter().position(|byte| byte == quote).map(|end| &label[..end])
            }
            label => label.split(|byte| byte.is_ascii_whitespace() || *byte == b';').next(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_those_that_browsers_choose() {
        let late =
            format!("<title>x</title><style>{}</style><meta charset=iso-8859-2>\u{1}", "x".repeat(3000));
        let late: Vec<u8> = late.bytes().map(|byte| if byte == 1 { 0xb1 } else { byte }).collect();
        for (html, expected) in [
            (&b"<?xml version='1.0' encoding='iso-8859-2'?><title>\xb1</title>"[..], "\u{105}"),
            (b"<?xml version=\"1.0\" encoding = \"iso-8859-2\" ?><meta charset=iso-8859-1>\xb1", "\u{b1}"),
            (b"<title>\x80 \xfc</title>", "\u{20ac} \u{fc}"),
            (b"<meta charset=utf-8>\xfc", "\u{fffd}"),
            (b"<meta charset=utf-16>\xfc", "\u{fffd}"),
            ("<?xml version='1.0' encoding='iso-8859-2'?>\u{fc}".as_bytes(), "\u{fc}"),
            (b"\xff\xfea\0", "a"),
            (b"<meta charset=iso-2022-jp>\x1b$B$\"\x1b(B", "\u{3042}"),
            ("<meta charset=utf-8>\u{fc}\x1b".as_bytes(), "\u{fc}"),
            (b"<meta charset=x-user-defined>\x80", "\u{20ac}"),
            // Only a `<meta>` declares an encoding, and only outside of comments, scripts and other values.
            (b"<!-- <meta charset=utf-8> --><meta charset=iso-8859-2>\xb1", "\u{105}"),
            (b"<!--><meta charset=iso-8859-2>\xb1", "\u{105}"),
            (b"<!doctype html><script src=a charset=utf-8></script><meta charset=iso-8859-2>\xb1", "\u{105}"),
            (b"<SCRIPT>'<meta charset=utf-8>'</s></Script ><meta charset=iso-8859-2>\xb1", "\u{105}"),
            (b"<link href='/a?charset=utf-8'><meta content='charset=utf-8' name=x>\xb1", "\u{b1}"),
            (b"<p title='<meta charset=utf-8>'>a < b</p></meta charset=utf-8>\xfc", "\u{fc}"),
            (b"<meta charset = \n'iso-8859-2' / >\xb1", "\u{105}"),
            (b"<META/CHARSET=iso-8859-2\n>\xb1", "\u{105}"),
            (b"<meta charset=none><meta charset=iso-8859-2 charset=utf-8>\xb1", "\u{105}"),
            (
                b"<meta content='text/html; charset iso; charset = \"iso-8859-2\"' http-equiv=Content-Type>\xb1",
                "\u{105}",
            ),
            (b"<meta http-equiv=content-type content=text/html;charset=iso-8859-2;x>\xb1", "\u{105}"),
            (&late, "\u{105}"),
            (b"<meta charset='iso-8859-2>\xb1", "\u{b1}"),
            (b"\xb1<script><meta charset=iso-8859-2>", "\u{b1}"),
            (b"\xb1<", "\u{b1}"),
            (b"\xb1<meta charset", "\u{b1}"),
            (b"\xb1</", "\u{b1}"),
        ] {
            let (text, _) = decode_html(html);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_file_without_a_declaration_is_in_the_encoding_of_its_language() {
        for (html, expected, charset) in [
            (&b"<!doctype html><html lang=ru><title>\xd6\xe5\xed\xfb"[..], "Цены", "; charset=windows-1251"),
            (
                b"<!-- <html lang=ja> --><HTML id=a XML:LANG='uk-UA'>\xd6\xb3\xed\xe8",
                "Ціни",
                "; charset=windows-1251",
            ),
            (b"<html lang=ja>\x89\xbf\x8ai\x95\\ \x82\xcc", "価格表 の", "; charset=shift_jis"),
            (b"<html lang=ja>\xb2\xc1\xb3\xca\xc9\xbd \xa4\xce", "価格表 の", "; charset=euc-jp"),
            (b"<html lang=zh-CN>\xbc\xdb\xb8\xf1", "价格", "; charset=gbk"),
            (b"<html lang=zh-TW>\xbb\xf9\xae\xe6", "價格", "; charset=big5"),
            (b"<html lang=pl>\xafuraw, \xb1\xb6", "Żuraw, ąś", "; charset=iso-8859-2"),
            (b"<html lang=pl>\xafuraw, \xb9\x9c", "Żuraw, ąś", "; charset=windows-1250"),
            (b"<html lang=sr-Latn>\x9aef \xe6", "šef ć", "; charset=windows-1250"),
            (b"<html lang=el>\xd4\xe9\xec\xdd\xf2", "Τιμές", "; charset=iso-8859-7"),
            (b"<html lang=tr>\xfe\xf0", "şğ", "; charset=windows-1254"),
            // Bytes that are not valid in these encodings, other languages, and declarations.
            (b"<html lang=ja>caf\xe9 ", "café ", ""),
            (b"<html lang=rum>\xfc", "ü", ""),
            (b"<html lang=de>\xfc", "ü", ""),
            (b"<html><p lang=ru>\xfc", "ü", ""),
            (b"<html lang=ru><meta charset=koi8-r>\xe3\xc5\xce\xd9", "Цены", ""),
            ("<html lang=ru>Цены".as_bytes(), "Цены", "; charset=utf-8"),
            (b"\xff\xfe<\0h\0t\0m\0l\0 \0l\0a\0n\0g\0=\0r\0u\0>\0\x26\x04", "Ц", ""),
        ] {
            let (text, media_type) = decode_html(html);
            assert!(text.contains(expected), "{text}");
            assert_eq!(media_type, format!("text/html{charset}"), "{expected}");
        }
    }
}
