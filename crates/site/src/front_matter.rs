//! Reads the front matter of a Markdown file: YAML between `---` lines, or TOML between `+++` lines. Also
//! accepts the marks of gray-matter (`---toml`) and Pandoc (`...`).
//!
//! Supports common keys of Hugo and Zola (`lastmod`, `linkTitle`, `taxonomies.tags`, `extra.…`), and omits
//! pages that these and other generators would not publish. Does not support their shortcodes or sections, or
//! front matter in JSON. Reads every value that has a clear meaning; another one is a warning, unless it may
//! withhold the page or determine its path.

mod syntax;

use std::borrow::Cow;
use std::cmp::Reverse;

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Map, Value};

use super::path::percent_decode;
use super::schedule::{parse_publication_time, parse_time, to_iso};
use super::visibility::{Visibility, as_flag};
use crate::fault::{Fault, Severity, closest};
use frontdesk_process::hash_maps::HashMap;

pub(super) use syntax::split;

/// The front matter of a page. Text is on one line, without empty values: a key with an empty value counts as
/// missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FrontMatter {
    /// The page's title and only first-level heading.
    pub title: String,
    /// One or two sentences for search results, previews and `llms.txt`.
    pub description: Option<String>,
    pub date: Option<Date>,
    /// The exact time of the page's date. `None` if the source states only a day.
    pub dated_at: Option<Timestamp>,
    /// The date of the last substantial change.
    pub updated: Option<Date>,
    /// The time before which the page is not published. `None` if the front matter has no date, or
    /// an invalid time.
    pub publish_at: Option<Timestamp>,
    /// The time from which the page is no longer published.
    pub expire_at: Option<Timestamp>,
    /// Whether the page is published and listed, according to its own keys.
    pub visibility: Visibility,
    /// The values in `cascade`, for this page and the pages below it.
    pub cascade: Visibility,
    /// Replaces the last segment of the path, which is otherwise derived from the file name.
    pub slug: Option<String>,
    /// Replaces the whole path (Hugo's `url`, Zola's `path`).
    pub path: Option<String>,
    /// Former paths, decoded, which permanently redirect to the page. A path without a slash at the beginning
    /// is relative to the folder that contains the page.
    pub aliases: Vec<String>,
    pub tags: Vec<String>,
    pub author: Option<String>,
    /// The position in the main navigation, lowest first. `None` leaves the page out.
    pub nav: Option<i64>,
    pub nav_title: Option<String>,
    /// The name of the form that is shown after the content.
    pub form: Option<String>,
    /// The template's name without `.html`.
    pub template: Option<String>,
    /// The preview image: an `/assets/…` path, or a path relative to the file.
    pub image: Option<String>,
    /// Whether the page shows a table of contents.
    pub toc: bool,
    /// A short line above the title.
    pub kicker: Option<String>,
    /// Call-to-action buttons at the top of the page. The first button is the primary one.
    pub cta: Vec<Button>,
    /// Cards, shown before the body on the home page and after the body on other pages.
    pub highlights: Vec<Highlight>,
    /// Whether the page is left out of sitemaps, `llms.txt` and site search: [`Self::visibility`] with what
    /// the page inherits.
    pub unlisted: bool,
    /// Overrides the language of the page's folder.
    pub lang: Option<String>,
    /// Identifies the page and its translations. Otherwise, files with the same name in each language's
    /// folder are translations of each other.
    pub translation: Option<String>,
    /// Whether the page opens a section: it and all pages below it show a common navigation.
    pub section: bool,
    /// The page's position in the navigation of its section; lower values come first.
    pub weight: Option<i64>,
    /// The heading in the navigation of a section under which the page is listed.
    pub group: Option<String>,
    /// The operator's own values, for templates.
    pub extra: Map<String, Value>,
}

/// A call-to-action button: its text and the link as written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Button {
    pub label: String,
    pub href: String,
}

/// A card. Without `href`, the card is not a link.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Highlight {
    pub title: String,
    /// The text of the card: one or two sentences.
    pub text: String,
    pub href: Option<String>,
}

/// A file, divided into front matter and body.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedFile<'a> {
    pub front_matter: FrontMatter,
    pub body: &'a str,
    /// The line of the file on which the body begins, counted from 1.
    pub body_line: usize,
    /// The lines of the documented keys that the file sets. Excludes keys of other generators.
    pub lines: HashMap<&'static str, usize>,
}

/// Keys of other generators that are supported under these names, or ignored without a warning. Keys for
/// times are in [`PUBLICATION`] and [`EXPIRY`].
#[rustfmt::skip]
const FOREIGN: &[&str] = &[
    // Supported keys.
    "summary", "lastmod", "linktitle", "authors", "images", "taxonomies", "extra", "url", "path", "cascade",
    // Keys that are ignored without a warning.
    "type", "layout", "params", "outputs", "resources", "series", "markup", "keywords", "in_search_index", "sort_by",
    "paginate_by", "paginate_path", "insert_anchor_links", "page_template", "generate_feed", "generate_feeds", "transparent",
    "iscjklanguage", "translationkey", "comments", "math", "categories", "cover", "menu", "menus",
];

/// Keys of other generators for features that are not supported, with hints.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("redirect_to", "add this page's path to the `aliases` of the target page"),
    ("redirect_from", "list the former paths under `aliases`"),
    ("index", "set `noindex: true` if search engines must not list the page"),
    ("permalink", "set `slug` for the last part of the path, or `path` for all of it"),
];

/// Substrings of the keys that other generators use to withhold pages.
const WITHHOLDING: &[&str] =
    &["publish", "draft", "private", "status", "visib", "access", "member", "expir", "embargo"];

const WITHHOLD: &str = "this key does not hide the page; set `draft: true` if the page must not be public";

/// The keys whose invalid values are errors: without them, a page might be public too early or too long, or
/// have no title or a wrong path. `pubDate` is none of them, because Astro accepts every date that JavaScript
/// reads.
#[rustfmt::skip]
const ESSENTIAL: &[&str] = &[
    "title", "draft", "unlisted", "date", "publishDate", "expiryDate", "unpublishDate", "slug", "path", "url", "form",
];

/// The hint for a publication time that can be read in several ways.
const LATEST: &str = "the page is published at the latest time that this can mean";

/// Values of `date`, in lower case, that Eleventy replaces with a time of the file, which is in the past.
const FILE_TIMES: &[&str] = &["last modified", "created", "git last modified", "git created"];

/// The keys for a page's date. In Material for MkDocs, `date` may be a table with `created` and `updated`.
const DATE: &[&str] = &["date.created", "date"];

