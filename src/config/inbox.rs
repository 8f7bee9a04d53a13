//! `[inbox]`: the private address of the inbox's web interface, and who may use it.

use super::inbox_domain;
use super::reader::{Reader, requests, restart};
use super::server::resolve_socket_path;
use super::value::{self, ParseResult, Raw, parse_items, parse_text};
use frontdesk_desk::{DeskOptions, HostName};
use frontdesk_http::Address;

/// Reads `[inbox]`, and returns the address of the web interface, if it is enabled, with its options except
/// those of other sections. Refuses an address that other machines can reach, unless it has a domain for
/// TLS, a proxy authenticates users, or `allow_remote` is set.
pub(super) fn read(r: &mut Reader<'_>) -> (Option<Address>, DeskOptions) {
    let mut listen = r.get(
        restart("inbox.listen").set_in_starter_file("\"127.0.0.1:8082\""),
        "off",
        "The private address of the inbox's web interface (docs/pages/inbox.md), a Unix socket such as \
         \"unix:/run/frontdesk/inbox.sock\", or \"off\". `frontdesk inbox open` prints a link that logs you in. \
         Never publish this address without `domain`.",
        value::optional_listen_address,
    );
    if let Some(address) = &mut listen {
        resolve_socket_path(address, r.site_folder());
    }
    let options = DeskOptions {
        hosts: r.get(
            requests("inbox.host").with_example("[\"inbox.example.com\"]"),
            "[]",
            "Host names of the web interface behind a proxy or in a private network. Requests with another \
             `Host` than these, the address itself or localhost are refused.",
            parse_hosts,
        ),
        user_header: r.get(
            requests("inbox.user_header").with_example("\"x-auth-user\""),
            "",
            "The header with the name of the user that a proxy has authenticated. The server trusts it only from \
             `trusted_proxies` and on a Unix socket. The proxy must set it in each request, and replace a value \
             that the client sent.",
            value::optional(parse_header),
        ),
        trusted_proxies: r.get(
            requests("inbox.trusted_proxies").with_example("[\"127.0.0.1\"]"),
            "[]",
            "",
            value::parse_networks,
        ),
        ..DeskOptions::default()
    };
    let options = DeskOptions { domain: inbox_domain::read(r), ..options };
    let may_be_remote = r.get(
        requests("inbox.allow_remote"),
        "false",
        "Whether `listen` may be an address that other machines can reach without TLS, as in a container. \
         Restrict the access by other means.",
        value::parse_bool,
    );
    let is_remote = matches!(&listen, Some(Address::Tcp(address)) if !address.ip().is_loopback());
    let has_proxy = options.user_header.is_some() && !options.trusted_proxies.is_empty();
    r.refuse_if(
        is_remote && !has_proxy && !may_be_remote && options.domain.is_none(),
        "inbox.listen",
        "is not a loopback address: set `domain` for TLS, `user_header` and `trusted_proxies` to a proxy that authenticates users, or `allow_remote = true`",
    );
    r.refuse_if(
        options.user_header.is_some()
            && options.trusted_proxies.is_empty()
            && matches!(listen, Some(Address::Tcp(_))),
        "inbox.user_header",
        "has no effect without `trusted_proxies`",
    );
    (listen, options)
}

/// Records an error if the address of the web interface is also one of the `others`: the same port of the
/// same IP address, or of all, or the same Unix socket. Port 0 never is.
pub(super) fn refuse_shared_address<'a>(
    r: &mut Reader<'_>,
    listen: Option<&Address>,
    others: impl IntoIterator<Item = &'a Address>,
) {
    let is_fixed = |address: &&Address| !matches!(address, Address::Tcp(tcp) if tcp.port() == 0);
    let overlaps = |other: &Address, own: &Address| match (own, other) {
        (Address::Tcp(own), Address::Tcp(other)) => {
            let is_same = own.ip() == other.ip() || own.ip().is_unspecified() || other.ip().is_unspecified();
            own.port() == other.port() && is_same
        }
        (own, other) => own == other,
    };
    let own = listen.filter(is_fixed);
    let is_shared = own.is_some_and(|own| others.into_iter().any(|other| overlaps(other, own)));
    r.refuse_if(
        is_shared,
        "inbox.listen",
        "is also another listener's address: the inbox needs one of its own",
    );
}

fn parse_hosts(raw: &Raw) -> ParseResult<Vec<HostName>> {
    parse_items(raw, "a list of host names such as [\"inbox.example.com\"]", |item| item.parse().ok())
}

/// Parses the name of a header. Refuses names that browsers or HTTP give a meaning.
fn parse_header(raw: &Raw) -> ParseResult<http::HeaderName> {
    /// Headers that browsers set, or whose meaning HTTP defines.
    const RESERVED: [&str; 6] =
        ["host", "origin", "cookie", "authorization", "content-type", "content-length"];
    parse_text(raw, "the name of a header such as \"x-auth-user\"", |text| {
        let name: http::HeaderName = text.parse().ok()?;
        (!RESERVED.contains(&name.as_str()) && !name.as_str().starts_with("sec-")).then_some(name)
    })
}
