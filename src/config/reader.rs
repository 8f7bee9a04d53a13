//! Finds each key's value among flags, environment, file and default, and remembers where it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::value::{Parsed, Raw, without_password};
use crate::fault::{Fault, closest};

/// A flag of the command line that sets a key.
#[derive(Debug, Clone)]
pub struct Flag {
    /// The key that it sets.
    pub key: &'static str,
    /// As it is typed, `--listen`.
    pub name: &'static str,
    /// What it was given.
    pub value: String,
}

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The file, on this line.
    File(usize),
    /// This environment variable.
    Environment(String),
    /// This flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(line) => write!(f, "{}:{line}", super::FILE_NAME),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One effective setting.
#[derive(Debug, Clone)]
pub struct Setting {
    /// `server.listen`, or `channel.crm.url` for the channel of that name.
    pub key: String,
    /// As it would stand in the file; passwords, keys and the addresses of webhooks are hidden.
    pub value: String,
    /// Who said so.
    pub origin: Origin,
    /// Differs where the value does, also that of a secret.
    fingerprint: blake3::Hash,
}

impl Setting {
    /// Whether it says the same, whoever says so.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        self.key == other.key && self.fingerprint == other.fingerprint
    }
}

const PREFIX: &str = "FRONTDESK_";

pub(super) struct Reader<'a> {
    file: &'static str,
    /// The file's leaves and tables by dotted name, with the line they stand on.
    entries: BTreeMap<String, (Raw, usize)>,
    /// `FRONTDESK_…` variables.
    environment: BTreeMap<String, String>,
    flags: &'a [Flag],
    settings: Vec<Setting>,
    /// The keys whose secrets stand in the configuration file, under no path, and in files that the environment names.
    secrets: BTreeMap<Option<PathBuf>, Vec<String>>,
    /// Keys whose values could not be used.
    unusable: Vec<String>,
    faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        file: &'static str,
        text: &str,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &'a [Flag],
    ) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        let line = |span: Range<usize>| 1 + text[..span.start.min(text.len())].matches('\n').count();
        let mut faults = Vec::new();
        for error in errors {
            faults.push(Fault::error(
                file,
                error.span().map(line),
                error.message().trim().replace('\n', ", "),
            ));
        }
        let mut entries = BTreeMap::new();
        collect("", table.get_ref(), &mut |name, value, span| {
            entries.insert(name, (value, line(span)));
        });
        let environment = environment.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
        Self {
            file,
            entries,
            environment,
            flags,
            settings: Vec::new(),
            secrets: BTreeMap::new(),
            unusable: Vec::new(),
            faults,
        }
    }

    /// The value of `key`. Where it is at fault the fault is noted and the default stands in, so that all faults are found.
    pub(super) fn get<T>(&mut self, key: &str, default: &str, parse: impl Fn(&Raw) -> Parsed<T>) -> T {
        let default = default_value(default);
        let (raw, origin) = self.find(key).unwrap_or_else(|| (default.clone(), Origin::Default));
        let value = if is_secret(key) { raw.redacted() } else { raw.display() };
        self.settings.push(Setting {
            key: key.to_owned(),
            value,
            origin: origin.clone(),
            fingerprint: blake3::hash(format!("{raw:?}").as_bytes()),
        });
        match parse(&raw) {
            Ok(value) => value,
            Err(expected) => {
                let (place, line) = self.place(&origin);
                self.faults.push(Fault::error(place, line, format!("`{key}` must be {expected}")));
                self.unusable.push(key.to_owned());
                parse(&default)
                    .unwrap_or_else(|expected| unreachable!("the default of `{key}` is not {expected}"))
            }
        }
    }

    fn find(&mut self, key: &str) -> Option<(Raw, Origin)> {
        // Taken out even where something else wins: what is left at the end is unknown.
        let from_file = self.entries.remove(key).map(|(raw, line)| (raw, Origin::File(line)));
        self.note_secret(None, key, from_file.as_ref());
        let name = variable(key);
        let file_name = format!("{name}_FILE");
        let from_environment =
            self.environment.remove(&name).map(|value| (Raw::Text(value), Origin::Environment(name)));
        let from_named_file = self.environment.remove(&file_name).and_then(|path| {
            let found = self.named_file(file_name, &path);
            self.note_secret(Some(path.into()), key, found.as_ref());
            found
        });
        let flag = self.flags.iter().rev().find(|flag| flag.key == key);
        let from_flag = flag.map(|flag| (Raw::Text(flag.value.clone()), Origin::Flag(flag.name)));
        from_flag.or(from_environment).or(from_named_file).or(from_file)
    }

    /// The names of the tables `[[list]]`, in their order. From here on their keys are those of `list.NAME`.
    pub(super) fn tables(&mut self, list: &str) -> Vec<String> {
        let Some((raw, line)) = self.entries.remove(list) else { return Vec::new() };
        let Raw::List(tables) = raw else {
            let expected = format!("`{list}` must be a list of tables, each under its own `[[{list}]]`");
            self.entries.retain(|name, _| !name.starts_with(&format!("{list}.")));
            self.faults.push(Fault::error(self.file, Some(line), expected));
            return Vec::new();
        };
        let mut names: Vec<String> = Vec::new();
        for number in 0..tables.len() {
            let prefix = format!("{list}.{number}.");
            let mine: Vec<String> =
                self.entries.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
            let line = mine.iter().filter_map(|key| Some(self.entries.get(key)?.1)).min().unwrap_or(line);
            let name = self.entries.get(&format!("{prefix}name")).map(|(raw, line)| (raw.clone(), *line));
            let fault = match &name {
                None => Some((line, "needs a `name`".to_owned())),
                // They would share their variables in the environment too.
                Some((Raw::Text(name), line)) if names.iter().any(|other| variable(other) == variable(name)) => {
                    Some((*line, format!("has a `name` that another one has, {name:?} (`-` and `_` count as the same)")))
                }
                Some((Raw::Text(name), _)) if is_name(name) => None,
                Some((_, line)) => Some((
                    *line,
                    "needs a `name` of up to 32 lower-case letters, digits, `-` and `_`, which begins with a letter".to_owned(),
                )),
            };
            let entries: Vec<(String, (Raw, usize))> =
                mine.into_iter().filter_map(|key| self.entries.remove_entry(&key)).collect();
            match (name, fault) {
                (Some((Raw::Text(name), _)), None) => {
                    for (key, entry) in entries {
                        self.entries.insert(format!("{list}.{name}.{}", &key[prefix.len()..]), entry);
                    }
                    names.push(name);
                }
                (_, fault) => {
                    if let Some((line, what)) = fault {
                        self.faults.push(Fault::error(
                            self.file,
                            Some(line),
                            format!("a `[[{list}]]` {what}"),
                        ));
                    }
                }
            }
        }
        names
    }

    /// Notes the file of a secret, also of one that another value overrides: the file holds it all the same.
    fn note_secret(&mut self, file: Option<PathBuf>, key: &str, found: Option<&(Raw, Origin)>) {
        if found.is_some_and(|(raw, _)| holds_secret(key, raw)) {
            self.secrets.entry(file).or_default().push(key.to_owned());
        }
    }

    /// The content of the file that a `…_FILE` variable names.
    fn named_file(&mut self, variable: String, path: &str) -> Option<(Raw, Origin)> {
        match std::fs::read_to_string(path) {
            Ok(text) => Some((Raw::Text(text.trim_end().to_owned()), Origin::Environment(variable))),
            Err(error) => {
                self.faults.push(Fault::error(variable, None, format!("cannot read `{path}`: {error}")));
                None
            }
        }
    }

    /// Notes an error about `key` if `impossible`, unless one about its value was noted already.
    pub(super) fn refuse_if(&mut self, impossible: bool, key: &str, message: &str) {
        if impossible && !self.unusable.iter().any(|unusable| unusable == key) {
            let origin =
                self.settings.iter().find(|setting| setting.key == key).map(|setting| setting.origin.clone());
            let (place, line) = self.place(&origin.unwrap_or(Origin::Default));
            self.faults.push(Fault::error(place, line, format!("`{key}` {message}")));
        }
    }

    /// How a fault names where a value comes from.
    fn place(&self, origin: &Origin) -> (String, Option<usize>) {
        match origin {
            Origin::File(line) => (self.file.to_owned(), Some(*line)),
            Origin::Environment(name) => (name.clone(), None),
            Origin::Flag(name) => ((*name).to_owned(), None),
            Origin::Default => (self.file.to_owned(), None),
        }
    }

    /// Notes a warning about `key` if `missing`.
    pub(super) fn warn_if(&mut self, missing: bool, key: &str, message: &str, hint: &str) {
        if missing {
            let origin =
                self.settings.iter().find(|setting| setting.key == key).map(|setting| &setting.origin);
            let line = match origin {
                Some(Origin::File(line)) => Some(*line),
                _ => None,
            };
            self.faults.push(Fault::warning(self.file, line, message).hint(hint));
        }
    }

    /// The keys of the secrets that stand in files. The configuration file has no path here.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (Option<PathBuf>, Vec<String>)> {
        self.secrets.clone().into_iter()
    }

    /// The settings, and the faults: what was read and was wrong, and what is there and was not read.
    pub(super) fn finish(mut self) -> (Vec<Setting>, Vec<Fault>) {
        let known: Vec<&str> = self.settings.iter().map(|setting| setting.key.as_str()).collect();
        let tables: Vec<&str> =
            known.iter().filter_map(|key| key.rsplit_once('.')).map(|(table, _)| table).collect();
        for (name, (raw, line)) in &self.entries {
            let fault = if tables.contains(&name.as_str()) {
                if matches!(raw, Raw::Table(_)) {
                    continue;
                }
                Fault::error(self.file, Some(*line), format!("`{name}` must be a table, `[{name}]`"))
            } else if matches!(raw, Raw::Table(_)) {
                let fault = Fault::error(self.file, Some(*line), format!("unknown table `[{name}]`"));
                hinted(fault, closest(name, tables.iter().copied()).map(|table| format!("[{table}]")))
            } else {
                // A key of a table that is unknown itself has been told with its table.
                let table = name.rsplit_once('.').map(|(table, _)| table);
                if table.is_some_and(|table| !tables.contains(&table)) {
                    continue;
                }
                let fault = Fault::error(self.file, Some(*line), format!("unknown key `{name}`"));
                if let Some((_, last)) = name.rsplit_once('.')
                    && known.contains(&last)
                {
                    self.faults.push(fault.hint(format!("`{last}` belongs above the first `[table]`")));
                    continue;
                }
                let elsewhere = || {
                    let last = name.rsplit('.').next().unwrap_or(name);
                    known.iter().find(|key| key.rsplit('.').next() == Some(last)).copied()
                };
                hinted(fault, closest(name, known.iter().copied()).or_else(elsewhere).map(str::to_owned))
            };
            self.faults.push(fault);
        }
        for name in self.environment.keys() {
            let names: Vec<String> = known.iter().map(|key| variable(key)).collect();
            let known = closest(name, names.iter().map(String::as_str)).map(str::to_owned);
            // Other programs may have variables of their own that begin alike; ours have a table and a key.
            let last = name.trim_start_matches(PREFIX);
            let known =
                known.or_else(|| names.iter().find(|known| known.rsplit("__").next() == Some(last)).cloned());
            if known.is_none() && !name.contains("__") {
                continue;
            }
            self.faults.push(hinted(Fault::warning(name, None, "unknown variable"), known));
        }
        self.faults.sort_by(|a, b| (&a.place, a.line).cmp(&(&b.place, b.line)));
        (self.settings, self.faults)
    }
}

