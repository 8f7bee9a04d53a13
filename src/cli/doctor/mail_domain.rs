//! Checks the DNS records of a sender's domain: MX (RFC 5321 §5), SPF (RFC 7208), DKIM (RFC 6376) and DMARC
//! (RFC 7489).

use super::check_result::CheckResult;
use super::dns_client::Resolver;

/// Selectors under which mail providers usually publish their DKIM keys.
const USUAL_SELECTORS: [&str; 12] =
    ["default", "mail", "dkim", "google", "selector1", "selector2", "k1", "k2", "s1", "s2", "smtp", "key1"];

/// Checks a domain's records. Without a selector, looks for the DKIM key under [`USUAL_SELECTORS`], in order,
/// and stops at the first selector with a usable key, or whose query fails. It is then no problem if there is
/// no key, but it is one if all keys that exist are revoked. A query that fails makes the result of its
/// record [`CheckResult::Unknown`]. If the first query fails, sends no others, and all results are `Unknown`.
pub(super) fn check_records(
    resolver: &Resolver,
    domain: &str,
    selector: Option<&str>,
) -> [(&'static str, CheckResult); 4] {
    let mx = match resolver.query_mail_servers(domain) {
        Ok(servers) => check_mail_servers(domain, &servers, || resolver.has_address(domain)),
        Err(error) => {
            let unknown =
                || CheckResult::Unknown(format!("cannot look up the DNS records of {domain}: {error}"));
            return [("MX", unknown()), ("SPF", unknown()), ("DKIM", unknown()), ("DMARC", unknown())];
        }
    };
    let ask = |name: String| {
        resolver
            .query_texts(&name)
            .map_err(|error| format!("cannot look up the DNS records of {name}: {error}"))
    };
    let spf = ask(domain.to_owned()).map_or_else(CheckResult::Unknown, |texts| check_spf(domain, &texts));
    let dmarc = check_dmarc(domain, &ask).unwrap_or_else(CheckResult::Unknown);
    let missing = match selector {
        Some(selector) => CheckResult::Bad(format!(
            "there is no key at {selector}._domainkey.{domain}: publish the one that your provider shows"
        )),
        None => CheckResult::Unknown(
            "no key under the usual names; pass the name that your provider uses with `--dkim-selector NAME`"
                .to_owned(),
        ),
    };
    let selectors = selector.as_ref().map_or(&USUAL_SELECTORS[..], std::slice::from_ref);
    let find_key = |selector: &&str| match ask(format!("{selector}._domainkey.{domain}")) {
        Ok(texts) => check_dkim_key(selector, &texts),
        Err(error) => Some(CheckResult::Unknown(error)),
    };
    let dkim = choose_key(selectors.iter().filter_map(find_key)).unwrap_or(missing);
    [("MX", mx), ("SPF", spf), ("DKIM", dkim), ("DMARC", dmarc)]
}

/// Checks that the domain accepts mail: bounces go to it, and many receivers refuse mail from a domain that
/// does not. Without MX records, mail goes to the address of the domain (RFC 5321 §5.1), so missing MX
/// records are a problem only if there is no address.
fn check_mail_servers(
    domain: &str,
    servers: &[String],
    has_address: impl Fn() -> Result<bool, String>,
) -> CheckResult {
    let advice = "publish an MX record with the server that accepts its mail";
    match servers {
        [only] if only.trim_end_matches('.').is_empty() => CheckResult::Bad(format!(
            "{domain} states that it accepts no mail (a null MX record), so bounces are lost, and receivers may refuse its mail: {advice}"
        )),
        [] => match has_address() {
            Ok(true) => CheckResult::Unknown(format!(
                "{domain} has no MX record, so bounces and replies go to the machine at its address"
            )),
            Ok(false) => CheckResult::Bad(format!(
                "{domain} has neither an MX record nor an address, so bounces are lost, and receivers may refuse its mail: {advice}"
            )),
            Err(error) => {
                CheckResult::Unknown(format!("cannot look up the DNS records of {domain}: {error}"))
            }
        },
        servers => CheckResult::Good(servers.join(", ")),
    }
}

/// Finds the TXT record whose part before the first `end` is `version`, regardless of case and spaces. Fails
/// if there are several such records; `described` turns their count into the start of the error message.
fn find_record<'a>(
    texts: &'a [String],
    (version, end): (&str, char),
    described: impl Fn(usize) -> String,
) -> Result<Option<&'a String>, CheckResult> {
    let is_version = |part: &str| part.replace(' ', "").eq_ignore_ascii_case(version);
    let mut records = texts.iter().filter(|text| text.split(end).next().is_some_and(is_version));
    let first = records.next();
    match records.count() {
        0 => Ok(first),
        others => Err(CheckResult::Bad(format!(
            "{}, which receivers treat as none: merge them into one",
            described(1 + others)
        ))),
    }
}

