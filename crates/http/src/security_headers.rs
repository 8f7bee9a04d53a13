//! Headers that protect pages in browsers. The server adds none of them: each handler chooses.

use http::header::{HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};

pub const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The security headers of a site's own pages, with strict values. The content security policy is not among
/// them.
pub const SECURITY_HEADERS: [(HeaderName, &str); 5] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "strict-origin-when-cross-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()",
    ),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
];
