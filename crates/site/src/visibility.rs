//! Reads from front matter whether a page is published and listed, in the terms of several site generators.

use frontdesk_convert::forbids_index;
use serde_json::{Map, Value};

/// The publication settings in a page's front matter. A setting is `None` if no key states it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visibility {
    /// Whether only a preview shows the page.
    pub draft: Option<bool>,
    /// Whether the page is never shown, not even in a preview.
    pub unrendered: Option<bool>,
    /// Whether the page is left out of sitemaps, `llms.txt` and site search.
    pub unlisted: Option<bool>,
    /// Whether `unlisted` comes from a key that tells search engines not to index the page.
    pub noindex: bool,
}

impl Visibility {
    /// Reads all keys of the front matter, as [`Self::of_key`] does. If keys contradict each other, the one
    /// that withholds the page takes precedence.
    pub fn read(table: &Map<String, Value>) -> Self {
        let values = table.iter().filter_map(|(key, value)| Self::of_key(key, value));
        values.fold(Self::default(), Self::stricter)
    }

    /// Reads one key, in any case, with or without `_` and `-`. `None` if the key, or its value, has another
    /// meaning. Only `draft`, `published`, `unlisted` and `build` can state that a page is published or
    /// listed although the folder above withholds it. Other keys that do not withhold the page say nothing.
    pub fn of_key(key: &str, value: &Value) -> Option<Self> {
        let flag = as_flag(value);
        let withheld = |is: bool| is.then_some(true);
        let is_word = |words: &[&str]| {
            value.as_str().is_some_and(|text| words.iter().any(|word| text.eq_ignore_ascii_case(word)))
        };
        let draft = |draft| Self { draft, ..Self::default() };
        let unrendered = |unrendered| Self { unrendered, ..Self::default() };
        let unlisted = |unlisted| Self { unlisted, ..Self::default() };
        let noindex = |noindex| Self { noindex, ..unlisted(withheld(noindex)) };
        Some(match key.to_ascii_lowercase().replace(['_', '-'], "").as_str() {
            "draft" => draft(Some(flag?)),
            "publish" | "published" | "poststatus" if is_word(&["draft", "private"]) => draft(Some(true)),
            "published" => draft(Some(!flag?)),
            "publish" | "ispublished" | "dgpublish" | "public" => draft(withheld(!flag?)),
            "isdraft" | "private" | "excluded" | "ignorepublish" | "ignorepost" => draft(withheld(flag?)),
            "password" => draft(withheld(!value.is_null() && value != "")),
            // `status: draft` withholds no page, because decision records with this status are published.
            "status" | "visibility" | "poststatus" => match value.as_str()?.to_ascii_lowercase().as_str() {
                // `members`, `paid` and `tiers` mark posts in Ghost that only a site's subscribers may read.
                "private" | "hidden" | "pending" | "trash" | "auto-draft" | "skip" | "members" | "paid"
                | "tiers" => draft(Some(true)),
                // `status` may describe the subject of the page, such as a protected building.
                "protected" if key.eq_ignore_ascii_case("visibility") => draft(Some(true)),
                "unlisted" => unlisted(Some(true)),
                "public" | "published" | "publish" | "new" => Self::default(),
                _ => return None,
            },
            // Grav shows a page with access rules to signed-in visitors only.
            "access" if value.as_object().is_some_and(has_access_rule) => draft(Some(true)),
            "headless" => unrendered(withheld(flag?)),
            "render" | "routable" => unrendered(withheld(!flag?)),
            // In Eleventy and Lume, `false` means that the page is not written. Other values are paths.
            "permalink" if flag == Some(false) => unrendered(Some(true)),
            "url" | "path" if *value == false => unrendered(Some(true)),
            "unlisted" => unlisted(Some(flag?)),
            "listed" => unlisted(withheld(!flag?)),
            "hidden" | "sitemapexclude" | "eleventyexcludefromcollections" => unlisted(withheld(flag?)),
            "noindex" | "robotsnoindex" => noindex(flag?),
            "robots" | "metarobots" => noindex(robots_forbid_index(value)?),
            "seo" => {
                // `seo: false` turns off tags such as the description, and does not forbid indexing.
                let values = [Some(value).filter(|it| !it.is_boolean()), value.get("robots")];
                noindex(values.into_iter().flatten().any(|it| robots_forbid_index(it) == Some(true)))
            }
            // Keys that a theme reads (`params` in Hugo, `extra` in Zola), and elements for the head of the
            // page, as a table (`metadata` in Grav) or a list (VitePress, Starlight, VuePress).
            "params" | "extra" | "metadata" | "head" | "meta" => {
                let is_noindex = |table| Self::read(table).noindex;
                noindex(value.as_object().is_some_and(is_noindex) || has_robots_meta(value))
            }
            "sitemap" => match value.as_object() {
                Some(table) => {
                    unlisted(withheld(["disable", "exclude"].iter().any(|key| is_true(table.get(*key)))))
                }
                None => unlisted(withheld(!flag?)),
            },
            "build" => {
                let is_off = |name| hugo_leaves_out(value.get(name)?);
                Self { unrendered: is_off("render"), unlisted: is_off("list"), ..Self::default() }
            }
            _ => return None,
        })
    }