/// Whether the value of a key is nobody's business. The address of a chat service's webhook is its password.
fn is_secret(key: &str) -> bool {
    match key.rsplit('.').next() {
        Some("secret" | "shared_secret" | "password") => true,
        Some("url") => key.starts_with("channel."),
        _ => false,
    }
}

/// Whether a value is secret or has a password in it.
fn holds_secret(key: &str, raw: &Raw) -> bool {
    match raw {
        Raw::Text(text) => !text.is_empty() && (is_secret(key) || without_password(text) != *text),
        Raw::List(items) => items.iter().any(|item| holds_secret(key, item)),
        _ => false,
    }
}

/// Whether it can stand in a key, in the name of a variable and on a command line.
fn is_name(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
    (1..=32).contains(&name.len()) && name.bytes().all(fits) && name.as_bytes()[0].is_ascii_lowercase()
}

fn hinted(fault: Fault, known: Option<String>) -> Fault {
    match known {
        Some(known) => fault.hint(format!("did you mean `{known}`?")),
        None => fault,
    }
}

/// `server.max_connections` → `FRONTDESK_SERVER__MAX_CONNECTIONS`
fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").replace('-', "_").to_ascii_uppercase())
}

/// A default, which is written as its text, as the kind that it would have in the file.
fn default_value(text: &str) -> Raw {
    match text {
        "[]" => Raw::List(Vec::new()),
        "true" | "false" => Raw::Flag(text == "true"),
        text => text.parse().map_or_else(|_| Raw::Text(text.to_owned()), Raw::Number),
    }
}

/// The lists of tables whose keys are looked at one by one; see [`Reader::tables`].
const LISTS: [&str; 1] = ["channel"];

/// Walks the tables; a list of tables is one value, and those of [`LISTS`] are walked besides.
fn collect(prefix: &str, table: &DeTable<'_>, found: &mut impl FnMut(String, Raw, Range<usize>)) {
    for (key, value) in table {
        let name =
            if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        found(name.clone(), Raw::from_toml(value.get_ref()), key.span());
        match value.get_ref() {
            DeValue::Table(inner) => collect(&name, inner, found),
            DeValue::Array(items) if LISTS.contains(&name.as_str()) => {
                for (number, item) in items.iter().enumerate() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        collect(&format!("{name}.{number}"), inner, found);
                    }
                }
            }
            _ => {}
        }
    }
}
