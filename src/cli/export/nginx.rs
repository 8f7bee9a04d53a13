//! The configuration of nginx: `http.conf` has what is known of the site as `map` blocks, `server.conf` is the same for every site.
//!
//! nginx needs no module for it. It sends files, and everything else is a variable: which file, and the value of each header, by the
//! path (`$frontdesk_entry`), the representation, the encoding and what comes of them (`$frontdesk_answer`).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::layout::{Layout, Place, Stored};
use super::map::{Map, quote};
use super::negotiation;
use crate::forms::MAX_BODY_BYTES;
use crate::web::describe::Reply;
use crate::web::proxy_headers::{
    FORWARDED, TRUSTED_HEADERS, X_FORWARDED_FOR, X_FORWARDED_PROTO, X_REQUEST_ID,
};
use crate::web::tls::Hsts;
use crate::web::{ForwardedHeader, Options};

/// A text in which a dollar begins no variable's name.
fn literal(text: &str) -> String {
    text.replace('$', "${frontdesk_dollar}")
}

/// An expression that matches this text alone.
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

/// The table of files: what is sent, by its name.
struct Files {
    /// By name; in the order of the first use.
    numbers: HashMap<String, usize>,
    name: Map,
    etag: Map,
    has: Map,
    content_type: Map,
    cache_control: Map,
    link: Map,
    common_cache_control: String,
}

