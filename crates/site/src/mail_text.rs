//! Reads the text of a mail to visitors: a Markdown file with a subject in its front matter. The result has a
//! plain-text and an HTML version.
//!
//! The placeholders of the file, such as `{site}`, stand for the operator's values, the date and the
//! confirmation link, but never for a visitor's input.

use std::borrow::Cow;
use std::fmt::Write as _;

use comrak::Arena;
use comrak::nodes::{ListType, Node, NodeHtmlBlock, NodeValue};
use comrak::options::Options;
use frontdesk_convert::attributes;
use serde_json::{Map, Value};

use super::front_matter::{line_of_key, split};
use super::language::is_right_to_left;
use super::link_resolution::has_scheme;
use super::link_rewriting::tag_length;
use super::placeholder::{fill, placeholders};
use crate::fault::{Fault, Severity, did_you_mean};
use frontdesk_forms::email::Mailbox;
use frontdesk_forms::text::{escape_html, visible};

/// Maximum length of the Markdown in bytes. Some mail programs clip messages that are longer than 100 KB.
const MAX_TEXT: usize = 50_000;
/// Maximum length of the subject in characters, before its placeholders are filled. Mail programs truncate
/// longer subjects.
const MAX_SUBJECT: usize = 100;

/// A mail to visitors. Placeholders without a value at load time are still in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedMail {
    pub subject: String,
    /// The sender's name; empty if the mail's file does not set it.
    pub from_name: String,
    /// The e-mail address for replies; empty if the mail's file does not set it.
    pub reply_to: String,
    pub text: String,
    pub html: String,
    pub warnings: Vec<Fault>,
}

/// The name of a placeholder, and its value; `None` if the value is known only when the mail is sent.
pub type Placeholder<'a> = (&'a str, Option<&'a str>);

const KEYS: [&str; 3] = ["subject", "from_name", "reply_to"];

/// Parses a file, and fills the placeholders in its subject, sender's name and text that have a value in
/// `known`. Fails with all faults if one is an error, such as a placeholder in the subject or text that is
/// not in `known`. In the sender's name, a placeholder that is not in `known` or has no value there is a
/// warning, and stays unchanged. Targets of links and images that begin with `/` get `base_url`, the site's
/// origin, unless it is empty. Warns about targets that stay relative, and about footnotes. `place` is the
/// file's name in faults, and `language` the language of its text.
pub fn parse_mail(
    place: &str,
    text: &str,
    language: &str,
    base_url: &str,
    known: &[Placeholder<'_>],
) -> Result<ParsedMail, Vec<Fault>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (source, body, table) = split(place, text).map_err(|fault| vec![with_mail_hint(fault)])?;
    let mut faults = Vec::new();
    let line_of = |key: &str| line_of_key(source.lines(), key);
    for key in table.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        let fault = Fault::error(place, line_of(key), format!("unknown key `{key}`"));
        let keys = || format!("a mail has the keys {}", KEYS.map(|key| format!("`{key}`")).join(", "));
        faults.push(fault.hint(did_you_mean(key, KEYS, keys)));
    }
    let mut get = |key: &str| match get_line(&table, key) {
        Ok(value) => value,
        Err(what) => {
            faults.push(Fault::error(place, line_of(key), format!("`{key}` {what}")));
            String::new()
        }
    };
    let (subject, from_name, reply_to) = (get("subject"), get("from_name"), get("reply_to"));
    let mut refuse = |line, what: String| faults.push(Fault::error(place, line, what));
    if subject.is_empty() && !table.contains_key("subject") {
        refuse(Some(1), "the front matter needs a `subject`".to_owned());
    }
    if subject.chars().count() > MAX_SUBJECT {
        refuse(line_of("subject"), format!("`subject` must have at most {MAX_SUBJECT} characters"));
    }
    if !reply_to.is_empty() && Mailbox::parse(&reply_to).is_none() {
        refuse(line_of("reply_to"), format!("`reply_to` must be an e-mail address, not `{reply_to}`"));
    }
    let body_line = text[..text.len() - body.len()].matches('\n').count() + 1;
    if body.trim().is_empty() {
        refuse(Some(body_line), "the mail has no text".to_owned());
    }
    if body.len() > MAX_TEXT {
        refuse(Some(body_line), format!("the text must have at most {MAX_TEXT} bytes"));
    }
    // The sender's name is the same in all mails, so it may use only placeholders that already have a value.
    let fixed: Vec<_> = known.iter().copied().filter(|(_, value)| value.is_some()).collect();
    let head = [
        (&*subject, line_of("subject"), known, Severity::Error),
        // Only warn about placeholders here: braces in a sender's name may be meant literally.
        (&from_name, line_of("from_name"), &fixed, Severity::Warning),
    ];
    let lines = body.lines().enumerate();
    let lines = lines.map(|(at, line)| (line, Some(body_line + at), known, Severity::Error));
    for (text, line, known, severity) in head.into_iter().chain(lines) {
        // Footnotes are not enabled in mails, so the parser would treat the note as a link definition.
        if text.trim_start().starts_with("[^") && text.contains("]:") {
            let fault = Fault::warning(place, line, "mails have no footnotes".to_owned());
            faults.push(fault.hint("write the note in parentheses, or at the end of the text"));
        }
        let is_unknown = |name: &&str| !known.iter().any(|(other, _)| other == name);
        for name in placeholders(text).into_iter().filter(is_unknown) {
            let names: Vec<String> = known.iter().map(|(name, _)| format!("{{{name}}}")).collect();
            let fault = Fault::error(place, line, format!("unknown placeholder {{{name}}}"));
            faults.push(Fault { severity, ..fault.hint(format!("use one of {}", names.join(", "))) });
        }
    }
    if faults.iter().any(|fault| fault.severity == Severity::Error) {
        return Err(faults);
    }
    let value = |name: &str| known.iter().find(|(other, _)| *other == name).and_then(|(_, value)| *value);
    let plain = |text: &str| fill(text, |name| value(name).map(Cow::Borrowed));
    let arena = Arena::new();
    let options = parser_options();
    let root = comrak::parse_document(&arena, body, &options);
    faults.extend(make_targets_absolute(root, base_url, place, body_line));
    let mut text = String::new();
    write_plain_text(root, &mut text);
    let (subject, from_name) = (plain(&subject), plain(&from_name));
    let html = html_document(root, &options, &subject, language, known);
    let html = fill(&html, |name| value(name).map(|value| escape_html(value).into()));
    let text = format!("{}\n", plain(text.trim()));
    Ok(ParsedMail { subject, from_name, reply_to, text, html, warnings: faults })
}

