//! Links within a page have a target.

use std::borrow::Cow;
use std::collections::HashSet;

use frontdesk_convert::Selector;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "anchor-missing",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "Each fragment link within a page, such as `#install`, names the `id` of an element.",
    matters: "Otherwise the link does nothing (HTML, “Scrolling to a fragment”), unless a script adds the \
              element later.",
    hurts: "People and agents, who do not find the section.",
    fixes: &[Fix { platform: Platform::Any, text: "Add the `id` to the heading, or correct the link." }],
    check,
};

/// Reports one finding for each readable page: how many fragments of links in the content ([`fragments`])
/// lack a target, and the first in alphabetical order.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.readable_pages() {
        let ids = anchors(page);
        let mut missing: Vec<_> =
            fragments(page).into_iter().filter(|fragment| !is_target(&ids, fragment)).collect();
        missing.sort_unstable();
        missing.dedup();
        if let Some(first) = missing.first() {
            findings.report(
                &[&page.html],
                format!(
                    "The page has no `id` for {} of its fragment links, starting with `#{first}`",
                    missing.len()
                ),
            );
        }
    }
}

/// The characters that browsers percent-encode in a fragment (URL Standard, "fragment percent-encode set").
const FRAGMENT: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`');

/// Whether one of the `id`s is the fragment, in the form of a parsed URL or as written, or else its
/// percent-decoded form (HTML, “Scrolling to a fragment”).
fn is_target(ids: &HashSet<&str>, fragment: &str) -> bool {
    ids.contains(fragment)
        || ids.contains(&*Cow::from(utf8_percent_encode(fragment, FRAGMENT)))
        || ids.contains(&*percent_decode_str(fragment).decode_utf8_lossy())
}

/// The fragments of the links in `<main>` and `<article>` that begin with `#`, as written. The top of the
/// page, text fragments, and the buttons, routes and parameters (`=`) of scripts need no element.
fn fragments(page: &Page) -> Vec<&str> {
    let links = page.select(":is(main, article) a[href*='#']:not([role=button])").into_iter();
    let fragments = links.filter_map(|link| {
        let fragment = link.attribute("href")?.trim().strip_prefix('#')?;
        let is_route = fragment.is_empty()
            || fragment.starts_with(['/', '!', ':', '?'])
            || fragment.contains('=')
            || fragment.contains("%3D");
        (!is_route && !fragment.eq_ignore_ascii_case("top")).then_some(fragment)
    });
    fragments.collect()
}

/// The anchors of a page: each `id`, and each `name` of an `<a>`. Also those in a `<template>`, which a
/// script may add to the page.
fn anchors(page: &Page) -> HashSet<&str> {
    let all = |css: &str| Selector::parse(css).map_or_else(|_| Vec::new(), |css| page.tree.all(&css));
    let ids = all("[id]").into_iter().filter_map(|element| element.attribute("id"));
    let names = all("a[name]").into_iter().filter_map(|element| element.attribute("name"));
    ids.chain(names).collect()
}
