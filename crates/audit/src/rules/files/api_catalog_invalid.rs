//! The API catalog is a link set.

use serde_json::Value;

use super::shared::{existing, read_json};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-catalog-invalid",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "`/.well-known/api-catalog` is a JSON link set with its media type.",
    matters: "RFC 9264 §4.2 defines how clients read the links, and RFC 9727 §2 requires \
              `application/linkset+json`.",
    hurts: "Agents, which do not find the API.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Send `{\"linkset\": [{\"anchor\": \"…\", \"service-desc\": [{\"href\": \"…\"}]}]}` as \
                   `application/linkset+json`.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`location = /.well-known/api-catalog { default_type application/linkset+json; }`",
        },
        Fix {
            platform: Platform::Caddy,
            text: "`header /.well-known/api-catalog Content-Type application/linkset+json`",
        },
        Fix {
            platform: Platform::Netlify,
            text: "`Content-Type: application/linkset+json` for the path in `_headers`.",
        },
        Fix {
            platform: Platform::Apache,
            text: "`<Files \"api-catalog\">` with `ForceType application/linkset+json`.",
        },
    ],
    check,
};

/// Reports a catalog that is not JSON, lacks `linkset`, or has faulty links; as advice, one without links
/// or with another media type. One sent as `application/linkset` is not JSON and is not judged. Ignores
/// HTML pages and statuses other than 200 ([`existing`]).
fn check(survey: &Survey, findings: &mut Findings) {
    let catalog = survey.files.api_catalog.as_ref();
    let kind = existing(catalog).map(|(_, response)| response.media_type()).unwrap_or_default();
    if kind == "application/linkset" {
        return;
    }
    let Some((catalog, value)) = read_json(catalog, findings) else { return };
    let Some(contexts) = value.get("linkset").and_then(Value::as_array) else {
        findings.report(
            &[catalog],
            "The API catalog is JSON without the array `linkset`, so it has no links: add it",
        );
        return;
    };
    let relations = contexts.iter().flat_map(|context| context.as_object().into_iter().flatten());
    let links = relations.filter(|(name, _)| *name != "anchor");
    if let Some((name, _)) = links.clone().find(|(_, targets)| !are_links(targets)) {
        let message = format!("`{name}` in the API catalog must be an array of objects with `href`");
        findings.report(&[catalog], message);
    } else if links.count() == 0 {
        findings.report_as(
            Severity::Advice,
            &[catalog],
            "The API catalog has no links: add one for each API description",
        );
    }
    if kind != "application/linkset+json" {
        let kind = if kind.is_empty() { "without a media type".to_owned() } else { format!("as `{kind}`") };
        let message = format!("The API catalog is sent {kind}: `application/linkset+json` is required");
        findings.report_as(Severity::Advice, &[catalog], message);
    }
}

fn are_links(targets: &Value) -> bool {
    let has_address = |target: &Value| target.get("href").is_some_and(Value::is_string);
    targets.as_array().is_some_and(|targets| targets.iter().all(has_address))
}
