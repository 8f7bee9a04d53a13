//! The declaration of a configuration key.

use std::borrow::Cow;

use super::value_parsers::{Raw, toml_string, without_password};

/// Prefix of every environment variable that sets a key.
pub(super) const PREFIX: &str = "FRONTDESK_";

/// The declaration of a configuration key, written where the key is read.
///
/// [`requests`], [`deliveries`], [`agents`] and [`restart`] declare a key: each states what a change affects.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate property")]
pub struct ConfigKey {
    /// The dotted name, such as `server.listen`, or `channel.crm.url` for the channel `crm`.
    pub name: Cow<'static, str>,
    /// The comment above the key. Empty if the previous key's comment covers both.
    pub(super) documentation: &'static str,
    /// The value in TOML that is shown instead of the default.
    pub(super) example: Option<&'static str>,
    /// Whether `frontdesk init` and `config --all` set the key to the example instead of commenting it out.
    pub(super) is_preset: bool,
    /// Whether the starter file shows the key. `config --all` prints every key.
    pub(super) is_in_starter_file: bool,
    pub(super) effect: Effect,
    pub(super) is_secret: bool,
    /// Whether the value is the URL of a server or a file, with a password if the server needs one.
    pub(super) is_connection_url: bool,
    /// Whether the value is the path of a file or folder of the operator, which is never published.
    pub(super) names_file: bool,
}

/// The effect of a change to a key. A reload applies every change except those with [`Effect::Restart`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A change affects only parts that every reload renews: pages, responses, limits, and how submissions
    /// are stored and screened.
    Requests,
    /// A change also affects the delivery worker: its channels and their mails, maintenance, and its grace
    /// period.
    Deliveries,
    /// A reload applies the change and discards the cached keys of agents.
    Agents,
    /// A change has no effect before the server is restarted. Until then, the key keeps its value.
    Restart,
}

/// The environment variable for a key: `FRONTDESK_SERVER__LISTEN` for `server.listen`. Keys that differ only
/// in `-` and `_` have the same one.
pub(super) fn variable_name(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").replace('-', "_").to_ascii_uppercase())
}

impl ConfigKey {
    /// Creates a key without an example or other properties. [`Reader::get`] adds the documentation.
    fn new(effect: Effect, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            documentation: "",
            example: None,
            is_preset: false,
            is_in_starter_file: false,
            effect,
            is_secret: false,
            is_connection_url: false,
            names_file: false,
        }
    }
}

/// Declares a key that affects only parts that every reload renews, such as pages ([`Effect::Requests`]).
pub(super) fn requests(name: impl Into<Cow<'static, str>>) -> ConfigKey {
    ConfigKey::new(Effect::Requests, name)
}

/// Declares a key whose change also reaches the delivery worker ([`Effect::Deliveries`]).
pub(super) fn deliveries(name: impl Into<Cow<'static, str>>) -> ConfigKey {
    ConfigKey::new(Effect::Deliveries, name)
}

/// Declares a key whose change discards the cached public keys of agents ([`Effect::Agents`]).
pub(super) fn agents(name: impl Into<Cow<'static, str>>) -> ConfigKey {
    ConfigKey::new(Effect::Agents, name)
}

/// Declares a key whose change takes effect only after a restart of the server ([`Effect::Restart`]).
pub(super) fn restart(name: impl Into<Cow<'static, str>>) -> ConfigKey {
    ConfigKey::new(Effect::Restart, name)
}

impl ConfigKey {
    /// Sets an example value. Files with documented keys show it, commented out, instead of the default.
    pub(super) fn with_example(self, toml: &'static str) -> Self {
        Self { example: Some(toml), ..self }
    }

    /// Makes the starter file set the key to this value.
    pub(super) fn set_in_starter_file(self, toml: &'static str) -> Self {
        Self { is_preset: true, ..self.with_example(toml).show_in_starter_file() }
    }

    /// Makes the starter file show the key, commented out unless it is set.
    pub(super) fn show_in_starter_file(self) -> Self {
        Self { is_in_starter_file: true, ..self }
    }

    /// Declares that no output may show the value. Passwords in URLs are always hidden.
    pub(super) fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }

    /// Declares that the value is the URL of a server or a file. Passwords in it are hidden even if it is
    /// malformed.
    pub(super) fn connection_url(self) -> Self {
        Self { is_connection_url: true, ..self }
    }

    /// Formats a value as TOML, with secrets hidden.
    pub(super) fn display(&self, raw: &Raw) -> String {
        match raw {
            _ if self.is_secret => raw.redacted(),
            Raw::Text(text) if self.is_connection_url => toml_string(&without_password(text, true)),
            _ if self.is_connection_url => raw.redacted(),
            _ => raw.display(),
        }
    }

    /// Whether a value is secret or contains a URL with a password. An empty text or list is not secret, and
    /// neither is a boolean.
    pub(super) fn holds_secret(&self, raw: &Raw) -> bool {
        match raw {
            Raw::Text(text) => {
                let has_password = || without_password(text, self.is_connection_url) != *text;
                !text.is_empty() && (self.is_secret || has_password())
            }
            Raw::List(items) => items.iter().any(|item| self.holds_secret(item)),
            Raw::Table(members) => members.iter().any(|(_, value)| self.holds_secret(value)),
            Raw::Number(_) | Raw::Other(_) => self.is_secret,
            Raw::Flag(_) => false,
        }
    }
}
