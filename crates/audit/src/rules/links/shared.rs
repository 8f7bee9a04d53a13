//! Code that rules of the group links share.

use crate::rule::Findings;
use crate::survey::links::FollowedLink;

/// Reports each followed link that [failed](FollowedLink::failure). `source` is the subject of the message,
/// such as “The sitemap”.
pub(super) fn report_broken<'a>(
    findings: &mut Findings,
    source: &str,
    links: impl IntoIterator<Item = &'a FollowedLink>,
) {
    for link in links {
        let Some(status) = link.failure() else { continue };
        let target = link.target();
        let last = link.last().url();
        let way = if last == target { String::new() } else { format!(" redirects to {last}, which") };
        findings.report(
            &[&link.source, link.last()],
            format!("{source} links to {target}, which{way} returns {status}"),
        );
    }
}
