//! The source of a lead: the page of the form, the site that the visitor came from, and the campaign.
//!
//! The values come from the visitor's browser, so they are claims. A value that breaks the rules is left out;
//! it is never a fault of the submission.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::has_unsafe;
use crate::urlencoded::pairs;

/// The names of the members, in the order in which they are shown. The first two are the path of the form's
/// page and the host of the site that linked to this one; the others are parameters of the page's URL.
pub const LEAD_MEMBERS: [&str; 8] =
    ["page", "referrer", "utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "ref"];

/// The column names of the members in a CSV export, in the order of [`LEAD_MEMBERS`].
pub const LEAD_COLUMNS: [&str; LEAD_MEMBERS.len()] = [
    "lead_page",
    "lead_referrer",
    "lead_utm_source",
    "lead_utm_medium",
    "lead_utm_campaign",
    "lead_utm_term",
    "lead_utm_content",
    "lead_ref",
];

/// Maximum length in characters of a member of [`LeadSource`], such as `utm_source`.
pub const MAX_LEAD_CHARS: usize = 255;

/// The prefix that the members of [`LeadSource`] have in a request body, as in `desk_utm_source`.
const PREFIX: &str = "desk_";
const PAGE: usize = 0;
const REFERRER: usize = 1;
/// The index in [`LEAD_MEMBERS`] of `utm_source`, the first member that is a parameter of the page's URL.
const FIRST_PARAMETER: usize = 2;

/// Where a submission comes from. Each member is present only if it is known and obeys the rules: at most
/// [`MAX_LEAD_CHARS`] characters on one line, without control and invisible characters. Contains no
/// identifier of the visitor.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeadSource([Option<Box<str>>; LEAD_MEMBERS.len()]);

impl LeadSource {
    /// Reads the members of a JSON object, such as a stored one. Leaves out unknown members and invalid
    /// values. `None` if the text is not a JSON object.
    pub fn from_json(json: &str) -> Option<LeadSource> {
        serde_json::from_str(json).ok()
    }

    /// The members as a JSON object, or `None` if there are none.
    pub fn to_json(&self) -> Option<String> {
        let object = (!self.is_empty()).then(|| serde_json::to_string(self));
        object.and_then(Result::ok)
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// A member's value. `None` if it is absent, or if no member has this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0[index_of(name)?].as_deref()
    }

    /// The names and values of the members that are present, in the order of [`LEAD_MEMBERS`].
    pub fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        LEAD_MEMBERS.into_iter().zip(&self.0).filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// The name of the campaign: `utm_campaign`, or else `ref` or `utm_source`.
    pub fn campaign(&self) -> Option<&str> {
        ["utm_campaign", "ref", "utm_source"].iter().find_map(|name| self.get(name))
    }

    /// The page, the referring host and the campaign in one line: `/pricing/, via search.example.com,
    /// campaign spring`. Empty if all three are unknown.
    pub fn summary(&self) -> String {
        let part = |before: &str, value: Option<&str>| value.map(|value| format!("{before}{value}"));
        let parts = [
            part("", self.get("page")),
            part("via ", self.get("referrer")),
            part("campaign ", self.campaign()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Sets a member to the normal form of a value: without white space around it; a page without query and
    /// fragment, and with its letters outside of ASCII decoded; only the host of a URL, in lower case.
    /// Removes the member if the value is invalid. Ignores unknown names.
    pub fn set(&mut self, name: &str, value: &str) {
        if let Some(index) = index_of(name) {
            self.0[index] = normal_form(index, value).map(Box::from);
        }
    }

    /// Removes the referring host if `is_own` says that it is a host of this site.
    pub fn remove_own_referrer(&mut self, is_own: impl FnOnce(&str) -> bool) {
        let _ = self.0[REFERRER].take_if(|host| is_own(host));
    }

    /// Adds the origin of another site, such as `https://shop.example.com`, to the path of the page. Without
    /// an origin, the page is on this site. Removes a page that is not a path, or that is too long or invalid
    /// once the origin is added.
    pub fn set_origin(&mut self, origin: Option<&str>) {
        if let Some(path) = self.0[PAGE].take().filter(|page| page.starts_with('/')) {
            self.set("page", &format!("{}{path}", origin.unwrap_or_default()));
        }
    }

    /// Completes the members from the path and the query of the form's page: the page if it is unknown, and
    /// the parameters if none is known. If a parameter is repeated, the last value in UTF-8 counts, even if
    /// it is invalid: the member then stays unknown.
    pub fn complete_from(&mut self, path_and_query: &str) {
        if self.0[PAGE].is_none() {
            self.set("page", path_and_query);
        }
        if self.0[FIRST_PARAMETER..].iter().all(Option::is_none) {
            let (before, _) = path_and_query.split_once('#').unwrap_or((path_and_query, ""));
            let query = before.split_once('?').map_or("", |(_, query)| query);
            for (name, value) in pairs(query.as_bytes()) {
                let name = name.decode().unwrap_or_default();
                let parameter = index_of(&name).filter(|at| *at >= FIRST_PARAMETER);
                if let (Some(index), Ok(value)) = (parameter, value.decode()) {
                    self.0[index] = normal_form(index, &value).map(Box::from);
                }
            }
        }
    }
}

/// The member of [`LeadSource`] that `body_member` of a request body sets: `ref` for `desk_ref`.
pub(crate) fn lead_member(body_member: &str) -> Option<&'static str> {
    index_of(body_member.strip_prefix(PREFIX)?).map(|index| LEAD_MEMBERS[index])
}

fn index_of(name: &str) -> Option<usize> {
    LEAD_MEMBERS.iter().position(|member| *member == name)
}

/// Normalizes the value of the member at `index` of [`LEAD_MEMBERS`]. `None` if it is empty, too long or
/// invalid.
fn normal_form(index: usize, value: &str) -> Option<String> {
    let value = value.trim();
    // Reject a value that is much too long before searching it.
    if value.len() > 16 * MAX_LEAD_CHARS {
        return None;
    }
    let value = match index {
        PAGE => normal_page(value)?,
        REFERRER => normal_host(value)?,
        _ => value.to_owned(),
    };
    let is_valid = !value.is_empty() && value.chars().nth(MAX_LEAD_CHARS).is_none() && !has_unsafe(&value);
    is_valid.then_some(value)
}

/// The path, or the origin and the path, without query and fragment. Letters outside of ASCII are decoded.
/// `None` unless the value is a path or begins with `https://` or `http://` in lower case; for URLs with
/// credentials or without a path; for a path that begins with `//` or has a dot segment; and for texts with a
/// space, a backslash, an angle bracket or a `"`.
fn normal_page(value: &str) -> Option<String> {
    let page = value.split(['?', '#']).next().unwrap_or_default();
    let origin_and_path = page.strip_prefix("https://").or_else(|| page.strip_prefix("http://"));
    let is_page = match origin_and_path {
        Some(rest) => rest.split_once('/').is_some_and(|(host, _)| !host.is_empty() && !host.contains('@')),
        None => page.starts_with('/') && !page.starts_with("//"),
    };
    let has_dots = page.split('/').any(|segment| matches!(segment, "." | ".."));
    (is_page && !has_dots && !page.contains([' ', '\\', '<', '>', '"'])).then(|| decode_letters(page))
}

/// Decodes `%XX` outside of ASCII, so that a page has the same name however the browser sends it. Does not
/// change a text that would not be UTF-8.
fn decode_letters(page: &str) -> String {
    let mut bytes = Vec::with_capacity(page.len());
    let mut rest = page.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let decoded =
            digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|byte| !byte.is_ascii());
        bytes.push(decoded.unwrap_or(*first));
        rest = &after[if decoded.is_some() { 2 } else { 0 }..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| page.to_owned())
}

/// The host name in `value`, a host or a URL of any scheme, in lower case and without the port. `None` if it
/// is an IP address, because addresses are not stored, or if its last label has only digits. Also `None` if
/// it does not begin with a letter or digit, or has credentials, a port that is no number, or characters
/// other than those of DNS names, to which browsers convert international names.
fn normal_host(value: &str) -> Option<String> {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    let name = name.trim_end_matches('.');
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    let is_host = is_name
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
        && port.bytes().all(|byte| byte.is_ascii_digit());
    is_host.then(|| name.to_ascii_lowercase())
}

/// Writes an object with the members that are present.
impl Serialize for LeadSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.members())
    }
}

