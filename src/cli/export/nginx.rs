//! Writes the configuration of nginx: `http.conf` describes the site in `map` blocks, `server.conf` is nearly
//! the same for every site.
//!
//! It needs no modules. nginx sends files; variables select the file and the value of each header, by path
//! (`$frontdesk_entry`), representation, encoding and result (`$frontdesk_answer`).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::layout::{ExportLayout, StoredRepresentation, UrlContent};
use super::map::{NginxMap, quote};
use super::negotiation;
use crate::forms::MAX_BODY_BYTES;
use crate::web::describe::RecordedResponse;
use crate::web::tls::Hsts;
use crate::web::trusted_proxies::{
    FORWARDED, TRUSTED_HEADERS, X_FORWARDED_FOR, X_FORWARDED_PROTO, X_REQUEST_ID,
};
use crate::web::{ForwardedHeader, WebOptions};

/// Escapes dollars, so that the text contains no variables.
fn literal(text: &str) -> String {
    text.replace('$', "${frontdesk_dollar}")
}

/// A regular expression that matches only this text.
fn exact_expression(text: &str) -> String {
    let mut expression = String::from("^");
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'/' {
            expression.push(char::from(byte));
        } else {
            let _ = write!(expression, "\\x{byte:02x}");
        }
    }
    expression.push_str("\\z");
    expression
}

/// The `map` blocks from files to their names and headers.
struct FileTable {
    /// Numbers by name, in the order of the first use.
    numbers: HashMap<String, usize>,
    name: NginxMap,
    etag: NginxMap,
    has: NginxMap,
    content_type: NginxMap,
    cache_control: NginxMap,
    link: NginxMap,
    common_cache_control: String,
}

impl FileTable {
    fn new(layout: &ExportLayout) -> Self {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for stored in layout.places().flat_map(UrlContent::stored) {
            *counts
                .entry(stored.identity().reply.header("cache-control").unwrap_or_default())
                .or_default() += 1;
        }
        let common = counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(value, _)| value);
        let mut cache_control = NginxMap::new("$frontdesk_file", "$frontdesk_file_cache_control");
        cache_control.default(&literal(common));
        let with_default = |source, variable| {
            let mut map = NginxMap::new(source, variable);
            map.default("");
            map
        };
        Self {
            numbers: HashMap::new(),
            name: with_default("$frontdesk_body", "$frontdesk_name"),
            etag: with_default("$frontdesk_body", "$frontdesk_etag"),
            has: with_default("$frontdesk_file", "$frontdesk_has"),
            content_type: with_default("$frontdesk_file", "$frontdesk_file_content_type"),
            cache_control,
            link: with_default("$frontdesk_file", "$frontdesk_file_link"),
            common_cache_control: common.to_owned(),
        }
    }

    /// The id of a file, such as `f7`. Adds the file on first use.
    fn id(&mut self, stored: &StoredRepresentation) -> String {
        let identity = stored.identity();
        // The page for missing URLs has a different status and no validator.
        let key = format!("{} {}", identity.reply.status, identity.name);
        let next = self.numbers.len();
        let number = *self.numbers.entry(key).or_insert(next);
        let id = format!("f{number}");
        if number < next {
            return id;
        }
        for coded in &stored.0 {
            let body = match coded.encoding.token() {
                None => id.clone(),
                Some(token) => format!("{id}-{token}"),
            };
            self.name.exactly(&body, &literal(&format!("/{}", coded.name)));
            if let Some(etag) = coded.reply.header("etag") {
                self.etag.exactly(&body, &literal(etag));
            }
        }
        let has = negotiation::letters(stored.0.iter().map(|coded| coded.encoding));
        // The response varies by encoding even if no encoding is shorter than the identity.
        let varies = identity.reply.header("vary").is_some_and(|vary| vary.contains("Accept-Encoding"));
        if varies {
            self.has.exactly(&id, if has.is_empty() { "-" } else { &has });
        }
        let add = |map: &mut NginxMap, name: &str, common: &str| {
            if let Some(value) = identity.reply.header(name).filter(|value| *value != common) {
                map.exactly(&id, &literal(value));
            }
        };
        add(&mut self.content_type, "content-type", "");
        add(&mut self.cache_control, "cache-control", &self.common_cache_control);
        add(&mut self.link, "link", "");
        id
    }
}

