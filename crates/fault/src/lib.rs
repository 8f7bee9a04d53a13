//! Faults in the configuration or the site, each with its location and an optional hint.
//!
//! Loading collects all faults instead of stopping at the first one, so an operator can fix them all at once.

use std::fmt;

use serde::Serialize;
use strsim::osa_distance;

use frontdesk_process::panics::Panic;

/// Whether a fault prevents serving the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// `frontdesk check` fails, but the site can be served.
    Warning,
    /// The site cannot be served.
    Error,
}

/// A fault in the configuration or the content. Faults sort by place, then by the other fields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// The file, relative to the site's folder or the build; or the name of an environment variable or a
    /// flag, or a description such as "a generated page".
    pub place: String,
    /// The line in the file, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    pub message: String,
    pub severity: Severity,
    /// Advice on how to correct the fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The key or table of the configuration that the fault concerns, such as `channel.crm.forms`. `None` if
    /// any may be concerned, as by a syntax error, and for faults in the content.
    #[serde(skip)]
    pub key: Option<String>,
}

/// The hint of a fault that a panic caused.
pub const REPORT_DEFECT: &str = "please report this, with the file if you can";

impl Fault {
    /// A fault that prevents serving the site.
    pub fn error(place: impl Into<String>, line: Option<usize>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            place: place.into(),
            line,
            message: message.into(),
            hint: None,
            key: None,
        }
    }

    /// A fault that only makes `frontdesk check` fail.
    pub fn warning(place: impl Into<String>, line: Option<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, line, message) }
    }

    /// A warning about a defect in frontdesk that the file `place` triggers, with the message of the panic
    /// and the hint [`REPORT_DEFECT`]. `consequence` ends the message, such as "the page shows its source".
    pub fn defect(place: impl Into<String>, panic: &Panic, consequence: &str) -> Self {
        Self::warning(place, None, format!("{}: {consequence}", panic.with_message())).hint(REPORT_DEFECT)
    }

    /// Sets the key or table that the fault concerns.
    #[must_use]
    pub fn about(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Whether the fault is about one of these keys or tables, or about a key in them, or may be about any
    /// key.
    pub fn concerns(&self, keys: &[&str]) -> bool {
        let is_within = |key: &str, table: &str| {
            key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.key.as_ref().is_none_or(|key| keys.iter().any(|table| is_within(key, table)))
    }

    /// Sets the hint, and replaces an earlier hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A configured value and the place where it is set. Faults in the value name this place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    pub value: T,
    /// Where the value is set: a file, an environment variable or a command-line flag.
    pub place: String,
    pub line: Option<usize>,
}

/// Formats `place:line: message`, without the severity, and the hint on its own line.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n    hint: {hint}")?;
        }
        Ok(())
    }
}

/// The known word that `word` is probably a typo of: at most one edit away, plus one for every four letters
/// of the known word. A swap of neighboring letters counts as one edit. Of equally close words, the first in
/// `known` wins. Returns `word` itself if it is known.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let close = known.into_iter().filter_map(|candidate| {
        let its = candidate.chars().count();
        let most = 1 + its / 4;
        // The distance is at least the difference in length, so compare the lengths first, which is fast.
        let distance = (its.abs_diff(length) <= most).then(|| osa_distance(word, candidate))?;
        (distance <= most).then_some((distance, candidate))
    });
    close.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// A hint that suggests the [`closest`] known word, or the hint that `otherwise` returns if there is none.
pub fn did_you_mean<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    closest(word, known).map_or_else(otherwise, |known| format!("did you mean `{known}`?"))
}

/// The known path that `path` is probably a typo of. Folders and a file extension that both have in common do
/// not count, so other files in the same folder are not similar. A path that differs only in the case of
/// ASCII letters is the closest. Of equally close paths, the first in `known` wins.
pub fn closest_path<'a>(path: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let close = known.into_iter().filter_map(|candidate| {
        if candidate.eq_ignore_ascii_case(path) {
            return Some((0, candidate));
        }
        let shared = path.bytes().zip(candidate.bytes()).take_while(|(a, b)| a == b).count();
        let folder = path.as_bytes()[..shared].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (written, name) = (&path[folder..], &candidate[folder..]);
        let (written, name) = match (written.rsplit_once('.'), name.rsplit_once('.')) {
            (Some((written, its)), Some((name, extension))) if its == extension => (written, name),
            _ => (written, name),
        };
        (closest(written, [name])? == name && !name.is_empty())
            .then(|| (osa_distance(written, name), candidate))
    });
    close.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_recognized() {
        let known = ["listen", "workers", "max_connections", "base_url"];
        assert_eq!(closest("lisen", known), Some("listen"));
        assert_eq!(closest("baseurl", known), Some("base_url"));
        assert_eq!(closest("wrokers", known), Some("workers"));
        assert_eq!(closest("color", known), None);
    }

    #[test]
    fn a_path_resembles_one_with_a_similar_name_in_the_same_folder() {
        let known =
            ["/", "/assets/logo.svg", "/assets/logo.png", "/blog/glaze.png", "/contact/", "/contact.md"];
        for (path, expected) in [
            ("/contcat/", Some("/contact/")),
            ("/contact", Some("/contact/")),
            ("/blgo/glaze.png", Some("/blog/glaze.png")),
            ("/blog/glase.png", Some("/blog/glaze.png")),
            ("/blog/GLAZE.PNG", Some("/blog/glaze.png")),
            ("/assets/lgo.svg", Some("/assets/logo.svg")),
            ("/assets/nope.png", None),
            ("/assets/nope.jpeg", None),
            ("/x", None),
            ("/größe/", None),
        ] {
            assert_eq!(closest_path(path, known), expected, "{path}");
        }
    }

    #[test]
    fn a_fault_concerns_its_key_and_the_tables_around_it() {
        let fault = |key: &str| Fault::error("frontdesk.toml", None, "wrong").about(key);
        for (key, keys, expected) in [
            ("store.url", &["store"][..], true),
            ("store", &["store"], true),
            ("store.url", &["log", "store.url"], true),
            ("storefront.url", &["store"], false),
            ("store", &["store.url"], false),
            ("log.level", &[], false),
        ] {
            assert_eq!(fault(key).concerns(keys), expected, "{key} {keys:?}");
        }
        assert!(Fault::error("frontdesk.toml", None, "no TOML").concerns(&[]));
    }

    #[test]
    fn a_fault_has_its_place_and_hint() {
        let fault =
            Fault::error("frontdesk.toml", Some(3), "unknown key `lisen`").hint("did you mean `listen`?");
        assert_eq!(
            fault.to_string(),
            "frontdesk.toml:3: unknown key `lisen`\n    hint: did you mean `listen`?"
        );
    }
}