/// Reads an object. Leaves out unknown members and invalid values.
impl<'de> Deserialize<'de> for LeadSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LeadSource, D::Error> {
        let object = serde_json::Map::deserialize(deserializer)?;
        let mut lead = LeadSource::default();
        for (name, value) in &object {
            lead.set(name, value.as_str().unwrap_or_default());
        }
        Ok(lead)
    }
}

/// Shows only the names of members: logs must not contain visitors' values.
impl fmt::Debug for LeadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::form_post::PostedForm;
    use crate::json_post::parse_with_extras;
    use crate::{CONTACT, WAITLIST, parse};

    fn set(name: &str, value: &str) -> Option<String> {
        let mut lead = LeadSource::default();
        lead.set(name, value);
        lead.get(name).map(str::to_owned)
    }

    #[test]
    fn a_page_is_a_path_or_an_http_url_without_query() {
        for (value, expected) in [
            ("/pricing/", Some("/pricing/")),
            (" /pricing/?utm_source=a#b ", Some("/pricing/")),
            ("/%C3%BCber/%20%2541/%c3", Some("/%C3%BCber/%20%2541/%c3")),
            ("/%C3%BCber/%20%2541/", Some("/über/%20%2541/")),
            ("/über/", Some("/über/")),
            ("/a%E2%80%AEb", None),
            ("/a/../b", None),
            ("https://shop.example.com/a?b", Some("https://shop.example.com/a")),
            ("//other.example.com/", None),
            ("/\\other.example.com", None),
            ("pricing", None),
            ("javascript:alert(1)", None),
            ("https://ada:secret@example.com/", None),
            ("https:///a", None),
            ("/<script>", None),
            ("/a\nb", None),
            ("/a\u{202e}b", None),
            ("", None),
        ] {
            assert_eq!(set("page", value).as_deref(), expected, "{value:?}");
        }
    }

    #[test]
    fn a_referrer_is_only_a_host() {
        for (value, expected) in [
            ("Search.Example.com", Some("search.example.com")),
            ("https://search.example.com:8443/q?text=private", Some("search.example.com")),
            ("search.example.com.", Some("search.example.com")),
            ("https://ada:secret@example.com/", None),
            ("-", None),
            ("192.0.2.1", None),
            ("[2001:db8::1]", None),
            ("ex ample.com", None),
            ("<b>.example.com", None),
            ("", None),
        ] {
            assert_eq!(set("referrer", value).as_deref(), expected, "{value:?}");
        }
    }

    #[test]
    fn invalid_values_are_left_out() {
        assert_eq!(set("ref", " Frühling 2026 ").as_deref(), Some("Frühling 2026"));
        assert_eq!(set("ref", &"ü".repeat(255)).map(|value| value.chars().count()), Some(255));
        for value in
            [&*"x".repeat(256), &"x".repeat(1_000_000), "", "  ", "a\0", "a\u{1b}[2J", "a\nb", "a\u{200b}"]
        {
            assert_eq!(set("ref", value), None, "{value:.20?}");
        }
        assert_eq!(set("unknown", "x"), None);
    }

    #[test]
    fn members_of_the_body_are_read_in_both_encodings_and_are_never_faults() {
        let json = br#"{"email":"a@b","desk_page":"/pricing/?x","desk_referrer":"search.example.com",
            "desk_ref":"x","desk_ref":"news","desk_utm_term":["a"],"desk_utm_source":7,"desk_utm_medium":"a\u0000"}"#;
        let form = b"email=a%40b&desk_page=%2Fpricing%2F%3Fx&desk_referrer=search.example.com&desk_ref=x\
            &desk_ref=news&desk_utm_medium=a%00&desk_utm_term=%FF";
        let parsed = parse_with_extras(&WAITLIST, json).unwrap();
        let posted = PostedForm::decode(&WAITLIST, form).unwrap().parse().unwrap();
        assert_eq!(posted, parsed);
        assert_eq!(parsed.lead.summary(), "/pricing/, via search.example.com, campaign news");
        assert_eq!(parsed.lead.members().count(), 3);
        assert_eq!(parsed.entry, parse(&WAITLIST, br#"{"email":"a@b"}"#).unwrap());
    }

    #[test]
    fn a_page_url_completes_what_is_unknown() {
        let mut lead = LeadSource::default();
        lead.complete_from("/a/?utm_source=x%20y&utm_campaign=spring+sale&page=/evil&ref=%FF&q=1#ref=z");
        assert_eq!(
            lead.to_json().as_deref(),
            Some(r#"{"page":"/a/","utm_source":"x y","utm_campaign":"spring sale"}"#)
        );
        lead.complete_from("/b/?ref=later");
        assert_eq!((lead.get("page"), lead.get("ref")), (Some("/a/"), None), "known values stay");
        lead.set_origin(Some("https://shop.example.com"));
        assert_eq!(lead.get("page"), Some("https://shop.example.com/a/"));
        lead.set_origin(None);
        assert_eq!(lead.get("page"), None, "a visitor cannot name a page of another site");
    }

    #[test]
    fn debug_output_has_no_values() {
        let parsed =
            parse_with_extras(&CONTACT, br#"{"name":"A","email":"a@b","message":"m","desk_ref":"sesame"}"#);
        let shown = format!("{:?}", parsed.unwrap());
        assert!(shown.contains("ref") && !shown.contains("sesame"), "{shown}");
    }

    proptest! {
        #[test]
        fn a_stored_lead_is_read_unchanged(values in prop::collection::vec("\\PC{0,30}", 8), raw in ".{0,40}") {
            let mut lead = LeadSource::default();
            for (name, value) in LEAD_MEMBERS.iter().zip(&values) {
                lead.set(name, value);
            }
            lead.complete_from(&raw);
            prop_assert!(lead.members().all(|(_, value)| !value.chars().any(char::is_control)));
            let stored = lead.to_json();
            prop_assert_eq!(stored.is_none(), lead.is_empty());
            prop_assert_eq!(stored.map_or_else(Default::default, |json| LeadSource::from_json(&json).unwrap()), lead);
        }
    }
}