/// The keys for the time at which a page is published, if that differs from its `date`.
#[rustfmt::skip]
const PUBLICATION: &[&str] = &[
    "publishDate", "pubDate", "pubDatetime", "publishedAt", "publishedTime", "publishOn", "publicationDate",
    "datePublished",
];

/// The keys for the time at which a page is taken down.
const EXPIRY: &[&str] =
    &["expiryDate", "unpublishDate", "expires", "expiresAt", "expiry", "expiration", "expirationDate"];

/// The documented front matter keys.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "title", "description", "date", "updated", "draft", "slug", "aliases", "tags", "author", "nav", "nav_title",
    "form", "template", "image", "toc", "kicker", "cta", "highlights", "unlisted", "lang", "translation", "section", "weight",
    "group",
];

/// Splits a file into front matter and body, and parses the front matter. Reports all faults with `place` as
/// the file name. `None` if one of them is an error.
pub fn parse<'a>(place: &str, text: &'a str, faults: &mut Vec<Fault>) -> Option<ParsedFile<'a>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (source, body, table) = split(place, text).map_err(|fault| faults.push(fault)).ok()?;
    let mut reader = FrontMatterReader { place, lines: source.lines().collect(), table, faults };
    let front_matter = reader.read_front_matter()?;
    let lines = KEYS.iter().filter_map(|key| Some((*key, reader.line(key)?))).collect();
    let body_line = text[..text.len() - body.len()].matches('\n').count() + 1;
    Some(ParsedFile { front_matter, body, body_line, lines })
}

struct FrontMatterReader<'a> {
    place: &'a str,
    /// The lines of the front matter.
    lines: Vec<&'a str>,
    table: Map<String, Value>,
    faults: &'a mut Vec<Fault>,
}

impl FrontMatter {
    /// A sort key: pages with newer dates come first and, on the same day, those with later times. Pages
    /// without a date or a time come last.
    pub fn age(&self) -> (Reverse<Option<Date>>, Reverse<Option<Timestamp>>) {
        (Reverse(self.date), Reverse(self.dated_at))
    }
}

