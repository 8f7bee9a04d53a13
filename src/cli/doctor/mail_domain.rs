//! Checks the DNS records of a sender's domain: SPF (RFC 7208), DKIM (RFC 6376) and DMARC (RFC 7489).

use super::dns::Resolver;

/// Selectors under which mail providers usually publish their DKIM keys.
const USUAL_SELECTORS: [&str; 12] =
    ["default", "mail", "dkim", "google", "selector1", "selector2", "k1", "k2", "s1", "s2", "smtp", "key1"];

/// The result of one check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    /// No problem, with a description of the finding.
    Good(String),
    /// A problem, with advice on how to solve it.
    Bad(String),
    /// The check was not possible, with the reason.
    Unknown(String),
}

/// Checks all three records. Without a selector, looks for a DKIM key under [`USUAL_SELECTORS`].
pub(super) fn examine(
    resolver: &Resolver,
    domain: &str,
    selector: Option<&str>,
) -> [(&'static str, CheckResult); 3] {
    let ask = |name: String| resolver.texts(&name).map_err(|error| format!("cannot query {name}: {error}"));
    let spf = ask(domain.to_owned()).map_or_else(CheckResult::Unknown, |texts| spf(domain, &texts));
    let dmarc = dmarc_of(domain, &ask).unwrap_or_else(CheckResult::Unknown);
    let selectors: Vec<&str> = selector.map_or(USUAL_SELECTORS.to_vec(), |selector| vec![selector]);
    let mut dkim = CheckResult::Unknown(match selector {
        Some(selector) => format!("there is no key at {selector}._domainkey.{domain}"),
        None => {
            "no key under the usual names; pass the name that your provider uses with `--dkim-selector NAME`"
                .to_owned()
        }
    });
    if selector.is_some() {
        dkim = CheckResult::Bad(format!(
            "there is no key under that name: publish the one that your provider shows for {domain}"
        ));
    }
    for selector in selectors {
        match ask(format!("{selector}._domainkey.{domain}")) {
            Ok(texts) => {
                if let Some(found) = dkim_key(selector, &texts) {
                    dkim = found;
                    break;
                }
            }
            Err(error) => {
                dkim = CheckResult::Unknown(error);
                break;
            }
        }
    }
    [("SPF", spf), ("DKIM", dkim), ("DMARC", dmarc)]
}

/// Checks the SPF record among the text records of the domain.
fn spf(domain: &str, texts: &[String]) -> CheckResult {
    let is_spf = |text: &&String| {
        let version = text.split(' ').next().unwrap_or_default();
        version.eq_ignore_ascii_case("v=spf1")
    };
    let records: Vec<&String> = texts.iter().filter(is_spf).collect();
    match records[..] {
        [] => CheckResult::Bad(format!(
            "{domain} has no SPF record: publish a TXT record such as \"v=spf1 include:YOUR-MAIL-PROVIDER -all\", or receivers may treat its mail as forged"
        )),
        [record] => {
            let words: Vec<String> = record.split_whitespace().map(str::to_ascii_lowercase).collect();
            if words.iter().any(|word| word == "+all" || word == "all") {
                CheckResult::Bad(format!(
                    "{domain} allows any server to send its mail (\"+all\"): end the record with \"-all\" or \"~all\""
                ))
            } else {
                CheckResult::Good(record.clone())
            }
        }
        _ => CheckResult::Bad(format!(
            "{domain} has {} SPF records, which receivers treat as none: merge them into one",
            records.len()
        )),
    }
}

/// Checks the key under a selector. `None` if the text records contain no key.
fn dkim_key(selector: &str, texts: &[String]) -> Option<CheckResult> {
    let tag = |text: &str, name: &str| {
        let mut tags = text.split(';').filter_map(|tag| tag.split_once('='));
        tags.find_map(|(key, value)| (key.trim() == name).then(|| value.trim().to_owned()))
    };
    let key = texts.iter().find_map(|text| tag(text, "p"))?;
    Some(if key.is_empty() {
        CheckResult::Bad(format!("the key under \"{selector}\" was withdrawn (its p= is empty)"))
    } else {
        CheckResult::Good(format!("a key is published under \"{selector}\""))
    })
}

/// Checks the DMARC record of the domain, or else of the closest parent domain that has one.
fn dmarc_of(
    domain: &str,
    ask: &dyn Fn(String) -> Result<Vec<String>, String>,
) -> Result<CheckResult, String> {
    let mut name = domain;
    loop {
        let texts = ask(format!("_dmarc.{name}"))?;
        let is_dmarc = |text: &&String| {
            text.split(';')
                .next()
                .is_some_and(|version| version.replace(' ', "").eq_ignore_ascii_case("v=DMARC1"))
        };
        let records: Vec<&String> = texts.iter().filter(is_dmarc).collect();
        if let [record] = records[..] {
            return Ok(CheckResult::Good(record.clone()));
        }
        if records.len() > 1 {
            return Ok(CheckResult::Bad(format!(
                "_dmarc.{name} has {} records, which receivers treat as none: merge them into one",
                records.len()
            )));
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
    fn one_strict_spf_record_is_good() {
        let check = |texts: &[&str], expected: &str| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            let found = format!("{:?}", spf("example.com", &texts));
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
        let key = |text: &str| dkim_key("s", &[text.to_owned()]);
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
            assert!(matches!(dmarc_of("mail.example.com", &zone(name)), Ok(CheckResult::Good(_))), "{name}");
        }
        assert!(matches!(dmarc_of("mail.example.com", &zone("_dmarc.com")), Ok(CheckResult::Bad(_))));
        assert!(dmarc_of("example.com", &|_| Err("no".to_owned())).is_err());
    }
}
