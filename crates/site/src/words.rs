//! Words: the texts of the theme and of generated pages, by language.
//!
//! `theme/words/en.toml` contains every word. A word that is missing in another language is English, except
//! for the language's name, which is then its tag, and `og_locale`, which is then empty. The sources of the
//! words of `de-CH`, from lowest to highest precedence, are: `en.toml`, the built-in and the site's own
//! `de.toml`, `de-CH.toml`, `[words]`, and then `[words.de]` and `[words.de-CH]` in `frontdesk.toml`.
//!
//! The names of months are words too. The crate `pure-rust-locales` knows them in every language, but would
//! add 131 KB to the binary (measured), and a language that an operator adds needs a file of words in any
//! case.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use jiff::civil::Date;
use minijinja::value::{Serde, Value};
use toml::de::{DeTable, DeValue};

use super::file::Blob;
use super::link_rewriting::json_for_script;
use super::placeholder::{fill, placeholders, plural_name};
use super::theme::{BUILT_IN, WORDS_FOLDER};
use crate::fault::{Fault, Placed, closest, did_you_mean};

/// The fallback language for words that are missing in another language.
const ENGLISH: &str = "en";
/// Prefix of the names of the words that the forms' script uses.
const OF_SCRIPT: &str = "form_";
/// The prefix of messages about a field. The script shows them on pages in all languages except English: on
/// English pages, it shows the server's messages.
const PROBLEM: &str = "problem_";
/// Maximum length of a word, which may be a phrase or a sentence, in characters.
const MAX_CHARS: usize = 2_000;
/// A placeholder that the word `date` may contain, although the English word does not contain it.
const MONTH_NUMBER: &str = "month_number";

/// A word or phrase of the theme that `frontdesk.toml` replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordOverride {
    /// The language of `[words.de]`; `None` for `[words]`, which applies to all languages.
    pub language: Option<String>,
    pub name: String,
    pub text: Placed<String>,
}

/// The words and phrases of the theme in one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordList {
    /// Every word by its name.
    texts: BTreeMap<String, String>,
    /// The language of the texts: `en` if there are no words for the language of the pages.
    language: String,
}

impl WordList {
    /// The built-in words in English.
    pub fn english() -> Self {
        static WORDS: LazyLock<WordList> = LazyLock::new(|| {
            let texts = built_in(ENGLISH).map(|text| parse(text).0).unwrap_or_default();
            let texts = texts.into_iter().map(|entry| (entry.name, entry.text)).collect();
            WordList { texts, language: ENGLISH.to_owned() }
        });
        WORDS.clone()
    }

    /// The word called `name`. If it is missing, panics in debug builds, and returns `""` in release builds.
    pub fn get(&self, name: &str) -> &str {
        debug_assert!(self.texts.contains_key(name), "there is no word `{name}`");
        self.texts.get(name).map_or("", String::as_str)
    }

    /// The word called `name`, if it exists.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// The word, which must exist, with values in place of its placeholders. Placeholders without a value
    /// stay.
    pub fn fill(&self, name: &str, values: &[(&str, &str)]) -> String {
        let value = |wanted: &str| values.iter().find(|(name, _)| *name == wanted);
        fill(self.get(name), |name| value(name).map(|(_, value)| (*value).into()))
    }

    /// The word for `n` things: `NAME_one` or `NAME_other` with `n` in place of `{n}`.
    pub fn plural(&self, name: &str, n: usize) -> String {
        self.plural_with(name, n, &[])
    }

    /// Like [`WordList::plural`], with values in place of further placeholders.
    pub fn plural_with(&self, name: &str, n: usize, values: &[(&str, &str)]) -> String {
        let number = n.to_string();
        self.fill(&plural_name(name, self.get("singular"), &number), &[&[("n", &*number)], values].concat())
    }

    /// Formats a date for readers, such as `20 November 2026`. The word `date` is the template.
    pub fn date(&self, date: Date) -> String {
        let month = usize::try_from(date.month()).unwrap_or_default();
        let name = self.get("months").split(',').nth(month - 1).unwrap_or_default().trim();
        let [day, month, year] = [date.day().to_string(), month.to_string(), date.year().to_string()];
        self.fill("date", &[("day", &day), ("month", name), (MONTH_NUMBER, &month), ("year", &year)])
    }

    /// The words of the forms' script, their language and the word `singular` as JSON for a script element.
    /// `None` if the words are the same as in English, because the script contains the English words.
    pub(super) fn of_script(&self, english: &Self) -> Option<String> {
        let select = |words: &Self| -> BTreeMap<String, String> {
            let of_script = |(name, text): (&String, &String)| {
                let name = name.strip_prefix(OF_SCRIPT).or_else(|| name.strip_prefix(PROBLEM))?;
                Some((name.to_owned(), text.clone()))
            };
            words.texts.iter().filter_map(of_script).collect()
        };
        let mut texts = select(self);
        if texts == select(english) {
            return None;
        }
        texts.insert("language".into(), self.language.clone());
        texts.insert("singular".into(), self.get("singular").to_owned());
        Some(json_for_script(&texts))
    }

