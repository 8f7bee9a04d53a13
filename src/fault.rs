//! One fault in what the operator wrote: where it is, what is wrong, and what would be right.
//!
//! Loading collects faults instead of stopping at the first one, so that a site is mended in one go.

use std::fmt;

use serde::Serialize;
use strsim::osa_distance;

/// How much a fault matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The site is served, but `frontdesk check` fails.
    Warning,
    /// The site is not served.
    Error,
}

/// A fault in the configuration or the site, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Whether the site can be served in spite of it.
    pub severity: Severity,
    /// The file, relative to the site's folder; or an environment variable or a flag, as it is written.
    pub place: String,
    /// The line in that file, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Fault {
    /// A fault that keeps the site from being served.
    pub fn error(place: impl Into<String>, line: Option<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, place: place.into(), line, message: message.into(), hint: None }
    }

    /// A fault that only `frontdesk check` fails on.
    pub fn warning(place: impl Into<String>, line: Option<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, line, message) }
    }

    /// Adds what would be right.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

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

/// The known word that is closest to `word`, if one is close enough to be what was meant.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    known
        .into_iter()
        .map(|candidate| (candidate, candidate.chars().count()))
        .map(|(candidate, its)| (candidate, its, 1 + its.max(3) / 4))
        // No word can be closer than its length differs, and comparing lengths is cheap.
        .filter(|(_, its, most)| its.abs_diff(length) <= *most)
        // Counts two neighbouring letters that are swapped as one mistake.
        .map(|(candidate, _, most)| (osa_distance(word, candidate), candidate, most))
        .filter(|(distance, _, most)| distance <= most)
        .min_by_key(|(distance, ..)| *distance)
        .map(|(_, candidate, _)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        let known = ["listen", "workers", "max_connections", "base_url"];
        assert_eq!(closest("lisen", known), Some("listen"));
        assert_eq!(closest("baseurl", known), Some("base_url"));
        assert_eq!(closest("wrokers", known), Some("workers"));
        assert_eq!(closest("colour", known), None);
    }

    #[test]
    fn a_fault_names_its_place_and_the_remedy() {
        let fault =
            Fault::error("frontdesk.toml", Some(3), "unknown key `lisen`").hint("did you mean `listen`?");
        assert_eq!(
            fault.to_string(),
            "frontdesk.toml:3: unknown key `lisen`\n    hint: did you mean `listen`?"
        );
    }
}
