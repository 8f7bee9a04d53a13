//! `[security]`: the other hosts from which pages may load content.

use super::reader::{Reader, key};
use super::value::{ParseResult, Raw};
use frontdesk_site::{AllowedHosts, AllowedOrigin};

/// Maximum number of hosts for one kind of content. The policy is part of every response.
const MAX_ORIGINS: usize = 20;

/// Reads `[security.allow]`.
pub(super) fn read(r: &mut Reader<'_>) -> AllowedHosts {
    AllowedHosts {
        script: r.get(
            key("security.allow.script").with_example("[\"https://plausible.example.com\"]"),
            "[]",
            "Other hosts from which pages may load content; \"https://*.example.com\" means all subdomains. By \
             default there are none (docs/pages/security.md). `script`: the host's code can read and change \
             everything on a page, also what visitors type into the forms. Web analytics need their host in \
             `connect` too, where scripts send data to it. Hosts in `frame`, `image`, `style` and `font` learn \
             the address of each visitor; those in `style` can also change what pages look like.",
            parse_origins,
        ),
        connect: r.get("security.allow.connect", "[]", "", parse_origins),
        frame: r.get("security.allow.frame", "[]", "", parse_origins),
        image: r.get("security.allow.image", "[]", "", parse_origins),
        style: r.get("security.allow.style", "[]", "", parse_origins),
        font: r.get("security.allow.font", "[]", "", parse_origins),
    }
}

fn parse_origins(raw: &Raw) -> ParseResult<Vec<AllowedOrigin>> {
    let expected = "a list of HTTPS origins such as [\"https://plausible.example.com\"]";
    let items = raw.items().ok_or(expected)?;
    if items.len() > MAX_ORIGINS {
        return Err(format!("{expected}, at most {MAX_ORIGINS}"));
    }
    let parse = |text: &str| {
        AllowedOrigin::parse(text).map_err(|error| format!("{expected}; `{text}` is none: {error}"))
    };
    items.into_iter().map(parse).collect()
}