impl Files {
    fn new(layout: &Layout) -> Self {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for stored in layout.places().flat_map(Place::stored) {
            *counts
                .entry(stored.identity().reply.header("cache-control").unwrap_or_default())
                .or_default() += 1;
        }
        let common = counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(value, _)| value);
        let mut cache_control = Map::new("$frontdesk_file", "$frontdesk_file_cache_control");
        cache_control.default(&literal(common));
        let with_default = |source, variable| {
            let mut map = Map::new(source, variable);
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

    /// `f7`; the same file has the same.
    fn id(&mut self, stored: &Stored) -> String {
        let identity = stored.identity();
        // The pages that stand in for what is missing have no validator.
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
        // Where it could have been encoded and no encoding is shorter, the answer varies all the same.
        let varies = identity.reply.header("vary").is_some_and(|vary| vary.contains("Accept-Encoding"));
        if varies {
            self.has.exactly(&id, if has.is_empty() { "-" } else { &has });
        }
        let tell = |map: &mut Map, name: &str, common: &str| {
            if let Some(value) = identity.reply.header(name).filter(|value| *value != common) {
                map.exactly(&id, &literal(value));
            }
        };
        tell(&mut self.content_type, "content-type", "");
        tell(&mut self.cache_control, "cache-control", &self.common_cache_control);
        tell(&mut self.link, "link", "");
        id
    }
}

/// `http.conf`: what belongs into `http { }`.
pub(super) fn http(layout: &Layout, replicas: &[String], options: &Options) -> String {
    let mut files = Files::new(layout);
    let entry_map = |variable| Map::new("$frontdesk_entry", variable);
    let (mut html, mut markdown) = (entry_map("$frontdesk_html"), entry_map("$frontdesk_markdown"));
    let (mut link, mut text) = (entry_map("$frontdesk_alternates"), entry_map("$frontdesk_not_acceptable"));
    let mut location = entry_map("$frontdesk_target");
    let mut lookup = Map::new("$uri", "$frontdesk_lookup");
    lookup.default("");
    let (missing_link, missing_text) = match &layout.missing {
        Place::Page { html: of_html, markdown: of_markdown, neither } => {
            html.default(&files.id(of_html));
            markdown.default(&files.id(of_markdown));
            (neither.header("link").unwrap_or_default(), body(neither))
        }
        Place::File(_) | Place::Moved(_) => ("", String::new()),
    };
    link.default(&literal(missing_link));
    text.default(&literal(&missing_text));
    location.default("");

    let (mut pages, mut moved) = (0, 0);
    let mut entries = Vec::new();
    for (path, place) in &layout.urls {
        let id = match place {
            Place::Page { html: of_html, markdown: of_markdown, neither } => {
                let id = format!("p{pages}");
                pages += 1;
                html.exactly(&id, &files.id(of_html));
                markdown.exactly(&id, &files.id(of_markdown));
                link.exactly(&id, &literal(neither.header("link").unwrap_or_default()));
                text.exactly(&id, &literal(&body(neither)));
                id
            }
            Place::File(stored) => files.id(stored),
            Place::Moved(reply) => {
                let id = format!("r{moved}");
                moved += 1;
                location.exactly(&id, &literal(reply.header("location").unwrap_or_default()));
                id
            }
        };
        entries.push((path, id));
    }
    // Texts are found in whatever case; where two paths differ by nothing else, expressions tell them apart.
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
    let Files { name, etag, has, content_type, cache_control, link, .. } = files;
    maps.extend([has, content_type, cache_control, link]);
    maps.extend(negotiation::encoding());
    maps.push(coded());
    maps.extend([name, etag, unmodified(), answer(), said()]);
    maps.extend(headers(layout));
    maps.extend(towards_replicas(options));

    let longest = maps.iter().map(Map::longest).max().unwrap_or_default();
    let most = maps.iter().map(Map::len).max().unwrap_or_default();
    let mut conf = String::from(HTTP_HEAD);
    // A bucket holds at least one text with what belongs to it, and the table a few slots for each.
    let _ = writeln!(conf, "map_hash_bucket_size {};", (longest + 64).next_power_of_two());
    let _ = writeln!(conf, "map_hash_max_size {};", (most * 4).next_power_of_two().max(2048));
    conf.push_str("variables_hash_bucket_size 128;\nvariables_hash_max_size 2048;\n");
    conf.push_str(
        "\n# No other way leads to this character.\ngeo $frontdesk_dollar {\n    default \"$\";\n}\n",
    );
    conf.push_str("\n# Where the forms go.\nupstream frontdesk_replicas {\n");
    for replica in replicas {
        let _ = writeln!(conf, "    server {};", quote(replica));
    }
    conf.push_str("    keepalive 16;\n}\n");
    for map in &maps {
        map.write(&mut conf);
    }
    conf
}

fn body(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// What is at the path, once its case is right: `p` and a number is a page, `f` a file and `r` a redirect. `e` is a path below `/api/`
/// at which there is nothing.
fn entry() -> Map {
    let mut map = Map::new("$frontdesk_lookup\\n$uri", "$frontdesk_entry");
    map.default("");
    map.expression(r"^([pfr]\d+) ([^\n]*)\n\2\z", "$1");
    map.expression(r"^[^\n]*\n/api/", "e");
    map
}

/// Whether servers disagree on what the path means.
fn ambiguous() -> Map {
    let mut map = Map::new("$request_uri", "$frontdesk_ambiguous");
    map.default("0");
    map.expression_of_any_case(
        r"^[^?]*?(?:/(?:\.|%2e){1,2}(?:[/?]|\z)|//|%2f|\\|%5c|%[01][0-9a-f]|%7f|%c2%[89][0-9a-f])",
        "1",
    );
    map
}

/// The file in the chosen representation.
fn file() -> Map {
    let mut map = Map::new("$frontdesk_entry $frontdesk_media", "$frontdesk_file");
    map.default("");
    map.expression(r"^(f\d+) ", "$1");
    map.expression(r"^(?:p\d+)? html\z", "$frontdesk_html");
    map.expression(r"^(?:p\d+)? markdown\z", "$frontdesk_markdown");
    map
}

/// The file in the chosen encoding.
fn coded() -> Map {
    let mut map = Map::new("$frontdesk_file:$frontdesk_encoding", "$frontdesk_body");
    map.default("");
    map.expression(r"^(f\d+):\z", "$1");
    map.expression(r"^(f\d+):(\w+)\z", "$1-$2");
    map
}

/// Whether the client has these bytes already: `If-None-Match` names the validator, or is `*`.
fn unmodified() -> Map {
    let mut map = Map::new("$frontdesk_etag $http_if_none_match", "$frontdesk_unmodified");
    map.default("0");
    map.expression(r#"^("[^"]*") (?:[ \t]*\*[ \t]*\z|(?:[^,]*,)*?[ \t]*(?:W/)?\1[ \t]*(?:,|\z))"#, "1");
    map
}

/// What comes of it all.
fn answer() -> Map {
    let mut map = Map::new(
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

/// What is said in the end: what was to be, unless nginx has found something itself, and says so on a page of its own.
fn said() -> Map {
    let mut map = Map::new("$frontdesk_answer/$status", "$frontdesk_said");
    map.default("trouble");
    map.expression("/400$", "ambiguous");
    map.expression("/405$", "method");
    map.expression(
        "^(?:whole/200|missing/404|unmodified/304|moved/308|not_acceptable/406|nothing/404|unknown_endpoint/404)$",
        "$frontdesk_answer",
    );
    map
}

/// The value of each header, by what comes of it all. An empty one is not sent.
fn headers(layout: &Layout) -> Vec<Map> {
    let by_answer = |variable, source: &str| Map::new(source, variable);
    let spoken: [(&str, Option<&Reply>); 6] = [
        ("ambiguous", Some(&layout.ambiguous)),
        ("unknown_endpoint", Some(&layout.unknown_endpoint)),
        ("method", Some(&layout.read_only)),
        (
            "moved",
            first(layout, |place| match place {
                Place::Moved(reply) => Some(reply),
                _ => None,
            }),
        ),
        (
            "not_acceptable",
            first(layout, |place| match place {
                Place::Page { neither, .. } => Some(neither),
                _ => None,
            }),
        ),
        (
            "nothing",
            match &layout.missing {
                Place::Page { neither, .. } => Some(neither),
                _ => None,
            },
        ),
    ];
    let of_spoken = |map: &mut Map, name: &str| {
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
    link.forget("not_acceptable");
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

    // The query goes on to where the page is.
    let mut query = Map::new("$request_uri", "$frontdesk_query");
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

    // Files other sites may show, pages not.
    let name = "cross-origin-resource-policy";
    let of_file = first(layout, |place| match place {
        Place::File(stored) => Some(&stored.identity().reply),
        _ => None,
    });
    let mut policy = by_answer("$frontdesk_resource_policy", "$frontdesk_said:$frontdesk_entry");
    policy.default(&literal(layout.read_only.header(name).unwrap_or_default()));
    let of_file = of_file.and_then(|reply| reply.header(name)).unwrap_or_default();
    policy.expression("^(?:whole|unmodified):f", &literal(of_file));
    vec![content_type, cache_control, link, encoding, etag, allow, query, location, file_vary, vary, policy]
}

/// The first answer of a kind, which says what all of them say.
fn first<'a>(layout: &'a Layout, of: impl Fn(&'a Place) -> Option<&'a Reply>) -> Option<&'a Reply> {
    layout.urls.iter().find_map(|(_, place)| of(place))
}

/// What nginx says to browsers over TLS, and to the replicas about whoever is asking.
fn towards_replicas(options: &Options) -> Vec<Map> {
    let mut hsts = Map::new("$https", "$frontdesk_hsts");
    hsts.default("");
    hsts.exactly("on", &literal(options.tls.hsts.as_ref().map(Hsts::as_str).unwrap_or_default()));
    let mut hop = Map::new("$remote_addr", "$frontdesk_hop");
    hop.default("for=$remote_addr");
    hop.expression(":", "for=\"[$remote_addr]\"");
    vec![hsts, hop]
}

/// `proxy_set_header` for each header that replicas trust: a value that nginx knows itself, or none. nginx never passes on what the
/// client has sent under these names.
fn forwarding(options: &Options) -> String {
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
        let _ = writeln!(lines, "    proxy_set_header {} {value};", titled(name));
    }
    lines
}

const HTTP_HEAD: &str = "# Written by `frontdesk export`: what nginx knows of the site. Include it in `http { }`, before any other `map`, and
# server.conf in a `server { }`. After another export, nginx is to be reloaded.

";

/// `server.conf`: what belongs into `server { }`.
pub(super) fn server(layout: &Layout, root: &str, options: &Options) -> String {
    let mut conf = format!(
        "# Written by `frontdesk export`: how nginx answers. Include it in a `server {{ }}` that has `listen`, `server_name` and certificates.

root {};
{SERVER_SETTINGS}",
        quote(&literal(root))
    );
    let common: String = layout
        .common
        .iter()
        .map(|(name, value)| format!("    add_header {} {} always;\n", titled(name), quote(&literal(value))))
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
        // Nobody knows then whether it was kept.
        ("away", 503, "The request could not be answered. Please try again in a moment; sent again unchanged, it is recognised.".to_owned()),
    ];
    for (name, status, sentence) in sentences {
        let body = serde_json::json!({ "error": sentence }).to_string();
        let _ = write!(conf, "\nlocation @frontdesk_{name} {{\n{SERVER_ERROR}{common}");
        let _ = writeln!(conf, "    return {status} {};\n}}", quote(&literal(&body)));
    }
    conf
}

/// `Content-Security-Policy`, as it is usually written.
fn titled(name: &str) -> String {
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

/// nginx's own validators, types, ranges and compression give way to what the maps say.
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

# What nginx refuses by itself, and statuses of our own, which nobody outside gets to see.
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

/// The rest of `location /`, and where its answers come from.
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
    # Asked for from outside, this address leads here as well, past the lines above.
    if ($frontdesk_answer = nothing) {
        return 404 $frontdesk_not_acceptable;
    }
    try_files $frontdesk_name =500;
}

# With the length of the body that is not sent.
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

/// What each form's location says beside who is asking. One header of its own, and those of the pages are not added.
const SERVER_FORM: &str = "    proxy_pass http://frontdesk_replicas;
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    proxy_set_header Host $http_host;
    client_max_body_size 128k;
    error_page 413 @frontdesk_too_long;
    error_page 502 504 =503 @frontdesk_away;
    add_header Strict-Transport-Security $frontdesk_hsts always;
";

/// An answer of nginx's own in place of a replica's.
const SERVER_ERROR: &str = "    internal;
    add_header Content-Type application/json always;
    add_header Cache-Control no-store always;
    add_header Cross-Origin-Resource-Policy same-origin always;
    add_header Strict-Transport-Security $frontdesk_hsts always;
";
