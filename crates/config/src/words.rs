//! Reads `[words]`: texts of the theme that the site overrides, in all languages or in one.

use super::reader::{Reader, requests};
use super::value_parsers;
use frontdesk_site::WordOverride;

/// Reads all words in `[words]`; the environment cannot add any. Their names are checked when the site loads,
/// because the theme defines them.
pub(super) fn read(r: &mut Reader<'_>) -> Vec<WordOverride> {
    let mut documentation = "Texts of the built-in theme, in all languages or, in a table such as `[words.de]`, in one \
         (docs/pages/languages.md). `frontdesk theme DIR words/en.toml` shows them all.";
    let names = r.names_in("words");
    names
        .into_iter()
        .map(|name| {
            let key = format!("words.{name}");
            let text = r.get(
                requests(key.clone()),
                "",
                std::mem::take(&mut documentation),
                value_parsers::parse_line,
            );
            let (language, name) = match name.split_once('.') {
                Some((language, name)) => (Some(language.to_owned()), name.to_owned()),
                None => (None, name),
            };
            WordOverride { language, name, text: r.place(&key, text) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Config;

    #[test]
    fn words_are_for_all_languages_or_for_one() {
        let text = "[words]\ncopied = \"Done\"\n[words.de]\ncopied = \"Fertig\"\n";
        let (config, faults) = Config::parse(text, Path::new(""), [], &[]);
        let words: Vec<_> = config
            .pages
            .words
            .iter()
            .map(|word| (word.language.as_deref(), &*word.name, &*word.text.value, word.text.line))
            .collect();
        assert_eq!(words, [(None, "copied", "Done", Some(2)), (Some("de"), "copied", "Fertig", Some(4))]);
        assert!(!faults.iter().any(|fault| fault.message.contains("words")), "{faults:?}");
        assert!(Config::parse("[words.de]\n", Path::new(""), [], &[]).0.pages.words.is_empty());
    }

    #[test]
    fn a_word_must_be_text() {
        for (text, expected) in [
            ("words = 1\n", "frontdesk.toml:1: `words` must be a table, `[words]`"),
            ("[words]\ncopied = 1\n", "frontdesk.toml:2: `words.copied` must be"),
        ] {
            let faults = Config::parse(text, Path::new(""), [], &[]).1;
            assert!(faults.iter().any(|fault| fault.to_string().starts_with(expected)), "{faults:?}");
        }
    }

    #[test]
    fn the_languages_contain_the_default_one() {
        for (text, expected) in [
            (
                "[site]\nlanguages = [\"de\"]\n",
                Some("frontdesk.toml:2: `site.languages` must contain `site.language`"),
            ),
            (
                "[site]\nlanguages = [\"en\", \"EN\"]\n",
                Some("frontdesk.toml:2: `site.languages` must be a list"),
            ),
            (
                "[site]\nlanguages = [\"en\", \"../x\"]\n",
                Some("frontdesk.toml:2: `site.languages` must be a list"),
            ),
            ("[site]\nlanguage = \"de\"\nlanguages = [\"en\", \"de\"]\n", None),
            ("[site]\nlanguages = [\"EN\", \"de\"]\n", None),
        ] {
            let faults = Config::parse(text, Path::new(""), [], &[]).1;
            let found =
                faults.iter().find(|fault| fault.message.contains("site.languages")).map(ToString::to_string);
            assert_eq!(found.is_some(), expected.is_some(), "{text}: {faults:?}");
            assert!(
                found.unwrap_or_default().starts_with(expected.unwrap_or_default()),
                "{text}: {faults:?}"
            );
        }
    }
}
