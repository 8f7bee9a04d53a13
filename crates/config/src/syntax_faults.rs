//! Faults in the TOML syntax of `frontdesk.toml`, without those that follow from an earlier one.

use toml::de::Error;

use frontdesk_site::fault::{Fault, closest};

/// The configuration file's name in the site's folder.
pub const FILE_NAME: &str = "frontdesk.toml";
/// The parser's message for a repeated key or table.
const DUPLICATE: &str = "duplicate key";
/// The parser's messages for text without quotes; the second one if the text begins with `t` or `f`.
const UNQUOTED: [&str; 2] = ["string values must be quoted", "invalid boolean"];
/// Quotation marks that word processors insert but TOML does not accept.
const TYPOGRAPHIC_QUOTES: [char; 8] = ['“', '”', '„', '‟', '‘', '’', '«', '»'];

/// The faults in the syntax of the file.
pub(super) struct SyntaxFaults {
    pub(super) faults: Vec<Fault>,
    /// Whether a part of the file cannot be read, so that keys may seem to be missing or misplaced.
    pub(super) is_incomplete: bool,
}

impl SyntaxFaults {
    /// Returns a fault for each repeated table or key and for each value without quotes. Of other errors,
    /// only the first counts, because the parser may misunderstand what follows; values without quotes after
    /// it are left out as well.
    pub(super) fn new(text: &str, errors: &[Error]) -> Self {
        let line = |error: &Error| {
            1 + text[..error.span().unwrap_or_default().start.min(text.len())].matches('\n').count()
        };
        let is_repeated = |error: &Error| error.message().contains(DUPLICATE);
        let is_unquoted = |error: &Error| UNQUOTED.iter().any(|message| error.message().contains(message));
        let source = SourceLines(text.lines().collect());
        let lines_of = |is_kind: &dyn Fn(&Error) -> bool| -> Vec<usize> {
            let mut found: Vec<usize> = errors.iter().filter(|error| is_kind(error)).map(line).collect();
            found.dedup();
            found
        };
        let mut unquoted = lines_of(&is_unquoted);
        unquoted.retain(|number| source.unquoted(*number).is_some());
        let repeated = lines_of(&is_repeated);
        let other = errors.iter().find(|error| !is_repeated(error) && !unquoted.contains(&line(error)));
        let mut faults: Vec<Fault> =
            repeated.iter().filter_map(|number| source.describe_repetition(*number, &repeated)).collect();
        let before_other = |number: &&usize| other.is_none_or(|other| **number < line(other));
        faults
            .extend(unquoted.iter().filter(before_other).filter_map(|line| source.describe_unquoted(*line)));
        faults.extend(other.map(|error| {
            Fault::error(FILE_NAME, Some(line(error)), error.message().trim().replace('\n', ", "))
        }));
        Self { faults, is_incomplete: !unquoted.is_empty() || other.is_some() }
    }
}

/// The lines of the file. Line numbers start at 1.
struct SourceLines<'a>(Vec<&'a str>);