/// Replaces the hint about missing front matter: the original hint names keys of pages, not of mails.
fn with_mail_hint(fault: Fault) -> Fault {
    match fault.hint {
        Some(_) if fault.message == "no front matter" => {
            fault.hint("begin the file with a line `---`, `subject: …`, and a line `---`")
        }
        _ => fault,
    }
}

/// The trimmed value of a key; empty if the key is absent. Fails if the value is blank or not one
/// line of text. The error is the rest of a sentence that begins with the key.
fn get_line(table: &Map<String, Value>, key: &str) -> Result<String, &'static str> {
    match table.get(key) {
        None => Ok(String::new()),
        Some(Value::String(text)) if text.trim().is_empty() => Err("must not be empty"),
        Some(Value::String(text)) if visible(text) != *text => {
            Err("must be one line without control characters")
        }
        Some(Value::String(text)) => Ok(text.trim().to_owned()),
        Some(_) => Err("must be text"),
    }
}

/// The Markdown syntax of mails: CommonMark with tables, struck-through text and links from bare addresses.
/// Keeps raw HTML, because the author is the operator.
fn parser_options() -> Options<'static> {
    let mut options = Options::default();
    options.extension.autolink = true;
    options.extension.cjk_friendly_emphasis = true;
    options.extension.strikethrough = true;
    options.extension.table = true;
    options.render.r#unsafe = true;
    options
}