/// `http.conf`, for the block `http { }`.
pub(super) fn http(layout: &ExportLayout, replicas: &[String], options: &WebOptions) -> String {
    let mut files = FileTable::new(layout);
    let entry_map = |variable| NginxMap::new("$frontdesk_entry", variable);
    let (mut html, mut markdown) = (entry_map("$frontdesk_html"), entry_map("$frontdesk_markdown"));
    let (mut link, mut text) = (entry_map("$frontdesk_alternates"), entry_map("$frontdesk_not_acceptable"));
    let mut location = entry_map("$frontdesk_target");
    let mut lookup = NginxMap::new("$uri", "$frontdesk_lookup");
    lookup.default("");
    let (missing_link, missing_text) = match &layout.missing {
        UrlContent::Page { html: of_html, markdown: of_markdown, neither } => {
            html.default(&files.id(of_html));
            markdown.default(&files.id(of_markdown));
            (neither.header("link").unwrap_or_default(), body(neither))
        }
        UrlContent::File(_) | UrlContent::Moved(_) => ("", String::new()),
    };
    link.default(&literal(missing_link));
    text.default(&literal(&missing_text));
    location.default("");

    let (mut pages, mut moved) = (0, 0);
    let mut entries = Vec::new();
    for (path, place) in &layout.urls {
        let id = match place {
            UrlContent::Page { html: of_html, markdown: of_markdown, neither } => {
                let id = format!("p{pages}");
                pages += 1;
                html.exactly(&id, &files.id(of_html));
                markdown.exactly(&id, &files.id(of_markdown));
                link.exactly(&id, &literal(neither.header("link").unwrap_or_default()));
                text.exactly(&id, &literal(&body(neither)));
                id
            }
            UrlContent::File(stored) => files.id(stored),
            UrlContent::Moved(reply) => {
                let id = format!("r{moved}");
                moved += 1;
                location.exactly(&id, &literal(reply.header("location").unwrap_or_default()));
                id
            }
        };
        entries.push((path, id));
    }
    // nginx ignores the case of texts, so paths that differ only in case need regular expressions.
    let mut folded: HashMap<String, usize> = HashMap::new();
    for (path, _) in &entries {
        *folded.entry(path.to_ascii_lowercase()).or_default() += 1;
    }
    for (path, id) in entries {
        let value = literal(&format!("{id} {path}"));
        if folded[&path.to_ascii_lowercase()] == 1 {
            lookup.exactly(path, &value);
        } else {
            lookup.expression(&exact_expression(path), &value);
        }
    }

    let mut maps = vec![lookup, entry(), ambiguous()];
    maps.extend(negotiation::media());
    maps.extend([html, markdown, link, text, location]);
    maps.push(file());
    let FileTable { name, etag, has, content_type, cache_control, link, .. } = files;
    maps.extend([has, content_type, cache_control, link]);
    maps.extend(negotiation::encoding());
    maps.push(coded());
    maps.extend([name, etag, unmodified(), answer(), sent()]);
    maps.extend(headers(layout));
    maps.extend(towards_replicas(options));

    let longest = maps.iter().map(NginxMap::longest).max().unwrap_or_default();
    let most = maps.iter().map(NginxMap::len).max().unwrap_or_default();
    let mut conf = String::from(HTTP_HEAD);
    // A bucket must hold the longest text with nginx's own data, and the table needs several slots per text.
    let _ = writeln!(conf, "map_hash_bucket_size {};", (longest + 64).next_power_of_two());
    let _ = writeln!(conf, "map_hash_max_size {};", (most * 4).next_power_of_two().max(2048));
    conf.push_str("variables_hash_bucket_size 128;\nvariables_hash_max_size 2048;\n");
    conf.push_str(
        "\n# Other values cannot contain a literal dollar.\ngeo $frontdesk_dollar {\n    default \"$\";\n}\n",
    );
    conf.push_str("\n# The servers for the forms.\nupstream frontdesk_replicas {\n");
    for replica in replicas {
        let _ = writeln!(conf, "    server {};", quote(replica));
    }
    conf.push_str("    keepalive 16;\n}\n");
    for map in &maps {
        map.write(&mut conf);
    }
    conf
}

