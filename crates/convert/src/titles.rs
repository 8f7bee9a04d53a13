//! Finds the title of a page, without the name of the site, in its declared titles and its headings.

use super::dom::{Dom, NodeId, Tag, collapse};
use super::inline_spacing::shown_text;
use std::collections::{HashMap, HashSet};

/// The titles that a page declares, and the possible names of the site in these titles.
pub(super) struct Titles {
    /// The titles in JSON-LD, in Open Graph and similar `<meta>`, and in `<title>`: the most specific kind
    /// first.
    pub(super) declared: [Option<String>; 3],
    /// The declared name of the site and the texts of links to the home page, as [`site_key`]
    /// writes them.
    pub(super) site_names: HashSet<String>,
}

impl Titles {
    /// The title in `<title>`, or else the one in Open Graph and similar `<meta>`, or else the one in
    /// JSON-LD.
    pub(super) fn into_declared(self) -> Option<String> {
        self.declared.into_iter().rev().flatten().next()
    }

    /// Adds a possible name of the site, to be removed from titles.
    pub(super) fn add_site_name(&mut self, name: &str) {
        self.site_names.insert(site_key(name));
    }

    /// Whether a text may be the name of the site, ignoring case and spaces, and separators at its ends.
    pub(super) fn is_site_name(&self, text: &str) -> bool {
        self.site_names.contains(&site_key(text.trim_matches(MARKS)))
    }

    /// Whether a declared title consists of `own`, the heading of the content, and `site`, the name of the
    /// site, in either order, with a separator between them.
    pub(super) fn joins(&self, own: &str, site: &str) -> bool {
        let is_joined = |title: &String| {
            title_without(title, site).eq_ignore_ascii_case(own) && !own.eq_ignore_ascii_case(title)
        };
        self.declared.iter().flatten().any(is_joined)
    }

    /// Whether a heading is the title of the page: a declared title begins with it, or ends with it after a
    /// known name of the site. False if a declared title consists of another one and the heading, which then
    /// is the name of the site.
    pub(super) fn is_title(&self, heading: &str) -> bool {
        let declared = || self.declared.iter().flatten();
        let is_known = |rest: &str| title_ends(rest).into_iter().any(|part| self.is_site_name(part));
        let is_own = |title: &String| {
            let (start, rest) = title.split_at_checked(heading.len()).unwrap_or_default();
            let begins = start.eq_ignore_ascii_case(heading) && !rest.starts_with(char::is_alphanumeric);
            let before = title_without(title, heading);
            begins || title.ends_with(heading) && before != title && is_known(before)
        };
        !heading.is_empty() && declared().any(is_own) && !declared().any(|own| self.joins(own, heading))
    }

    /// Whether at least one declared title ends with this text.
    pub(super) fn end_with(&self, text: &str) -> bool {
        self.declared.iter().flatten().any(|title| title.ends_with(text))
    }

    /// Whether an element is a first-level heading with the name of the site that consists of a link or is in
    /// one.
    pub(super) fn is_logo(&self, dom: &Dom, id: NodeId) -> bool {
        let is_link = |child| dom.tag(child) == Tag::A || dom.is_blank(child);
        let is_linked = || dom.find(id, Tag::A).is_some() && dom.children(id).all(is_link);
        dom.tag(id) == Tag::H1
            && (is_linked() || dom.is_in(id, &[Tag::A]))
            && self.is_site_name(&shown_text(dom, id))
    }

    /// Whether one of the first `MAX_HEADINGS` headings below `root`, other than the logo, is a title that
    /// the page declares, without the name of the site. A title that is only this name does not count.
    pub(super) fn has_title_heading(&self, dom: &Dom, root: NodeId) -> bool {
        let is_heading = |&id: &NodeId| dom.is_heading(id) && !self.is_logo(dom, id);
        let headings = dom.descendants(root).filter(is_heading).take(MAX_HEADINGS);
        let headings: Vec<String> = headings.map(|id| clip_value(&shown_text(dom, id))).collect();
        let is_shown = |part: &str| headings.iter().any(|heading| heading.eq_ignore_ascii_case(part));
        let without_name = |title: &String| self.remove_site_name(title, &headings, is_shown);
        let titles = self.declared.iter().flatten().map(without_name);
        titles.filter(|title| !self.is_site_name(title)).any(|title| headings.contains(&title))
    }

