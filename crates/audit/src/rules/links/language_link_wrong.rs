//! Declared versions in other languages are in that language.

use crate::language::{lang_of, languages, primary_subtag};
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::rules::basics::is_language_tag;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "language-link-wrong",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The page that `hreflang` declares as a version in a language has that `lang`.",
    matters: "Search engines send people who read that language to the declared page (HTML Standard, \"The \
              `link` element\").",
    hurts: "People who read other languages, who get a page in the wrong one.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Link to the version in the declared language, or remove the link if there is none. Set `lang` \
               of each version to its language.",
    }],
    check,
};

/// Reports each declared version, of those that were fetched, whose `lang` names another language; the region
/// and the script do not count. Broken only if the version's own `hreflang` confirms its `lang` and not the
/// declared language.
fn check(survey: &Survey, findings: &mut Findings) {
    let followed = survey.links.language.as_ref();
    let followed_page = followed.and_then(|followed| Some((followed.target(), Page::read(followed.last())?)));
    let pages = &survey.first_requests.pages;
    for page in pages {
        for (url, language) in languages(page) {
            // Skip `x-default`, and invalid languages, which another rule reports.
            if language == "x-default" || !is_language_tag(&language.replace('_', "-")) {
                continue;
            }
            let known = pages.iter().find(|other| other.url == url);
            let followed_page =
                || followed_page.as_ref().filter(|(target, _)| **target == url).map(|(_, other)| other);
            let Some(other) = known.or_else(followed_page) else { continue };
            let own = lang_of(other);
            if own.is_empty() || primary_subtag(&own) == primary_subtag(&language) {
                continue;
            }
            // A template may write the same `lang` into all versions, so check the other page's own links.
            let own_links = languages(other);
            let confirms = |subtag: String| {
                own_links.iter().any(|(target, name)| *target == other.url && primary_subtag(name) == subtag)
            };
            let is_certain = confirms(primary_subtag(&own)) && !confirms(primary_subtag(&language));
            let severity = if is_certain { Severity::Broken } else { Severity::Advice };
            let message = format!(
                "The page declares {url} as its version for `hreflang=\"{language}\"`, but that page has \
                 `lang=\"{own}\"`"
            );
            findings.report_as(severity, &[&page.html, &other.html], message);
        }
    }
}