fn body(reply: &RecordedResponse) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// The entry of a path with exactly this case: `p` and a number is a page, `f` a file, `r` a redirect. `e` is
/// an unknown path below `/api/`.
fn entry() -> NginxMap {
    let mut map = NginxMap::new("$frontdesk_lookup\\n$uri", "$frontdesk_entry");
    map.default("");
    map.expression(r"^([pfr]\d+) ([^\n]*)\n\2\z", "$1");
    map.expression(r"^[^\n]*\n/api/", "e");
    map
}

/// Whether servers may interpret the path differently.
fn ambiguous() -> NginxMap {
    let mut map = NginxMap::new("$request_uri", "$frontdesk_ambiguous");
    map.default("0");
    map.expression_of_any_case(
        r"^[^?]*?(?:/(?:\.|%2e){1,2}(?:[/?]|\z)|//|%2f|\\|%5c|%[01][0-9a-f]|%7f|%c2%[89][0-9a-f])",
        "1",
    );
    map
}

/// The file in the chosen representation.
fn file() -> NginxMap {
    let mut map = NginxMap::new("$frontdesk_entry $frontdesk_media", "$frontdesk_file");
    map.default("");
    map.expression(r"^(f\d+) ", "$1");
    map.expression(r"^(?:p\d+)? html\z", "$frontdesk_html");
    map.expression(r"^(?:p\d+)? markdown\z", "$frontdesk_markdown");
    map
}

/// The file in the chosen encoding.
fn coded() -> NginxMap {
    let mut map = NginxMap::new("$frontdesk_file:$frontdesk_encoding", "$frontdesk_body");
    map.default("");
    map.expression(r"^(f\d+):\z", "$1");
    map.expression(r"^(f\d+):(\w+)\z", "$1-$2");
    map
}

