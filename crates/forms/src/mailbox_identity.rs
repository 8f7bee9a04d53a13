//! Which addresses belong to one mailbox, which domains to one recipient, and which addresses are automated.
//! Used to limit mails to visitors and to erase the records of such mails: never to detect repeats, and never
//! as the address of a mail.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The mailbox providers. The file explains its format and its sources.
const PROVIDERS: &str = include_str!("providers.txt");

/// The address of a mailbox in one spelling: in lower case, without a subaddress (`+…`), and with the rules
/// of its provider applied, which may also replace the domain (`ada@ya.ru` becomes `ada@yandex.ru`).
/// Addresses with a quoted local part and texts without `@` are only put in lower case. Different mailboxes
/// may have the same key, for example if a mail server treats `+` as an ordinary character. Applying the
/// function again changes nothing.
pub fn mailbox_key(email: &str) -> String {
    let email = email.to_lowercase();
    let Some((local, domain)) = email.rsplit_once('@') else { return email };
    if local.starts_with('"') {
        return email;
    }
    match Provider::of(domain) {
        Some((provider, Some((name, parent)))) => provider.mailbox(name, parent),
        Some((provider, None)) => provider.mailbox(local, domain),
        None => format!("{}@{domain}", before(local, '+')),
    }
}

/// Whether a domain belongs to a large mailbox provider, ignoring case. Includes the subdomains of providers
/// with subdomain addressing.
pub fn is_provider(domain: &str) -> bool {
    // The list contains lowercase names only, and most domains are already lowercase.
    if domain.bytes().any(|b| b.is_ascii_uppercase()) {
        return Provider::of(&domain.to_ascii_lowercase()).is_some();
    }
    Provider::of(domain).is_some()
}

/// The part of an address's domain that one registrant controls, with all names below it, in lower case.
/// `None` for the domains of large mailbox providers, which do not belong to the recipient, and for their
/// subdomains if the provider has subdomain addressing. A text without `@` counts as a domain; an address
/// literal is only put in lower case.
///
/// This is an approximation: the last two labels, or three if the second-last one is a common name below a
/// country's domain (`REGISTRY_LABELS`). The exact answer is in the Public Suffix List, which adds 0.8 MB to
/// a binary (the crate `psl`) and changes every week. Registrants below a less common suffix, such as
/// `k12.ca.us`, share one limit, and the owner of a name such as `com.zz` in a country without that suffix
/// evades it, but not the limits of networks and of all visitors. Below the private suffixes on that list,
/// such as `github.io`, a shared limit is intended: names there are free, so an attacker can have many.
pub fn recipient_domain(email: &str) -> Option<String> {
    let domain = email.rsplit_once('@').map_or(email, |(_, domain)| domain).to_lowercase();
    if Provider::of(&domain).is_some() {
        return None;
    }
    if domain.starts_with('[') {
        return Some(domain);
    }
    let mut labels = domain.rsplit('.').filter(|label| !label.is_empty());
    let top = labels.next().unwrap_or_default();
    let second = labels.next().unwrap_or_default();
    let third = labels.next().filter(|_| top.len() == 2 && REGISTRY_LABELS.contains(&second));
    Some(
        third
            .iter()
            .chain([&second, &top])
            .copied()
            .filter(|label| !label.is_empty())
            .collect::<Vec<_>>()
            .join("."),
    )
}

/// Whether a local part, which must be in lower case, names a mailing list, an automated sender or a
/// technical role such as `postmaster`. Ignores a subaddress. False for teams, such as `info`.
pub fn is_automated(local: &str) -> bool {
    let name = local.split('+').next().unwrap_or_default();
    AUTOMATED.contains(&name.replace(['-', '_', '.'], "").as_str())
        || name.starts_with("owner-")
        || ["-request", "-owner", "-bounces", "-bounce"].iter().any(|end| name.ends_with(end))
}

/// Local parts of role and automated addresses, without `-`, `_` and `.`.
const AUTOMATED: [&str; 14] = [
    "mailerdaemon",
    "postmaster",
    "hostmaster",
    "abuse",
    "noreply",
    "noreplies",
    "donotreply",
    "bounce",
    "bounces",
    "majordomo",
    "listserv",
    "mailman",
    "daemon",
    "root",
];

