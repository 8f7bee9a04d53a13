//! Planted faults of caching.

use frontdesk_audit::Severity;

use crate::site::FakeSite;

#[test]
fn a_page_without_vary_is_found() {
    let site = FakeSite::with_fault(|_, answer| match answer.status {
        200 => answer.with("vary", ""),
        _ => answer,
    });
    site.assert_finds("vary-missing-page", Severity::Broken);
}