/// Checks that there is exactly one SPF record, and that it does not allow every server to send mail with the
/// mechanism `all` or `+all`.
fn check_spf(domain: &str, texts: &[String]) -> CheckResult {
    let record = find_record(texts, ("v=spf1", ' '), |count| format!("{domain} has {count} SPF records"));
    let allows_all = |record: &String| {
        let mut words = record.split_whitespace().map(str::to_ascii_lowercase);
        words.any(|word| word == "+all" || word == "all")
    };
    match record {
        Ok(None) => CheckResult::Bad(format!(
            "{domain} has no SPF record: publish a TXT record such as \"v=spf1 include:YOUR-MAIL-PROVIDER -all\", or receivers may treat its mail as forged"
        )),
        Ok(Some(record)) if allows_all(record) => CheckResult::Bad(format!(
            "{domain} allows any server to send its mail (\"+all\"): end the record with \"-all\" or \"~all\""
        )),
        Ok(Some(record)) => CheckResult::Good(record.clone()),
        Err(several) => several,
    }
}

/// Checks the first DKIM key (`p=`) in a selector's TXT records: an empty one has been revoked. `None` if
/// there is no key.
fn check_dkim_key(selector: &str, texts: &[String]) -> Option<CheckResult> {
    let tag = |text: &str, name: &str| {
        let mut tags = text.split(';').filter_map(|tag| tag.split_once('='));
        tags.find_map(|(key, value)| (key.trim() == name).then(|| value.trim().to_owned()))
    };
    let key = texts.iter().find_map(|text| tag(text, "p"))?;
    Some(if key.is_empty() {
        CheckResult::Bad(format!("the key under \"{selector}\" has been revoked (its p= is empty)"))
    } else {
        CheckResult::Good(format!("a key is published under \"{selector}\""))
    })
}

/// The result for the first selector with a key, or whose query fails; later ones are not asked. If there are
/// only revoked keys, the result for the first of them: one name's revoked key does not matter if another
/// name has a key.
fn choose_key(found: impl Iterator<Item = CheckResult>) -> Option<CheckResult> {
    let mut revoked = None;
    for result in found {
        if !matches!(result, CheckResult::Bad(_)) {
            return Some(result);
        }
        revoked = revoked.or(Some(result));
    }
    revoked
}