    /// The words as a value for templates.
    pub(super) fn to_template_value(&self) -> Value {
        Value::from(Serde(&self.texts))
    }
}

/// Loads the words of each language from the built-in files, the site's own files in `theme/words/` (named
/// relative to `theme/`) and the configuration. Reports invalid files and words, overrides without effect,
/// languages without words, and own files without some of the words. Invalid overrides apply, too, unless
/// there is no such word.
pub(super) fn load(
    languages: &[&str],
    own_files: &[(String, Blob)],
    overrides: &[WordOverride],
    faults: &mut Vec<Fault>,
) -> Vec<WordList> {
    let english = WordList::english();
    let mut files: BTreeMap<&str, Vec<WordLine>> = BTreeMap::new();
    for (name, blob) in own_files {
        let Some(language) = language_of_file(name) else { continue };
        files.insert(language, read_file(&format!("theme/{name}"), blob, &english, faults));
    }
    let used = files
        .keys()
        .filter(|of| languages.iter().any(|tag| ancestors(tag).iter().any(|tag| is_same_tag(tag, of))));
    faults.extend(used.filter_map(|language| report_missing(language, &files, overrides, &english)));
    report_overrides(languages, overrides, &english, faults);
    let load = |tag: &&str| {
        let mut words = english.clone();
        if !is_english(tag) && !tag.is_empty() {
            // The English `language_name` and `og_locale` would be wrong for another language.
            words.texts.insert("language_name".to_owned(), (*tag).to_owned());
            words.texts.insert("og_locale".to_owned(), String::new());
        }
        for tag in ancestors(tag) {
            // Skip the built-in English texts, because `words` already contains them.
            let built_in = built_in(&tag).filter(|_| !is_same_tag(&tag, ENGLISH)).map(|text| parse(text).0);
            for entry in built_in.iter().flatten().chain(lines_for(&files, &tag)) {
                words.texts.insert(entry.name.clone(), entry.text.clone());
                words.language.clone_from(&tag);
            }
        }
        if is_english(&words.language) && !is_english(tag) && !tag.is_empty() {
            let fault = Fault::warning(
                "frontdesk.toml",
                None,
                format!("the theme's words are not translated into the language `{tag}`"),
            );
            let hint = format!(
                "translate the theme's `words/en.toml` as theme/words/{tag}.toml; until then, the texts are English"
            );
            faults.push(fault.hint(hint));
        }
        let general = overrides.iter().filter(|word| word.language.is_none());
        let tags = ancestors(tag);
        let special = tags.iter().flat_map(|tag| {
            overrides.iter().filter(move |word| word.language.as_ref().is_some_and(|of| is_same_tag(of, tag)))
        });
        for word in general.chain(special) {
            if let Some(text) = words.texts.get_mut(&word.name) {
                text.clone_from(&word.text.value);
            }
        }
        words
    };
    languages.iter().map(load).collect()
}

/// Reports the words in the configuration that are invalid, or in a language that the site does not have.
fn report_overrides(
    languages: &[&str],
    overrides: &[WordOverride],
    english: &WordList,
    faults: &mut Vec<Fault>,
) {
    for WordOverride { language, name, text } in overrides {
        faults.extend(check(name, &text.value, english, (&text.place, text.line)));
        let Some(language) = language else { continue };
        let is_used = languages.iter().any(|tag| ancestors(tag).iter().any(|tag| is_same_tag(tag, language)));
        if !is_used {
            let message =
                format!("`[words.{language}]` has no effect: `{language}` is not a language of the site");
            let hint = format!("add \"{language}\" to `site.languages`, or remove the table");
            faults.push(Fault::warning(&text.place, text.line, message).hint(hint));
        }
    }
}

/// A word in a file of words: its name, its text and its line.
#[derive(Debug)]
struct WordLine {
    name: String,
    text: String,
    /// The line in the file, counted from 1.
    line: usize,
}

/// Reads one of the site's own files. Reports and leaves out invalid words. If the file is not UTF-8, reports
/// that and returns no words.
fn read_file(place: &str, blob: &Blob, english: &WordList, faults: &mut Vec<Fault>) -> Vec<WordLine> {
    let Ok(text) = std::str::from_utf8(&blob.bytes) else {
        faults.push(Fault::error(place, None, "the file is not valid UTF-8").hint("save it as UTF-8"));
        return Vec::new();
    };
    let (mut entries, errors) = parse(text);
    faults.extend(errors.into_iter().map(|(line, message)| Fault::error(place, line, message)));
    entries.retain(|entry| {
        let fault = check(&entry.name, &entry.text, english, (place, Some(entry.line)));
        let is_valid = fault.is_none();
        faults.extend(fault);
        is_valid
    });
    entries
}