/// Puts `base_url` before the targets of links and images that begin with `/`, also in `href` and `src` of
/// raw HTML outside of comments, and `https:` before `//`. Returns warnings about other relative ones, and
/// about all that begin with `/` if `base_url` is empty. Keeps targets that have a scheme or begin with `{`,
/// as a placeholder does. `body_line` is the first line of the Markdown in the file `place`.
fn make_targets_absolute(root: Node<'_>, base_url: &str, place: &str, body_line: usize) -> Vec<Fault> {
    let mut relative = Vec::new();
    for node in root.descendants() {
        let mut data = node.data_mut();
        let line = body_line + data.sourcepos.start.line - 1;
        let mut absolute = |target: &str| {
            let is_kept = target.is_empty() || target.starts_with('{') || has_scheme(target);
            match target.as_bytes() {
                _ if is_kept => None,
                [b'/', b'/', ..] => Some(format!("https:{target}")),
                [b'/', ..] if !base_url.is_empty() => Some([base_url, target].concat()),
                _ => {
                    relative.push(dead_target(place, line, target));
                    None
                }
            }
        };
        match &mut data.value {
            NodeValue::Link(element) | NodeValue::Image(element) => {
                element.url = absolute(&element.url).unwrap_or_else(|| std::mem::take(&mut element.url));
            }
            NodeValue::HtmlBlock(NodeHtmlBlock { literal, .. }) | NodeValue::HtmlInline(literal) => {
                let is_target = |name: &str| ["href", "src"].iter().any(|of| name.eq_ignore_ascii_case(of));
                let targets = attributes(literal).filter(|(name, _)| is_target(name));
                // Replace the last target first, so that the positions of earlier targets stay correct.
                for range in targets.map(|(_, range)| range).collect::<Vec<_>>().into_iter().rev() {
                    if let Some(target) = absolute(&literal[range.clone()]) {
                        literal.replace_range(range, &target);
                    }
                }
            }
            _ => {}
        }
    }
    relative
}

/// Warns that the target of a link or an image stays relative, so it does not work in a mail.
fn dead_target(place: &str, line: usize, target: &str) -> Fault {
    let fault = Fault::warning(
        place,
        Some(line),
        format!("the relative URL `{}` does not work in a mail", visible(target)),
    );
    fault.hint(if target.starts_with('/') {
        "set `base_url` in frontdesk.toml"
    } else {
        "begin it with `https://` or `/`"
    })
}

