//! Code that rules of the group links share.

use crate::rule::Findings;
use crate::survey::links::Probe;

/// Reports each followed link that [failed](Probe::failure). `source` is the subject of the message, such as
/// “The sitemap”.
pub(super) fn report_broken<'a>(
    findings: &mut Findings,
    source: &str,
    probes: impl IntoIterator<Item = &'a Probe>,
) {
    for probe in probes {
        let Some(status) = probe.failure() else { continue };
        let target = probe.target();
        let last = probe.last().url();
        let way = if last == target { String::new() } else { format!(" redirects to {last}, which") };
        findings.report(
            &[&probe.source, probe.last()],
            format!("{source} links to {target}, which{way} returns {status}"),
        );
    }
}
