//! Mails to visitors: `forms.NAME.acknowledge` and `forms.NAME.confirm`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::named_file;
use super::reader::{Reader, deliveries};
use super::value_parsers;
use frontdesk_deliver::visitor_mail::{MailText, VisitorMailOptions};
use frontdesk_deliver::{ChannelOptions, TransportOptions};
use frontdesk_forms::Form;
use frontdesk_forms::mailbox_identity::mailbox_key;
use frontdesk_inbox::submission::delivery::Condition;
use frontdesk_inbox::submission::visitor_mail::{
    ConfirmationRule, HourlyLimits, MailLimit, VisitorMail, VisitorRule,
};
use frontdesk_site::fault::Fault;
use frontdesk_site::{PagesOptions, Placeholder, parse_mail};

/// The maximum number of attempts in progress for each kind of mail. Less than the default of a channel,
/// because mails to the team matter more.
const CONCURRENCY: usize = 2;

/// The placeholder for the link that confirms an address.
const CONFIRM_LINK: &str = "confirm_link";

/// The values of the keys for mails to visitors. They are read before the channels, whose mail servers
/// [`read_channels`] needs.
pub(super) struct VisitorKeys {
    forms: Vec<FormKeys>,
    limits: HourlyLimits,
}

/// The values of the keys for mails to the visitors of one form.
struct FormKeys {
    form: &'static str,
    acknowledge: Option<PathBuf>,
    confirm: Option<PathBuf>,
    rule: ConfirmationRule,
}

impl VisitorKeys {
    /// Reads the keys that all forms share. Call [`VisitorKeys::read_form`] for each form next.
    pub(super) fn read(r: &mut Reader<'_>) -> VisitorKeys {
        let all = r.get(
            deliveries(MailLimit::All.key()),
            "300",
            "How many mails of each kind visitors get per hour, all together. Beyond it, messages are delivered \
             without an acknowledgement, and mails that ask for a confirmation wait.",
            value_parsers::count(1..=100_000),
        );
        let domain = r.get(
            deliveries(MailLimit::Domain.key()),
            "20",
            "The same for mails of all kinds to addresses of one domain, such as those of one company, or \"off\" for no \
             limit. It does not apply to large mailbox providers such as gmail.com.",
            value_parsers::off_or(value_parsers::count(1..=100_000)),
        );
        let network = r.get(
            deliveries(MailLimit::Network.key()),
            "50",
            "The same for mails of all kinds because of what one network (an IPv4 /24 or an IPv6 /48) has sent, or \"off\".",
            value_parsers::off_or(value_parsers::count(1..=100_000)),
        );
        VisitorKeys { forms: Vec::new(), limits: HourlyLimits { all, network, domain } }
    }