    /// Takes each setting that is `None` from `inherited`. Sets `noindex` if `inherited` sets it.
    pub fn or(self, inherited: Self) -> Self {
        Self {
            draft: self.draft.or(inherited.draft),
            unrendered: self.unrendered.or(inherited.unrendered),
            unlisted: self.unlisted.or(inherited.unlisted),
            noindex: self.noindex || inherited.noindex,
        }
    }

    /// Combines values of equal rank, such as those of two keys of a page. A value that withholds the page
    /// takes precedence.
    pub fn stricter(self, other: Self) -> Self {
        let stricter = |a: Option<bool>, b: Option<bool>| if b == Some(true) { b } else { a.or(b) };
        Self {
            draft: stricter(self.draft, other.draft),
            unrendered: stricter(self.unrendered, other.unrendered),
            unlisted: stricter(self.unlisted, other.unlisted),
            noindex: self.noindex || other.noindex,
        }
    }

    /// Whether a value withholds the page from the public or from lists.
    pub fn is_limited(self) -> bool {
        [self.draft, self.unrendered, self.unlisted].contains(&Some(true))
    }
}

/// Whether a table has a Grav permission below `site` or `admin`, with a dotted name such as `site.login` or
/// as a nested table.
fn has_access_rule(rules: &Map<String, Value>) -> bool {
    rules.keys().any(|name| matches!(name.split('.').next(), Some("site" | "admin")))
}

/// Reads a boolean, a string such as `yes` or `off`, in any case and with white space around it, or 1 or 0.
/// `None` for other values.
pub(super) fn as_flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "no" | "n" | "off" | "0" => Some(false),
            _ => None,
        },
        Value::Number(number) if number.as_i64() == Some(1) => Some(true),
        Value::Number(number) if number.as_i64() == Some(0) => Some(false),
        _ => None,
    }
}

/// Whether a value of `robots` forbids search engines to index the page: directives in a text, a list of
/// these, a table such as `{index: false}`, or `false`. `None` for values of other types.
fn robots_forbid_index(value: &Value) -> Option<bool> {
    let is_directive = |(name, flag): (&String, &Value)| match as_flag(flag) {
        Some(true) => forbids_index(name),
        Some(false) => name.eq_ignore_ascii_case("index"),
        None => false,
    };
    Some(match value {
        Value::Array(list) => list.iter().any(|value| robots_forbid_index(value) == Some(true)),
        Value::Object(directives) => directives.iter().any(is_directive),
        Value::String(directives) => forbids_index(directives) || as_flag(value) == Some(false),
        Value::Bool(is_indexed) => !is_indexed,
        Value::Null | Value::Number(_) => return None,
    })
}