/// The HTML version. Restores the braces of placeholders in link targets, which the renderer percent-encodes.
/// Makes a link of each placeholder `{…_link}` in the text that is not in a link. In a right-to-left
/// language, the body states the direction, too.
fn html_document(
    root: Node<'_>,
    options: &Options<'_>,
    subject: &str,
    language: &str,
    known: &[Placeholder<'_>],
) -> String {
    let mut body = String::new();
    // Writing to a string cannot fail.
    let _ = comrak::format_html(root, options, &mut body);
    for (name, _) in known {
        body = body.replace(&format!("%7B{name}%7D"), &format!("{{{name}}}"));
    }
    let mut body = with_links(&body, known);
    let mut direction = "";
    if is_right_to_left(language) {
        // Mail programs drop the attributes of `<html>`, so repeat the direction within the body.
        (direction, body) = (" dir=\"rtl\"", format!("<div dir=\"rtl\">\n{body}</div>\n"));
    }
    format!(
        "<!doctype html>\n<html lang=\"{}\"{direction}>\n<head>\n<meta charset=\"utf-8\">\n<title>{}</title>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape_html(language),
        escape_html(subject)
    )
}

/// Makes a link of each placeholder `{…_link}` in the text of `html`. Keeps those in links, in comments and
/// in tags, such as in the attributes of images.
fn with_links(html: &str, known: &[Placeholder<'_>]) -> String {
    let names = || known.iter().map(|(name, _)| name).filter(|name| name.ends_with("_link"));
    let mut linked = String::with_capacity(html.len());
    let mut is_in_link = false;
    let mut rest = html;
    while let Some(at) = rest.find(['<', '{']) {
        linked.push_str(&rest[..at]);
        rest = &rest[at..];
        let link = names().map(|name| format!("{{{name}}}")).find(|link| rest.starts_with(link));
        let length = link.as_ref().map_or_else(|| markup_length(rest), String::len);
        let (part, after) = rest.split_at(length);
        let shown = link.filter(|_| !is_in_link).map(|link| format!("<a href=\"{link}\">{link}</a>"));
        linked.push_str(shown.as_deref().unwrap_or(part));
        let name = part.trim_start_matches(['<', '/']);
        let name = name.split(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>')).next();
        if name.is_some_and(|name| name.eq_ignore_ascii_case("a")) {
            is_in_link = !part.starts_with("</");
        }
        rest = after;
    }
    linked + rest
}

/// The length of the tag or comment at the beginning of `html`, or 1 if it begins with neither. The content
/// of a conditional comment, which Outlook reads as HTML, is not part of its length.
fn markup_length(html: &str) -> usize {
    let end = match html.as_bytes() {
        [b'<', b'!', b'-', b'-', c, ..] if *c != b'[' => "-->",
        [b'<', b'!', ..] => ">",
        [b'<', b'/', c, ..] | [b'<', c, ..] if c.is_ascii_alphabetic() => return tag_length(html),
        _ => return 1,
    };
    // A comment may be as short as `<!-->`.
    html[2..].find(end).map_or(html.len(), |at| 2 + at + end.len())
}

/// Appends the text of a node without Markdown's syntax, except list markers, the `>` of quotations and the
/// indentation of code blocks. A thematic break becomes `--`, and ` | ` separates the cells of a table. A
/// link's target follows its text unless both are the same, apart from `http://`; of `mailto:`, only the
/// address. Omits raw HTML, and the targets of images.
fn write_plain_text(node: Node<'_>, text: &mut String) {
    let value = node.data().value.clone();
    let all = |text: &mut String| node.children().for_each(|child| write_plain_text(child, text));
    match value {
        NodeValue::Text(words) => text.push_str(&words),
        NodeValue::Code(code) => text.push_str(&code.literal),
        NodeValue::SoftBreak | NodeValue::LineBreak => text.push('\n'),
        NodeValue::ThematicBreak => text.push_str("--\n\n"),
        NodeValue::CodeBlock(code) => {
            code.literal.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
            text.push('\n');
        }
        NodeValue::Link(link) => {
            let from = text.len();
            all(text);
            let address = link.url.strip_prefix("mailto:").and_then(|rest| rest.split('?').next());
            let target = address.unwrap_or(&link.url);
            if ![target, target.trim_start_matches("http://")].contains(&&text[from..]) {
                let _ = write!(text, " <{target}>");
            }
        }
        NodeValue::Item(item) => {
            let marker = match item.list_type {
                ListType::Bullet => "- ".to_owned(),
                // As in HTML, count from the number of the first item, and ignore the numbers of later items.
                ListType::Ordered => {
                    let before =
                        std::iter::successors(node.previous_sibling(), |item| item.previous_sibling());
                    let first = node.parent().and_then(|list| match list.data().value {
                        NodeValue::List(list) => Some(list.start),
                        _ => None,
                    });
                    format!("{}. ", first.unwrap_or(item.start) + before.count())
                }
            };
            let mut words = String::new();
            all(&mut words);
            let indented = words.trim().replace('\n', &format!("\n{}", " ".repeat(marker.len())));
            let _ = writeln!(text, "{marker}{indented}");
        }
        NodeValue::BlockQuote => {
            let mut words = String::new();
            all(&mut words);
            words.trim().lines().for_each(|line| text.push_str(&format!("> {line}\n")));
            text.push('\n');
        }
        NodeValue::Paragraph | NodeValue::Heading(_) => {
            all(text);
            text.push_str("\n\n");
        }
        NodeValue::TableCell => {
            if node.previous_sibling().is_some() {
                text.push_str(" | ");
            }
            all(text);
        }
        NodeValue::List(_) | NodeValue::Table(_) | NodeValue::TableRow(_) => {
            all(text);
            text.push('\n');
        }
        // Leave raw HTML out of the plain-text version of the mail.
        NodeValue::HtmlBlock(_) | NodeValue::HtmlInline(_) => {}
        _ => all(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Placeholder<'static>; 3] =
        [("site", Some("A & B")), ("date", None), ("link", Some("https://example.com/?a=1&b=2"))];

    #[test]
    fn a_mail_has_a_plain_and_an_html_version() {
        let mail = parse(
            "---\nsubject: \"Thanks: {site}\"\nfrom_name: \"{site}\"\nreply_to: desk@example.com\n---\n\
             # Hello\n\nWe *got* it on {date}.\nSee [our site]({link}) or <https://example.org>.\n\n- one\n- two\n  more\n\n\
             3. first\n3. second\n\n> quoted\n\n| Day | From |\n| --- | --- |\n| Monday | *9* |\n\n<b>raw</b> `code`\n",
        )
        .expect("it is valid");
        assert_eq!(
            (mail.subject.as_str(), mail.from_name.as_str(), mail.reply_to.as_str()),
            ("Thanks: A & B", "A & B", "desk@example.com")
        );
        assert_eq!(
            mail.text,
            "Hello\n\nWe got it on {date}.\nSee our site <https://example.com/?a=1&b=2> or https://example.org.\n\n\
             - one\n- two\n  more\n\n3. first\n4. second\n\n> quoted\n\nDay | From\nMonday | 9\n\nraw code\n"
        );
        assert!(mail.html.contains("<title>Thanks: A &amp; B</title>"), "{}", mail.html);
        assert!(
            mail.html.contains("<a href=\"https://example.com/?a=1&amp;b=2\">our site</a>"),
            "{}",
            mail.html
        );
        assert!(mail.html.contains("<td><em>9</em></td>"), "{}", mail.html);
        let cjk = parse("---\nsubject: a\n---\n**注意：**请").expect("it is valid");
        assert!(cjk.html.contains("<strong>注意：</strong>请") && cjk.text == "注意：请\n", "{}", cjk.html);
        assert!(mail.html.contains("<em>got</em> it on {date}") && mail.html.contains("<html lang=\"de\">"));
    }

    #[test]
    fn a_placeholder_for_a_link_is_one_link() {
        let link = "<a href=\"{my_link}\">{my_link}</a>";
        for (markdown, expected) in [
            ("{my_link}", link),
            ("[{my_link}]({my_link})", link),
            (
                "<a class=\"x\" href='{my_link}'>{my_link}</a>",
                "<a class=\"x\" href='{my_link}'>{my_link}</a>",
            ),
            ("[{my_link}]({my_link}) {my_link}", &*format!("{link} {link}")),
            ("<A HREF=\"{my_link}\"><b>{my_link}</b></A>", "<A HREF=\"{my_link}\"><b>{my_link}</b></A>"),
            ("<a\thref={my_link}>{my_link}</a>", "<a\thref={my_link}>{my_link}</a>"),
            ("<abbr title='a'>{my_link}</abbr>", &*format!("<abbr title='a'>{link}</abbr>")),
            ("a < b {my_link}", &*format!("a &lt; b {link}")),
            ("**{my_link}** {0} {", &*format!("<strong>{link}</strong> {{0}} {{")),
        ] {
            let text = format!("---\nsubject: a\n---\n{markdown}\n");
            let mail = parse_mail("a.md", &text, "en", "", &[("my_link", None)]).expect("it is valid");
            assert!(mail.html.contains(&format!("<p>{expected}</p>")), "{markdown}: {}", mail.html);
        }
    }

    #[test]
    fn a_placeholder_in_a_tag_or_comment_is_no_link() {
        for html in [
            "<div><img alt='a > b' src=\"{my_link}\"></div>",
            "<form action={my_link}><button>Confirm</button></form>",
            "<!--[if mso]><v:roundrect href=\"{my_link}\"><center>Confirm</center></v:roundrect><![endif]-->",
            "<!--[if !mso]><!--><a href=\"{my_link}\">Confirm</a><!--<![endif]-->",
            "<!-- It's <a href=x> <b>{my_link}</b> -->",
        ] {
            let text = format!("---\nsubject: a\n---\n{html}\n\n{{my_link}}\n");
            let mail = parse_mail("a.md", &text, "en", "", &[("my_link", None)]).expect("it is valid");
            let expected = format!("<body>\n{html}\n<p><a href=\"{{my_link}}\">{{my_link}}</a></p>\n</body>");
            assert!(mail.html.contains(&expected), "{html}: {}", mail.html);
        }
        let text = "---\nsubject: a\n---\n![{my_link}]({my_link} \"{my_link}\")\n";
        let mail = parse_mail("a.md", text, "en", "", &[("my_link", None)]).expect("it is valid");
        let image = "<p><img src=\"{my_link}\" alt=\"{my_link}\" title=\"{my_link}\" /></p>";
        assert!(mail.html.contains(image), "{}", mail.html);
    }

    #[test]
    fn faults_have_a_line_and_say_what_would_be_right() {
        check("Thanks.", Some(1), "no front matter");
        check("---\nfrom_name: Desk\n---\nThanks.", Some(1), "the front matter needs a `subject`");
        check("---\nsubject: [a]\n---\nThanks.", Some(2), "`subject` must be text");
        check("---\nsubject: ''\n---\nThanks.", Some(2), "`subject` must not be empty");
        check(
            "---\nsubject: \"a\\r\\nBcc: x\"\n---\nThanks.",
            Some(2),
            "`subject` must be one line without control characters",
        );
        check(
            "---\nsubject: a\nfrom_name: \"a\\nb\"\n---\nThanks.",
            Some(3),
            "`from_name` must be one line without control characters",
        );
        check(
            "---\nsubject: a\nreply_to: nowhere\n---\nThanks.",
            Some(3),
            "`reply_to` must be an e-mail address, not `nowhere`",
        );
        check("---\nsubject: a\nreplyto: a@b.example\n---\nThanks.", Some(3), "unknown key `replyto`");
        check("---\nfrom_name: A\nfrom: b\nsubject: a\n---\nThanks.", Some(3), "unknown key `from`");
        check("---\nsubject: a\n---\n \n", Some(4), "the mail has no text");
        check("---\nsubject: a\n---\nDear\n{name},\n", Some(5), "unknown placeholder {name}");
        check("---\nsubject: Dear {name}\n---\nThanks.\n", Some(2), "unknown placeholder {name}");
        let long = format!("---\nsubject: {}\n---\nThanks.", "a".repeat(101));
        check(&long, Some(2), "`subject` must have at most 100 characters");
    }

    #[test]
    fn a_senders_name_may_have_literal_braces_but_gets_a_warning() {
        for (name, expected) in [("{team} desk", "{team} desk"), ("{site} {date}", "A & B {date}")] {
            let mail = parse(&format!("---\nsubject: a\nfrom_name: \"{name}\"\n---\nThanks.\n"));
            let ParsedMail { from_name, warnings, .. } = mail.expect("it is valid");
            assert_eq!((from_name.as_str(), warnings.len(), warnings[0].line), (expected, 1, Some(3)));
            assert_eq!(warnings[0].severity, Severity::Warning);
            assert!(warnings[0].message.starts_with("unknown placeholder {"), "{warnings:?}");
        }
    }

    #[test]
    fn a_footnote_gets_a_warning() {
        let mail = parse("---\nsubject: a\n---\nOpen[^1] at nine.\n\n[^1]: Except Sundays\n");
        let warnings = mail.expect("it is valid").warnings;
        assert_eq!((warnings.len(), warnings[0].line), (1, Some(6)));
        assert_eq!(warnings[0].message, "mails have no footnotes");
    }

    #[test]
    fn links_and_images_lead_to_the_site() {
        let mail = parse(
            "---\nsubject: a\n---\n[our prices](/prices/) ![Logo](/logo.png) <a class=x href=\"/raw/\">raw</a>\n\n\
             <img alt=\"/a\" src='/b.png'><a href=//c.example/>c</a>\n\n\
             [us](mailto:team@a.example?subject=Hi%20there) www.b.example [c](#top) [d][d]\n\n[d]: faq\n",
        )
        .expect("it is valid");
        for part in [
            "<a href=\"https://www.example.com/prices/\">our prices</a>",
            "<img src=\"https://www.example.com/logo.png\"",
            "<a class=x href=\"https://www.example.com/raw/\">",
            "<img alt=\"/a\" src='https://www.example.com/b.png'><a href=https://c.example/>",
            "<a href=\"mailto:team@a.example?subject=Hi%20there\">us</a>",
        ] {
            assert!(mail.html.contains(part), "{part}: {}", mail.html);
        }
        let first = "our prices <https://www.example.com/prices/> Logo raw\n";
        let last = "us <team@a.example> www.b.example c <#top> d <faq>\n";
        assert!(mail.text.starts_with(first) && mail.text.ends_with(last), "{}", mail.text);
        let found: Vec<_> = mail.warnings.iter().map(|fault| (fault.line, fault.message.as_str())).collect();
        let dead = ["#top", "faq"].map(|url| format!("the relative URL `{url}` does not work in a mail"));
        assert_eq!(found, [(Some(8), &*dead[0]), (Some(8), &*dead[1])]);
        let text = "---\nsubject: a\n---\n[our prices](/prices/)\n";
        let mail = parse_mail("a.md", text, "en", "", &KNOWN).expect("it is valid");
        assert_eq!(mail.warnings.len(), 1);
        assert!(mail.html.contains("<a href=\"/prices/\">"), "{}", mail.html);
    }

    #[test]
    fn mails_in_arabic_are_written_from_right_to_left() {
        let mail = parse_mail("mails/thanks.ar.md", "---\nsubject: شكرا\n---\nمرحبا.\n", "ar", "", &KNOWN);
        let html = mail.expect("it is valid").html;
        assert!(html.contains("<html lang=\"ar\" dir=\"rtl\">"), "{html}");
        assert!(html.contains("<body>\n<div dir=\"rtl\">\n<p>مرحبا.</p>\n</div>\n</body>"), "{html}");
    }

    fn parse(text: &str) -> Result<ParsedMail, Vec<Fault>> {
        parse_mail("mails/thanks.md", text, "de", "https://www.example.com", &KNOWN)
    }

    fn check(text: &str, line: Option<usize>, message: &str) {
        let faults = parse(text).expect_err("it is invalid");
        let found: Vec<_> = faults.iter().map(|fault| (fault.line, fault.message.as_str())).collect();
        assert_eq!(found, [(line, message)], "{text}");
        assert_eq!(faults[0].place, "mails/thanks.md");
    }
}
