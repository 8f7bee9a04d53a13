//! The files that a page needs exist.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::basics::AssetKind;

pub(super) static RULE: Rule = Rule {
    id: "asset-broken",
    group: Group::Basics,
    severity: Severity::Broken,
    checks: "The stylesheets, scripts and images of the first page exist.",
    matters: "Browsers ignore a stylesheet or a script that is missing, or that is HTML: the page has no layout, \
              or does not work (HTML §4.2.4, §4.12.1).",
    hurts: "People.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Publish the files together with the pages that name them, and keep those of the previous \
                   release as long as caches have its pages. Answer 404 for files that are missing, not the start \
                   page.",
        },
        Fix {
            platform: Platform::Any,
            text: "If the site is in a folder of its host, set the base path of the generator.",
        },
    ],
    check,
};

/// Reports each requested stylesheet, script and image that a browser cannot use: its status is 404, 410 or
/// at least 500, or it is HTML with status 200.
fn check(survey: &Survey, findings: &mut Findings) {
    for asset in &survey.basics.assets {
        let Some(failure) = asset.failure() else { continue };
        let name = match asset.kind {
            AssetKind::Stylesheet => "A stylesheet",
            AssetKind::Script => "A script",
            AssetKind::Image => "An image",
        };
        let page = &survey.first_requests.pages[0].html;
        findings.report(
            &[page, &asset.exchange],
            format!("{name} of the page {failure}: {}", asset.exchange.url()),
        );
    }
}
