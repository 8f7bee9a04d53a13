//! Files for programs have the right media type.

use std::sync::Arc;

use super::shared::existing;
use crate::exchange::{Exchange, Response};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "file-content-type",
    group: Group::Files,
    severity: Severity::Advice,
    checks: "`robots.txt` is `text/plain`, `llms.txt` is plain text or Markdown, JSON and YAML files are JSON \
             and YAML, and an XML sitemap is not `text/html`.",
    matters: "Programs choose a parser by the media type (RFC 9110 §8.3), and browsers download unknown \
              types. RFC 9309 §2.3 requires `text/plain` for `robots.txt`.",
    hurts: "Agents, which refuse the file; people, who get a download.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Set the media type by the extension: `.txt` is `text/plain; charset=utf-8`, `.json` is \
                   `application/json`, `.yaml` is `application/yaml`, `.xml` is `application/xml`.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "Include `mime.types` in the block `http`, and set `default_type` only for files without \
                   an extension.",
        },
        Fix {
            platform: Platform::Apache,
            text: "`AddType text/plain .txt` and `AddType application/json .json`.",
        },
        Fix { platform: Platform::Netlify, text: "Set `Content-Type` for the path in `_headers`." },
    ],
    check,
};

/// Reports each existing `robots.txt`, `llms.txt`, index of skills and API description with another media
/// type, and each XML sitemap that is `text/html`. A type that ends with `+json` or `+yaml` is accepted for
/// all others. Empty files are skipped.
fn check(survey: &Survey, findings: &mut Findings) {
    let (first_requests, files) = (&survey.first_requests, &survey.files);
    let begins = |file: &Arc<Exchange>, with: u8| {
        let start = |own: &Response| own.body.iter().find(|byte| byte.is_ascii_graphic()) == Some(&with);
        file.success().is_some_and(start)
    };
    let is_html = |file: &Arc<Exchange>| file.success().is_some_and(|own| own.media_type() == "text/html");
    let sitemaps = first_requests.sitemaps.iter().filter(|file| is_html(file) && begins(file, b'<'));
    let text = ["text/plain", "text/markdown", "text/x-markdown"];
    let json = [
        "application/json",
        "application/yaml",
        "application/x-yaml",
        "text/yaml",
        "text/x-yaml",
        "application/vnd.oai.openapi",
    ];
    // JSON is valid YAML, so JSON may have any of these types. YAML must not be `application/json`.
    let is_yaml = files.openapi.as_ref().is_some_and(|file| !begins(file, b'{'));
    let expected: [(_, &[&str]); 4] = [
        (Some(&first_requests.robots), &text[..1]),
        (first_requests.llms.as_ref(), &text),
        (files.skills_index.as_ref(), &json[..1]),
        (files.openapi.as_ref(), &json[usize::from(is_yaml)..]),
    ];
    let sitemaps = sitemaps.map(|file| (Some(file), &["application/xml"][..]));
    for (file, kinds) in expected.into_iter().chain(sitemaps) {
        let Some((file, response)) = existing(file) else { continue };
        let kind = response.media_type();
        let is_right = kinds.contains(&&*kind) || kind.ends_with("+json") || kind.ends_with("+yaml");
        if !is_right && !response.body.is_empty() {
            let kind =
                if kind.is_empty() { "without a media type".to_owned() } else { format!("as `{kind}`") };
            findings.report(&[file], format!("{} is sent {kind}: use `{}`", file.url().path(), kinds[0]));
        }
    }
}