/// Labels below which some countries register domains (`example.co.uk`).
const REGISTRY_LABELS: [&str; 19] = [
    "ac", "co", "com", "edu", "go", "gob", "gov", "govt", "id", "ltd", "mil", "ne", "net", "nhs", "nom",
    "or", "org", "plc", "sch",
];

/// How a provider assigns addresses to mailboxes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Provider {
    domains: Vec<&'static str>,
    /// Whether a local part belongs to the same mailbox at all of the provider's domains.
    is_one_account: bool,
    /// Characters that the provider ignores in local parts.
    ignored: &'static str,
    /// Characters that are interchangeable in local parts. The first one replaces the others.
    equal: &'static str,
    /// The character that begins a subaddress, in addition to `+`.
    tag: Option<char>,
    /// Whether `anything@NAME.DOMAIN` is the mailbox `NAME@DOMAIN`.
    has_subdomains: bool,
}

/// The providers, and for each domain, the index of its provider.
struct Providers {
    all: Vec<Provider>,
    by_domain: HashMap<&'static str, usize>,
}

/// The providers in `providers.txt`. Skips malformed lines.
static KNOWN: LazyLock<Providers> = LazyLock::new(|| {
    let lines = PROVIDERS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let all: Vec<Provider> = lines.filter_map(Provider::parse).collect();
    let domains =
        all.iter().enumerate().flat_map(|(n, one)| one.domains.iter().map(move |domain| (*domain, n)));
    let by_domain = domains.collect();
    Providers { all, by_domain }
});

impl Provider {
    /// Parses a line of `providers.txt`; `None` if it is malformed.
    fn parse(line: &'static str) -> Option<Provider> {
        let (rules, domains) = line.split_once(": ")?;
        let mut provider = Provider { domains: domains.split(' ').collect(), ..Provider::default() };
        for rule in rules.split_whitespace() {
            match rule.split_once('=') {
                None if rule == "one-account" => provider.is_one_account = true,
                None if rule == "subdomains" => provider.has_subdomains = true,
                Some(("ignore", characters)) => provider.ignored = characters,
                Some(("equal", characters)) => provider.equal = characters,
                Some(("tag", character)) => provider.tag = character.chars().next(),
                _ => return None,
            }
        }
        Some(provider)
    }

    /// The provider of a domain in lower case. For a subdomain of a provider with subdomain addressing, also
    /// the label before the provider's domain, and that domain. `None` for other domains, and for those below
    /// a provider's domain without such addressing.
    fn of(domain: &str) -> Option<(&'static Provider, Option<(&str, &str)>)> {
        let find = |name: &str| KNOWN.by_domain.get(name).map(|n| &KNOWN.all[*n]);
        if let Some(provider) = find(domain) {
            return Some((provider, None));
        }
        // A provider's domain has at most three labels, so search only the last three.
        let (at, provider) =
            domain.rmatch_indices('.').take(3).find_map(|(at, _)| Some((at, find(&domain[at + 1..])?)))?;
        let name = domain[..at].rsplit('.').next().unwrap_or_default();
        provider.has_subdomains.then_some((provider, Some((name, &domain[at + 1..]))))
    }

    /// The [`mailbox_key`] of a name at one of the provider's domains, both in lower case. Keeps ignored
    /// characters if the name has no others.
    fn mailbox(&self, local: &str, domain: &str) -> String {
        let name = before(local, '+');
        let name = self.tag.map_or(name, |tag| before(name, tag));
        let kept: String = name.chars().filter(|c| !self.ignored.contains(*c)).collect();
        let name = if kept.is_empty() { name } else { &kept };
        let first = self.equal.chars().next().unwrap_or_default();
        let name: String = name.chars().map(|c| if self.equal.contains(c) { first } else { c }).collect();
        let domain = self.domains.first().copied().filter(|_| self.is_one_account).unwrap_or(domain);
        format!("{name}@{domain}")
    }
}