/// Checks the DMARC record of the domain or, if it has none, of the closest parent domain that has one. Any
/// policy passes, even `p=none`. Does not query a parent that is a top-level domain. Fails if a query fails.
fn check_dmarc(
    domain: &str,
    ask: &dyn Fn(String) -> Result<Vec<String>, String>,
) -> Result<CheckResult, String> {
    let mut name = domain;
    loop {
        let texts = ask(format!("_dmarc.{name}"))?;
        match find_record(&texts, ("v=DMARC1", ';'), |count| format!("_dmarc.{name} has {count} records")) {
            Ok(Some(record)) => return Ok(CheckResult::Good(record.clone())),
            Ok(None) => {}
            Err(several) => return Ok(several),
        }
        match name.split_once('.') {
            Some((_, parent)) if parent.contains('.') => name = parent,
            _ => break,
        }
    }
    Ok(CheckResult::Bad(format!(
        "{domain} has no DMARC record: publish a TXT record at _dmarc.{domain} such as \"v=DMARC1; p=none; rua=mailto:YOU@{domain}\""
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revoked_key_counts_only_without_another() {
        let (revoked, good) = (|| CheckResult::Bad("revoked".into()), || CheckResult::Good("key".into()));
        assert_eq!(choose_key([revoked(), good()].into_iter()), Some(good()));
        assert_eq!(choose_key([revoked()].into_iter()), Some(revoked()));
        assert_eq!(choose_key(std::iter::empty()), None);
        let failed = CheckResult::Unknown("timeout".into());
        let asked = [failed, good()].into_iter().inspect(|result| assert_ne!(*result, good()));
        assert_eq!(choose_key(asked), Some(CheckResult::Unknown("timeout".into())));
    }

    #[test]
    fn a_domain_that_accepts_no_mail_is_a_problem() {
        let check = |servers: &[&str], has_address: Result<bool, String>| {
            let servers: Vec<String> = servers.iter().map(|server| (*server).to_owned()).collect();
            check_mail_servers("example.com", &servers, || has_address.clone())
        };
        let good = CheckResult::Good("a.example.net, b.example.net".to_owned());
        assert_eq!(check(&["a.example.net", "b.example.net"], Ok(false)), good);
        for null in ["", "."] {
            assert!(matches!(check(&[null], Ok(true)), CheckResult::Bad(text) if text.contains("null MX")));
        }
        assert!(matches!(check(&[], Ok(true)), CheckResult::Unknown(text) if text.contains("no MX record")));
        assert!(matches!(check(&[], Ok(false)), CheckResult::Bad(text) if text.contains("nor an address")));
        assert!(matches!(check(&[], Err("x".to_owned())), CheckResult::Unknown(_)));
    }

    #[test]
    fn one_strict_spf_record_is_good() {
        let check = |texts: &[&str], expected: &str| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            let found = format!("{:?}", check_spf("example.com", &texts));
            assert!(found.starts_with(expected), "{texts:?}: {found}");
        };
        check(&["v=spf1 include:mail.example.com -all", "other"], "Good(\"v=spf1 include");
        check(&["V=SPF1 ~all"], "Good");
        check(&["v=spf10 -all"], "Bad(\"example.com has no SPF");
        check(&[], "Bad(\"example.com has no SPF");
        check(&["v=spf1 +all"], "Bad(\"example.com allows any server");
        check(&["v=spf1 -all", "v=spf1 mx -all"], "Bad(\"example.com has 2 SPF");
    }

    #[test]
    fn a_key_is_published_or_withdrawn() {
        let key = |text: &str| check_dkim_key("s", &[text.to_owned()]);
        assert!(matches!(key("v=DKIM1; k=rsa; p=MIIB"), Some(CheckResult::Good(_))));
        assert!(matches!(key("p=MIIB"), Some(CheckResult::Good(_))));
        assert!(matches!(key("v=DKIM1; p="), Some(CheckResult::Bad(_))));
        assert_eq!(key("v=spf1 -all"), None);
    }

    #[test]
    fn a_parent_domains_policy_applies() {
        let zone = |wanted: &'static str| {
            move |name: String| {
                Ok(if name == wanted { vec!["v=DMARC1; p=reject".to_owned()] } else { Vec::new() })
            }
        };
        for name in ["_dmarc.mail.example.com", "_dmarc.example.com"] {
            assert!(
                matches!(check_dmarc("mail.example.com", &zone(name)), Ok(CheckResult::Good(_))),
                "{name}"
            );
        }
        assert!(matches!(check_dmarc("mail.example.com", &zone("_dmarc.com")), Ok(CheckResult::Bad(_))));
        assert!(check_dmarc("example.com", &|_| Err("no".to_owned())).is_err());
    }
}
