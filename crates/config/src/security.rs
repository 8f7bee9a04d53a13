//! `[security]`: the other hosts from which pages may load content.

use super::reader::{Reader, requests};
use super::value_parsers::{self, ParseResult, Raw};
use frontdesk_site::{AllowedOrigin, ContentOrigins};

/// Maximum number of hosts for one kind of content: every response names them in `Content-Security-Policy`.
const MAX_ORIGINS: usize = 20;

/// Reads `[security.allow]`: the hosts for each kind of content.
pub(super) fn read(r: &mut Reader<'_>) -> ContentOrigins {
    ContentOrigins {
        script: r.get(
            requests("security.allow.script").with_example("[\"https://plausible.example.com\"]"),
            "[]",
            "Other hosts from which pages may load content; \"https://*.example.com\" means all subdomains. By \
             default there are none (docs/pages/security.md). `script`: the host's code can read and change \
             everything on a page, also what visitors type into the forms. Web analytics need their host in \
             `connect` too, where scripts send data to it. Hosts in `frame`, `image`, `style` and `font` learn \
             the address of each visitor; those in `style` can also change what pages look like.",
            parse_origins,
        ),
        connect: r.get(requests("security.allow.connect"), "[]", "", parse_origins),
        frame: r.get(requests("security.allow.frame"), "[]", "", parse_origins),
        image: r.get(requests("security.allow.image"), "[]", "", parse_origins),
        style: r.get(requests("security.allow.style"), "[]", "", parse_origins),
        font: r.get(requests("security.allow.font"), "[]", "", parse_origins),
    }
}

/// Parses at most [`MAX_ORIGINS`] HTTPS origins, with `*` for all subdomains.
fn parse_origins(raw: &Raw) -> ParseResult<Vec<AllowedOrigin>> {
    let expected = "a list of HTTPS origins such as [\"https://plausible.example.com\"]";
    value_parsers::parse_list(raw, expected, MAX_ORIGINS, AllowedOrigin::parse)
}
