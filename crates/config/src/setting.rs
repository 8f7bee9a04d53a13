//! The effective value of a key, and where it comes from.

use std::fmt;

use super::key::{ConfigKey, variable_name};
use super::syntax_faults::FILE_NAME;
use super::value_parsers::Raw;
use frontdesk_site::fault::Fault;

/// Where the value of a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// No flag, variable or line sets the key.
    Default,
    /// The line in `frontdesk.toml`, counted from 1.
    File(usize),
    /// The file that defines a form, and the line in this file, counted from 1.
    FormFile(String, usize),
    Environment(String),
    Flag(&'static str),
}

impl ValueOrigin {
    /// The place that a fault in the value refers to, and the line if a file sets the value. The place of a
    /// default is the configuration file.
    pub(super) fn location(&self) -> (String, Option<usize>) {
        match self {
            Self::File(line) => (FILE_NAME.to_owned(), Some(*line)),
            Self::FormFile(place, line) => (place.clone(), Some(*line)),
            Self::Environment(name) => (name.clone(), None),
            Self::Flag(name) => ((*name).to_owned(), None),
            Self::Default => (FILE_NAME.to_owned(), None),
        }
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(line) => write!(f, "{FILE_NAME}:{line}"),
            Self::FormFile(place, line) => write!(f, "{place}:{line}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// A key with its effective value.
#[derive(Clone)]
pub struct Setting {
    pub key: ConfigKey,
    /// The value in TOML, with secrets hidden: passwords, keys and the URLs of webhooks.
    pub value: String,
    /// The value in effect, if `value` depends on the machine or on other keys, as "auto" does.
    pub effective: Option<String>,
    pub origin: ValueOrigin,
    pub(super) raw: Raw,
}

impl Setting {
    /// The key's name and value: two settings with the same identity may still have different origins.
    pub(super) fn identity(&self) -> (&str, &Raw) {
        (&self.key.name, &self.raw)
    }

    /// Whether the value comes from a file that a variable names, and the file contains only white space.
    pub(super) fn is_empty_file(&self) -> bool {
        // The variable of a key that ends in `_file` also ends in `_FILE`, as for `limits.shared_ca_file`.
        let own = variable_name(&self.key.name);
        let is_file = matches!(&self.origin, ValueOrigin::Environment(name) if *name != own);
        is_file && self.raw.as_text() == Some("")
    }
}

/// Calls `new` to create a fault about the value of `key`. The fault's place is the origin of the value: a
/// line of a file, a variable or a flag. If the key is not set, it is the configuration file, without a line.
pub(super) fn fault_of(
    settings: &[Setting],
    key: &str,
    new: fn(String, Option<usize>, String) -> Fault,
    message: String,
) -> Fault {
    let setting = settings.iter().find(|setting| setting.key.name == key);
    let (place, line) = setting.map_or((FILE_NAME.to_owned(), None), |setting| setting.origin.location());
    new(place, line, message).about(key)
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key.name, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::restart;

    #[test]
    fn only_a_variable_that_names_a_file_names_an_empty_one() {
        let is_empty_file = |variable: &str| {
            let key = restart("limits.shared_ca_file");
            let (value, raw) = (String::new(), Raw::Text(String::new()));
            let origin = ValueOrigin::Environment(variable.to_owned());
            Setting { key, value, effective: None, origin, raw }.is_empty_file()
        };
        assert!(!is_empty_file("FRONTDESK_LIMITS__SHARED_CA_FILE"));
        assert!(is_empty_file("FRONTDESK_LIMITS__SHARED_CA_FILE_FILE"));
    }
}
