//! The languages of a site, with their paths and words.

use std::sync::Arc;

use super::options::PagesOptions;
use super::words::WordList;

/// A language of the site. The first one is the default language.
#[derive(Debug, Clone, PartialEq)]
pub struct Language {
    /// A language tag (BCP 47).
    pub tag: String,
    /// The path of the language's folder without a trailing slash, such as `/de`; empty for the default
    /// language.
    pub prefix: String,
    pub words: Arc<WordList>,
    /// The site's title in this language.
    pub title: String,
    /// The title, or else the operator's name, or else the host: for headings, and for sentences about the
    /// site.
    pub name: String,
    /// The site's tagline in this language.
    pub tagline: String,
    /// The site's description in this language.
    pub description: String,
}

/// The primary subtags of languages that are written from right to left, in upper case.
const RIGHT_TO_LEFT: [&str; 10] = ["AR", "CKB", "DV", "FA", "HE", "PS", "SD", "UG", "UR", "YI"];
/// The scripts that are written from right to left, in upper case.
const RIGHT_TO_LEFT_SCRIPTS: [&str; 6] = ["ADLM", "ARAB", "HEBR", "NKOO", "SYRC", "THAA"];

/// Whether texts in the language with this tag are written from right to left, judging by its script or else
/// by its primary subtag.
pub(super) fn is_right_to_left(tag: &str) -> bool {
    let tag = tag.to_ascii_uppercase();
    let mut subtags = tag.split('-');
    let language = subtags.next().unwrap_or_default();
    match subtags.find(|subtag| subtag.len() == 4 && subtag.bytes().all(|byte| byte.is_ascii_alphabetic())) {
        Some(script) => RIGHT_TO_LEFT_SCRIPTS.contains(&script),
        None => RIGHT_TO_LEFT.contains(&language),
    }
}

/// The index of the language with this tag. Neither case nor `_` in place of `-` matters: folders are often
/// named `zh-CN` or `zh_CN` for the language `zh-cn`.
pub(super) fn position_of(tag: &str, languages: &[&str]) -> Option<usize> {
    let tag = tag.replace('_', "-");
    languages.iter().position(|known| known.eq_ignore_ascii_case(&tag))
}

/// The index of the language that a tag names. A tag with a region, such as `en-US` or `en_US`, also names
/// the language without one, `en`, and a tag without a region the only language with one.
pub(super) fn find_language(tag: &str, languages: &[&str]) -> Option<usize> {
    let primary = |tag: &str| tag.split(['-', '_']).next().unwrap_or_default().to_owned();
    let with_region = || {
        let mut all = (0..languages.len()).filter(|&at| primary(languages[at]).eq_ignore_ascii_case(tag));
        all.next().filter(|_| all.next().is_none())
    };
    let with_tag = |tag: &str| position_of(tag, languages);
    with_tag(tag).or_else(|| with_tag(&primary(tag))).or_else(with_region)
}

impl Language {
    /// Builds the languages in `options`. `words` holds their word lists in the same order.
    pub(super) fn list(options: &PagesOptions, words: Vec<WordList>) -> Vec<Self> {
        let tags = options.language_tags().into_iter();
        tags.zip(words)
            .enumerate()
            .map(|(index, (tag, words))| Self::new(index, tag, words, options))
            .collect()
    }

    /// The default language, with the built-in English words.
    pub(super) fn only(options: &PagesOptions) -> Self {
        Self::new(0, &options.language, WordList::english(), options)
    }

    /// The language with this index among the site's languages. The words `site_title`, `site_tagline` and
    /// `site_description` replace the configured texts unless they are empty.
    fn new(index: usize, tag: &str, words: WordList, options: &PagesOptions) -> Self {
        let text = |name: &str, configured: &str| match words.get(name) {
            "" => configured.to_owned(),
            word => word.to_owned(),
        };
        let title = text("site_title", &options.title);
        let host = options.base_url.split_once("://").map_or("", |(_, host)| host);
        let name = [&*title, &*options.operator.name, host].into_iter().find(|text| !text.trim().is_empty());
        Self {
            tag: tag.to_owned(),
            prefix: if index == 0 { String::new() } else { format!("/{tag}") },
            name: name.unwrap_or_default().to_owned(),
            title,
            tagline: text("site_tagline", &options.tagline),
            description: text("site_description", &options.description),
            words: Arc::new(words),
        }
    }

    /// The path of the home page.
    pub fn home(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// The path of the search index of the pages in this language. It has no fingerprint: otherwise each page
    /// would change whenever another page does.
    pub(super) fn search_index_path(&self) -> String {
        if self.prefix.is_empty() {
            "/_frontdesk/search.json".to_owned()
        } else {
            format!("/_frontdesk/search.{}.json", self.tag)
        }
    }

    /// The value of the Open Graph property `og:locale`: the language and the region of the tag, such as
    /// `zh_TW` for `zh-Hant-TW`. For a tag without a region, this is the word `og_locale`.
    pub(super) fn open_graph_locale(&self) -> String {
        let mut subtags = self.tag.split('-');
        let language = subtags.next().unwrap_or_default();
        let is_region = |part: &&str| part.len() == 2 || (part.len() == 3 && part.parse::<u16>().is_ok());
        // A subtag of one character begins an extension, whose keys can look like regions.
        match subtags.take_while(|part| part.len() > 1).find(is_region) {
            Some(region) => format!("{language}_{}", region.to_ascii_uppercase()),
            None => self.words.get("og_locale").to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_or_else_the_language_decides_the_direction() {
        for tag in ["ar", "ur-PK", "FA", "az-Arab", "ks-Arab-IN"] {
            assert!(is_right_to_left(tag), "{tag}");
        }
        for tag in ["en", "de-AT", "ar-Latn", "az", "arn", ""] {
            assert!(!is_right_to_left(tag), "{tag}");
        }
    }

    #[test]
    fn a_locale_is_a_language_with_its_territory() {
        for (tag, locale) in [
            ("de-at", "de_AT"),
            ("zh-Hant-TW", "zh_TW"),
            ("es-419", "es_419"),
            ("sl-IT-nedis", "sl_IT"),
            ("de", "de_DE"),
            ("de-1996", "de_DE"),
            ("de-u-co-phonebk", "de_DE"),
            ("zh-Hans", ""),
        ] {
            let options = PagesOptions { language: tag.to_owned(), ..PagesOptions::default() };
            let words = crate::words::load(&[tag], &[], &[], &mut Vec::new());
            assert_eq!(Language::list(&options, words)[0].open_graph_locale(), locale, "{tag}");
        }
    }
}
