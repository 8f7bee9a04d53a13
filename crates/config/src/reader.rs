//! Reads each key from the flags, the environment, the file or the default, and records its origin.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

pub use super::key::Effect;
use super::key::PREFIX;
pub(super) use super::key::{ConfigKey, agents, deliveries, requests, restart, variable_name};
use super::named_file;
use super::secret_file_permissions::SecretFile;
pub(super) use super::setting::fault_of;
pub use super::setting::{Setting, ValueOrigin};
pub use super::syntax_faults::FILE_NAME;
use super::syntax_faults::SyntaxFaults;
use super::value_parsers::{ParseResult, Raw, parse_line};
use frontdesk_site::PrivatePath;
use frontdesk_site::fault::{Fault, Placed, Severity, closest};

/// The message about an environment variable with [`PREFIX`] that matches no key.
const UNKNOWN_VARIABLE: &str = "unknown environment variable";

/// The beginning of each section of a PEM file.
const PEM: &str = "-----BEGIN ";
/// Maximum length of a channel's name, in characters.
const MAX_NAME: usize = 32;

#[derive(Debug, Clone)]
pub struct Flag {
    pub key: &'static str,
    /// The flag as typed, such as `--listen`.
    pub name: &'static str,
    pub value: String,
}

/// Reads keys one by one, and collects their settings and faults until [`Reader::finish`].
pub(super) struct Reader<'a> {
    /// The site's folder, to which paths are relative.
    folder: &'a Path,
    /// The file's values and tables that have not been read yet, by dotted name, with their lines.
    entries: BTreeMap<String, (Raw, usize)>,
    /// The settings in the files of forms, by dotted name. The configuration file takes precedence.
    form_settings: BTreeMap<String, (Raw, ValueOrigin)>,
    environment: BTreeMap<String, String>,
    flags: &'a [Flag],
    /// The settings of the running server. Keys that need a restart keep these values.
    running: &'a [Setting],
    settings: Vec<Setting>,
    /// The files and folders that keys and variables name, even if another value takes precedence.
    named: Vec<PrivatePath>,
    /// The table whose keys are being read, such as `channel.crm.`.
    table: String,
    /// The keys with secret values, by the file that holds the values: `None` for the configuration file, or
    /// the path that an environment variable names.
    secrets: BTreeMap<Option<PathBuf>, Vec<String>>,
    /// The keys whose values were faulty and were replaced by the default.
    unusable: Vec<String>,
    syntax: SyntaxFaults,
    faults: Vec<Fault>,
    /// Errors about keys that are not set, and all warnings, each with its key. They are left out if the file
    /// has a misspelling of the key.
    missing: Vec<(String, Fault)>,
}