/// The text before the first `end`, or the whole text if it does not contain `end` or begins with it.
fn before(text: &str, end: char) -> &str {
    text.split(end).next().filter(|name| !name.is_empty()).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_of_one_mailbox_have_one_key() {
        for (key, variants) in [
            ("ada@example.com", &["ADA@Example.COM", "ada+1@example.com", "Ada+x+y@example.com"][..]),
            ("ada@gmail.com", &["A.d.a+1@Gmail.com", "ad.a@googlemail.com", "ada@GOOGLEMAIL.com"]),
            (
                "adalove@proton.me",
                &[
                    "ada.love@pm.me",
                    "ada-love@protonmail.com",
                    "A_d_a_love+x@protonmail.ch",
                    "adalove@proton.me",
                ],
            ),
            ("ada.love@icloud.com", &["ada.love@me.com", "Ada.Love+x@mac.com"]),
            ("ada-love@yandex.ru", &["ada.love@ya.ru", "ada-love+1@yandex.com", "ada.love@yandex.com.tr"]),
            (
                "ada@fastmail.com",
                &[
                    "ada+x@fastmail.com",
                    "any.thing@ada.fastmail.com",
                    "x@y.ada.fastmail.com",
                    "x+y@Ada.FastMail.com",
                ],
            ),
            ("ada@sent.com", &["ada+x@sent.com", "x@ada.sent.com"]),
            ("ada@outlook.com", &["ada+x@outlook.com", "ADA@OUTLOOK.COM"]),
            ("ada@yahoo.com", &["ada-shop@yahoo.com", "ada-other+x@yahoo.com", "ada+x@yahoo.com"]),
            ("ada@zoho.com", &["ada+x@zoho.com"]),
            ("ada@mailbox.org", &["ada+x@mailbox.org"]),
            ("ada@gmx.de", &["ada+x@gmx.de"]),
            ("ada@xn--mller-kva.example", &["Ada+1@XN--MLLER-KVA.example"]),
            ("ada@[192.0.2.1]", &["ada+x@[192.0.2.1]", "ADA@[192.0.2.1]"]),
        ] {
            for variant in variants.iter().chain([&key]) {
                assert_eq!(mailbox_key(variant), key, "{variant}");
            }
        }
    }

    #[test]
    fn different_mailboxes_have_different_keys() {
        for (one, other) in [
            ("a.da@example.com", "ada@example.com"),
            ("a-da@gmail.com", "ada@gmail.com"),
            ("a.da@icloud.com", "ada@icloud.com"),
            ("a.da@outlook.com", "ada@outlook.com"),
            ("a-da@outlook.com", "ada@outlook.com"),
            ("ada@outlook.com", "ada@hotmail.com"),
            ("ada@fastmail.com", "ada@fastmail.fm"),
            ("a_da@yandex.ru", "a-da@yandex.ru"),
            ("ada@mail.ru", "ada@bk.ru"),
            ("ada@qq.com", "ada@foxmail.com"),
            ("x@ada.gmail.com", "ada@gmail.com"),
            ("x@ada.example.com", "ada@example.com"),
            ("\"a+b\"@gmail.com", "a@gmail.com"),
        ] {
            assert_ne!(mailbox_key(one), mailbox_key(other), "{one} {other}");
        }
    }

    #[test]
    fn odd_addresses_keep_a_name() {
        for (email, key) in [
            ("+x@example.com", "+x@example.com"),
            ("\"A+b\"@x.example", "\"a+b\"@x.example"),
            ("\"a@b\"@Example.com", "\"a@b\"@example.com"),
            ("-x@yahoo.com", "-x@yahoo.com"),
            ("-@proton.me", "-@proton.me"),
            (".+x@gmail.com", ".@gmail.com"),
            ("x@.fastmail.com", "@fastmail.com"),
            ("no address", "no address"),
            ("", ""),
            ("@", "@"),
        ] {
            assert_eq!(mailbox_key(email), key, "{email}");
        }
        let long = format!("{}@{}example.com", "a+".repeat(1 << 16), "b.".repeat(1 << 16));
        assert_eq!(mailbox_key(&long), format!("a@{}example.com", "b.".repeat(1 << 16)));
        assert_eq!(recipient_domain(&long).as_deref(), Some("example.com"));
    }

    #[test]
    fn all_names_of_a_registrant_have_one_domain() {
        for (domain, names) in [
            ("example.com", &["example.com", "a1.example.com", "x.y.EXAMPLE.com", "example.com."][..]),
            ("example.co.uk", &["example.co.uk", "a.example.co.uk", "b.a.example.co.uk"]),
            ("example.com.au", &["mail.example.com.au"]),
            ("example.de", &["a.b.example.de"]),
            ("x.com", &["co.x.com", "a.co.x.com"]),
            ("co.uk", &["co.uk"]),
            ("localhost", &["localhost"]),
            ("xn--mller-kva.example", &["mail.XN--mller-kva.example"]),
            ("[192.0.2.1]", &["[192.0.2.1]"]),
            ("example.ne.jp", &["example.ne.jp", "a.example.ne.jp"]),
            // Below a country, a label that is not in `REGISTRY_LABELS` belongs to one registrant.
            ("shop.de", &["a.shop.de", "b.a.shop.de"]),
            ("[ipv6:2001:db8::1]", &["[IPv6:2001:db8::1]"]),
            // Names below a provider's domain are not exempt as the domain itself is.
            ("gmail.com", &["x.gmail.com", "a.b.gmail.com"]),
            ("github.io", &["ada.github.io"]),
        ] {
            for name in names {
                assert_eq!(recipient_domain(&format!("ada@{name}")).as_deref(), Some(domain), "{name}");
            }
        }
    }

    #[test]
    fn large_providers_are_exempt() {
        for name in [
            "gmail.com",
            "Googlemail.com",
            "outlook.com",
            "hotmail.co.uk",
            "live.de",
            "msn.com",
            "yahoo.com",
            "yahoo.co.jp",
            "icloud.com",
            "me.com",
            "mac.com",
            "proton.me",
            "pm.me",
            "fastmail.com",
            "user.fastmail.com",
            "gmx.net",
            "web.de",
            "ya.ru",
            "mail.ru",
            "qq.com",
            "163.com",
            "naver.com",
            "zoho.com",
            "aol.com",
            "comcast.net",
            "t-online.de",
        ] {
            assert_eq!(recipient_domain(&format!("ada@{name}")), None, "{name}");
        }
        for name in ["example.com", "gmail.com.example.com", "notgmail.com", "gmail.org", "fastmail.example"]
        {
            assert!(recipient_domain(&format!("ada@{name}")).is_some(), "{name}");
        }
    }

    #[test]
    fn the_list_of_providers_is_well_formed() {
        let lines = PROVIDERS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(KNOWN.all.len(), lines.count(), "each line is valid");
        let listed = KNOWN.all.iter().map(|provider| provider.domains.len()).sum::<usize>();
        assert_eq!(KNOWN.by_domain.len(), listed, "no domain is listed twice");
        for domain in KNOWN.by_domain.keys() {
            let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
            assert!(domain.contains('.') && domain.bytes().all(is_plain), "{domain:?}");
        }
    }

    proptest! {
        #[test]
        fn a_key_is_its_own_key(
            local in "[a-zA-Z0-9+._\"@-]{0,12}",
            below in "([a-z+._-]{0,5}\\.)?",
            domain in proptest::sample::select(
                KNOWN.by_domain.keys().copied().chain(["example.com", "[192.0.2.1]", ""]).collect::<Vec<_>>()
            ),
        ) {
            let key = mailbox_key(&format!("{local}@{below}{domain}"));
            prop_assert_eq!(mailbox_key(&key), key.clone());
            prop_assert_eq!(recipient_domain(&key), recipient_domain(&format!("x@{below}{domain}")));
        }

        #[test]
        fn any_text_has_a_key_that_is_its_own_key(text in "\\PC{0,40}") {
            let key = mailbox_key(&text);
            prop_assert_eq!(mailbox_key(&key), key);
            if let Some(domain) = recipient_domain(&text) {
                prop_assert_eq!(recipient_domain(&domain), Some(domain));
            }
        }
    }
}