    /// Returns the names of the forms whose visitors are asked to confirm their e-mail addresses.
    pub(super) fn confirming(&self) -> impl Iterator<Item = &'static str> {
        self.forms.iter().filter(|keys| keys.confirm.is_some()).map(|keys| keys.form)
    }

    /// Reads the keys of one form, whose visitors get a mail at the first e-mail address of the form. Refuses
    /// a mail for a form without an address in each shape, both mails for one form, and a reminder after the
    /// link has expired. With `is_first`, the keys have documentation. A form that is not enabled sends no
    /// mails.
    pub(super) fn read_form(
        &mut self,
        r: &mut Reader<'_>,
        form: &'static Form,
        is_first: bool,
        is_enabled: bool,
    ) {
        let documented = |text: &'static str| if is_first { text } else { "" };
        let key = |name: &str| format!("forms.{}.{name}", form.name);
        let confirm = r.file(
            deliveries(key(CONFIRM)),
            documented(
                "A file with the text of a mail that asks visitors to confirm their addresses, such as \
                 \"mails/confirm.md\"; none if empty. Submissions are delivered once they are confirmed \
                 (docs/pages/visitor-mail.md).",
            ),
        );
        let within = r.get(
            deliveries(key("confirm_within")),
            "7d",
            documented(
                "How long the link in the mail can be used, and when visitors are reminded once; \"off\" for no reminder.",
            ),
            value_parsers::duration(DAY..=90 * DAY),
        );
        let remind_after = r.get(
            deliveries(key(REMIND_AFTER)),
            "off",
            "",
            value_parsers::off_or(value_parsers::duration(DAY..=89 * DAY)),
        );
        r.refuse_if(
            remind_after.is_some_and(|after| after >= within),
            &key(REMIND_AFTER),
            &format!("must be shorter than `{}`", key("confirm_within")),
        );
        let acknowledge = r.file(
            deliveries(key(ACKNOWLEDGE)),
            documented(
                "A file with the text of a mail that thanks the visitor, such as \"mails/thanks.md\"; none if empty. The \
                 first channel with `kind = \"smtp\"` that accepts the form sends it (docs/pages/visitor-mail.md).",
            ),
        );
        for (name, path) in [(CONFIRM, &confirm), (ACKNOWLEDGE, &acknowledge)] {
            let message = "needs a field with `type = \"email\"` in the form";
            r.refuse_if(path.is_some() && !form.has_address(), &key(name), message);
        }
        r.refuse_if(
            confirm.is_some() && acknowledge.is_some(),
            &key(ACKNOWLEDGE),
            &format!("cannot be combined with `{}`: visitors would get two mails at once", key(CONFIRM)),
        );
        let rule = ConfirmationRule { within, remind_after };
        if !is_enabled {
            return;
        }
        self.forms.push(FormKeys { form: form.name, acknowledge, confirm, rule });
    }
}

const ACKNOWLEDGE: &str = "acknowledge";
const CONFIRM: &str = "confirm";
const REMIND_AFTER: &str = "remind_after";
const DAY: Duration = Duration::from_hours(24);

/// Reads the texts of mails to visitors, and returns a channel for each kind of mail that a form has: the
/// acknowledgement, the confirmation and its reminder. Each form has its own text; the reminder has that of
/// the confirmation. Leaves out mails with faults.
pub(super) fn read_channels(
    r: &mut Reader<'_>,
    keys: &VisitorKeys,
    channels: &[ChannelOptions],
    site: &PagesOptions,
) -> Vec<ChannelOptions> {
    let mut found: Vec<ChannelOptions> = Vec::new();
    for form in &keys.forms {
        let reminded = form.confirm.as_ref().filter(|_| form.rule.remind_after.is_some());
        for (mail, path, key) in [
            (VisitorMail::Acknowledgement, form.acknowledge.as_ref(), ACKNOWLEDGE),
            (VisitorMail::Confirmation, form.confirm.as_ref(), CONFIRM),
            (VisitorMail::Reminder, reminded, CONFIRM),
        ] {
            let Some(path) = path else { continue };
            let source =
                MailSource { path, site, key: format!("forms.{}.{key}", form.form), form: form.form };
            // A reminder reuses the text of the confirmation. Faults in this text are already recorded.
            let is_usable = mail != VisitorMail::Reminder
                || found.iter().any(|it| {
                    it.name == VisitorMail::Confirmation.name() && it.forms.contains(&source.form.to_owned())
                });
            let Some(mut channel) = is_usable.then(|| source.read(r, mail, channels, keys.limits)).flatten()
            else {
                continue;
            };
            if let TransportOptions::Visitor(visitor) = &mut channel.kind
                && mail == VisitorMail::Confirmation
            {
                visitor.rule.confirmations.push((form.form.to_owned(), form.rule));
            }
            match found.iter_mut().find(|known| known.name == channel.name) {
                Some(known) => add_form(known, channel),
                None => found.push(channel),
            }
        }
    }
    found
}

/// Adds the text and the rule of another form to the channel of a mail. The mail server of the first form
/// sends all mails of one kind, because they share a queue and its limits.
fn add_form(known: &mut ChannelOptions, other: ChannelOptions) {
    known.forms.extend(other.forms);
    if let (TransportOptions::Visitor(known), TransportOptions::Visitor(other)) =
        (&mut known.kind, other.kind)
    {
        known.texts.extend(other.texts);
        known.rule.confirmations.extend(other.rule.confirmations);
        let own = known.rule.own_addresses.iter().chain(&*other.rule.own_addresses).cloned();
        known.rule.own_addresses = own.collect::<BTreeSet<String>>().into_iter().collect();
    }
}

