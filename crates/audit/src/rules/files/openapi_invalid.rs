//! The API description is valid OpenAPI.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::shared::{MAX_FINDINGS, existing};
use crate::exchange::Exchange;
use crate::openapi::OpenApi;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::files::OpenApiSource;

pub(super) static RULE: Rule = Rule {
    id: "openapi-invalid",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "The API description can be parsed; it has a version, paths and a title; and each reference has \
             a target.",
    matters: "Agents and generators build requests from it (OpenAPI Specification 3.1, \"Schema\"), and stop \
              at the first error.",
    hurts: "Agents, which cannot call the API.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Generate the description from the code that serves the API, and validate it in the build, for \
               example with `redocly lint`.",
    }],
    check,
};

/// Judges the API description. [`check_declared`] judges one that does not exist or is an HTML page. One that
/// is not whole is noted as not judged; versions other than 3 are skipped. A file that is not OpenAPI is only
/// reported if its path or media type claims that it is.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some((file, response)) = existing(survey.files.openapi.as_ref()) else {
        return check_declared(survey, findings);
    };
    if !response.is_whole {
        findings.not_judged("the API description did not arrive completely");
        return;
    }
    let path = file.url().path().to_ascii_lowercase();
    // Report only documents that claim to be OpenAPI: an API may be described in another format.
    let claims = |text: &str| text.contains("openapi") || text.contains("swagger");
    let is_claimed = claims(&path) || claims(&response.media_type());
    if let Some(api) = &survey.files.api {
        if api.version().starts_with("3.") {
            check_document(api, file, findings);
        }
    } else if is_claimed {
        let reason = OpenApi::parse(file).err().unwrap_or_else(|| "it has no version (`openapi`)".to_owned());
        findings.report(
            &[file],
            format!("{} returns 200, but is not an OpenAPI description: {reason}", file.url().path()),
        );
    }
}

/// Reports a description that a page or the API catalog names, but that is an HTML page or does not exist.
/// Missing documents of the catalog are another rule's finding.
fn check_declared(survey: &Survey, findings: &mut Findings) {
    let (source, Some(file)) = (survey.files.openapi_source, &survey.files.openapi) else { return };
    let Some(response) = file.response().filter(|_| source != OpenApiSource::Guess) else { return };
    let (url, status) = (file.url(), response.status.as_u16());
    if matches!(status, 404 | 410) && source == OpenApiSource::Page {
        findings.report(
            &[file],
            format!(
                "A page links to {url} as `service-desc`, which returns {status}: publish it or remove the \
                 link"
            ),
        );
    } else if status == 200 {
        // With status 200, the file can only be an HTML page: [`existing`] accepts all other files.
        let message = format!(
            "{url} is linked as `service-desc`, but is an HTML page: link to a description for programs"
        );
        findings.report_as(Severity::Advice, &[file], message);
    }
}

/// Reports a description without `paths`, `webhooks` and `components`, and references that lead nowhere; as
/// advice, a missing `info.title` or `info.version`, the first path that does not begin with `/`, and in
/// OpenAPI 3.0 operations without `responses`. At most [`MAX_FINDINGS`] of one kind.
fn check_document(api: &OpenApi, file: &Arc<Exchange>, findings: &mut Findings) {
    let document = &api.document;
    if !["paths", "webhooks", "components"].iter().any(|key| document.get(key).is_some_and(Value::is_object))
    {
        findings.report(&[file], "The API description has no `paths`: add the operations");
    }
    for reference in unresolved_references(api).into_iter().take(MAX_FINDINGS) {
        findings.report(
            &[file],
            format!("The API description refers to `{reference}`, which does not exist: add it"),
        );
    }
    let mut advise = |message: String| findings.report_as(Severity::Advice, &[file], message);
    for key in ["title", "version"] {
        if document.pointer(&format!("/info/{key}")).and_then(Value::as_str).is_none() {
            advise(format!("`info.{key}` in the API description is required: set it to a string"));
        }
    }
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    if let Some((path, _)) =
        paths.into_iter().find(|(path, _)| !path.starts_with('/') && !path.starts_with("x-"))
    {
        advise(format!(
            "The path `{path}` in the API description does not begin with `/`, which is required"
        ));
    }
    // Since OpenAPI 3.1, an operation may omit `responses`.
    let needs_responses = api.version().starts_with("3.0");
    let operations = api.operations().into_iter().filter(|_| needs_responses);
    let silent = operations.filter(|described| described.operation.get("responses").is_none());
    for described in silent.take(MAX_FINDINGS) {
        let (method, path) = (described.method.to_ascii_uppercase(), described.path);
        advise(format!(
            "{method} {path} has no `responses` in the API description, which OpenAPI 3.0 requires"
        ));
    }
}

/// Local references that lead nowhere, each once. Skips examples, defaults and other data, extensions (`x-`),
/// and schemas with an `$id`, in which references have another base.
fn unresolved_references(api: &OpenApi) -> BTreeSet<&str> {
    const DATA: [&str; 5] = ["example", "examples", "default", "enum", "const"];
    const MAPS: [&str; 8] = [
        "properties",
        "patternProperties",
        "schemas",
        "responses",
        "parameters",
        "headers",
        "requestBodies",
        "$defs",
    ];
    let mut unresolved = BTreeSet::new();
    // Values to visit, each with `true` if its keys are names that the author chose, not OpenAPI keywords.
    let mut left = vec![(&api.document, false)];
    while let Some((value, has_names)) = left.pop() {
        if let Some(list) = value.as_array() {
            left.extend(list.iter().map(|item| (item, false)));
        }
        let Some(object) = value.as_object() else { continue };
        if !has_names && object.contains_key("$id") {
            continue;
        }
        let reference = object.get("$ref").and_then(Value::as_str).filter(|text| text.starts_with("#/"));
        unresolved.extend(reference.filter(|reference| api.find(reference).is_none()));
        for (key, inner) in object {
            if has_names || !(DATA.contains(&&**key) || key.starts_with("x-")) {
                left.push((inner, !has_names && MAPS.contains(&&**key)));
            }
        }
    }
    unresolved
}