    /// Chooses the title of the page, whose main region is below `root`: the first declared title, without
    /// the name of the site, that is more than this name. Except on the home page, and where `<title>` is
    /// missing or only this name, a title in `<meta>` counts only if it agrees with `<title>` or with the
    /// heading, because many sites declare the same one on all pages. If there is no title, the first-level
    /// heading or first heading in the region, but on the home page, the name of the site takes precedence.
    /// If the page declares no title, only a first-level heading counts. `None` if there is neither. See
    /// [`super::Options::has_common_title`] for `is_shared`.
    pub(super) fn choose(&self, dom: &Dom, root: NodeId, is_home: bool, is_shared: bool) -> Option<String> {
        let is_title = |&id: &NodeId| dom.is_heading(id) && (is_home || !self.is_logo(dom, id));
        let texts = dom.descendants(root).filter(is_title).filter_map(|id| {
            let text = clip_value(&shown_text(dom, id));
            let is_of_all = is_shared && !is_home && self.is_site_name(&text);
            (!text.is_empty() && !is_of_all).then(|| (dom.tag(id), text))
        });
        let mut headings: Vec<String> = Vec::new();
        let mut has_own_heading = false;
        for (at, (tag, text)) in texts.take(MAX_HEADINGS).enumerate() {
            if tag == Tag::H1 {
                has_own_heading = !self.is_site_name(&text);
                headings.insert(0, text);
                break;
            }
            // A page that declares no title may be a part of another one: only a first-level heading is its
            // title.
            if at == 0 && self.declared.iter().any(Option::is_some) {
                headings.push(text);
            }
        }
        let is_shown = |part: &str| {
            let mut first = dom.descendants(root).filter(is_title).take(NEAR_HEADINGS);
            first.any(|id| clip_value(&shown_text(dom, id)).eq_ignore_ascii_case(part))
        };
        let mut cleaned = self
            .declared
            .each_ref()
            .map(|title| title.as_deref().map(|title| self.remove_site_name(title, &headings, is_shown)));
        let [_, meta, last] = &mut cleaned;
        // Keep the `<meta>` title on the home page, or if `<title>` and any `<h1>` are the site's name.
        let name = last.as_ref().filter(|title| !is_home && (has_own_heading || !self.is_site_name(title)));
        if let (Some(own), Some(name)) = (&*meta, name) {
            let is_heading = |text| headings.first().is_some_and(|heading| is_same_title(text, heading));
            // A `<meta>` title at the end of `<title>` may be the name of the site with a slogan.
            let rest = title_without(name, own);
            let is_site = rest != name && name.ends_with(own) && is_heading(rest);
            if !is_heading(own) && (is_site || !is_same_title(own, name)) {
                *meta = None;
            }
        }
        let mut cleaned = cleaned.iter().flatten().peekable();
        let any = cleaned.peek().copied();
        let own = cleaned.find(|title| !self.is_site_name(title));
        let heading = headings.iter().find(|heading| !self.is_site_name(heading)).filter(|_| !is_home);
        own.or(heading).or(any).or(headings.first()).cloned()
    }

    /// Removes the site's name from the end or the beginning of a title, and the names of sections beside it
    /// if the rest is one of `headings` ([`Self::page_part`]). `is_shown` returns whether a text is one of
    /// the first headings of the page.
    fn remove_site_name(&self, title: &str, headings: &[String], is_shown: impl Fn(&str) -> bool) -> String {
        let is_heading = |part: &str| headings.iter().any(|h| h.eq_ignore_ascii_case(part.trim()));
        let stem = self.remove_part(title, headings);
        let part = || SEPARATORS.iter().find_map(|s| self.page_part(title, s, is_heading, &is_shown));
        let part = if is_heading(&stem) { None } else { part() };
        part.map_or(stem, str::to_owned)
    }

