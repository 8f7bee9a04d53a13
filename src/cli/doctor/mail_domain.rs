//! What the records of a domain say about mail from it: SPF (RFC 7208), DKIM (RFC 6376), DMARC (RFC 7489). Pure, but for the asking.

use super::dns::Resolver;

/// Under which names providers usually publish the key that they sign with.
const USUAL_SELECTORS: [&str; 12] =
    ["default", "mail", "dkim", "google", "selector1", "selector2", "k1", "k2", "s1", "s2", "smtp", "key1"];

/// What was found of one kind of record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is as it should be; what it says.
    Good(String),
    /// It is missing or says what harms; what to do.
    Bad(String),
    /// It could not be looked at, or nothing follows from it; why.
    Unknown(String),
}

/// Looks at all three.
pub(super) fn examine(
    resolver: &Resolver,
    domain: &str,
    selector: Option<&str>,
) -> [(&'static str, Finding); 3] {
    let ask = |name: String| {
        resolver.texts(&name).map_err(|error| format!("{name} could not be asked for: {error}"))
    };
    let spf = ask(domain.to_owned()).map_or_else(Finding::Unknown, |texts| spf(domain, &texts));
    let dmarc = dmarc_of(domain, &ask).unwrap_or_else(Finding::Unknown);
    let selectors: Vec<&str> = selector.map_or(USUAL_SELECTORS.to_vec(), |selector| vec![selector]);
    let mut dkim = Finding::Unknown(match selector {
        Some(selector) => format!("there is no key at {selector}._domainkey.{domain}"),
        None => {
            "no key under the usual names; `--dkim-selector NAME` looks under the one that your provider uses"
                .to_owned()
        }
    });
    if selector.is_some() {
        dkim = Finding::Bad(format!(
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
                dkim = Finding::Unknown(error);
                break;
            }
        }
    }
    [("SPF", spf), ("DKIM", dkim), ("DMARC", dmarc)]
}

fn spf(domain: &str, texts: &[String]) -> Finding {
    let is_spf = |text: &&String| {
        let version = text.split(' ').next().unwrap_or_default();
        version.eq_ignore_ascii_case("v=spf1")
    };
    let records: Vec<&String> = texts.iter().filter(is_spf).collect();
    match records[..] {
        [] => Finding::Bad(format!(
            "{domain} has no SPF record: publish a TXT record such as \"v=spf1 include:YOUR-MAIL-PROVIDER -all\", or its mail may be taken for forged"
        )),
        [record] => {
            let words: Vec<String> = record.split_whitespace().map(str::to_ascii_lowercase).collect();
            if words.iter().any(|word| word == "+all" || word == "all") {
                Finding::Bad(format!(
                    "{domain} lets everybody send its mail (\"+all\"): end the record with \"-all\" or \"~all\""
                ))
            } else {
                Finding::Good(record.clone())
            }
        }
        _ => Finding::Bad(format!(
            "{domain} has {} SPF records, which counts as none: join them into one",
            records.len()
        )),
    }
}

fn dkim_key(selector: &str, texts: &[String]) -> Option<Finding> {
    let tag = |text: &str, name: &str| {
        let mut tags = text.split(';').filter_map(|tag| tag.split_once('='));
        tags.find_map(|(key, value)| (key.trim() == name).then(|| value.trim().to_owned()))
    };
    let key = texts.iter().find_map(|text| tag(text, "p"))?;
    Some(if key.is_empty() {
        Finding::Bad(format!("the key under \"{selector}\" was withdrawn (its p= is empty)"))
    } else {
        Finding::Good(format!("a key is published under \"{selector}\""))
    })
}

/// The domain's own policy, or that of the organisation that it belongs to, which is looked for by leaving out labels.
fn dmarc_of(domain: &str, ask: &dyn Fn(String) -> Result<Vec<String>, String>) -> Result<Finding, String> {
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
            return Ok(Finding::Good(record.clone()));
        }
        if records.len() > 1 {
            return Ok(Finding::Bad(format!(
                "_dmarc.{name} has {} records, which counts as none: join them into one",
                records.len()
            )));
        }
        match name.split_once('.') {
            Some((_, parent)) if parent.contains('.') => name = parent,
            _ => break,
        }
    }
    Ok(Finding::Bad(format!(
        "{domain} has no DMARC record: publish a TXT record at _dmarc.{domain} such as \"v=DMARC1; p=none; rua=mailto:YOU@{domain}\""
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spf_record_that_does_not_let_everybody_in_is_good() {
        let check = |texts: &[&str], expected: &str| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            let found = format!("{:?}", spf("example.com", &texts));
            assert!(found.starts_with(expected), "{texts:?}: {found}");
        };
        check(&["v=spf1 include:mail.example.com -all", "other"], "Good(\"v=spf1 include");
        check(&["V=SPF1 ~all"], "Good");
        check(&["v=spf10 -all"], "Bad(\"example.com has no SPF");
        check(&[], "Bad(\"example.com has no SPF");
        check(&["v=spf1 +all"], "Bad(\"example.com lets everybody");
        check(&["v=spf1 -all", "v=spf1 mx -all"], "Bad(\"example.com has 2 SPF");
    }

    #[test]
    fn a_key_may_be_there_or_withdrawn() {
        let key = |text: &str| dkim_key("s", &[text.to_owned()]);
        assert!(matches!(key("v=DKIM1; k=rsa; p=MIIB"), Some(Finding::Good(_))));
        assert!(matches!(key("p=MIIB"), Some(Finding::Good(_))));
        assert!(matches!(key("v=DKIM1; p="), Some(Finding::Bad(_))));
        assert_eq!(key("v=spf1 -all"), None);
    }

    #[test]
    fn the_policy_may_be_the_parents() {
        let zone = |wanted: &'static str| {
            move |name: String| {
                Ok(if name == wanted { vec!["v=DMARC1; p=reject".to_owned()] } else { Vec::new() })
            }
        };
        for name in ["_dmarc.mail.example.com", "_dmarc.example.com"] {
            assert!(matches!(dmarc_of("mail.example.com", &zone(name)), Ok(Finding::Good(_))), "{name}");
        }
        assert!(matches!(dmarc_of("mail.example.com", &zone("_dmarc.com")), Ok(Finding::Bad(_))));
        assert!(dmarc_of("example.com", &|_| Err("no".to_owned())).is_err());
    }
}