/// Whether a value contains, at any depth, attributes of a `<meta>`: `{name: robots, content: noindex}`.
fn has_robots_meta(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().any(has_robots_meta),
        Value::Object(table) => {
            let attribute = |name: &str| table.get(name)?.as_str();
            attribute("name").is_some_and(|name| name.eq_ignore_ascii_case("robots"))
                && attribute("content").is_some_and(forbids_index)
                || table.values().any(has_robots_meta)
        }
        _ => false,
    }
}

fn is_true(value: Option<&Value>) -> bool {
    value.and_then(as_flag) == Some(true)
}

/// Whether the value of Hugo's `render` or `list` leaves the page out. `None` for an unknown value.
fn hugo_leaves_out(value: &Value) -> Option<bool> {
    match value.as_str() {
        Some("never" | "link" | "local") => Some(true),
        Some("always") => Some(false),
        _ => as_flag(value).map(|is| !is),
    }
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
            (json!({"build": {"render": "n", "list": null}}), None, Some(true), None),
            (json!({"render": "n"}), None, Some(true), None),
            (json!({"Headless": "Y"}), None, Some(true), None),
            (json!({"password": 123_456}), Some(true), None, None),
            (json!({"password": null}), None, None, None),
            (json!({"password": "", "private": false, "isDraft": false, "publish": true}), None, None, None),
            (json!({"published": true}), Some(false), None, None),
            (json!({"render": true, "headless": false, "status": "new"}), None, None, None),
            (json!({"hidden": false, "noindex": false, "sitemap": true, "robots": null}), None, None, None),
            (json!({"unlisted": false}), None, None, Some(false)),
            (json!({"status": "Pending"}), Some(true), None, None),
            (json!({"visibility": "private"}), Some(true), None, None),
            (json!({"visibility": "unlisted"}), None, None, Some(true)),
            (json!({"status": "draft"}), None, None, None),
            (json!({"sitemap": {"disable": true}}), None, None, Some(true)),
            (json!({"sitemap": {"priority": 1}, "robots": "nofollow"}), None, None, None),
            (json!({"sitemap": false}), None, None, Some(true)),
            (json!({"robots": "NOINDEX, nofollow"}), None, None, Some(true)),
            (json!({"robots": "index, follow", "hidden": true}), None, None, Some(true)),
            (json!({"robots": "noindex;nofollow"}), None, None, Some(true)),
            (json!({"robots": ["noindex", "nofollow"]}), None, None, Some(true)),
            (json!({"robots": ["nofollow", "max-image-preview: none"]}), None, None, None),
            (json!({"robots": {"index": false, "follow": true}}), None, None, Some(true)),
            (json!({"robots": {"NoIndex": "yes"}}), None, None, Some(true)),
            (json!({"robots": {"index": true, "follow": false, "noindex": false}}), None, None, None),
            (json!({"robots": false}), None, None, Some(true)),
            (json!({"robots": "no"}), None, None, Some(true)),
            (json!({"robots": true}), None, None, None),
            (json!({"metadata": {"robots": ["noindex"], "draft": true}}), None, None, Some(true)),
            (json!({"params": {"NoIndex": true, "draft": true}}), None, None, Some(true)),
            (json!({"extra": {"robots": "none"}}), None, None, Some(true)),
            (json!({"params": {"noindex": false, "draft": true}, "extra": null}), None, None, None),
            (json!({"head": [["meta", {"name": "robots", "content": "noindex"}]]}), None, None, Some(true)),
            (json!({"head": [["meta", {"name": "author", "content": "noindex"}], "x"]}), None, None, None),
            (
                json!({"head": [{"tag": "meta", "attrs": {"name": "robots", "content": "none"}}]}),
                None,
                None,
                Some(true),
            ),
            (json!({"meta": [{"name": "robots", "content": "noindex"}]}), None, None, Some(true)),
            (json!({"meta": [{"name": "robots", "content": "index"}]}), None, None, None),
            (json!({"metadata": [{"name": "Robots", "content": "noindex"}]}), None, None, Some(true)),
            (json!({"metadata": {"noindex": true}}), None, None, Some(true)),
            (json!({"meta": {"robots": "noindex"}, "head": null}), None, None, Some(true)),
            (json!({"head": {"robots": "index"}, "metadata": []}), None, None, None),
        ] {
            assert_eq!(settings(&matter), (draft, unrendered, unlisted), "{matter}");
        }
    }

    #[test]
    fn keys_of_grav_ghost_and_seo_modules_withhold_a_page() {
        for (matter, draft, unrendered, unlisted) in [
            (json!({"routable": false}), None, Some(true), None),
            (json!({"routable": true, "visible": false}), None, None, None),
            (json!({"is_draft": true}), Some(true), None, None),
            (json!({"visibility": "members"}), Some(true), None, None),
            (json!({"visibility": "Paid"}), Some(true), None, None),
            (json!({"visibility": "protected"}), Some(true), None, None),
            (json!({"access": {"site.login": true}}), Some(true), None, None),
            (json!({"access": {"site": {"login": true}}}), Some(true), None, None),
            (json!({"access": "public", "extra": {"index": false}}), None, None, None),
            (json!({"access": {"level": "public"}, "status": "protected"}), None, None, None),
            (json!({"seo": false}), None, None, None),
            (json!({"no_index": true}), None, None, Some(true)),
            (json!({"seo": {"noindex": true, "draft": true}}), None, None, Some(true)),
            (json!({"seo": {"robots": "noindex"}}), None, None, Some(true)),
            (json!({"seo": {"index": false}}), None, None, Some(true)),
        ] {
            assert_eq!(settings(&matter), (draft, unrendered, unlisted), "{matter}");
        }
    }

    #[test]
    fn keys_of_several_other_programs_withhold_a_page() {
        for (matter, draft, unrendered, unlisted) in [
            (json!({"url": false}), None, Some(true), None),
            (json!({"path": false}), None, Some(true), None),
            (json!({"path": "no", "url": "/"}), None, None, None),
            (json!({"publish": "Draft"}), Some(true), None, None),
            (json!({"publish": "private"}), Some(true), None, None),
            (json!({"published": "draft"}), Some(true), None, None),
            (json!({"status": "auto-draft"}), Some(true), None, None),
            (json!({"status": "skip"}), Some(true), None, None),
            (json!({"post_status": "draft"}), Some(true), None, None),
            (json!({"post_status": "publish", "public": true, "excluded": false}), None, None, None),
            (json!({"dg-publish": false}), Some(true), None, None),
            (json!({"isPublished": false}), Some(true), None, None),
            (json!({"public": "no"}), Some(true), None, None),
            (json!({"ignorePublish": true}), Some(true), None, None),
            (json!({"ignorePost": true}), Some(true), None, None),
            (json!({"excluded": true}), Some(true), None, None),
            (json!({"listed": false}), None, None, Some(true)),
            (json!({"listed": true, "sitemap_exclude": false}), None, None, None),
            (json!({"sitemap_exclude": true}), None, None, Some(true)),
            (json!({"eleventyExcludeFromCollections": true}), None, None, Some(true)),
            (json!({"metaRobots": "noindex"}), None, None, Some(true)),
        ] {
            assert_eq!(settings(&matter), (draft, unrendered, unlisted), "{matter}");
        }
    }

    fn settings(matter: &Value) -> (Option<bool>, Option<bool>, Option<bool>) {
        let read = Visibility::read(matter.as_object().expect("a table"));
        (read.draft, read.unrendered, read.unlisted)
    }

    #[test]
    fn own_values_precede_inherited_ones() {
        let all = Visibility { draft: Some(true), unrendered: Some(true), ..Visibility::default() };
        let own = Visibility { draft: Some(false), ..Visibility::default() };
        assert_eq!(own.or(all), Visibility { draft: Some(false), ..all });
        assert!(all.is_limited() && !own.is_limited());
    }
}