impl FrontMatterReader<'_> {
    /// Reads all keys, and reports the faults of all of them. A missing title is an error, unless a
    /// misspelled or invalid one is reported instead. `None` if there is any error.
    fn read_front_matter(&mut self) -> Option<FrontMatter> {
        let before = self.faults.len();
        self.report_unknown_keys();
        let title = self.read_text(&["title"]);
        if title.is_none() && !has_errors(&self.faults[before..]) {
            let hint = "add a line `title: …` (YAML) or `title = \"…\"` (TOML)";
            self.faults.push(Fault::error(self.place, Some(1), "the front matter has no `title`").hint(hint));
        }
        // Read these flags only to report invalid values, which `Visibility::read` ignores.
        self.read_flag(&["draft"]);
        self.read_flag(&["unlisted"]);
        let visibility = Visibility::read(&self.table);
        let front_matter = FrontMatter {
            title: title.unwrap_or_default(),
            description: self.read_text(&["description", "summary"]),
            date: self.read_date(DATE).or(self.read_date(PUBLICATION)),
            dated_at: self.read_time_of_date(),
            updated: self.read_date(&["updated", "lastmod", "date.updated"]),
            publish_at: self.read_publication_time(),
            expire_at: self.read_expiry(),
            visibility,
            cascade: self.read_cascade(),
            slug: self.read_slug(),
            path: self.read_path(),
            aliases: self.read_aliases(),
            tags: self.read_tags(),
            author: self.read_author(),
            nav: self.read_number(&["nav"]),
            nav_title: self.read_text(&["nav_title", "linkTitle", "extra.nav_title"]),
            form: self.read_text(&["form", "extra.form"]),
            // In Zola, the name of a template includes its extension.
            template: self
                .read_text(&["template"])
                .map(|name| name.strip_suffix(".html").unwrap_or(&name).into()),
            image: self.read_image(),
            toc: self.read_flag(&["toc", "extra.toc"]),
            kicker: self.read_text(&["kicker"]),
            cta: self.read_records("cta", "a list of entries with `label` and `href`", |field| {
                Some(Button { label: field("label")?, href: field("href")? })
            }),
            highlights: self.read_records(
                "highlights",
                "a list of entries with `title`, `text` and optionally `href`",
                |field| Some(Highlight { title: field("title")?, text: field("text")?, href: field("href") }),
            ),
            unlisted: visibility.unlisted.unwrap_or_default(),
            lang: self.read_text(&["lang"]),
            translation: self.read_text(&["translation", "translationKey"]),
            section: self.read_flag(&["section"]),
            weight: self.read_number(&["weight"]),
            group: self.read_text(&["group"]),
            extra: self
                .read_value(&["extra"], "a table of your own values", |value| value.as_object().cloned())
                .unwrap_or_default(),
        };
        (!has_errors(&self.faults[before..])).then_some(front_matter)
    }

    /// Warns about unknown and unsupported keys, and about a `published` or `publish` whose time can be read
    /// in several ways. If there is no title, a misspelled `title` is an error.
    fn report_unknown_keys(&mut self) {
        let has_title = self.find(&["title"]).is_some();
        for (key, value) in &self.table {
            let is_known = |known: &&str| is_same_key(known, key);
            let text =
                if ["published", "publish"].iter().any(is_known) { self.text(key, value, &[]) } else { None };
            let published = text.filter(|text| parse_publication_time(text).is_some());
            if published.as_ref().is_some_and(|text| parse_time(text).is_none()) {
                let message = format!("`{key}` must be a date such as 2026-11-20, or `true` or `false`");
                let fault = Fault::warning(self.place, self.line(key), message);
                self.faults.push(fault.hint(LATEST));
            }
            if [KEYS, FOREIGN, PUBLICATION, EXPIRY].into_iter().flatten().any(is_known)
                || Visibility::of_key(key, value).is_some()
                || published.is_some()
            {
                continue;
            }
            let warning = |message| Fault::warning(self.place, self.line(key), message);
            let lower = key.to_ascii_lowercase();
            let hint = UNSUPPORTED.iter().find(|(known, _)| is_known(known)).map(|(_, hint)| *hint);
            let has_part = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
            let may_withhold = has_part(WITHHOLDING) && !has_part(&["accessib", "membership", "http"]);
            let fault = if let Some(hint) = hint.or(may_withhold.then_some(WITHHOLD)) {
                warning(format!("`{key}` has no effect in the front matter")).hint(hint)
            } else {
                let known = closest(&lower, KEYS.iter().copied());
                // A misspelled title leaves the page without one, which is an error.
                let is_title = known == Some("title") && !has_title;
                let severity = if is_title { Severity::Error } else { Severity::Warning };
                let fault = Fault { severity, ..warning(format!("unknown key `{key}` in the front matter")) };
                match known {
                    Some(known) => fault.hint(format!("did you mean `{known}`?")),
                    None => fault.hint("put your own values under `extra`"),
                }
            };
            self.faults.push(fault);
        }
    }

    /// The first of `names` that is present, and its value. `extra.toc` is the key `toc` in the table
    /// `extra`. Top-level keys match as in [`is_same_key`]. A key with the value `null` counts as missing.
    fn find(&self, names: &[&'static str]) -> Option<(&'static str, Value)> {
        names.iter().find_map(|name| {
            let mut parts = name.split('.');
            let first = parts.next()?;
            let wanted = |key: &&String| is_same_key(key, first);
            let mut value = self.table.get(self.table.keys().find(wanted)?)?;
            for part in parts {
                value = value.get(part)?;
            }
            (!value.is_null()).then(|| (*name, value.clone()))
        })
    }

    /// The parsed value of the first of `names` that is present. `None` if there is none, or if `parse`
    /// rejects the value, which is reported.
    fn read_value<T>(
        &mut self,
        names: &[&'static str],
        expected: &str,
        parse: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let (name, value) = self.find(names)?;
        parse(&value).or_else(|| self.report_invalid(name, expected))
    }

    /// The text, on one line, of the first of `names` that is present; of a table, its name. `None` if it is
    /// missing, empty or `false`, or invalid, which is reported.
    fn read_text(&mut self, names: &[&'static str]) -> Option<String> {
        let (name, value) = self.find(names)?;
        if value == false {
            return None;
        }
        let expected = "text; if it looks like another type, put it in quotes";
        let text = self.text(name, &value, NAME_FIELDS).or_else(|| self.report_invalid(name, expected));
        text.filter(|text| !text.is_empty())
    }

    /// A whole number, also from text or a number with decimal places, which are cut off, as in Hugo. `None`
    /// if it is missing or `false`, or if it is invalid or too large, which is reported.
    fn read_number(&mut self, names: &[&'static str]) -> Option<i64> {
        let parse = |value: &Value| {
            let number = match value {
                Value::Bool(false) => return Some(None),
                Value::String(text) => text.trim().to_owned(),
                Value::Number(number) => number.to_string(),
                _ => return None,
            };
            let without_decimals = || format!("{:.0}", number.parse::<f64>().ok()?.trunc()).parse().ok();
            number.parse().ok().or_else(without_decimals).map(Some)
        };
        self.read_value(names, "a whole number", parse).flatten()
    }

    /// The value of a flag; `false` if it is missing, empty or invalid. Reports an invalid value.
    fn read_flag(&mut self, names: &[&'static str]) -> bool {
        let parse = |value: &Value| if value == "" { Some(false) } else { as_flag(value) };
        self.read_value(names, "`true` or `false`", parse).unwrap_or_default()
    }

    /// The values in `cascade`, a table or a list of tables; other values have no effect. Conditions are not
    /// evaluated: a table with one is an error if it withholds pages, and otherwise has no effect.
    fn read_cascade(&mut self) -> Visibility {
        let Some((_, value)) = self.find(&["cascade"]) else { return Visibility::default() };
        let entries = value.as_array().map_or(std::slice::from_ref(&value), Vec::as_slice);
        let mut all = Visibility::default();
        let is_condition = |key: &String| matches!(key.to_ascii_lowercase().as_str(), "target" | "_target");
        for entry in entries.iter().filter_map(Value::as_object) {
            let visibility = Visibility::read(entry);
            let Some(key) = entry.keys().find(|key| is_condition(key)) else {
                all = all.stricter(visibility);
                continue;
            };
            if visibility.is_limited() {
                let message = format!(
                    "`{key}` is not supported in a `cascade` that keeps pages from being published or listed"
                );
                let hint = format!(
                    "remove `{key}` to apply the `cascade` to all pages below, or write the other keys of the `cascade` in the front matter of each page"
                );
                self.faults.push(Fault::error(self.place, self.line("cascade"), message).hint(hint));
            }
        }
        all
    }

    /// The day of a date or time, as written, in any time zone, even if the time after it is invalid. `None`
    /// if it is missing or empty, or if the day is invalid or ambiguous. Reports an invalid day or time. For
    /// [`DATE`] and [`PUBLICATION`], this is only a warning if the value is one of [`FILE_TIMES`], or if it
    /// can mean several times. Among several, [`Self::read_publication_time`] uses the latest.
    fn read_date(&mut self, names: &[&'static str]) -> Option<Date> {
        let (name, value) = self.find(names)?;
        let text = self.text(name, &value, &[]);
        if text.as_deref() == Some("") {
            return None;
        }
        let expected = "a date such as 2026-11-20 or a time such as 2026-11-20T09:30+01:00";
        let Some(text) = text else { return self.report_invalid(name, expected) };
        let iso = to_iso(&text);
        let (day, time) = iso.split_at_checked(10).unwrap_or((&iso, ""));
        let day = day.parse().ok();
        if day.is_some() && (time.is_empty() || parse_time(&iso).is_some()) {
            return day;
        }
        let is_publication = DATE.contains(&name) || PUBLICATION.contains(&name);
        let is_latest = is_publication && parse_publication_time(&text).is_some();
        if is_latest || is_publication && FILE_TIMES.contains(&text.to_ascii_lowercase().as_str()) {
            let message = format!("`{name}` must be {expected}");
            let fault = Fault::warning(self.place, self.line_of(name), message);
            self.faults.push(if is_latest { fault.hint(LATEST) } else { fault });
        } else {
            self.report_invalid::<()>(name, expected);
        }
        day
    }

    /// The publication time: the first of `PUBLICATION`, or else `published` or `publish`, or else `date`.
    /// Skips invalid values, which [`Self::read_date`] reports, except for `published` and `publish`, which
    /// may also be flags.
    fn read_publication_time(&self) -> Option<Timestamp> {
        let time = |names: &[&'static str]| {
            let (name, value) = self.find(names)?;
            parse_publication_time(&self.text(name, &value, &[])?)
        };
        time(PUBLICATION)
            .or_else(|| time(&["published"]))
            .or_else(|| time(&["publish"]))
            .or_else(|| time(DATE))
    }

    /// The time from which the page is not published; `None` if missing or invalid. Reports an invalid time.
    fn read_expiry(&mut self) -> Option<Timestamp> {
        self.read_date(EXPIRY)?;
        let (name, value) = self.find(EXPIRY)?;
        parse_time(&self.text(name, &value, &[])?)
    }

    /// The date and time of the page: the value of [`DATE`] or else of the first of [`PUBLICATION`] that is a
    /// text. `None` if this value states only a day, or is invalid.
    fn read_time_of_date(&self) -> Option<Timestamp> {
        let names = std::iter::once(DATE).chain(PUBLICATION.chunks(1));
        let mut texts = names.filter_map(|names| Some(to_iso(self.find(names)?.1.as_str()?).into_owned()));
        let text = texts.find(|text| !text.is_empty())?;
        if text.len() > "2026-11-20".len() { parse_time(&text) } else { None }
    }

    /// The texts of a list, without empty ones; of a table, the first of `fields`. A single value counts as a
    /// list of one, and `false` as an empty list; within a list, `true` and `false` are texts. Empty if it is
    /// missing. Reports and leaves out other values.
    fn read_list(&mut self, names: &[&'static str], fields: &[&str]) -> Vec<String> {
        let Some((name, value)) = self.find(names) else { return Vec::new() };
        let items = match &value {
            Value::Array(items) => items.as_slice(),
            Value::Bool(false) => &[],
            _ => std::slice::from_ref(&value),
        };
        let read = |(at, item): (usize, &Value)| match item {
            Value::Null => Some(String::new()),
            Value::Bool(flag) if value.is_array() => Some(flag.to_string()),
            Value::Number(number) => {
                let earlier = items[..at].iter().filter(|other| other.as_f64() == number.as_f64()).count();
                Some(self.number_as_written(name, number, earlier))
            }
            _ => self.text(name, item, fields),
        };
        let texts: Vec<Option<String>> = items.iter().enumerate().map(read).collect();
        if texts.contains(&None) {
            self.report_invalid::<()>(name, "text or a list of texts");
        }
        texts.into_iter().flatten().filter(|text| !text.is_empty()).collect()
    }

    /// The authors in `author`, or else those in `authors`, separated by commas. `None` if there are none.
    fn read_author(&mut self) -> Option<String> {
        let keys: [&[_]; 2] = [&["author", "extra.author"], &["authors", "taxonomies.authors"]];
        let authors = keys.iter().map(|names| self.read_list(names, NAME_FIELDS).join(", "));
        authors.into_iter().find(|authors| !authors.is_empty())
    }

    /// The first image in `image` or `extra.image`, or else in `images`.
    fn read_image(&mut self) -> Option<String> {
        let keys: [&[_]; 2] = [&["image", "extra.image"], &["images"]];
        keys.iter().find_map(|names| self.read_list(names, &["src", "path", "url"]).into_iter().next())
    }

    /// The tags. A single string may contain several tags, separated by commas.
    fn read_tags(&mut self) -> Vec<String> {
        let names = ["tags", "taxonomies.tags"];
        let tags = self.read_list(&names, NAME_FIELDS);
        match (self.find(&names), &tags[..]) {
            (Some((_, Value::String(_))), [tag]) => {
                tag.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
            }
            _ => tags,
        }
    }

    /// The decoded aliases. Reports and leaves out those that are no paths on this site, because they contain
    /// `//`, `?`, `#` or a backslash. An alias that cannot be decoded stays as written.
    fn read_aliases(&mut self) -> Vec<String> {
        let mut aliases = self.read_list(&["aliases"], NAME_FIELDS);
        aliases.retain_mut(|alias| {
            if alias.contains("//") || alias.contains(['?', '#', '\\']) {
                let message = format!("the alias `{alias}` is not a path on this site");
                let fault = Fault::warning(self.place, self.line("aliases"), message);
                self.faults.push(fault.hint("write only the former path, such as `/old/`"));
                return false;
            }
            *alias = decode_path(alias);
            true
        });
        aliases
    }

    /// The tables of a list, each converted by `read`, which gets the text of a field that is present and not
    /// empty. Reports a value that is not a list, and leaves out and reports entries that `read` rejects.
    fn read_records<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: impl Fn(&dyn Fn(&str) -> Option<String>) -> Option<T>,
    ) -> Vec<T> {
        let Some((_, value)) = self.find(&[name]) else { return Vec::new() };
        let parse = |item: &Value| {
            let field =
                |key: &str| self.text(name, item.get(key)?, NAME_FIELDS).filter(|text| !text.is_empty());
            read(&field)
        };
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let records: Vec<T> = items.iter().filter_map(parse).collect();
        if !value.is_array() || records.len() < items.len() {
            self.report_invalid::<()>(name, expected);
        }
        records
    }

    /// The decoded slug without slashes around it. It may have several segments, as in Docusaurus. `None` if
    /// it is missing or empty, or if `is_valid_path` rejects it, which is reported, or if it is a whole path.
    fn read_slug(&mut self) -> Option<String> {
        let written = decode_path(&self.read_text(&["slug"])?);
        let slug = written.trim_matches('/');
        if !is_valid_path(slug) {
            return self.report_invalid("slug", "the end of a path, such as `pricing`");
        }
        Some(slug.to_owned()).filter(|slug| !slug.is_empty() && !is_whole_path(&written))
    }

    /// The decoded path with a slash at both ends: that of `path` or `url`, or else a `slug` that is a whole
    /// path. `None` if it is missing, or if `is_valid_path` rejects it, such as a path with a query, which is
    /// reported. An absolute URL counts as missing, with a warning: programs that save pages of other sites
    /// note their source there.
    fn read_path(&mut self) -> Option<String> {
        let names = ["path", "url"];
        let name = self.find(&names).map_or(names[0], |(name, _)| name);
        let mut path = self.read_text(&names).map(|path| decode_path(&path));
        if path.take_if(|path| path.starts_with("https://") || path.starts_with("http://")).is_some() {
            let message = format!("`{name}` has no effect, because it is not a path on this site");
            let fault = Fault::warning(self.place, self.line(name), message);
            self.faults.push(fault.hint("write only the path, such as `/about/`, or remove the line"));
        }
        let Some(path) = path else {
            let slug = decode_path(&self.text("slug", &self.find(&["slug"])?.1, &[])?);
            let path = slug.trim_matches('/');
            return (is_whole_path(&slug) && is_valid_path(path)).then(|| format!("/{path}/"));
        };
        let path = path.trim_matches('/').to_owned();
        if !is_valid_path(&path) {
            return self.report_invalid(name, "a path on this site, such as `/about/`");
        }
        Some(if path.is_empty() { "/".to_owned() } else { format!("/{path}/") })
    }

    /// Records a fault about the value of `name`, and returns `None`. The fault is an error if the key is
    /// [`ESSENTIAL`], and otherwise a warning.
    fn report_invalid<T>(&mut self, name: &str, expected: &str) -> Option<T> {
        let is_essential = ESSENTIAL.contains(&name.split('.').next().unwrap_or(name));
        let severity = if is_essential { Severity::Error } else { Severity::Warning };
        let fault = Fault::error(self.place, self.line_of(name), format!("`{name}` must be {expected}"));
        self.faults.push(Fault { severity, ..fault });
        None
    }

    /// Converts text or a number to one line of text, and a table to that of the first of `fields` that it
    /// has. Replaces line breaks and runs of whitespace with single spaces. `None` for other values.
    fn text(&self, name: &str, value: &Value, fields: &[&str]) -> Option<String> {
        match value {
            Value::String(text) => Some(text.split_whitespace().collect::<Vec<_>>().join(" ")),
            Value::Number(number) => Some(self.number_as_written(name, number, 0)),
            Value::Object(table) => fields.iter().find_map(|field| self.text(name, table.get(*field)?, &[])),
            _ => None,
        }
    }

    /// The number in the value of `name` as the file has it: `1.10` and `007` are not the texts `1.1` and
    /// `7`. `earlier` is how many equal numbers precede it in the value. In its shortest form if the file has
    /// another notation.
    fn number_as_written(&self, name: &str, number: &serde_json::Number, earlier: usize) -> String {
        let first = self.line_of(name).map_or(0, |line| line.saturating_sub(2));
        let is_separator = |c: char| c.is_whitespace() || ",:=[]{}".contains(c);
        let lines = self.lines.iter().skip(first).map(|line| line.split(" #").next().unwrap_or_default());
        let words = lines.flat_map(|line| line.split(is_separator));
        let mut written =
            words.filter(|word| word.parse::<f64>().is_ok_and(|parsed| Some(parsed) == number.as_f64()));
        written.nth(earlier).map_or_else(|| number.to_string(), str::to_owned)
    }

    /// The line of the file that sets `key`.
    fn line(&self, key: &str) -> Option<usize> {
        line_of_key(self.lines.iter().copied(), key)
    }

    /// The line of the file that sets `name`, or the table that contains it.
    fn line_of(&self, name: &str) -> Option<usize> {
        self.line(name.split('.').next().unwrap_or(name))
    }
}

/// The line of the file that sets `key`. `lines` are those of the front matter. Finds a key only at the
/// beginning of a line, also in `[key]` and `key.other`, and compares as [`is_same_key`] does. `None` if no
/// line sets it.
pub(super) fn line_of_key<'a>(mut lines: impl Iterator<Item = &'a str>, key: &str) -> Option<usize> {
    let first = letters_of_key(key).next();
    let at = lines.position(|line| {
        let line = line.trim_start_matches(['"', '\'', '[']);
        if letters_of_key(line).next() != first {
            return false;
        }
        let before = |(end, _): (usize, _)| line[..end].trim_end().trim_end_matches(['"', '\'']);
        line.match_indices([':', '=', ']', '.']).map(before).any(|written| is_same_key(written, key))
    })?;
    // Lines count from 1, and the line that opens the front matter precedes `lines`.
    Some(at + 2)
}

/// Whether two keys are equal apart from case, `_` and `-`: `publish_date` is `publishDate`.
fn is_same_key(a: &str, b: &str) -> bool {
    letters_of_key(a).eq(letters_of_key(b))
}

/// The bytes of a key in lower case, without `_` and `-`.
fn letters_of_key(key: &str) -> impl Iterator<Item = u8> {
    key.bytes().filter(|byte| !b"_-".contains(byte)).map(|byte| byte.to_ascii_lowercase())
}

fn has_errors(faults: &[Fault]) -> bool {
    faults.iter().any(|fault| fault.severity == Severity::Error)
}

/// Percent-decodes a path. Returns a path that [`percent_decode`] rejects unchanged.
fn decode_path(path: &str) -> String {
    percent_decode(path).map_or_else(|_| path.to_owned(), Cow::into_owned)
}

/// Whether a path, which may be empty, has no reserved characters, control characters, dot segments or empty
/// segments.
fn is_valid_path(path: &str) -> bool {
    !path.contains(['?', '#', '\\', '%', ':'])
        && !path.chars().any(char::is_control)
        && path.split('/').all(|segment| !matches!(segment, "." | ".."))
        && !path.contains("//")
}

/// Whether a slug is a path from the root of the site, such as `/guides/intro`. A slug such as `/intro` is
/// the last segment of a path.
fn is_whole_path(slug: &str) -> bool {
    slug.starts_with('/') && slug.trim_matches('/').contains('/')
}

/// The keys that may contain the text of a table such as `author: { name: … }`.
const NAME_FIELDS: &[&str] = &["name", "title", "label"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_and_toml_give_the_same_front_matter() {
        let yaml = "---\ntitle: Hello\ndescription: A page.\ndate: 2026-02-03\nupdated: 2026-04-05T10:00:00Z\ntags: [a, b]\naliases:\n  - /old/\ndraft: false\nnav: 2\n---\nBody\n";
        let toml = "+++\ntitle = \"Hello\"\ndescription = \"A page.\"\ndate = 2026-02-03\nupdated = 2026-04-05T10:00:00Z\naliases = [\"/old/\"]\ndraft = false\nnav = 2\n[taxonomies]\ntags = [\"a\", \"b\"]\n+++\nBody\n";
        let (yaml, toml) = (accept(yaml), accept(toml));
        assert_eq!(yaml, toml);
        assert_eq!(yaml.title, "Hello");
        assert_eq!(yaml.updated.map(|date| date.to_string()), Some("2026-04-05".to_owned()));
        assert_eq!(yaml.tags, ["a", "b"]);
    }

    #[test]
    fn the_spellings_of_hugo_are_understood() {
        let page = accept(
            "---\nTitle: T\nlastmod: 2026-01-02\nlinkTitle: Short\nauthors: [Ada, Grace]\nimages: [/assets/a.png]\nweight: 3\n---\n",
        );
        assert_eq!(page.nav_title.as_deref(), Some("Short"));
        assert_eq!(page.author.as_deref(), Some("Ada, Grace"));
        assert_eq!(page.image.as_deref(), Some("/assets/a.png"));
    }

    #[test]
    fn tables_with_a_name_count_as_their_name() {
        let page = accept(
            "---\ntitle: T\nauthor: {name: Ada, url: /ada/}\nimage: {title: A crane, src: /assets/a.png}\nupdated: ''\ntags: [1, {name: x}]\nslug: /a/\nextra: {toc: true}\n---\n",
        );
        assert_eq!((page.author.as_deref(), page.image.as_deref()), (Some("Ada"), Some("/assets/a.png")));
        assert_eq!((page.updated, page.slug.as_deref(), page.toc), (None, Some("a"), true));
        assert_eq!(page.tags, ["1", "x"]);
        check(
            "---\ntitle: true\nauthor: [[Ada]]\n---\n",
            &["a.md:2: `title` must be text; if", "a.md:3: `author` must be text"],
        );
        for title in ["No", "NO", "Y", "2024", "off"] {
            assert_eq!(accept(&format!("---\ntitle: {title}\n---\n")).title, title);
        }
        assert!(accept("---\ntitle: T\ntoc: yes\n---\n").toc);
        let page = accept("---\ntitle: T\ntoc: n\nExtra: {banner: no, list: [y], text: 'no'}\n---\n");
        assert_eq!(Value::from(page.extra), json!({"banner": false, "list": [true], "text": "no"}));
        assert_eq!(
            accept("---\ntitle: T\nauthors: [{name: Ada}, Grace]\n---\n").author.as_deref(),
            Some("Ada, Grace")
        );
        assert_eq!(
            accept("---\ntitle: T\ndescription: |\n  two\n  lines\n---\n").description.as_deref(),
            Some("two lines")
        );
    }

    #[test]
    fn values_of_other_generators_are_read() {
        let read = |matter: &str| accept(&format!("---\ntitle: T\n{matter}\n---\n"));
        for (matter, expected) in [
            ("image: {path: /assets/a.png, alt: A crane, title: Crane}", Some("/assets/a.png")),
            ("image: {url: /assets/a.png, width: 300}", Some("/assets/a.png")),
            ("image: [/assets/a.png, /assets/b.png]", Some("/assets/a.png")),
            ("images:\n  - src: /assets/a.png\n  -", Some("/assets/a.png")),
            ("image: false", None),
        ] {
            assert_eq!(read(matter).image.as_deref(), expected, "{matter}");
        }
        for (matter, expected) in [
            ("author: [Ada, Grace]", Some("Ada, Grace")),
            ("author: {name: Ada, title: Engineer}", Some("Ada")),
            ("authors: {name: Ada, title: Engineer, url: 'https://example.org'}", Some("Ada")),
            ("authors: [{name: Ada}, null, Grace]", Some("Ada, Grace")),
            ("author: []\nauthors: Ada", Some("Ada")),
            ("author: false", None),
        ] {
            assert_eq!(read(matter).author.as_deref(), expected, "{matter}");
        }
        for (matter, expected) in [
            ("tags:\n  -", &[][..]),
            ("tags: [a, null, '']", &["a"]),
            ("tags: [python, 3.12, 3.10, 007]", &["python", "3.12", "3.10", "007"]),
            ("tags:\n  - 3.10\n  - true", &["3.10", "true"]),
            ("tags: [3.1, 3.10]", &["3.1", "3.10"]),
            ("tags: # was 3.1\n  - 3.10", &["3.10"]),
            ("tags: [{label: Facebook, permalink: /facebook}]", &["Facebook"]),
            ("tags: 2026", &["2026"]),
            ("tags: false", &[]),
        ] {
            assert_eq!(read(matter).tags, expected, "{matter}");
        }
        assert_eq!(accept("+++\ntitle = 1.10\ntags = [3.10]\n+++\n").tags, ["3.10"]);
        assert_eq!(accept("---\ntitle: 1.10 # now\n---\n").title, "1.10");
        for (matter, nav, weight) in [
            ("weight: '10'\nnav: 2.0", Some(2), Some(10)),
            ("weight: 2.5\nnav: false", None, Some(2)),
            ("weight: -3", None, Some(-3)),
            ("weight: '1.5e3'\nnav: 1.5e16", Some(15_000_000_000_000_000), Some(1500)),
            ("weight: 1.5e-7\nnav: '9007199254740993'", Some(9_007_199_254_740_993), Some(0)),
        ] {
            let page = read(matter);
            assert_eq!((page.nav, page.weight), (nav, weight), "{matter}");
        }
        for (matter, draft) in
            [("draft: 0", false), ("draft: 1", true), ("published: '0'", true), ("published: 0", true)]
        {
            assert_eq!(read(matter).visibility.draft, Some(draft), "{matter}");
        }
    }

    #[test]
    fn dates_of_other_generators_are_read() {
        for (matter, date, publish_at) in [
            ("date: {created: 2026-01-31}", "2026-01-31", "2026-01-31T00:00Z"),
            ("date: 2016-04-24 9:00:00 +0200", "2016-04-24", "2016-04-24T07:00Z"),
            ("date: 2014/7/7 20:46:25", "2014-07-07", "2014-07-07T20:46:25Z"),
            ("date: 20261201", "2026-12-01", "2026-12-01T00:00Z"),
            ("date: 2026-12-01\npublished: 2026/12/2 9:00", "2026-12-01", "2026-12-02T09:00Z"),
        ] {
            let page = accept(&format!("---\ntitle: T\n{matter}\n---\n"));
            assert_eq!(
                (page.date, page.publish_at),
                (date.parse().ok(), publish_at.parse().ok()),
                "{matter}"
            );
        }
        let page = accept("---\ntitle: T\ndate: {created: 2026-01-31, updated: 2026-02-01 9:00}\n---\n");
        assert_eq!((page.updated, page.expire_at), ("2026-02-01".parse().ok(), None));
    }

    #[test]
    fn a_slug_with_several_segments_is_a_part_of_the_path_or_all_of_it() {
        for (slug, expected_slug, path) in [
            ("/intro/", Some("intro"), None),
            ("guides/intro", Some("guides/intro"), None),
            ("/guides/intro", None, Some("/guides/intro/")),
            ("/", None, None),
            ("false", None, None),
        ] {
            let page = accept(&format!("---\ntitle: T\nslug: {slug}\n---\n"));
            assert_eq!((page.slug.as_deref(), page.path.as_deref()), (expected_slug, path), "{slug}");
        }
        let page = accept("---\ntitle: T\nslug: /a/b\nurl: /c/\n---\n");
        assert_eq!((page.slug, page.path.as_deref()), (None, Some("/c/")));
        for slug in ["../a", "a//b", "'a?b'", "'/a/#b'"] {
            let mut faults = Vec::new();
            assert_eq!(parse("a.md", &format!("---\ntitle: T\nslug: {slug}\n---\n"), &mut faults), None);
            assert_eq!((faults.len(), faults[0].severity), (1, Severity::Error), "{slug}");
        }
    }

    #[test]
    fn only_keys_that_withhold_or_place_a_page_are_errors() {
        for (matter, severity) in [
            ("toc: {sidebar: left}", Severity::Warning),
            ("section: docs", Severity::Warning),
            ("nav: true", Severity::Warning),
            ("weight: heavy", Severity::Warning),
            ("weight: 1.5e300", Severity::Warning),
            ("tags: [a, [b]]", Severity::Warning),
            ("image: {alt: A crane}", Severity::Warning),
            ("description: [a, b]", Severity::Warning),
            ("extra: none", Severity::Warning),
            ("updated: soon", Severity::Warning),
            ("cta: Buy now", Severity::Warning),
            ("highlights: [{title: a}, {title: b, text: c}]", Severity::Warning),
            ("pubDate: 07/08/2022", Severity::Warning),
            ("pubDate: soon", Severity::Warning),
            ("date: Last Modified", Severity::Warning),
            ("date: git Created", Severity::Warning),
            ("date: 2026-12-01 10:00:00 EST", Severity::Warning),
            ("publishDate: 12/01/2026", Severity::Warning),
            ("date: soon", Severity::Error),
            ("date: {updated: 2026-02-01}", Severity::Error),
            ("date: 2026-12", Severity::Warning),
            ("date: 2026", Severity::Warning),
            ("date: 2026-12-01 13:00 PM", Severity::Error),
            ("publishDate: 8 Jul 27", Severity::Error),
            ("expiryDate: 2026-12-01 10:00:00 EST", Severity::Error),
            ("unlisted: perhaps", Severity::Error),
            ("draft: 2", Severity::Error),
            ("url: https://example.org/", Severity::Warning),
            ("url: /a?b", Severity::Error),
        ] {
            let mut faults = Vec::new();
            let text = format!("---\ntitle: T\n{matter}\n---\n");
            let parsed = parse("a.md", &text, &mut faults);
            assert_eq!((faults.len(), faults[0].severity), (1, severity), "{matter}: {faults:?}");
            assert_eq!(parsed.is_some(), severity == Severity::Warning, "{matter}");
        }
        let read = |matter: &str| {
            parse("a.md", &format!("---\ntitle: T\n{matter}\n---\n"), &mut Vec::new())
                .expect("a page with warnings")
                .front_matter
        };
        assert_eq!(read("tags: [a, [b], c]").tags, ["a", "c"]);
        assert_eq!(read("updated: 2026-12-01 at noon").updated, "2026-12-01".parse().ok());
        assert_eq!(read("highlights: [{title: a}, {title: b, text: 1.10}]").highlights[0].text, "1.10");
        let page = read("date: 2026-12-01 10:00:00 EST");
        assert_eq!(page.date, "2026-12-01".parse().ok());
        assert_eq!((page.dated_at, page.publish_at), (None, "2026-12-01T22:00Z".parse().ok()));
        let page = read("pubDate: 12/01/2026");
        assert_eq!((page.date, page.publish_at), (None, "2026-12-01T00:00Z".parse().ok()));
        assert_eq!(read("published: 12/01/2026").publish_at, "2026-12-01T00:00Z".parse().ok());
    }

    #[test]
    fn pages_that_hugo_and_zola_would_not_render_are_recognized() {
        for matter in ["render: false", "headless: true", "build: {render: never}", "_build: {render: false}"]
        {
            let page = accept(&format!("---\ntitle: T\n{matter}\n---\n"));
            let Visibility { draft, unrendered, .. } = page.visibility;
            assert_eq!((draft, unrendered), (None, Some(true)), "{matter}");
        }
        let page = accept("---\ntitle: T\nrender: y\nbuild: {render: always}\n---\n");
        assert_eq!(page.visibility, Visibility { unrendered: Some(false), ..Visibility::default() });
        assert_eq!(
            accept("+++\ntitle = \"T\"\npath = \"about/us\"\n+++\n").path.as_deref(),
            Some("/about/us/")
        );
        for (text, expected) in [
            ("---\ntitle: T\nurl: /about/\n---\n", Some("/about/")),
            ("---yaml\ntitle: T\nurl: /%E3%81%82\n...\n", Some("/あ/")),
            ("---toml\ntitle = \"T\"\npath = \"about\"\n---\n", Some("/about/")),
            ("---\ntitle: T\npath: false\n---\n", None),
        ] {
            assert_eq!(accept(text).path.as_deref(), expected, "{text}");
        }
        assert_eq!(accept("---\ntitle: T\nslug: '%E3%81%82'\n---\n").slug.as_deref(), Some("あ"));
        check(
            "---\ntitle: T\nurl: https://example.org/a?b\n---\n",
            &["a.md:3: `url` has no effect, because it is not a path"],
        );
    }

    #[test]
    fn aliases_are_decoded_paths_and_tags_may_be_one_string() {
        let page = accept("---\ntitle: T\naliases: [/a%20b, 'c d/', 100%]\ntags: rust, web dev,\n---\n");
        assert_eq!(page.aliases, ["/a b", "c d/", "100%"]);
        assert_eq!(page.tags, ["rust", "web dev"]);
        assert_eq!(accept("---\ntitle: T\ntags: ['a, b']\n---\n").tags, ["a, b"]);
        for alias in ["/?p=12", "https://old.example/x", "/x#y"] {
            check(&format!("---\ntitle: T\naliases: ['{alias}']\n---\n"), &["a.md:3: the alias `"]);
        }
    }

    #[test]
    fn keys_that_withhold_pages_are_read_or_reported() {
        let page = accept("---\ntitle: T\npublished: 2026-12-01\nunpublishDate: 2027-01-01T09:00Z\n---\n");
        assert_eq!(page.publish_at, "2026-12-01T00:00Z".parse().ok());
        assert_eq!(page.expire_at, "2027-01-01T09:00Z".parse().ok());
        assert!(!page.visibility.is_limited());
        accept("---\ntitle: T\nstatus: published\nvisibility: public\npassword:\n---\n");
        for key in ["publish_date", "Publish-Date", "published_at", "pubDatetime", "publishOn", "publish"] {
            let page = accept(&format!("---\ntitle: T\ndate: 2026-01-01\n{key}: 2026-12-01\n---\n"));
            assert_eq!(page.publish_at, "2026-12-01T00:00Z".parse().ok(), "{key}");
        }
        for key in ["unpublish_date", "expiry-date", "expires", "expires_at", "expiry", "expiration"] {
            let page = accept(&format!("---\ntitle: T\n{key}: 2026-12-01\n---\n"));
            assert_eq!(page.expire_at, "2026-12-01T00:00Z".parse().ok(), "{key}");
        }
        let page = accept("---\ntitle: T\npublished: no\ndate: 2026-12-01\nnoindex: true\n---\n");
        assert_eq!((page.visibility.draft, page.unlisted), (Some(true), true));
        assert_eq!(page.publish_at, "2026-12-01T00:00Z".parse().ok());
        for cascade in [
            "{draft: true}",
            "[{type: docs}, {draft: true, build: {list: never}}]",
            "[{Target: {path: /a/b}, draft: false}, {draft: false}, {draft: true}]",
        ] {
            let page = accept(&format!("---\ntitle: T\ncascade: {cascade}\n---\n"));
            assert_eq!((page.cascade.draft, page.visibility), (Some(true), Visibility::default()));
        }
        accept("---\ntitle: T\ncascade: {type: docs, _target: {path: /a/**}}\n---\n");
        for (matter, expected) in [
            ("expiryDate: soon", "a.md:3: `expiryDate` must be a date"),
            (
                "cascade: {draft: true, target: {path: /a/**}}",
                "a.md:3: `target` is not supported in a `cascade`",
            ),
            (
                "published: perhaps",
                "`published` has no effect in the front matter\n    hint: this key does not hide the page",
            ),
            (
                "status: draft",
                "`status` has no effect in the front matter\n    hint: this key does not hide the page; set `draft: true`",
            ),
            (
                "visibility: team",
                "`visibility` has no effect in the front matter\n    hint: this key does not hide the page",
            ),
            ("index: false", "`index` has no effect in the front matter\n    hint: set `noindex: true`"),
            (
                "drafts: true",
                "`drafts` has no effect in the front matter\n    hint: this key does not hide the page",
            ),
            (
                "embargo: 2099-01-01",
                "`embargo` has no effect in the front matter\n    hint: this key does not",
            ),
            ("unpublish_date: soon", "a.md:3: `unpublishDate` must be a date"),
            ("permalink: /a/", "`permalink` has no effect in the front matter\n    hint: set `slug`"),
        ] {
            check(&format!("---\ntitle: T\n{matter}\n---\n"), &[expected]);
        }
    }

    #[test]
    fn the_body_begins_after_the_closing_line() {
        let parsed = parse("a.md", "---\ntitle: T\n---\n\nOne\n---\n", &mut Vec::new()).expect("it is valid");
        assert_eq!(parsed.body, "\nOne\n---\n");
        assert_eq!(parsed.body_line, 4);
    }

    #[test]
    fn faults_name_the_line_and_the_remedy() {
        check("No front matter at all", &["a.md:1: no front matter"]);
        check("---\ntitle: T\n", &["a.md:1: the front matter has no closing line `---`"]);
        check("---\ndescription: x\n---\n", &["a.md:1: the front matter has no `title`"]);
        check("---\ntitle: T\ndraft: perhaps\n---\n", &["a.md:3: `draft` must be `true` or `false`"]);
        check(
            "---\ntitle: T\ndate: soon\nslug: a?b\n---\n",
            &["a.md:3: `date` must be a date", "a.md:4: `slug` must be"],
        );
        for date in ["2026-12-01Tgarbage", "2026-12-01T9:3", "2026-12-01 at noon", "2026-12-01x"] {
            check(&format!("---\ntitle: T\ndate: {date}\n---\n"), &["a.md:3: `date` must be a date"]);
        }
        check(
            "---\ntitle: T\ndate: 2026-12-01\npublishDate: soon\n---\n",
            &["a.md:4: `publishDate` must be a date"],
        );
        let mut faults = Vec::new();
        assert!(parse("a.md", "---\ntitle: T\npubDate: '07/08/2022'\n---\n", &mut faults).is_some());
        assert_eq!((faults.len(), faults[0].severity), (1, Severity::Warning));
        check("+++\ntitle = \n+++\n", &["a.md:2: the front matter is not valid TOML"]);
        check("---\ntitle: [\n---\n", &["the front matter is not valid YAML: unclosed bracket"]);
        let repeated = "the front matter is not valid YAML: duplicate mapping key: title";
        check("---\ntitle: a\ntitle: b\n---\n", &[repeated]);
        check(
            "---\ntitle: T\ndescripton: x\n---\n",
            &["a.md:3: unknown key `descripton` in the front matter\n    hint: did you mean `description`?"],
        );
        check("---\ntitle: T\ncta: [{label: x}]\n---\n", &["a.md:3: `cta` must be a list"]);
    }

    #[test]
    fn a_page_without_a_title_is_one_error() {
        for (keys, expected) in [
            ("titel: We are open", "a.md:2: unknown key `titel`"),
            ("Tilte: We are open\ncolour: red", "a.md:2: unknown key `Tilte`"),
            ("color: red", "a.md:1: the front matter has no `title`"),
            ("title: ''\ntags: []", "a.md:1: the front matter has no `title`"),
            ("title: [a]", "a.md:2: `title` must be text"),
            ("title: false", "a.md:1: the front matter has no `title`"),
        ] {
            let mut faults = Vec::new();
            assert_eq!(parse("a.md", &format!("---\n{keys}\n---\n"), &mut faults), None, "{keys}");
            faults.retain(|fault| fault.severity == Severity::Error);
            let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
            assert!(said.len() == 1 && said[0].starts_with(expected), "{keys}: {said:?}");
        }
        // With a title, a key that resembles it is only unknown.
        let mut faults = Vec::new();
        assert!(parse("a.md", "---\ntitle: T\ntitel: U\n---\n", &mut faults).is_some());
        assert_eq!((faults.len(), faults[0].severity), (1, Severity::Warning));
    }

    fn accept(text: &str) -> FrontMatter {
        let mut faults = Vec::new();
        let parsed = parse("a.md", text, &mut faults);
        assert_eq!(faults, []);
        parsed.expect("valid front matter").front_matter
    }

    fn check(text: &str, expected: &[&str]) {
        let mut faults = Vec::new();
        parse("a.md", text, &mut faults);
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), expected.len(), "{said:?}");
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.contains(expected), "{said:?} does not contain {expected:?}");
        }
    }
}