impl<'a> Reader<'a> {
    /// Parses the file's text. After a syntax error, keeps the values that could be parsed. Ignores
    /// environment variables that do not begin with [`PREFIX`]. The files that `…_FILE` variables name are
    /// private, even if no key has such a variable.
    pub(super) fn new(
        text: &str,
        folder: &'a Path,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &'a [Flag],
        running: &'a [Setting],
    ) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        let line = |span: Range<usize>| 1 + text[..span.start.min(text.len())].matches('\n').count();
        let syntax = SyntaxFaults::new(text, &errors);
        let mut entries = BTreeMap::new();
        collect_values("", table.get_ref(), &mut |name, value, span| {
            entries.insert(name, (value, line(span)));
        });
        let environment: BTreeMap<String, String> =
            environment.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
        let files = environment.iter().filter(|(name, path)| name.ends_with("_FILE") && !path.is_empty());
        let named = files.map(|(name, path)| named_file(path.into(), name)).collect();
        let (settings, table, secrets, unusable) = Default::default();
        let (faults, missing) = Default::default();
        Self {
            folder,
            entries,
            form_settings: BTreeMap::new(),
            environment,
            flags,
            running,
            settings,
            named,
            table,
            secrets,
            unusable,
            syntax,
            faults,
            missing,
        }
    }

    /// Reads the value of `key`, whose name is relative to the current table, with `parse`. `default` is
    /// written as in the file, but without quotes; `parse` must accept it. `documentation` is the comment
    /// above the key. Records an invalid value as a fault and returns the default, so that reading continues
    /// and finds every fault. With a running server, a key that needs a restart has its running value.
    pub(super) fn get<T>(
        &mut self,
        mut key: ConfigKey,
        default: &str,
        documentation: &'static str,
        parse: impl Fn(&Raw) -> ParseResult<T>,
    ) -> T {
        key.name = format!("{}{}", self.table, key.name).into();
        key.documentation = documentation;
        // Convert the default to the type that it would have in the file.
        let default = match default {
            "[]" => Raw::List(Vec::new()),
            "true" | "false" => Raw::Flag(default == "true"),
            text => text.parse().map_or_else(|_| Raw::Text(text.to_owned()), Raw::Number),
        };
        let found = self.find_value(&key);
        let is_fixed = key.effect == Effect::Restart;
        let running = self.running.iter().find(|setting| is_fixed && setting.key.name == key.name);
        let (raw, origin) = match running {
            Some(setting) => (setting.raw.clone(), setting.origin.clone()),
            None => found.unwrap_or_else(|| (default.clone(), ValueOrigin::Default)),
        };
        self.record_named_file(&key, &raw);
        let value = if is_pem(&raw) { raw.redacted() } else { key.display(&raw) };
        let parsed = parse(&raw);
        let setting = Setting { key, value, effective: None, origin, raw };
        let name = &setting.key.name;
        let value = parsed.unwrap_or_else(|expected| {
            let (place, line) = setting.origin.location();
            self.faults
                .push(Fault::error(place, line, format!("`{name}` must be {expected}")).about(&**name));
            self.unusable.push(name.to_string());
            parse(&default)
                .unwrap_or_else(|expected| unreachable!("the default of `{name}` is not {expected}"))
        });
        self.settings.push(setting);
        value
    }

    /// Reads the path of one of the operator's files or folders, relative to the site's folder. An empty path
    /// is `None`. The file is never published.
    pub(super) fn file(&mut self, key: ConfigKey, documentation: &'static str) -> Option<PathBuf> {
        let key = ConfigKey { names_file: true, ..key };
        self.get(key, "", documentation, file_in(self.folder))
    }

    /// Reads the path of one of the operator's folders like [`Reader::file`], but with a default. An empty
    /// path is an error.
    pub(super) fn folder(&mut self, key: ConfigKey, default: &str, documentation: &'static str) -> PathBuf {
        let key = ConfigKey { names_file: true, ..key };
        let folder = self.folder;
        self.get(key, default, documentation, |raw| {
            let path = raw.as_text().filter(|text| !text.is_empty() && !text.contains('\0'));
            let path = path.ok_or("the path of a folder")?;
            check_path(path)?;
            Ok(folder.join(path))
        })
    }

    /// Reads the path of a folder whose files are published. An empty path is `None`.
    pub(super) fn served_folder(&mut self, key: ConfigKey, documentation: &'static str) -> Option<PathBuf> {
        self.get(key, "", documentation, file_in(self.folder))
    }

    /// If the key was declared with [`Reader::file`] or [`Reader::folder`], records its value as the path of
    /// a private file or folder, unless it is empty or the content of a PEM file.
    fn record_named_file(&mut self, key: &ConfigKey, raw: &Raw) {
        if let Some(path) = raw.as_text().filter(|path| key.names_file && !path.is_empty() && !is_pem(raw)) {
            self.named.push(named_file(self.folder.join(path), &key.name));
        }
    }

    /// Finds the value of a key in the flags (in the last one for the key), the environment, a file that the
    /// environment names, the configuration file, or the file of a form, in this order of precedence. Removes
    /// white space at the end of a file that the environment names, and records a fault if the file cannot be
    /// read. Records secrets and private files in the values that are overridden as well.
    fn find_value(&mut self, key: &ConfigKey) -> Option<(Raw, ValueOrigin)> {
        // Remove the entry in any case: `finish` reports remaining entries as unknown.
        let from_file = self.entries.remove(&*key.name).map(|(raw, line)| (raw, ValueOrigin::File(line)));
        self.record_secret(None, key, from_file.as_ref());
        let name = variable_name(&key.name);
        let file_name = format!("{name}_FILE");
        let from_environment =
            self.environment.remove(&name).map(|value| (Raw::Text(value), ValueOrigin::Environment(name)));
        let from_named_file = self.environment.remove(&file_name).and_then(|path| {
            let text = named_file::read_text(path.as_ref()).map_err(|error| {
                // The variable may contain the secret itself instead of a path.
                let raw = Raw::Text(path.clone());
                let is_hidden = key.holds_secret(&raw) || is_pem(&raw);
                let file = if is_hidden { "the file that it names".to_owned() } else { format!("`{path}`") };
                let message = format!("cannot read {file}: {error}");
                self.faults.push(Fault::error(file_name.clone(), None, message).about(&*key.name));
                self.unusable.push(key.name.to_string());
            });
            let found = (Raw::Text(text.ok()?.trim_end().to_owned()), ValueOrigin::Environment(file_name));
            self.record_secret(Some(path.into()), key, Some(&found));
            Some(found)
        });
        let flag = self.flags.iter().rev().find(|flag| flag.key == key.name);
        let from_flag = flag.map(|flag| (Raw::Text(flag.value.clone()), ValueOrigin::Flag(flag.name)));
        let from_form = self.form_settings.remove(&*key.name);
        let found = [from_flag, from_environment, from_named_file, from_file, from_form];
        for (raw, _) in found.iter().flatten() {
            self.record_named_file(key, raw);
        }
        found.into_iter().flatten().next()
    }

    /// Like [`Reader::get`], for a key whose value may be a table, which `parse` reads as a whole.
    pub(super) fn get_table<T>(
        &mut self,
        key: ConfigKey,
        default: &str,
        documentation: &'static str,
        parse: impl Fn(&Raw) -> ParseResult<T>,
    ) -> T {
        // Remove the entries of the members: `finish` reports remaining entries as unknown.
        let prefix = format!("{}{}.", self.table, key.name);
        self.entries.retain(|entry, _| !entry.starts_with(&prefix));
        self.get(key, default, documentation, parse)
    }

    /// Reads a table whose members the operator names. Returns each member with its line. An empty text is a
    /// table without members; any other value that is not a table is an error. Must not be called within
    /// [`Reader::in_table`].
    pub(super) fn members(
        &mut self,
        key: ConfigKey,
        documentation: &'static str,
    ) -> Vec<(String, Raw, Option<usize>)> {
        let name = key.name.to_string();
        let prefix = format!("{name}.");
        // Remove the entries of the members: `finish` reports remaining entries as unknown.
        let lines: BTreeMap<String, usize> = self
            .entries
            .extract_if(.., |entry, _| entry.starts_with(&prefix))
            .map(|(entry, (_, line))| (entry, line))
            .collect();
        let members = self.get(key, "", documentation, |raw| match raw {
            Raw::Table(members) => Ok(members.clone()),
            Raw::Text(text) if text.is_empty() => Ok(Vec::new()),
            _ => Err(format!("a table, `[{name}]`")),
        });
        let with_line = |(member, raw): (String, Raw)| {
            let line = lines.get(&format!("{prefix}{member}")).copied();
            (member, raw, line)
        };
        members.into_iter().map(with_line).collect()
    }

    /// The site's folder, to which paths in the configuration file are relative.
    pub(super) fn site_folder(&self) -> &'a Path {
        self.folder
    }

    /// Reports the keys of a former table: an error for each in the file, and a warning for each variable.
    /// `hint` says what replaces them.
    pub(super) fn report_removed(&mut self, table: &str, hint: &str) {
        let (prefix, variables) = (format!("{table}."), format!("{}__", variable_name(table)));
        let of_table = |key: &str| key == table || key.starts_with(&prefix);
        for (key, (raw, line)) in self.entries.extract_if(.., |key, _| of_table(key)) {
            if !matches!(raw, Raw::Table(_)) {
                let fault = Fault::error(FILE_NAME, Some(line), format!("`{key}` does not exist any more"));
                self.faults.push(fault.hint(hint).about(key));
            }
        }
        for (name, _) in self.environment.extract_if(.., |name, _| name.starts_with(&variables)) {
            self.faults
                .push(Fault::warning(name, None, format!("`{table}` does not exist any more")).hint(hint));
        }
    }

    /// Adds a setting of the file of the form `form`, which is read as `forms.FORM.KEY`. Ignores a `value`
    /// that is not valid TOML.
    pub(super) fn add_form_setting(&mut self, form: &str, key: &str, value: &str, place: &str, line: usize) {
        let Ok(value) = DeValue::parse(value) else { return };
        let origin = ValueOrigin::FormFile(place.to_owned(), line);
        self.form_settings.insert(format!("forms.{form}.{key}"), (Raw::from_toml(value.get_ref()), origin));
    }

    /// Records a fault, which [`Reader::finish`] returns.
    pub(super) fn report(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Attaches to `value` the place where `key` is set, or the configuration file if the key is not set. The
    /// key must have been read.
    pub(super) fn place<T>(&self, key: &str, value: T) -> Placed<T> {
        let Fault { place, line, .. } = fault_of(&self.settings, key, Fault::error, String::new());
        Placed { value, place, line }
    }

    /// Runs `read` with key names relative to a table such as `channel.crm.`. Calls must not be nested: names
    /// are full names again afterward.
    pub(super) fn in_table<T>(&mut self, table: String, read: impl FnOnce(&mut Self) -> T) -> T {
        self.table = table;
        let result = read(self);
        self.table.clear();
        result
    }

    /// Returns the names of the tables `[[list]]` in their order, whose keys can then be read as
    /// `list.NAME.…`. Records an error for each table without a valid name of its own, and leaves it out.
    /// Records an error and returns none if `list` is not a list.
    pub(super) fn tables(&mut self, list: &str) -> Vec<String> {
        let Some((raw, line)) = self.entries.remove(list) else { return Vec::new() };
        let Raw::List(tables) = raw else {
            let expected = format!("`{list}` must be a list of tables, each under its own `[[{list}]]`");
            self.entries.retain(|name, _| !name.starts_with(&format!("{list}.")));
            self.faults.push(Fault::error(FILE_NAME, Some(line), expected).about(list));
            return Vec::new();
        };
        let mut names: Vec<String> = Vec::new();
        for number in 0..tables.len() {
            let prefix = format!("{list}.{number}.");
            let entries: Vec<(String, (Raw, usize))> =
                self.entries.extract_if(.., |key, _| key.starts_with(&prefix)).collect();
            let first = entries.iter().map(|(_, (_, line))| *line).min().unwrap_or(line);
            let name = entries.iter().find(|(key, _)| key[prefix.len()..] == *"name").map(|(_, name)| name);
            let name = match name {
                None => Err((first, "needs a `name`".to_owned())),
                // Two channels whose names differ only in `-` and `_` would share their environment
                // variables.
                Some((Raw::Text(name), line))
                    if names.iter().any(|other| variable_name(other) == variable_name(name)) =>
                {
                    let message = format!("has the same `name` as another one, {name:?} (`-` and `_` count as the same)");
                    Err((*line, message))
                }
                Some((Raw::Text(name), _)) if is_channel_name(name) => Ok(name.clone()),
                Some((_, line)) => Err((
                    *line,
                    "needs a `name` of up to 32 lower-case letters, digits, `-` and `_` that begins with a letter".to_owned(),
                )),
            };
            match name {
                Ok(name) => {
                    let renamed = |key: &str| format!("{list}.{name}.{}", &key[prefix.len()..]);
                    self.entries.extend(entries.into_iter().map(|(key, entry)| (renamed(&key), entry)));
                    names.push(name);
                }
                Err((line, what)) => {
                    let message = format!("a `[[{list}]]` {what}");
                    self.faults.push(Fault::error(FILE_NAME, Some(line), message).about(list));
                }
            }
        }
        names
    }

    /// Returns the sorted names of all values that the file has in `[table]` and its subtables, relative to
    /// the table: `NAME` or `SUBTABLE.NAME`. They can then be read as `table.NAME`. Records an error if
    /// `table` is not a table.
    pub(super) fn names_in(&mut self, table: &str) -> Vec<String> {
        let prefix = format!("{table}.");
        if let Some((raw, line)) = self.entries.remove(table)
            && !matches!(raw, Raw::Table(_))
        {
            let message = format!("`{table}` must be a table, `[{table}]`");
            self.faults.push(Fault::error(FILE_NAME, Some(line), message).about(table));
        }
        self.entries.retain(|key, (raw, _)| !key.starts_with(&prefix) || !matches!(raw, Raw::Table(_)));
        self.entries.keys().filter_map(|key| key.strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    /// If the value is secret or contains a password, records that `file`, or the configuration file if that
    /// is `None`, holds it, even if another origin overrides it.
    fn record_secret(&mut self, file: Option<PathBuf>, key: &ConfigKey, found: Option<&(Raw, ValueOrigin)>) {
        if found.is_some_and(|(raw, _)| key.holds_secret(raw)) {
            self.secrets.entry(file).or_default().push(key.name.to_string());
        }
    }

    /// Records the error "`key` `message`" if `is_wrong`, unless an error about its value is already
    /// recorded. `key` is relative to the current table. [`Reader::finish`] omits an error about a key that
    /// is not set if the file misspells the key or its table.
    pub(super) fn refuse_if(&mut self, is_wrong: bool, key: &str, message: &str) {
        let key = format!("{}{key}", self.table);
        if is_wrong && !self.unusable.contains(&key) {
            let setting = self.settings.iter().find(|setting| setting.key.name == *key);
            let is_empty_file = setting.is_some_and(Setting::is_empty_file);
            let why = if is_empty_file { "; the file that the variable names is empty" } else { "" };
            let fault = fault_of(&self.settings, &key, Fault::error, format!("`{key}` {message}{why}"));
            if setting.is_some_and(|setting| setting.origin == ValueOrigin::Default) {
                self.missing.push((key, fault));
            } else {
                self.faults.push(fault);
            }
        }
    }

    /// Whether an error says that a secret of the table `[list.name]` is missing or unusable, for a name for
    /// which `is_read` is false. The server may get the secret in its own environment.
    pub(super) fn lacks_secret(&self, list: &str, is_read: impl Fn(&str) -> bool) -> bool {
        let secrets = self.settings.iter().filter(|setting| setting.key.is_secret);
        let keys: Vec<&str> = secrets.map(|setting| &*setting.key.name).collect();
        let missing = self.missing.iter().filter(|(_, fault)| fault.severity == Severity::Error);
        missing.map(|(key, _)| key).chain(&self.unusable).any(|key| {
            let mut parts = key.splitn(3, '.');
            keys.contains(&&**key)
                && parts.next() == Some(list)
                && parts.next().is_some_and(|name| !is_read(name))
        })
    }

    /// Whether the value of `key` was invalid, and replaced by the default.
    pub(super) fn is_unusable(&self, key: &str) -> bool {
        self.unusable.iter().any(|unusable| unusable == key)
    }

    /// Records a warning about `key`, which is relative to the current table, if `is_wrong`. The warning is
    /// about the configuration file, even if another origin sets the key: every command prints warnings about
    /// variables, but these are for `frontdesk check`.
    pub(super) fn warn_if(&mut self, is_wrong: bool, key: &str, message: &str, hint: &str) {
        if is_wrong {
            let key = format!("{}{key}", self.table);
            let fault = fault_of(&self.settings, &key, Fault::warning, message.to_owned()).hint(hint);
            self.missing.push((key, Fault { place: FILE_NAME.to_owned(), ..fault }));
        }
    }

    /// Discards the remaining entries and variables of the current table, so that they are not reported as
    /// unknown: which keys the table has is not known.
    pub(super) fn skip_table(&mut self) {
        let variables = variable_name(&self.table);
        let table = self.table.trim_end_matches('.');
        self.entries.retain(|name, _| name != table && !name.starts_with(&self.table));
        self.form_settings.retain(|name, _| !name.starts_with(&self.table));
        self.environment.retain(|name, _| !name.starts_with(&variables));
    }

    /// Reports environment variables that belong to no key, unless Kubernetes sets them. Reports only those
    /// that contain `__` or resemble one of `variables`, the variables of the keys.
    fn report_unknown_variables(&mut self, variables: &[String]) {
        let unknown = self.environment.keys().filter(|name| !is_service_variable(name, &self.environment));
        for name in unknown {
            let last = name.trim_start_matches(PREFIX);
            let mut known = variables.iter().map(String::as_str);
            let known = closest(name, known.clone())
                .or_else(|| known.find(|known| known.rsplit("__").next() == Some(last)));
            // Other programs may use the prefix: report only variables that resemble a known one, or name a
            // table and a key.
            if known.is_some() || name.contains("__") {
                self.faults.push(add_suggestion(Fault::warning(name, None, UNKNOWN_VARIABLE), known));
            }
        }
    }

    /// Returns the settings, the named files, and all faults, sorted by place and line. Reports entries that
    /// belong to no key; for an unknown table, reports only the table. Omits faults that follow from others:
    /// if a part of the configuration file cannot be read, all faults in that file except syntax errors; and
    /// the faults in `missing` if the file misspells the key or its table.
    pub(super) fn finish(mut self) -> ReadResult {
        let known: Vec<&str> = self.settings.iter().map(|setting| &*setting.key.name).collect();
        let tables: Vec<&str> =
            known.iter().flat_map(|key| key.match_indices('.').map(|(at, _)| &key[..at])).collect();
        let mut misspelled: Vec<String> = Vec::new();
        for (name, (raw, line)) in &self.entries {
            let fault = |message: String| Fault::error(FILE_NAME, Some(*line), message);
            let (table, last) = name.rsplit_once('.').unwrap_or(("", name));
            let is_known_table = tables.contains(&name.as_str());
            let fault = match raw {
                Raw::Table(_) if is_known_table => continue,
                Raw::Table(_) => {
                    let table_meant = closest(name, tables.iter().copied());
                    misspelled.extend(table_meant.map(|table| format!("{table}.")));
                    let known = table_meant.map(|table| format!("[{table}]"));
                    let fault = add_suggestion(fault(format!("unknown table `[{name}]`")), known.as_deref());
                    // The fault refers to the suggested table, if there is one.
                    Fault { key: table_meant.map(str::to_owned), ..fault }
                }
                _ if is_known_table => fault(format!("`{name}` must be a table, `[{name}]`")).about(name),
                // The unknown table has already been reported.
                _ if !table.is_empty() && !tables.contains(&table) => continue,
                _ if !table.is_empty() && known.contains(&last) => {
                    let hint = format!("`{last}` belongs above the first `[table]`");
                    fault(format!("unknown key `{name}`")).hint(hint).about(last)
                }
                _ => {
                    let elsewhere = || known.iter().find(|key| key.rsplit('.').next() == Some(last)).copied();
                    let known = closest_key(name, &known).or_else(elsewhere);
                    misspelled.extend(known.map(str::to_owned));
                    let fault = add_suggestion(fault(format!("unknown key `{name}`")), known);
                    // The fault refers to the suggested key, or else to the table that the key is in.
                    let meant = known.or(Some(table)).filter(|meant| !meant.is_empty());
                    Fault { key: meant.map(str::to_owned), ..fault }
                }
            };
            self.faults.push(fault);
        }
        for (name, (_, origin)) in &self.form_settings {
            let (place, line) = origin.location();
            let fault = Fault::error(place, line, format!("unknown key `{name}`")).about(name);
            self.faults.push(add_suggestion(fault, closest_key(name, &known)));
        }
        let is_misspelled = |key: &str| {
            misspelled.iter().any(|name| key == name || (name.ends_with('.') && key.starts_with(name)))
        };
        self.missing.retain(|(key, _)| !is_misspelled(key));
        self.faults.extend(self.missing.drain(..).map(|(_, fault)| fault));
        if self.syntax.is_incomplete {
            self.faults.retain(|fault| fault.place != FILE_NAME);
        }
        self.faults.append(&mut self.syntax.faults);
        let variables: Vec<String> = known.iter().map(|key| variable_name(key)).collect();
        self.report_unknown_variables(&variables);
        self.faults.sort_by(|a, b| (&a.place, a.line).cmp(&(&b.place, b.line)));
        let secret_file = |(path, keys): (Option<PathBuf>, _)| SecretFile {
            place: path.as_ref().map_or_else(|| FILE_NAME.to_owned(), |path| path.display().to_string()),
            path: path.unwrap_or_else(|| self.folder.join(FILE_NAME)),
            keys,
        };
        ReadResult {
            secret_files: self.secrets.into_iter().map(secret_file).collect(),
            settings: self.settings,
            named_files: self.named,
            faults: self.faults,
        }
    }
}

/// The settings, private files and faults that [`Reader::finish`] returns.
pub(super) struct ReadResult {
    pub settings: Vec<Setting>,
    pub secret_files: Vec<SecretFile>,
    /// The files and folders that keys and variables name, except served folders.
    pub named_files: Vec<PrivatePath>,
    pub faults: Vec<Fault>,
}

/// Marks a path as private. `name` is the key or the variable that names the path.
fn named_file(path: PathBuf, name: &str) -> PrivatePath {
    PrivatePath { path, reason: format!("`{name}` names it"), has_companions: false }
}

/// Returns a parser for paths relative to `folder`. Refuses `~` and the content of a PEM file
/// ([`check_path`]). An empty path is `None`. Private to this module, so that the files of every key are
/// known ([`Reader::file`]).
fn file_in(folder: &Path) -> impl Fn(&Raw) -> ParseResult<Option<PathBuf>> {
    move |raw| {
        check_path(raw.as_text().unwrap_or_default())?;
        let path = parse_line(raw)?;
        Ok((!path.is_empty()).then(|| folder.join(path)))
    }
}

/// Refuses `~` and paths that begin with `~/`, because only shells replace `~` with the home folder; and the
/// content of a PEM file, because later messages about the file would print it.
fn check_path(path: &str) -> ParseResult<()> {
    if path.trim() == "~" || path.trim_start().starts_with("~/") {
        return Err("a path without `~`, which only shells replace".to_owned());
    }
    if path.contains(PEM) {
        return Err("the path of a file, and not its content".to_owned());
    }
    Ok(())
}

/// Whether a value is the content of a PEM file, which may be a private key.
fn is_pem(raw: &Raw) -> bool {
    raw.as_text().is_some_and(|text| text.contains(PEM))
}

/// Whether Kubernetes sets the variable for a service, such as `FRONTDESK_SERVICE_HOST`,
/// `FRONTDESK_SERVICE_PORT_HTTP` or `FRONTDESK_PORT_80_TCP` for the service `frontdesk`. Each service has the
/// first of these.
fn is_service_variable(name: &str, environment: &BTreeMap<String, String>) -> bool {
    let services = environment.keys().filter_map(|name| name.strip_suffix("_SERVICE_HOST"));
    let mut rests = services.filter_map(|service| name.strip_prefix(service));
    rests.any(|rest| rest == "_PORT" || rest.starts_with("_PORT_") || rest.starts_with("_SERVICE_"))
}

/// Whether a name has up to [`MAX_NAME`] lower-case letters, digits, `-` and `_`, and begins with a letter.
fn is_channel_name(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(fits) && name.as_bytes()[0].is_ascii_lowercase()
}

/// The key of the same table that an unknown key probably means: one that begins with its last part, such as
/// `username` for `user`, if that part has three bytes or more; or else one that resembles it.
fn closest_key<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let (table, last) = name.rsplit_once('.').unwrap_or(("", name));
    let siblings = known.iter().filter_map(|key| {
        let (of, its) = key.rsplit_once('.').unwrap_or(("", key));
        (of == table).then_some((*key, its))
    });
    let begun = siblings.clone().find(|(_, its)| last.len() >= 3 && its.starts_with(last));
    let resembles = closest(last, siblings.clone().map(|(_, its)| its));
    begun.or_else(|| siblings.clone().find(|(_, its)| Some(*its) == resembles)).map(|(key, _)| key)
}

/// Adds a hint that suggests the name `known`, if there is one.
fn add_suggestion(fault: Fault, known: Option<&str>) -> Fault {
    match known {
        Some(known) => fault.hint(format!("did you mean `{known}`?")),
        None => fault,
    }
}

/// Names of the arrays of tables whose keys are read one by one; see [`Reader::tables`].
const LISTS: [&str; 1] = ["channel"];

/// Calls `found` with the dotted name, value and position of every entry in a TOML table. A list of tables is
/// one value; for [`LISTS`], the entries of the tables follow.
fn collect_values(prefix: &str, table: &DeTable<'_>, found: &mut impl FnMut(String, Raw, Range<usize>)) {
    for (key, value) in table {
        let name =
            if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        found(name.clone(), Raw::from_toml(value.get_ref()), key.span());
        match value.get_ref() {
            DeValue::Table(inner) => collect_values(&name, inner, found),
            DeValue::Array(items) if LISTS.contains(&name.as_str()) => {
                for (number, item) in items.iter().enumerate() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        collect_values(&format!("{name}.{number}"), inner, found);
                    }
                }
            }
            _ => {}
        }
    }
}