/// Whether the client has these bytes already: `If-None-Match` names the validator, or is `*`.
fn unmodified() -> NginxMap {
    let mut map = NginxMap::new("$frontdesk_etag $http_if_none_match", "$frontdesk_unmodified");
    map.default("0");
    map.expression(r#"^("[^"]*") (?:[ \t]*\*[ \t]*\z|(?:[^,]*,)*?[ \t]*(?:W/)?\1[ \t]*(?:,|\z))"#, "1");
    map
}

/// The result of a request.
fn answer() -> NginxMap {
    let mut map = NginxMap::new(
        "$frontdesk_ambiguous/$frontdesk_entry/$request_method/$frontdesk_media/$frontdesk_unmodified",
        "$frontdesk_answer",
    );
    map.default("whole");
    map.expression("^1", "ambiguous");
    map.expression("^0//[^/]*/none/", "nothing");
    map.expression("^0//", "missing");
    map.expression("^0/e/", "unknown_endpoint");
    map.expression("^0/[^/]+/(?!GET/|HEAD/)", "method");
    map.expression("^0/r", "moved");
    map.expression(r"^0/p\d+/[^/]*/none/", "not_acceptable");
    map.expression("/1$", "unmodified");
    map
}

/// The response that nginx sends: the result, unless nginx itself has responded with an error.
fn sent() -> NginxMap {
    let mut map = NginxMap::new("$frontdesk_answer/$status", "$frontdesk_said");
    map.default("trouble");
    map.expression("/400$", "ambiguous");
    map.expression("/405$", "method");
    map.expression(
        "^(?:whole/200|missing/404|unmodified/304|moved/308|not_acceptable/406|nothing/404|unknown_endpoint/404)$",
        "$frontdesk_answer",
    );
    map
}

/// The value of each header, by response. nginx omits empty headers.
fn headers(layout: &ExportLayout) -> Vec<NginxMap> {
    let by_answer = |variable, source: &str| NginxMap::new(source, variable);
    let spoken: [(&str, Option<&RecordedResponse>); 6] = [
        ("ambiguous", Some(&layout.ambiguous)),
        ("unknown_endpoint", Some(&layout.unknown_endpoint)),
        ("method", Some(&layout.read_only)),
        (
            "moved",
            first(layout, |place| match place {
                UrlContent::Moved(reply) => Some(reply),
                _ => None,
            }),
        ),
        (
            "not_acceptable",
            first(layout, |place| match place {
                UrlContent::Page { neither, .. } => Some(neither),
                _ => None,
            }),
        ),
        (
            "nothing",
            match &layout.missing {
                UrlContent::Page { neither, .. } => Some(neither),
                _ => None,
            },
        ),
    ];
    let of_spoken = |map: &mut NginxMap, name: &str| {
        for (answer, reply) in &spoken {
            map.exactly(answer, &literal(reply.and_then(|reply| reply.header(name)).unwrap_or_default()));
        }
        map.exactly("trouble", if name == "cache-control" { "no-store" } else { "" });
    };
    let mut content_type = by_answer("$frontdesk_content_type", "$frontdesk_said");
    content_type.default("$frontdesk_file_content_type");
    content_type.exactly("unmodified", "");
    of_spoken(&mut content_type, "content-type");

    let mut cache_control = by_answer("$frontdesk_cache_control", "$frontdesk_said");
    cache_control.default("$frontdesk_file_cache_control");
    of_spoken(&mut cache_control, "cache-control");

    let mut link = by_answer("$frontdesk_link", "$frontdesk_said");
    link.default("$frontdesk_file_link");
    of_spoken(&mut link, "link");
    link.remove("not_acceptable");
    link.exactly("not_acceptable", "$frontdesk_alternates");

    let mut encoding = by_answer("$frontdesk_content_encoding", "$frontdesk_said");
    encoding.default("");
    for answer in ["whole", "missing"] {
        encoding.exactly(answer, "$frontdesk_encoding");
    }
    let mut etag = by_answer("$frontdesk_sent_etag", "$frontdesk_said");
    etag.default("");
    for answer in ["whole", "unmodified"] {
        etag.exactly(answer, "$frontdesk_etag");
    }
    let mut allow = by_answer("$frontdesk_allow", "$frontdesk_said");
    allow.default("");
    allow.exactly("method", layout.read_only.header("allow").unwrap_or_default());

    // Redirects keep the query.
    let mut query = NginxMap::new("$request_uri", "$frontdesk_query");
    query.default("");
    query.expression(r"^[^?]*(\?.*)\z", "$1");
    let mut location = by_answer("$frontdesk_location", "$frontdesk_said");
    location.default("");
    location.exactly("moved", "$frontdesk_target$frontdesk_query");

    let mut vary = by_answer("$frontdesk_vary", "$frontdesk_said");
    vary.default("$frontdesk_file_vary");
    of_spoken(&mut vary, "vary");
    let mut file_vary = by_answer("$frontdesk_file_vary", "$frontdesk_entry:$frontdesk_has");
    file_vary.default("");
    file_vary.expression("^f.*:.", "Accept-Encoding");
    file_vary.expression("^(?:p.*)?:\\z", "Accept");
    file_vary.expression("^(?:p.*)?:.", "Accept, Accept-Encoding");

    // Other sites may embed files, but not pages.
    let name = "cross-origin-resource-policy";
    let of_file = first(layout, |place| match place {
        UrlContent::File(stored) => Some(&stored.identity().reply),
        _ => None,
    });
    let mut policy = by_answer("$frontdesk_resource_policy", "$frontdesk_said:$frontdesk_entry");
    policy.default(&literal(layout.read_only.header(name).unwrap_or_default()));
    let of_file = of_file.and_then(|reply| reply.header(name)).unwrap_or_default();
    policy.expression("^(?:whole|unmodified):f", &literal(of_file));
    vec![content_type, cache_control, link, encoding, etag, allow, query, location, file_vary, vary, policy]
}

/// Returns the first response of a kind. All responses of that kind have the same headers.
fn first<'a>(
    layout: &'a ExportLayout,
    of: impl Fn(&'a UrlContent) -> Option<&'a RecordedResponse>,
) -> Option<&'a RecordedResponse> {
    layout.urls.iter().find_map(|(_, place)| of(place))
}