/// The file with the text of a mail, and the configuration key that names the file.
struct MailSource<'a> {
    path: &'a Path,
    site: &'a PagesOptions,
    key: String,
    form: &'static str,
}

impl MailSource<'_> {
    /// The channel for the mail. It sends through the mail server of the first SMTP channel that accepts the
    /// form. Records a fault and returns `None` if the text is unusable, or if there is no such channel.
    fn read(
        &self,
        r: &mut Reader<'_>,
        mail: VisitorMail,
        channels: &[ChannelOptions],
        limits: HourlyLimits,
    ) -> Option<ChannelOptions> {
        let form = self.form;
        let text = self.read_text(r, mail);
        let accepts = |channel: &&ChannelOptions| channel.route().accepts(form);
        let smtp = channels.iter().filter(accepts).find_map(|channel| match &channel.kind {
            TransportOptions::Smtp(smtp) => Some((smtp.clone(), channel.has_daily_quota)),
            _ => None,
        });
        r.refuse_if(
            smtp.is_none(),
            &self.key,
            &format!("needs a `[[channel]]` with `kind = \"smtp\"` that accepts the form \"{form}\""),
        );
        let (text, (smtp, has_daily_quota)) = (text?, smtp?);
        // The team's addresses, which get no acknowledgement: a program that reads their mail could reply in
        // a loop.
        let mut own: Vec<String> = channels
            .iter()
            .filter_map(|channel| match &channel.kind {
                TransportOptions::Smtp(smtp) => Some(smtp.addresses.all()),
                _ => None,
            })
            .flatten()
            .chain([self.site.operator.email.as_str(), &text.reply_to])
            .filter(|address| !address.is_empty())
            .map(mailbox_key)
            .collect();
        own.sort_unstable();
        own.dedup();
        let rule = VisitorRule { mail, own_addresses: own.into(), limits, confirmations: Vec::new() };
        Some(ChannelOptions {
            name: mail.name().to_owned(),
            forms: vec![form.to_owned()],
            when: Condition::default(),
            concurrency: CONCURRENCY,
            has_daily_quota,
            kind: TransportOptions::Visitor(Box::new(VisitorMailOptions {
                rule,
                texts: vec![(form.to_owned(), text)],
                smtp,
                link: String::new(),
            })),
        })
    }

    /// Reads the file with the mail's text, and fills in the placeholders that are the same for all visitors.
    /// Records faults and returns `None` if the file or a placeholder is unusable, or if a mail that asks for
    /// a confirmation has no link for it. Also records warnings. Replies go to `operator.email` unless the
    /// text names another address.
    fn read_text(&self, r: &mut Reader<'_>, mail: VisitorMail) -> Option<MailText> {
        let asks = mail != VisitorMail::Acknowledgement;
        let text = match named_file::read_text(self.path) {
            Ok(text) => text,
            Err(error) => {
                r.refuse_if(true, &self.key, &format!("cannot be read: {}: {error}", self.path.display()));
                return None;
            }
        };
        let PagesOptions { operator, title, language, base_url, .. } = self.site;
        let name = if operator.name.is_empty() { title } else { &operator.name };
        let known: [Placeholder<'_>; 4] = [
            ("site", Some(title)),
            ("operator", Some(name)),
            ("email", Some(&operator.email)),
            ("date", None),
        ];
        let place = self.path.strip_prefix(r.site_folder()).unwrap_or(self.path).display().to_string();
        let known: Vec<Placeholder<'_>> =
            known.into_iter().chain(asks.then_some((CONFIRM_LINK, None))).collect();
        match parse_mail(&place, &text, language, base_url, &known) {
            Ok(mail) if asks && !mail.text.contains(&format!("{{{CONFIRM_LINK}}}")) => {
                let fault = Fault::error(&*place, None, "the text must contain {confirm_link}");
                r.report(fault.hint("the visitor opens this link to confirm the address").about(&*self.key));
                None
            }
            Ok(mail) => {
                for fault in mail.warnings {
                    r.report(fault.about(&*self.key));
                }
                Some(MailText {
                    subject: mail.subject,
                    from_name: mail.from_name,
                    reply_to: if mail.reply_to.is_empty() { operator.email.clone() } else { mail.reply_to },
                    text: mail.text,
                    html: mail.html,
                })
            }
            Err(faults) => {
                for fault in faults {
                    r.report(fault.about(&*self.key));
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::Config;
    use frontdesk_deliver::{ChannelOptions, TransportOptions};
    use frontdesk_inbox::submission::visitor_mail::HourlyLimits;

    const CHANNEL: &str = "[[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"mail.example.com\"\nfrom = \"desk@example.com\"\nto = [\"team@example.com\"]\n";
    const SET: &str = "[operator]\nname = \"Example\"\nemail = \"hello@example.com\"\n[forms.contact]\nacknowledge = \"mails/thanks.md\"\n";
    const TEXT: &str = "---\nsubject: Thanks\n---\nFrom {operator} ({email}) at {site} on {date}.\n";

    #[test]
    fn the_first_mail_server_that_takes_the_form_sends_the_mail() {
        let other = CHANNEL.replace("mail", "other");
        let waitlist = format!("{other}forms = [\"waitlist\"]\n");
        let (config, faults) = load(&format!("{SET}{waitlist}{CHANNEL}"), TEXT);
        assert_eq!(faults, [""; 0]);
        let [channel] = &config.visitor_channels[..] else { panic!() };
        let TransportOptions::Visitor(visitor) = &channel.kind else { panic!() };
        assert_eq!(
            (channel.name.as_str(), &channel.forms[..]),
            ("visitor:acknowledgement", &["contact".to_owned()][..])
        );
        let limits = HourlyLimits { all: 300, network: Some(50), domain: Some(20) };
        assert_eq!((visitor.smtp.host.as_str(), visitor.rule.limits), ("mail.example.com", limits));
        assert_eq!(visitor.texts[0].1.text, "From Example (hello@example.com) at Example on {date}.\n");
        assert_eq!(visitor.texts[0].1.reply_to, "hello@example.com");
        for own in ["desk@example.com", "TEAM@example.com", "hello@example.com", "desk@example.com"] {
            assert!(!visitor.rule.permits(own), "{own}");
        }
        // No submission is delivered to a visitor.
        assert!(config.store.channels.iter().all(|route| route.accepts("contact") == (route.name == "mail")));
    }

    #[test]
    fn each_form_has_its_own_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it exists or is new");
            fs::write(path, text).expect("it can be written");
        };
        let form = |key: &str| {
            format!(
                "title = \"Demo\"\n{key} = \"mails/demo.md\"\n[[field]]\nname = \"work\"\ntype = \"email\"\nlabel = \"E-mail\"\n"
            )
        };
        write("mails/thanks.md", "---\nsubject: Thanks\n---\nHello\n");
        write("mails/demo.md", "---\nsubject: Demo\n---\nHello {confirm_link}\n");
        write("forms/demo.toml", &form("confirm"));
        let (config, faults) = Config::parse(&format!("{SET}{CHANNEL}"), folder.path(), [], &[]);
        let errors: Vec<_> =
            faults.iter().filter(|fault| fault.severity == frontdesk_site::fault::Severity::Error).collect();
        assert!(errors.is_empty(), "{errors:?}");
        let texts = |channel: &ChannelOptions| {
            let TransportOptions::Visitor(visitor) = &channel.kind else { panic!("{}", channel.name) };
            let texts = visitor.texts.iter().map(|(form, text)| format!("{form}: {}", text.subject));
            (channel.name.clone(), channel.forms.clone(), texts.collect::<Vec<_>>())
        };
        let found: Vec<_> = config.visitor_channels.iter().map(texts).collect();
        let expected = |name: &str, form: &str, subject: &str| {
            (name.to_owned(), vec![form.to_owned()], vec![format!("{form}: {subject}")])
        };
        assert_eq!(
            found,
            [
                expected("visitor:acknowledgement", "contact", "Thanks"),
                expected("visitor:confirmation", "demo", "Demo"),
            ]
        );
        assert_eq!(config.pages.confirming, ["demo"]);
        // A form without an address can have no mail.
        write("forms/demo.toml", &form("acknowledge").replace("email\"\nlabel", "text\"\nlabel"));
        let (_, faults) = Config::parse(&format!("{SET}{CHANNEL}"), folder.path(), [], &[]);
        let said = "forms/demo.toml:2: `forms.demo.acknowledge` needs a field with `type = \"email\"`";
        assert!(faults.iter().any(|fault| fault.to_string().starts_with(said)), "{faults:?}");
    }

    #[test]
    fn a_mail_that_cannot_be_sent_is_a_fault() {
        let needs = "frontdesk.toml:5: `forms.contact.acknowledge` needs a `[[channel]]` with `kind = \"smtp\"` that accepts the form \"contact\"";
        assert_eq!(load(SET, TEXT).1, [needs]);
        assert_eq!(load(&format!("{SET}{CHANNEL}forms = [\"waitlist\"]\n"), TEXT).1, [needs]);
        assert_eq!(
            load(&format!("{SET}{CHANNEL}"), "---\nsubject: Thanks\n---\nDear {name}\n").1,
            ["mails/thanks.md:4: unknown placeholder {name}"]
        );
        let (_, faults) = load(&format!("{}{CHANNEL}", SET.replace("thanks", "missing")), TEXT);
        assert!(
            faults[0].starts_with("frontdesk.toml:5: `forms.contact.acknowledge` cannot be read: "),
            "{faults:?}"
        );
    }

    #[test]
    fn links_in_mails_begin_with_the_base_url_or_the_first_acme_domain() {
        let text = "---\nsubject: Thanks\n---\n[contact](/contact/)\n";
        let read = |start: &str, environment: &[(&str, &str)]| {
            let folder = tempfile::tempdir().expect("a folder");
            fs::create_dir(folder.path().join("mails")).expect("it is new");
            fs::write(folder.path().join("mails/thanks.md"), text).expect("it can be written");
            let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let toml = format!("{start}{SET}{CHANNEL}");
            let (config, faults) = Config::parse(&toml, folder.path(), environment, &[]);
            let [channel] = &config.visitor_channels[..] else { panic!("{faults:?}") };
            let TransportOptions::Visitor(visitor) = &channel.kind else { panic!() };
            let has_warning =
                faults.iter().any(|fault| fault.to_string().contains("does not work in a mail"));
            (visitor.texts[0].1.html.contains("href=\"https://www.example.com/contact/\""), has_warning)
        };
        let url = "https://www.example.com";
        assert_eq!(read(&format!("base_url = {url:?}\n"), &[]), (true, false));
        assert_eq!(read("", &[("FRONTDESK_BASE_URL", url)]), (true, false));
        let tls = "[tls]\nlisten = \"127.0.0.1:8443\"\nacme_domains = [\"www.example.com\"]\n";
        assert_eq!(read(tls, &[]), (true, false));
        assert_eq!(read("", &[]), (false, true));
    }

    /// Loads a configuration with this text of the mail. Returns its errors without hints.
    fn load(toml: &str, text: &str) -> (Config, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("mails")).expect("it is new");
        fs::write(folder.path().join("mails/thanks.md"), text).expect("it can be written");
        let (config, faults) = Config::parse(toml, folder.path(), [], &[]);
        let errors = faults.iter().filter(|fault| fault.severity == frontdesk_site::fault::Severity::Error);
        (
            config,
            errors.map(|fault| fault.to_string().lines().next().unwrap_or_default().to_owned()).collect(),
        )
    }
}