    /// The first or last of three or more parts of a title, if it is the heading of the page and not a name
    /// of the site. The last part counts only if the first one is a known name of the site. The first part
    /// does not count if the last one is shown as a heading, too, and is not a known name of the site: either
    /// may be the name of the site. `None` if a part in the middle has a digit, as in "Page 2".
    fn page_part<'a>(
        &self,
        title: &'a str,
        separator: &str,
        is_heading: impl Fn(&str) -> bool,
        is_shown: impl Fn(&str) -> bool,
    ) -> Option<&'a str> {
        let (first, rest) = title.split_once(separator)?;
        let (middle, last) = rest.rsplit_once(separator)?;
        let part = [first, last].map(str::trim).into_iter().find(|part| is_heading(part))?;
        let is_own = if part == first.trim() {
            self.is_site_name(last) || !is_shown(last.trim())
        } else {
            self.is_site_name(first)
        };
        (is_own && !self.is_site_name(part) && !middle.contains(|c: char| c.is_ascii_digit())).then_some(part)
    }

    /// Removes one part, the site's name, from the end or the beginning of a title. If the rest of the title
    /// is one of `headings`, the part need not be a known name of the site. Text in parentheses at the end is
    /// removed only if the rest is the text of a numbered heading.
    fn remove_part(&self, title: &str, headings: &[String]) -> String {
        let is_heading = |part: &str| headings.iter().any(|h| h.eq_ignore_ascii_case(part.trim()));
        let has_ideographs = title.contains(is_ideographic);
        let tight = TIGHT_SEPARATORS.into_iter().filter(|separator| has_ideographs || *separator == "|");
        for separator in SEPARATORS.into_iter().chain(tight) {
            let ends = title.rsplit_once(separator);
            let starts = title.split_once(separator);
            // A hyphen or underscore inside a word, as in `Vue-Router`, is not a separator.
            let is_in_word = |(before, after): &(&str, &str)| {
                matches!(separator, "-" | "_")
                    && !before.ends_with(is_ideographic)
                    && !after.starts_with(is_ideographic)
            };
            let ends = ends.filter(|parts| !is_in_word(parts)).map(|(stem, end)| (stem.trim(), end.trim()));
            let starts =
                starts.filter(|parts| !is_in_word(parts)).map(|(start, stem)| (stem.trim(), start.trim()));
            let is_clear = has_ideographs || separator != "|";
            for (stem, site) in [ends, starts].into_iter().flatten() {
                let is_site = is_clear && self.is_site_name(site) || is_heading(stem);
                if !stem.is_empty() && !site.is_empty() && is_site {
                    return stem.to_owned();
                }
            }
        }
        // Texinfo writes the name of the manual in parentheses, and numbers the heading. A number that is
        // also in the parentheses, such as a year, belongs to the title.
        let is_numbered = |stem: &str, manual: &str| {
            headings.iter().any(|heading| {
                let rest = without_number(heading);
                let number = heading[..heading.len() - rest.len()].trim_matches(['.', ' ']);
                !number.is_empty() && rest.eq_ignore_ascii_case(stem) && !manual.contains(number)
            })
        };
        let parts = title.strip_suffix(')').and_then(|title| title.split_once(" ("));
        let stem = parts.map(|(stem, manual)| (stem.trim(), manual));
        let stem = stem.filter(|(stem, manual)| is_numbered(stem, manual));
        stem.map_or(title, |(stem, _)| stem).to_owned()
    }
}

/// The text of a heading without its number, such as `6.1`.
fn without_number(heading: &str) -> &str {
    heading.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ' '))
}

/// Whether one of two titles contains the other, ignoring case and spaces.
fn is_same_title(one: &str, other: &str) -> bool {
    let (one, other) = (site_key(one), site_key(other));
    one.contains(&other) || other.contains(&one)
}

/// A possible name of the site, in lower case and without spaces: a logo may have parts that are laid out
/// apart.
pub(super) fn site_key(name: &str) -> String {
    name.to_lowercase().split_whitespace().collect()
}

/// Separators between the name of the site and the rest of a title.
#[rustfmt::skip]
const SEPARATORS: [&str; 20] = [
    " | ", "｜", " - ", " -- ", " – ", " — ", " · ", " :: ", " » ", " « ", " › ", " ‹ ", " • ", " / ", " ∙ ", " ⋅ ", " ~ ",
    " // ", " → ", ": ",
];

/// Separators that have no spaces around them in scripts without spaces between words. Elsewhere, they are
/// parts of words, except for `|` beside the heading of the page.
const TIGHT_SEPARATORS: [&str; 5] = ["|", "-", "_", "–", "—"];

