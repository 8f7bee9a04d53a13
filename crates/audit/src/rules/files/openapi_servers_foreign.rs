//! The servers of the API belong to the site.

use frontdesk_convert::Url;
use serde_json::Value;

use super::shared::MAX_FINDINGS;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "openapi-servers-foreign",
    group: Group::Files,
    severity: Severity::Advice,
    checks: "The `servers` of the API description have the scheme and the domain of the site.",
    matters: "Agents send their requests to these servers (OpenAPI Specification, \"Server Object\"). If the \
              URL of a test system or of another site was left there, that system gets them, possibly \
              unencrypted.",
    hurts: "People, whose data goes to the wrong server.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write `{\"url\": \"/\"}` or the public URL of the API, and let the build set it for each \
               environment.",
    }],
    check,
};

/// Reports servers on another domain, and `http` servers of an `https` site, among the first
/// [`MAX_FINDINGS`] servers of the document.
fn check(survey: &Survey, findings: &mut Findings) {
    let (Some(api), Some(file)) = (&survey.files.api, &survey.files.openapi) else { return };
    let site = &survey.first_requests.url;
    let servers = api.document.get("servers").and_then(Value::as_array);
    for server in servers.into_iter().flatten().take(MAX_FINDINGS) {
        let Some(url) = api.server_url(server) else { continue };
        if !shares_domain(&url, site) {
            let message = format!(
                "The API description names the server {url}, which is on another domain: name the public \
                 server of this site"
            );
            findings.report(&[file], message);
        } else if url.scheme() == "http" && site.scheme() == "https" {
            let message = format!("The API description names the server {url}: use `https`");
            findings.report(&[file], message);
        }
    }
}

/// Whether both hosts are equal or are domain names with the same last two labels.
fn shares_domain(url: &Url, other: &Url) -> bool {
    let domain = |url: &Url| {
        let labels: Vec<_> = url.domain()?.rsplit('.').take(2).map(str::to_owned).collect();
        (labels.len() == 2).then_some(labels)
    };
    url.host_str() == other.host_str() || domain(url).is_some_and(|own| Some(own) == domain(other))
}