/// The values for `Strict-Transport-Security` and for `Forwarded`.
fn towards_replicas(options: &WebOptions) -> Vec<NginxMap> {
    let mut hsts = NginxMap::new("$https", "$frontdesk_hsts");
    hsts.default("");
    hsts.exactly("on", &literal(options.tls.hsts.as_ref().map(Hsts::as_str).unwrap_or_default()));
    let mut hop = NginxMap::new("$remote_addr", "$frontdesk_hop");
    hop.default("for=$remote_addr");
    hop.expression(":", "for=\"[$remote_addr]\"");
    vec![hsts, hop]
}

/// Sets or removes each header that replicas trust, so that nginx never forwards a client's value.
fn forwarding(options: &WebOptions) -> String {
    let mut lines = String::new();
    for name in TRUSTED_HEADERS {
        let value = match (name, options.forwarded_header) {
            (X_FORWARDED_FOR, ForwardedHeader::XForwardedFor) => "$remote_addr",
            (FORWARDED, ForwardedHeader::Forwarded) => "$frontdesk_hop",
            (X_FORWARDED_PROTO, _) => "$scheme",
            (X_REQUEST_ID, _) => "$request_id",
            // Removes the header.
            _ => "\"\"",
        };
        let _ = writeln!(lines, "    proxy_set_header {} {value};", capitalize(name));
    }
    lines
}

const HTTP_HEAD: &str = "# Written by `frontdesk export`: the site in `map` blocks. Include it in `http { }`, before any other `map`, and
# server.conf in a `server { }`. Reload nginx after each export.

";

/// `server.conf`, for a block `server { }`.
pub(super) fn server(layout: &ExportLayout, root: &str, options: &WebOptions) -> String {
    let mut conf = format!(
        "# Written by `frontdesk export`: the rules of the site. Include it in a `server {{ }}` that has `listen`, `server_name` and certificates.

root {};
{SERVER_SETTINGS}",
        quote(&literal(root))
    );
    let common: String = layout
        .common
        .iter()
        .map(|(name, value)| {
            format!("    add_header {} {} always;\n", capitalize(name), quote(&literal(value)))
        })
        .collect();
    conf.extend(common.lines().map(|line| line.trim_start().to_owned() + "\n"));
    let _ = write!(
        conf,
        "
location / {{
    if ($frontdesk_answer = ambiguous) {{
        return {} {};
    }}
    if ($frontdesk_answer = unknown_endpoint) {{
        return {} {};
    }}
    if ($frontdesk_answer = method) {{
        return {} {};
    }}
{SERVER_PAGES}",
        layout.ambiguous.status,
        quote(&literal(&body(&layout.ambiguous))),
        layout.unknown_endpoint.status,
        quote(&literal(&body(&layout.unknown_endpoint))),
        layout.read_only.status,
        quote(&literal(&body(&layout.read_only))),
    );
    let forwarding = forwarding(options);
    let _ = write!(
        conf,
        "
location = /.frontdesk/method {{
    internal;
    return {} {};
}}
",
        layout.read_only.status,
        quote(&literal(&body(&layout.read_only))),
    );
    for endpoint in &layout.endpoints {
        let _ = write!(conf, "\nlocation = {endpoint} {{\n{SERVER_FORM}{forwarding}}}\n");
    }
    let sentences = [
        ("too_long", 413, format!("The body must not be longer than {} KiB.", MAX_BODY_BYTES / 1024)),
        // The submission may or may not have been stored.
        ("away", 503, "The request could not be answered. Please try again in a moment; sent again unchanged, it is recognised.".to_owned()),
    ];
    for (name, status, sentence) in sentences {
        let body = serde_json::json!({ "error": sentence }).to_string();
        let _ = write!(conf, "\nlocation @frontdesk_{name} {{\n{SERVER_ERROR}{common}");
        let _ = writeln!(conf, "    return {status} {};\n}}", quote(&literal(&body)));
    }
    conf
}

/// Capitalizes a header name: `Content-Security-Policy`.
fn capitalize(name: &str) -> String {
    let mut words = name.split('-').map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    });
    let first = words.next().unwrap_or_default();
    words.fold(first, |title, word| title + "-" + &word)
}