/// A warning about the words that neither the site's own file for `language` nor a more general source has.
/// `None` if no word is missing, or if there is a built-in file for the language or a more general tag.
fn report_missing(
    language: &str,
    files: &BTreeMap<&str, Vec<WordLine>>,
    overrides: &[WordOverride],
    english: &WordList,
) -> Option<Fault> {
    let tags = ancestors(language);
    if tags.iter().any(|tag| built_in(tag).is_some()) {
        return None;
    }
    let is_general = |of: &String| tags.iter().any(|tag| is_same_tag(of, tag));
    let is_missing = |name: &&String| {
        let mut lines = tags.iter().flat_map(|tag| lines_for(files, tag));
        let mut overrides = overrides.iter().filter(|word| word.language.as_ref().is_none_or(is_general));
        !lines.any(|line| line.name == **name) && !overrides.any(|word| word.name == **name)
    };
    let missing: Vec<&str> = english.texts.keys().filter(is_missing).map(String::as_str).collect();
    let (first, others) = missing.split_first()?;
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    let message = format!("no translation of `{first}`{more}: the English text is used");
    let fault = Fault::warning(format!("theme/{WORDS_FOLDER}{language}.toml"), None, message);
    Some(fault.hint(format!(
        "translate them in `theme/{WORDS_FOLDER}{language}.toml`; `frontdesk theme DIR words/en.toml` copies the \
         English words to theme/"
    )))
}

/// Parses a file of words. Returns its words, and the faults of its syntax and of other entries with their
/// lines. After a fault of the syntax, the words that can still be read are returned.
fn parse(text: &str) -> (Vec<WordLine>, Vec<(Option<usize>, String)>) {
    let line = |span: Range<usize>| 1 + text[..span.start.min(text.len())].matches('\n').count();
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut faults: Vec<(Option<usize>, String)> = errors
        .into_iter()
        .map(|error| (error.span().map(line), error.message().trim().replace('\n', ", ")))
        .collect();
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        let (name, line) = (key.get_ref().to_string(), line(key.span()));
        match value.get_ref() {
            DeValue::String(text) => entries.push(WordLine { name, text: text.to_string(), line }),
            _ => faults.push((Some(line), format!("the word `{name}` must be text in quotes"))),
        }
    }
    (entries, faults)
}

/// The first fault of a word: an unknown name, a text that is too long, a wrong number of months, or a
/// placeholder that the English word does not have; `date` may also have `{month_number}`. `place` is the
/// word's file and line.
fn check(name: &str, text: &str, english: &WordList, place: (&str, Option<usize>)) -> Option<Fault> {
    let fault = |message: String| Fault::error(place.0, place.1, message);
    let Some(original) = english.texts.get(name) else {
        let copy =
            || "`frontdesk theme DIR words/en.toml` writes all words to theme/words/en.toml".to_owned();
        let hint = did_you_mean(name, english.texts.keys().map(String::as_str), copy);
        return Some(fault(format!("unknown word `{name}`")).hint(hint));
    };
    if text.chars().count() > MAX_CHARS {
        return Some(fault(format!("the word `{name}` has more than {MAX_CHARS} characters")));
    }
    if name == "months" && text.split(',').count() != 12 {
        return Some(fault("the word `months` must be twelve names with commas between them".to_owned()));
    }
    let mut permitted = placeholders(original);
    if name == "date" {
        permitted.push(MONTH_NUMBER);
    }
    let found = placeholders(text).into_iter().find(|found| !permitted.contains(found))?;
    let listed: Vec<String> = permitted.iter().map(|name| format!("`{{{name}}}`")).collect();
    let hint = match closest(found, permitted.iter().copied()) {
        Some(known) => format!("did you mean `{{{known}}}`?"),
        None if listed.is_empty() => "remove it: this word has no placeholders".to_owned(),
        None => format!("use one of {}", listed.join(", ")),
    };
    Some(fault(format!("the word `{name}` has the unknown placeholder `{{{found}}}`")).hint(hint))
}

/// The language of a file in the theme: `de` for `words/de.toml`. `None` for other files.
fn language_of_file(name: &str) -> Option<&str> {
    name.strip_prefix(WORDS_FOLDER)?.strip_suffix(".toml").filter(|tag| !tag.contains('/'))
}

/// The text of the built-in words file for exactly this tag, ignoring case; `None` if there is none.
fn built_in(language: &str) -> Option<&'static str> {
    let is_own = |name| language_of_file(name).is_some_and(|own| is_same_tag(own, language));
    let file = BUILT_IN.iter().find(|(name, _)| is_own(name));
    file.map(|(_, text)| *text)
}

/// A language tag, preceded by the more general tags: `zh`, `zh-Hant` and `zh-Hant-TW` for `zh-Hant-TW`.
fn ancestors(tag: &str) -> Vec<String> {
    let ends = tag.match_indices('-').map(|(at, _)| at).chain([tag.len()]);
    ends.map(|end| tag[..end].to_owned()).collect()
}

/// The lines of the site's own words for a language tag.
fn lines_for<'f>(files: &'f BTreeMap<&str, Vec<WordLine>>, tag: &str) -> impl Iterator<Item = &'f WordLine> {
    files.iter().filter(move |(own, _)| is_same_tag(own, tag)).flat_map(|(_, lines)| lines)
}

fn is_same_tag(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Whether the tag stands for English or a variety of English, such as `en-GB`.
fn is_english(tag: &str) -> bool {
    ancestors(tag).first().is_some_and(|language| is_same_tag(language, ENGLISH))
}

#[cfg(test)]
mod tests;