/// Whether a character is Chinese or Japanese, or punctuation of these scripts.
fn is_ideographic(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

/// Characters of separators. A title may begin or end with them if one of its parts is empty.
const MARKS: [char; 15] = [' ', '|', '｜', '-', '–', '—', '·', ':', '»', '«', '›', '‹', '•', '∙', '⋅'];

/// The title without the name of the site at its end or its beginning, and without the separator between
/// them. Returns the title as it is if it has no such name, or none with a separator beside it.
pub fn title_without<'a>(title: &'a str, site_name: &str) -> &'a str {
    let rests = [title.strip_suffix(site_name), title.strip_prefix(site_name)];
    let cut = |rest: Option<&'a str>| {
        let rest = rest?;
        SEPARATORS.iter().find_map(|s| rest.strip_suffix(s).or_else(|| rest.strip_prefix(s)))
    };
    rests.into_iter().find_map(cut).map_or(title, str::trim)
}

/// The texts before the first separator and after the last separator of a title, or the whole title if it has
/// no separator, without separators at its ends. One of them may be the name of the site.
pub fn title_ends(title: &str) -> HashSet<&str> {
    let cut = |find: fn(&str, &str) -> Option<usize>| {
        SEPARATORS.iter().filter_map(move |s| find(title, s).map(|at| (at, at + s.len())))
    };
    let first = cut(|title, s| title.find(s)).min().map(|(at, _)| title[..at].trim());
    let last = cut(|title, s| title.rfind(s)).max().map(|(_, end)| title[end..].trim());
    match (first, last) {
        (Some(first), Some(last)) => HashSet::from([first, last]),
        _ => HashSet::from([title.trim_matches(MARKS)]),
    }
}

/// A part of a title can be the site's name only if the titles of at least this many pages share it.
const MIN_TITLES: usize = 3;

/// The name of the site, such as `Python documentation`: what more than half of the pages' titles, and at
/// least three, begin with, end with or consist of. Pages without a title do not count. `None` if there is no
/// such name.
pub fn common_site_name<'a>(titles: impl Iterator<Item = Option<&'a str>>) -> Option<String> {
    let titles: Vec<&str> = titles.flatten().collect();
    let needed = (titles.len() / 2 + 1).max(MIN_TITLES);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for title in titles {
        for end in title_ends(title) {
            *counts.entry(end).or_default() += 1;
        }
    }
    let (name, count) = counts.into_iter().max_by_key(|(name, count)| (*count, *name))?;
    (count >= needed).then(|| name.to_owned())
}

/// Maximum number of headings that are compared with the title, and among which the first-level one is
/// searched.
const MAX_HEADINGS: usize = 50;

/// Number of headings at the beginning of the content that are compared with a part of a title.
const NEAR_HEADINGS: usize = 5;

/// Maximum length of a title or another value of the metadata, in bytes. Longer values are truncated.
const MAX_VALUE: usize = 1000;

/// Collapses white space, and truncates the value to [`MAX_VALUE`] bytes.
pub(super) fn clip_value(value: &str) -> String {
    let mut value = collapse(value);
    value.truncate(value.floor_char_boundary(MAX_VALUE));
    value
}

#[cfg(test)]
mod tests {
    use super::super::dom::DOCUMENT;
    use super::super::metadata::read_metadata;
    use super::super::parse::parse;
    use super::{title_ends, title_without};
    use url::Url;

    #[test]
    fn a_link_to_the_home_page_of_another_site_is_no_logo() {
        let base = Url::parse("https://www.example.com/a").expect("a URL");
        for (base, canonical, href, expected) in [
            (Some(&base), "", "/", "Page"),
            (Some(&base), "", "https://example.com/", "Page"),
            (Some(&base), "", "https://hugo.example", "Page - Site"),
            (Some(&base), "https://live.example/a", "https://live.example", "Page"),
            (None, "https://live.example/a", "https://hugo.example", "Page - Site"),
            (None, "", "https://hugo.example", "Page"),
        ] {
            let head = format!("<title>Page - Site</title><link rel=canonical href='{canonical}'>");
            let dom = parse(&format!("<!doctype html>{head}<main>x</main><a href='{href}'>Site</a>"));
            let titles = read_metadata(&dom, base, None).1;
            let found = titles.choose(&dom, DOCUMENT, false, false);
            assert_eq!(found.as_deref(), Some(expected), "{base:?} {canonical} {href}");
        }
    }

