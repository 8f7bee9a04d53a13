//! Declares which part of the configuration a command needs, so that faults elsewhere do not stop it.

use frontdesk_site::fault::{Fault, Severity};

/// The keys and tables that a command reads, and what an error in them prevents.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfigNeeds {
    /// The keys and tables; `None` stands for the whole configuration.
    tables: Option<&'static [&'static str]>,
    /// The reason why an error stops the command, as a sentence without a period.
    refusal: Option<&'static str>,
}

/// For commands that need every key, as a server does.
pub(super) const EVERYTHING: ConfigNeeds = ConfigNeeds { tables: None, refusal: None };

/// For commands that show keys and their values. Only an error that may be about any key, such as a syntax
/// error, stops them.
pub(super) const NOTHING: ConfigNeeds = ConfigNeeds { tables: Some(&[]), refusal: None };

/// For commands that read or change the inbox.
pub(super) const STORE: ConfigNeeds = ConfigNeeds { tables: Some(&["store"]), refusal: None };

/// For commands that copy submissions to a file, which must not be in the published folder of a build.
pub(super) const STORE_AND_BUILD: ConfigNeeds =
    ConfigNeeds { tables: Some(&["store", "site.prebuilt"]), refusal: None };

/// For commands that name channels.
pub(super) const CHANNELS: ConfigNeeds = ConfigNeeds { tables: Some(&["store", "channel"]), refusal: None };

/// For commands that need the settings of the web interface, such as its address and users.
pub(super) const WEB_INTERFACE: ConfigNeeds =
    ConfigNeeds { tables: Some(&["store", "inbox"]), refusal: None };

/// For commands that choose channels for submissions, by form and by value. Senders and texts depend on the
/// operator and the site, and a channel that lacks them is left out.
pub(super) const ROUTING: ConfigNeeds = ConfigNeeds {
    tables: Some(&["store", "channel", "forms", "limits", "operator", "site"]),
    refusal: Some(
        "nothing was queued: with this configuration, a submission could miss a channel or reach a wrong one",
    ),
};

impl ConfigNeeds {
    /// Whether the fault is an error that must stop the command: one about a key that it needs, or one that
    /// may be about any key, such as a syntax error.
    pub(super) fn is_prevented_by(&self, fault: &Fault) -> bool {
        fault.severity == Severity::Error && self.tables.is_none_or(|tables| fault.concerns(tables))
    }

    /// The reason why an error stops the command. `None` if the error itself makes this clear.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        self.refusal
    }
}

/// Maximum number of configuration faults that a command lists if they concern only keys it does not use.
const MAX_MENTIONED: usize = 3;

/// Faults that do not stop a command, as short warnings: one for each of the first ones, without advice, and
/// one about all others.
pub(super) fn as_warnings(faults: &[Fault]) -> Vec<Fault> {
    let warning = |fault: &Fault| Fault { severity: Severity::Warning, hint: None, ..fault.clone() };
    let mut warnings: Vec<Fault> = faults.iter().take(MAX_MENTIONED).map(warning).collect();
    if let Some(first) = faults.get(MAX_MENTIONED) {
        let count = faults.len() - MAX_MENTIONED;
        let (noun, them) = if count == 1 { ("fault", "it") } else { ("faults", "them") };
        let message = format!("{count} more {noun}: `frontdesk check` lists {them}");
        warnings.push(Fault::warning(&*first.place, first.line, message));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(key: &str) -> Fault {
        Fault::error("frontdesk.toml", Some(3), format!("`{key}` is wrong")).hint("correct it").about(key)
    }

    #[test]
    fn an_error_stops_only_commands_that_need_the_key() {
        let all = [EVERYTHING, NOTHING, STORE, STORE_AND_BUILD, CHANNELS, WEB_INTERFACE, ROUTING];
        for (key, expected) in [
            ("store.url", [true, false, true, true, true, true, true]),
            ("site.prebuilt", [true, false, false, true, false, false, true]),
            ("channel.crm.forms", [true, false, false, false, true, false, true]),
            ("forms", [true, false, false, false, false, false, true]),
            ("inbox.listen", [true, false, false, false, false, true, false]),
            ("brand.color", [true, false, false, false, false, false, false]),
        ] {
            assert_eq!(all.map(|needs| needs.is_prevented_by(&fault(key))), expected, "{key}");
            let warning = Fault { severity: Severity::Warning, ..fault(key) };
            assert_eq!(all.map(|needs| needs.is_prevented_by(&warning)), [false; 7], "{key}");
        }
        let syntax = Fault::error("frontdesk.toml", Some(1), "a quote is missing");
        assert!(all.iter().all(|needs| needs.is_prevented_by(&syntax)));
    }

    #[test]
    fn faults_that_do_not_matter_are_a_few_short_warnings() {
        let said = |count: usize| -> Vec<String> {
            let faults: Vec<Fault> = (1..=count).map(|n| fault(&format!("log.{n}"))).collect();
            as_warnings(&faults).iter().map(ToString::to_string).collect()
        };
        assert_eq!(said(0), [""; 0]);
        assert_eq!(said(1), ["frontdesk.toml:3: `log.1` is wrong"]);
        assert_eq!(said(3).len(), 3);
        assert_eq!(said(4)[3], "frontdesk.toml:3: 1 more fault: `frontdesk check` lists it");
        assert_eq!(said(6)[3], "frontdesk.toml:3: 3 more faults: `frontdesk check` lists them");
    }
}
