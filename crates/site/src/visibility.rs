//! Reads from front matter whether a page is published and listed, in the terms of several site generators.

use serde_json::{Map, Value};

/// The values of front matter that decide about the publication of a page. `None` for those without a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visibility {
    /// Whether only a preview shows the page.
    pub draft: Option<bool>,
    /// Whether the page is never shown, not even in a preview.
    pub unrendered: Option<bool>,
    /// Whether the page is left out of sitemaps, `llms.txt` and site search.
    pub unlisted: Option<bool>,
}

impl Visibility {
    /// Reads all keys of the front matter. Of keys that contradict each other, the one that withholds the
    /// page counts.
    pub fn read(table: &Map<String, Value>) -> Self {
        let stricter = |a: Option<bool>, b: Option<bool>| if b == Some(true) { b } else { a.or(b) };
        table.iter().filter_map(|(key, value)| Self::of_key(key, value)).fold(Self::default(), |all, one| {
            Self {
                draft: stricter(all.draft, one.draft),
                unrendered: stricter(all.unrendered, one.unrendered),
                unlisted: stricter(all.unlisted, one.unlisted),
            }
        })
    }

    /// Reads one key, in any case. `None` if the key, or its value, has another meaning.
    pub fn of_key(key: &str, value: &Value) -> Option<Self> {
        let flag = as_flag(value);
        let draft = |is| Self { draft: Some(is), ..Self::default() };
        let unrendered = |is| Self { unrendered: Some(is), ..Self::default() };
        let unlisted = |is| Self { unlisted: Some(is), ..Self::default() };
        Some(match key.to_ascii_lowercase().as_str() {
            "draft" | "isdraft" | "private" => draft(flag?),
            "published" | "publish" => draft(!flag?),
            "password" => draft(value.as_str().is_some_and(|text| !text.is_empty())),
            "headless" => unrendered(flag?),
            "render" => unrendered(!flag?),
            // Only Eleventy's `false` is no path.
            "permalink" => unrendered(!flag.filter(|is| !is)?),
            "unlisted" | "hidden" | "noindex" | "robotsnoindex" => unlisted(flag?),
            "robots" => {
                let text = value.as_str()?.to_ascii_lowercase();
                unlisted(text.split([',', ' ']).any(|word| matches!(word, "noindex" | "none")))
            }
            "sitemap" => match value.as_object() {
                Some(table) => unlisted(["disable", "exclude"].iter().any(|key| is_true(table.get(*key)))),
                None => unlisted(!flag?),
            },
            "build" | "_build" => {
                let is_off =
                    |name| value.get(name).map(|value| as_flag(value) == Some(false) || leaves_out(value));
                Self { draft: None, unrendered: is_off("render"), unlisted: is_off("list") }
            }
            _ => return None,
        })
    }

    /// These values, or else the `inherited` ones.
    pub fn or(self, inherited: Self) -> Self {
        Self {
            draft: self.draft.or(inherited.draft),
            unrendered: self.unrendered.or(inherited.unrendered),
            unlisted: self.unlisted.or(inherited.unlisted),
        }
    }

    /// Whether a value withholds the page from the public or from lists.
    pub fn is_limited(self) -> bool {
        [self.draft, self.unrendered, self.unlisted].contains(&Some(true))
    }
}

/// A flag, which may be in quotes, as in the YAML of several generators. `None` for other values.
pub(super) fn as_flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn is_true(value: Option<&Value>) -> bool {
    value.and_then(as_flag) == Some(true)
}

/// Whether Hugo's `render` or `list` has a value that leaves the page out.
fn leaves_out(value: &Value) -> bool {
    matches!(value.as_str(), Some("never" | "link" | "local"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_of_several_generators_withhold_a_page() {
        for (matter, draft, unrendered, unlisted) in [
            (json!({"title": "T"}), None, None, None),
            (json!({"draft": true}), Some(true), None, None),
            (json!({"Draft": "yes"}), Some(true), None, None),
            (json!({"draft": "False"}), Some(false), None, None),
            (json!({"draft": false, "published": false}), Some(true), None, None),
            (json!({"published": "2026-01-01"}), None, None, None),
            (json!({"publish": false}), Some(true), None, None),
            (json!({"isDraft": true}), Some(true), None, None),
            (json!({"private": true, "password": ""}), Some(true), None, None),
            (json!({"password": "secret"}), Some(true), None, None),
            (json!({"permalink": false}), None, Some(true), None),
            (json!({"permalink": "/a/"}), None, None, None),
            (json!({"headless": true}), None, Some(true), None),
            (json!({"build": {"render": "link", "list": "always"}}), None, Some(true), Some(false)),
            (json!({"_build": {"list": "local"}}), None, None, Some(true)),
            (json!({"render": true}), None, Some(false), None),
            (json!({"sitemap": {"disable": true}}), None, None, Some(true)),
            (json!({"sitemap": {"priority": 1}}), None, None, Some(false)),
            (json!({"sitemap": false}), None, None, Some(true)),
            (json!({"robots": "NOINDEX, nofollow"}), None, None, Some(true)),
            (json!({"robots": "index, follow", "hidden": true}), None, None, Some(true)),
        ] {
            let expected = Visibility { draft, unrendered, unlisted };
            assert_eq!(Visibility::read(matter.as_object().expect("a table")), expected, "{matter}");
        }
    }

    #[test]
    fn own_values_precede_inherited_ones() {
        let all = Visibility { draft: Some(true), unrendered: Some(true), unlisted: None };
        let own = Visibility { draft: Some(false), ..Visibility::default() };
        assert_eq!(own.or(all), Visibility { draft: Some(false), ..all });
        assert!(all.is_limited() && !own.is_limited());
    }
}