/// Switches off nginx's own validators, types, ranges and compression; the maps replace them.
const SERVER_SETTINGS: &str = "server_tokens off;
etag off;
if_modified_since off;
max_ranges 0;
gzip off;
charset off;
types { }
default_type \"\";
absolute_redirect off;
merge_slashes off;

# Errors of nginx itself, and internal statuses that clients never see.
error_page 400 494 =400 /.frontdesk/refused;
error_page 404 /.frontdesk/missing;
error_page 405 /.frontdesk/method;
error_page 418 =304 /.frontdesk/unmodified;
error_page 419 =308 /.frontdesk/moved;

add_header Content-Type $frontdesk_content_type always;
add_header Content-Encoding $frontdesk_content_encoding always;
add_header Cache-Control $frontdesk_cache_control always;
add_header ETag $frontdesk_sent_etag always;
add_header Last-Modified \"\" always;
add_header Link $frontdesk_link always;
add_header Vary $frontdesk_vary always;
add_header Allow $frontdesk_allow always;
add_header Location $frontdesk_location always;
add_header Cross-Origin-Resource-Policy $frontdesk_resource_policy always;
add_header Strict-Transport-Security $frontdesk_hsts always;
";

/// The rest of `location /`, and its internal locations.
const SERVER_PAGES: &str = "    if ($frontdesk_answer = moved) {
        return 419;
    }
    if ($frontdesk_answer = not_acceptable) {
        return 406 $frontdesk_not_acceptable;
    }
    if ($frontdesk_answer = nothing) {
        return 404 $frontdesk_not_acceptable;
    }
    if ($frontdesk_answer = missing) {
        return 404;
    }
    if ($frontdesk_answer = unmodified) {
        return 418;
    }
    try_files $frontdesk_name =500;
}

location = /.frontdesk/missing {
    internal;
    # A client can request this URL directly, without the checks above.
    if ($frontdesk_answer = nothing) {
        return 404 $frontdesk_not_acceptable;
    }
    try_files $frontdesk_name =500;
}

# The file provides the length of the omitted body.
location = /.frontdesk/unmodified {
    internal;
    try_files $frontdesk_name =500;
}

location = /.frontdesk/moved {
    internal;
    return 200 \"This page is at $frontdesk_target\\n\";
}

location = /.frontdesk/refused {
    internal;
    return 400 \"This request cannot be answered.\\n\";
}
";

/// The location of a form, without the headers about the client. Its own `add_header` disables the inherited
/// headers of pages.
const SERVER_FORM: &str = "    proxy_pass http://frontdesk_replicas;
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    proxy_set_header Host $http_host;
    client_max_body_size 128k;
    error_page 413 @frontdesk_too_long;
    error_page 502 504 =503 @frontdesk_away;
    add_header Strict-Transport-Security $frontdesk_hsts always;
";

/// The response of nginx if no replica responds.
const SERVER_ERROR: &str = "    internal;
    add_header Content-Type application/json always;
    add_header Cache-Control no-store always;
    add_header Cross-Origin-Resource-Policy same-origin always;
    add_header Strict-Transport-Security $frontdesk_hsts always;
";