impl SourceLines<'_> {
    /// The text of a line without white space at both ends; empty if the line does not exist.
    fn line(&self, number: usize) -> &str {
        self.0.get(number - 1).copied().unwrap_or_default().trim()
    }

    /// The part of a line that names a table or a key: `[operator]`, `[[channel]]` or `title`.
    fn name(&self, number: usize) -> &str {
        let line = self.line(number);
        let closing = if line.starts_with("[[") { "]]" } else { "]" };
        match line.find(closing) {
            Some(end) if line.starts_with('[') => &line[..end + closing.len()],
            _ => line.split('=').next().unwrap_or_default().trim_end(),
        }
    }

    /// The number of the nearest table header at or above a line.
    fn header(&self, number: usize) -> Option<usize> {
        (1..=number).rev().find(|number| self.line(*number).starts_with('['))
    }

    /// Describes a table or key that is defined a second time. `None` for a key in a repeated table.
    fn describe_repetition(&self, number: usize, repeated: &[usize]) -> Option<Fault> {
        let header = self.header(number);
        let is_header = header == Some(number);
        if !is_header && header.is_some_and(|header| repeated.contains(&header)) {
            return None;
        }
        let name = self.name(number);
        let start = if is_header { 1 } else { header.unwrap_or(1) };
        let key = |number| self.name(number).trim_matches(['[', ']', ' ', '\t']);
        let is_table = |number| self.line(number).starts_with('[');
        let is_list = |number| self.line(number).starts_with("[[");
        let is_same = |other: &usize| is_table(*other) == is_header && key(*other) == key(number);
        let first = (start..number).find(is_same);
        let (at, hint) = match first {
            Some(line) if is_list(line) != is_list(number) => (
                format!(" at line {line} as `{}`", self.name(line)),
                "for a list, write both with `[[` and `]]`; otherwise remove one of the two",
            ),
            Some(line) => (format!(" at line {line}"), "change it there, and remove this one"),
            None => (" above".to_owned(), "it may be written there as `table.key`; remove one of the two"),
        };
        let fault = Fault::error(FILE_NAME, Some(number), format!("`{name}` is already defined{at}"));
        Some(fault.hint(hint))
    }

    /// The key and the value of a line if the value begins with a letter, like text without quotes, or with a
    /// typographic quotation mark, which is left out of the value.
    fn unquoted(&self, number: usize) -> Option<(&str, &str)> {
        let (key, value) = self.line(number).split_once('=')?;
        let value = value.split(" #").next().unwrap_or_default().trim();
        let bare = match value.strip_prefix(TYPOGRAPHIC_QUOTES) {
            Some(rest) => rest.trim_end_matches(TYPOGRAPHIC_QUOTES).trim_end_matches('"'),
            None => Some(value).filter(|value| value.starts_with(char::is_alphabetic))?,
        };
        Some((key.trim_end(), bare))
    }

    /// Describes a value without quotes: a misspelled boolean, or text. The message does not contain the
    /// value, which may be a password.
    fn describe_unquoted(&self, number: usize) -> Option<Fault> {
        let (key, value) = self.unquoted(number)?;
        let fault = |message: String| Fault::error(FILE_NAME, Some(number), message);
        Some(match closest(&value.to_ascii_lowercase(), ["true", "false"]) {
            Some(meant) => {
                fault(format!("`{key}` must be `true` or `false`")).hint(format!("write `{key} = {meant}`"))
            }
            None => fault("text must be in quotes".to_owned()).hint(format!("write `{key} = \"…\"`")),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Config;

    #[test]
    fn one_mistake_is_one_fault() {
        let start = "[operator]\nname = \"A\"\nemail = \"a@example.com\"\n[site]\ndescription = \"D.\"\n";
        for (added, expected) in [
            (
                "[operator]\nname = \"B\"\nemail = \"b@example.com\"\n",
                &[
                    "6: `[operator]` is already defined at line 1\n    hint: change it there, and remove this one",
                ][..],
            ),
            (
                "title = \"A\"\ntitle = \"B\"\n",
                &["7: `title` is already defined at line 6\n    hint: change it there, and remove this one"],
            ),
            (
                "[ redirects ]\n[[redirects]] # [ours]\n",
                &[
                    "7: `[[redirects]]` is already defined at line 6 as `[ redirects ]`\n    hint: for a list, write both with `[[` and `]]`; otherwise remove one of the two",
                ],
            ),
            ("title = Kelp & Kiln # ours\n", &["6: text must be in quotes\n    hint: write `title = \"…\"`"]),
            ("tagline = “2 Kelps”\n", &["6: text must be in quotes\n    hint: write `tagline = \"…\"`"]),
            (
                "link_element = False\n",
                &["6: `link_element` must be `true` or `false`\n    hint: write `link_element = false`"],
            ),
            ("title = it's ours\n", &["6: text must be in quotes\n    hint: write `title = \"…\"`"]),
            (
                "title = one\ntagline = two\n",
                &[
                    "6: text must be in quotes\n    hint: write `title = \"…\"`",
                    "7: text must be in quotes\n    hint: write `tagline = \"…\"`",
                ],
            ),
            (
                "languages = [\"en\"\n[log]\nlevel = \"info\"\n",
                &["7: missing comma between array elements, expected `,`"],
            ),
            ("[log\nlevel = \"info\"\n", &["6: unclosed table, expected `]`"]),
        ] {
            let faults = Config::parse(&format!("{start}{added}"), Path::new(""), [], &[]).1;
            let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let expected: Vec<String> = expected.iter().map(|it| format!("frontdesk.toml:{it}")).collect();
            assert_eq!(said, expected, "{added}");
        }
    }

    #[test]
    fn a_misspelled_table_or_kind_has_no_further_faults() {
        for (text, expected) in [
            (
                "[operater]\nname = \"A\"\nemail = \"a@example.com\"\n[site]\ndescription = \"D.\"\n",
                "frontdesk.toml:1: unknown table `[operater]`\n    hint: did you mean `[operator]`?",
            ),
            (
                "[operator]\nname = \"A\"\nemail = \"a@example.com\"\n[site]\ndescription = \"D.\"\n\
                 [[channel]]\nname = \"mail\"\nkind = \"email\"\nhost = \"mail.example.com\"\ntls = \"none\"\n",
                "frontdesk.toml:8: `channel.mail.kind` must be \"smtp\", \"webhook\" or \"maildir\"; for e-mail, \
                 write `kind = \"smtp\"` and `host`, the name of your mail server",
            ),
        ] {
            let faults = Config::parse(text, Path::new(""), [], &[]).1;
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        }
    }
}