    #[test]
    fn separators_of_other_languages_precede_the_name_of_the_site() {
        for (title, site, heading, expected) in [
            ("会社概要｜株式会社サンプル", "株式会社サンプル", "", "会社概要"),
            ("会社概要 ｜ 株式会社サンプル", "", "会社概要", "会社概要"),
            ("关于我们_示例公司", "示例公司", "", "关于我们"),
            ("关于我们-Oak", "", "关于我们", "关于我们"),
            ("关于我们-示例公司", "别的", "新闻", "关于我们-示例公司"),
            ("About « Oak", "Oak", "", "About"),
            ("About ‹ Oak", "", "About", "About"),
            ("Oak › About", "Oak", "", "About"),
            ("About / Oak", "Oak", "", "About"),
            ("Red / green", "Oak", "Apples", "Red / green"),
            ("Vue-Router 入门", "", "Vue", "Vue-Router 入门"),
            ("Red-Oak", "Oak", "Red", "Red-Oak"),
            ("snake_case", "case", "snake", "snake_case"),
            ("About|Oak", "", "About", "About"),
            ("Oak|About", "Oak", "About", "About"),
            ("Red|Oak", "Oak", "Apples", "Red|Oak"),
            ("About ∙ Oak", "Oak", "", "About"),
            ("About ⋅ Oak", "Oak", "", "About"),
            ("About ~ Oak", "", "About", "About"),
            ("Oak // About", "Oak", "", "About"),
            ("About → Oak", "Oak", "", "About"),
            ("About | Docs | Oak", "Oak", "About", "About"),
            ("About - Oak Space - Wiki", "", "About", "About"),
            ("Oak » Docs » About", "Oak", "About", "About"),
            ("Oak » Docs » About", "", "About", "Oak » Docs » About"),
            ("About | Docs | Oak", "Oak", "Oak", "About | Docs"),
            ("About | Docs | Oak", "Oak", "Docs", "About | Docs"),
            ("About - Page 2 of 3 - Oak", "Oak", "About", "About - Page 2 of 3"),
            ("Red | Green | Oak", "Oak", "Red | Green", "Red | Green"),
            ("-", "", "", "-"),
        ] {
            let site_name = format!("<meta property=og:site_name content='{site}'>");
            let dom = parse(&format!("<title>{title}</title>{site_name}<h2>{heading}</h2><p>x"));
            let found = read_metadata(&dom, None, None).1.choose(&dom, DOCUMENT, false, false);
            assert_eq!(found.as_deref(), Some(expected), "{title}");
        }
    }

    #[test]
    fn a_title_of_three_parts_is_not_cut_to_the_name_of_the_site() {
        for (headings, site, expected) in [
            ("<h1>Acme</h1><h2>Pumps</h2>", "", "Acme | Products | Pumps"),
            ("<h2>Acme</h2><h2>Pumps</h2>", "", "Acme | Products | Pumps"),
            ("<h1>Acme</h1><h2>Pumps</h2>", "Pumps", "Acme"),
            ("<h1>Acme</h1><h2>Valves</h2>", "", "Acme"),
        ] {
            let site_name = format!("<meta property=og:site_name content='{site}'>");
            let dom = parse(&format!("<title>Acme | Products | Pumps</title>{site_name}{headings}<p>x"));
            let found = read_metadata(&dom, None, None).1.choose(&dom, DOCUMENT, false, false);
            assert_eq!(found.as_deref(), Some(expected), "{headings} {site}");
        }
    }

    #[test]
    fn a_title_has_ends_that_may_name_the_site() {
        for (title, ends, without) in [
            ("Page | Part | Site", &["Page", "Site"][..], "Page | Part"),
            ("Site - Page", &["Page", "Site"], "Page"),
            ("Site", &["Site"], "Site"),
            ("Site --", &["Site"], "Site --"),
            ("Page-Site", &["Page-Site"], "Page-Site"),
            ("", &[""], ""),
        ] {
            let mut found: Vec<&str> = title_ends(title).into_iter().collect();
            found.sort_unstable();
            assert_eq!(found, ends, "{title}");
            assert_eq!(title_without(title, "Site"), without, "{title}");
        }
    }
}
