//! Writes nginx's configuration: the site as `map` blocks in `http.conf`, and `server.conf`.
//!
//! The configuration needs no additional modules. nginx sends files; variables select the file and the value
//! of each header, by path (`$frontdesk_entry`), representation, encoding and result (`$frontdesk_answer`).
//! The templates are in `nginx/`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use super::layout::{ExportLayout, StoredRepresentation, UrlContent};
use super::nginx_map::{NginxMap, quote};
use super::nginx_negotiation;
use frontdesk_app::WebOptions;
use frontdesk_app::responses_for_export::RecordedResponse;
use frontdesk_forms::MAX_BODY_BYTES;
use frontdesk_http::ForwardedHeader;
use frontdesk_http::tls::Hsts;
use frontdesk_http::trusted_proxies::{
    FORWARDED, TRUSTED_HEADERS, X_FORWARDED_FOR, X_FORWARDED_PROTO, X_REQUEST_ID,
};

/// Escapes dollar signs, so that nginx expands no variables in the string.
fn escape_variables(text: &str) -> String {
    text.replace('$', "${frontdesk_dollar}")
}

/// Quotes a string for nginx, and escapes its dollar signs.
fn quote_literal(text: &str) -> String {
    quote(&escape_variables(text))
}

/// Replaces each `{{name}}` with its value. If only white space precedes the name on its line, all lines of
/// the value get this indentation. Panics if a name has no value.
fn fill_template(template: &str, values: &[(&str, String)]) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        let (_, value) = value.unwrap_or_else(|| unreachable!("`{name}` has no value"));
        let line = text.rsplit('\n').next().unwrap_or_default();
        if line.trim_start().is_empty() {
            let indentation = format!("\n{line}");
            text += &value.replace('\n', &indentation);
        } else {
            text += value;
        }
        text += rest;
    }
    text
}

/// A regular expression for this string alone, with all bytes escaped except letters, digits and `/`. It has
/// no anchors.
fn escape_expression(text: &str) -> String {
    let mut expression = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'/' {
            expression.push(char::from(byte));
        } else {
            let _ = write!(expression, "\\x{byte:02x}");
        }
    }
    expression
}

/// The `map` blocks that map files to their names and headers.
struct FileTable {
    /// Maps a file's status, name and headers to its number. Files are numbered in order of first use.
    numbers: HashMap<String, usize>,
    name: NginxMap,
    etag: NginxMap,
    encodings: NginxMap,
    headers: Vec<FileHeader>,
}

/// The values of one header, by file.
struct FileHeader {
    name: String,
    /// The most frequent value, which is the map's default.
    common: String,
    map: NginxMap,
}

impl FileTable {
    /// Creates the maps without files: those of names, validators and encodings, and one for each of
    /// [`file_headers`].
    fn new(layout: &ExportLayout) -> Self {
        let of_body = |variable| NginxMap::new("$frontdesk_body", variable, "");
        Self {
            numbers: HashMap::new(),
            name: of_body("$frontdesk_name"),
            etag: of_body("$frontdesk_etag"),
            encodings: NginxMap::new("$frontdesk_file", "$frontdesk_has", ""),
            headers: file_headers(layout).into_iter().map(|name| FileHeader::new(layout, name)).collect(),
        }
    }

    /// Returns the id of a file, such as `f7`. Adds the file to the maps on first use. The same file with
    /// another status or other headers has an id of its own.
    fn add_file(&mut self, stored: &StoredRepresentation) -> String {
        let identity = stored.identity();
        let values: Vec<&str> = self
            .headers
            .iter()
            .map(|header| identity.reply.header(&header.name).unwrap_or_default())
            .collect();
        // The key includes the status and the headers: the page for missing URLs has a different status and
        // no validator, and two URLs with the same file can have different headers.
        let key = format!("{} {} {}", identity.reply.status, identity.name, values.join("\n"));
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
            self.name.add_text(&body, &escape_variables(&format!("/{}", coded.name)));
            if let Some(etag) = coded.reply.header("etag") {
                self.etag.add_text(&body, &escape_variables(etag));
            }
        }
        let letters = nginx_negotiation::encoding_letters(stored.0.iter().map(|coded| coded.encoding));
        // The value `-` makes nginx add `Vary: Accept-Encoding` to a file that has no encoded copies.
        let varies = identity.reply.header("vary").is_some_and(|vary| vary.contains("Accept-Encoding"));
        if varies {
            self.encodings.add_text(&id, if letters.is_empty() { "-" } else { &letters });
        }
        for (header, value) in self.headers.iter_mut().zip(values) {
            if value != header.common {
                header.map.add_text(&id, &escape_variables(value));
            }
        }
        id
    }
}

impl FileHeader {
    /// Creates a map without files. Its default is the most frequent value in the site. The value of a file
    /// without the header is empty.
    fn new(layout: &ExportLayout, name: String) -> Self {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for stored in layout.contents().flat_map(UrlContent::stored) {
            *counts.entry(stored.identity().reply.header(&name).unwrap_or_default()).or_default() += 1;
        }
        let common = counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(value, _)| value);
        let variable = variable("$frontdesk_file_header_", &name);
        let map = NginxMap::new("$frontdesk_file", &variable, &escape_variables(common));
        Self { name, common: common.to_owned(), map }
    }
}

/// Headers that the configuration computes. `Content-Encoding` is not among them: the configuration adds that
/// of a file's encoding, and a file that is compressed itself has its own, and no encodings.
const COMPUTED_HEADERS: [&str; 5] = ["allow", "etag", "location", "strict-transport-security", "vary"];

/// The names of the headers whose values depend on the file: all headers of files and of the response to
/// other methods, except those that all responses have in common and [`COMPUTED_HEADERS`].
fn file_headers(layout: &ExportLayout) -> BTreeSet<String> {
    let files = layout.contents().flat_map(UrlContent::stored).map(|stored| &stored.identity().reply);
    let names = files.chain([&layout.read_only]).flat_map(|reply| &reply.headers);
    names
        .filter(|header| !layout.common.contains(header) && !COMPUTED_HEADERS.contains(&&*header.0))
        .map(|(name, _)| name.clone())
        .collect()
}

/// The name of a header's variable, such as `$frontdesk_header_content_type`.
fn variable(prefix: &str, header: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    prefix.chars().chain(header.chars().map(letter)).collect()
}

/// Renders `http.conf`, to be included in the `http { }` block.
pub(super) fn render_http_conf(layout: &ExportLayout, replicas: &[String], options: &WebOptions) -> String {
    let mut maps = site_maps(layout);
    maps.extend(nginx_negotiation::media_maps());
    maps.extend(nginx_negotiation::encoding_maps());
    let own = file_headers(layout);
    maps.extend(own.iter().map(String::as_str).chain(["vary"]).map(|name| header_map(layout, name)));
    let longest = maps.iter().map(NginxMap::longest_text).max().unwrap_or_default();
    let most = maps.iter().map(NginxMap::len).max().unwrap_or_default();
    let replicas: Vec<String> =
        replicas.iter().map(|replica| format!("server {};", quote(replica))).collect();
    fill_template(
        include_str!("nginx/http.conf"),
        &[
            // A bucket must hold the longest string and nginx's own data. The table needs several slots per
            // string.
            ("bucket_size", (longest + 64).next_power_of_two().to_string()),
            ("table_size", (most * 4).next_power_of_two().max(2048).to_string()),
            ("replicas", replicas.join("\n")),
            ("missing_entries", missing_entries(layout)),
            ("allow", quote_literal(layout.read_only.header("allow").unwrap_or_default())),
            ("hsts", quote_literal(options.http.tls.hsts.as_ref().map(Hsts::as_str).unwrap_or_default())),
            ("maps", maps.iter().map(NginxMap::to_string).collect::<Vec<_>>().join("\n\n")),
        ],
    )
}

/// The maps from paths to entries, from entries to files and redirects, and from files to names and headers.
fn site_maps(layout: &ExportLayout) -> Vec<NginxMap> {
    let mut files = FileTable::new(layout);
    let (of_html, of_markdown, missing_link, missing_text) = match &layout.missing {
        UrlContent::Page { html, markdown, neither } => (
            files.add_file(html),
            files.add_file(markdown),
            escape_variables(neither.header("link").unwrap_or_default()),
            escape_variables(&body_text(neither)),
        ),
        UrlContent::File(_) | UrlContent::Moved(_) | UrlContent::RemovedEndpoint(_) => Default::default(),
    };
    let by_entry = |variable, default: &str| NginxMap::new("$frontdesk_entry", variable, default);
    let mut html = by_entry("$frontdesk_html", &of_html);
    let mut markdown = by_entry("$frontdesk_markdown", &of_markdown);
    let mut link = by_entry("$frontdesk_alternates", &missing_link);
    let mut text = by_entry("$frontdesk_not_acceptable", &missing_text);
    let mut target = by_entry("$frontdesk_target", "");
    let mut location = by_entry("$frontdesk_redirect", "");
    let mut lookup = NginxMap::new("$uri", "$frontdesk_lookup", "");

    for (number, (_, content)) in layout.missing_in.iter().enumerate() {
        if let UrlContent::Page { html: of_html, markdown: of_markdown, .. } = content {
            html.add_text(&missing_id(number), &files.add_file(of_html));
            markdown.add_text(&missing_id(number), &files.add_file(of_markdown));
        }
    }

    // nginx ignores the case of strings, so paths that differ only in case need regular expressions.
    let mut folded: HashMap<String, usize> = HashMap::new();
    for (path, _) in &layout.urls {
        *folded.entry(path.to_ascii_lowercase()).or_default() += 1;
    }
    // `len() - 1` numbers the entries from 0, because `len` also counts the default of the map. The first
    // letter of an entry is its kind, which `http.conf` explains.
    for (path, content) in &layout.urls {
        let id = match content {
            UrlContent::Page { html: of_html, markdown: of_markdown, neither } => {
                let id = format!("{}{}", if content.is_gone() { "g" } else { "p" }, html.len() - 1);
                html.add_text(&id, &files.add_file(of_html));
                markdown.add_text(&id, &files.add_file(of_markdown));
                link.add_text(&id, &escape_variables(neither.header("link").unwrap_or_default()));
                text.add_text(&id, &escape_variables(&body_text(neither)));
                id
            }
            UrlContent::File(stored) => files.add_file(stored),
            UrlContent::Moved(reply) => {
                let id = format!("r{}{}", reply.status, target.len() - 1);
                let to = reply.header("location").unwrap_or_default();
                target.add_text(&id, &escape_variables(to));
                location.add_text(&id, &with_query(to));
                id
            }
            UrlContent::RemovedEndpoint(_) => "x0".to_owned(),
        };
        let value = escape_variables(&format!("{id} {path}"));
        if folded[&path.to_ascii_lowercase()] == 1 {
            lookup.add_text(path, &value);
        } else {
            lookup.add_expression(&format!("^{}\\z", escape_expression(path)), &value);
        }
    }
    let FileTable { name, etag, encodings, headers, .. } = files;
    let mut maps = vec![lookup, html, markdown, link, text, target, location, encodings, name, etag];
    maps.extend(headers.into_iter().map(|header| header.map));
    maps
}

/// The id of the entry for missing paths in a folder. `number` is its index in [`ExportLayout::missing_in`].
fn missing_id(number: usize) -> String {
    format!("m{number}")
}

/// The lines of the map `$frontdesk_entry` for unknown paths in folders that have a 404 page of their own.
/// The map's key is `$frontdesk_lookup`, a line feed and the path. nginx takes the first match, so inner
/// folders must come first, as they do in [`ExportLayout::missing_in`].
fn missing_entries(layout: &ExportLayout) -> String {
    let entry = |(number, (folder, _)): (usize, &(String, UrlContent))| {
        let expression = format!("~^[^\\n]*\\n{}(?:/|\\z)", escape_expression(folder));
        format!("{} {};", quote(&expression), quote(&missing_id(number)))
    };
    layout.missing_in.iter().enumerate().map(entry).collect::<Vec<_>>().join("\n")
}

/// The target of a redirect, with the request's query unless the target has its own.
fn with_query(to: &str) -> String {
    let (path, fragment) = to.split_at(to.find('#').unwrap_or(to.len()));
    let query = if path.contains('?') { "" } else { "$frontdesk_query" };
    format!("{}{query}{}", escape_variables(path), escape_variables(fragment))
}

fn body_text(reply: &RecordedResponse) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// The response for removed endpoints, which is the same for all of them. `None` if no endpoint was removed.
fn removed_endpoint(layout: &ExportLayout) -> Option<&RecordedResponse> {
    layout.urls.iter().find_map(|(_, content)| match content {
        UrlContent::RemovedEndpoint(reply) => Some(reply),
        _ => None,
    })
}

/// Maps the kind of response to the value of a header. The default is the value for the file. With nginx's
/// own errors (`trouble`), `Cache-Control` is `no-store`, and headers about the content are left out. A 304
/// has no `Content-Type`.
fn header_map(layout: &ExportLayout, header: &str) -> NginxMap {
    /// The response of a page to clients that accept neither HTML nor Markdown.
    fn not_acceptable(content: &UrlContent) -> Option<&RecordedResponse> {
        match content {
            UrlContent::Page { neither, .. } => Some(neither),
            _ => None,
        }
    }
    // All responses of one kind have the same headers, except for `Link` (see below), so the first one is
    // enough.
    let contents = || layout.urls.iter().map(|(_, content)| content);
    let moved = contents().find_map(|content| match content {
        UrlContent::Moved(reply) => Some(reply),
        _ => None,
    });
    let responses = [
        ("ambiguous", Some(&layout.ambiguous)),
        ("unknown_endpoint", Some(&layout.unknown_endpoint)),
        ("method", Some(&layout.read_only)),
        ("moved", moved),
        ("not_acceptable", contents().filter(|content| !content.is_gone()).find_map(not_acceptable)),
        ("nothing", not_acceptable(&layout.missing)),
        ("gone_nothing", not_acceptable(&layout.missing)),
        ("removed_endpoint", removed_endpoint(layout)),
    ];
    let of_file = variable("$frontdesk_file_header_", header);
    let mut map = NginxMap::new("$frontdesk_response", &variable("$frontdesk_header_", header), &of_file);
    for (response, reply) in responses {
        let value = reply.and_then(|reply| reply.header(header)).map(escape_variables).unwrap_or_default();
        let is_alternates = (header, response) == ("link", "not_acceptable");
        map.add_text(response, if is_alternates { "$frontdesk_alternates" } else { &value });
    }
    let of_trouble = match header {
        "cache-control" => "no-store".to_owned(),
        "content-type" | "link" | "vary" => String::new(),
        _ => escape_variables(layout.read_only.header(header).unwrap_or_default()),
    };
    map.add_text("trouble", &of_trouble);
    if header == "content-type" {
        map.add_text("unmodified", "");
    }
    map
}

/// Renders `server.conf`, to be included in a `server { }` block.
pub(super) fn render_server_conf(layout: &ExportLayout, root: &str, options: &WebOptions) -> String {
    let redirect_status = |content: &UrlContent| match content {
        UrlContent::Moved(reply) => Some(reply.status),
        _ => None,
    };
    let add_header = |name: &str, value: &str| format!("add_header {} {value} always;", capitalize(name));
    let with_value = |(name, value): &(String, String)| add_header(name, &quote_literal(value));
    // A redirect returns an internal status. `error_page` replaces it with the redirect's own status and the
    // body from `/.frontdesk/moved`.
    let moved = |template: &str| -> String {
        let statuses: BTreeSet<u16> = layout.contents().filter_map(redirect_status).collect();
        let values = |status: u16| [("status", status.to_string()), ("internal", (status + 170).to_string())];
        let lines = statuses.into_iter().map(|status| fill_template(template, &values(status)));
        lines.collect::<Vec<_>>().join("\n")
    };
    let own = file_headers(layout);
    let of_file = own.iter().map(|name| add_header(name, &variable("$frontdesk_header_", name)));
    let headers: Vec<String> = layout.common.iter().map(with_value).chain(of_file).collect();
    // Headers that describe one response. The other headers of `read_only` are security headers, which the
    // error pages of nginx get, too.
    let is_described =
        |name: &str| matches!(name, "cache-control" | "content-type" | "allow" | "link" | "vary");
    let security = layout.read_only.headers.iter().filter(|(name, _)| !is_described(name));
    let security: Vec<String> = security.map(with_value).collect();
    let form = |endpoint: &&str| {
        let modifier = if endpoint.ends_with('/') { "^~" } else { "=" };
        let values = [
            ("modifier", modifier.to_owned()),
            ("endpoint", (*endpoint).to_owned()),
            ("forwarding", forwarding_directives(options)),
        ];
        fill_template(include_str!("nginx/form.conf").trim_end(), &values)
    };
    let response =
        |reply: &RecordedResponse| format!("{} {}", reply.status, quote_literal(&body_text(reply)));
    let removed = |reply: &RecordedResponse| {
        let response = response(reply);
        format!("if ($frontdesk_answer = removed_endpoint) {{\n    return {response};\n}}")
    };
    let error = |sentence: &str| quote_literal(&serde_json::json!({ "error": sentence }).to_string());
    fill_template(
        include_str!("nginx/server.conf"),
        &[
            ("root", quote_literal(root)),
            ("headers", headers.join("\n")),
            ("security_headers", security.join("\n")),
            ("moved_errors", moved("error_page {{internal}} ={{status}} /.frontdesk/moved;")),
            ("moved", moved("if ($frontdesk_answer = moved_{{status}}) {\n    return {{internal}};\n}")),
            ("ambiguous", response(&layout.ambiguous)),
            ("unknown_endpoint", response(&layout.unknown_endpoint)),
            ("removed_endpoint", removed_endpoint(layout).map(removed).unwrap_or_default()),
            ("method", response(&layout.read_only)),
            ("forms", layout.endpoints.iter().map(form).collect::<Vec<_>>().join("\n\n")),
            (
                "too_long",
                error(&format!(
                    "The body must not be longer than {} KiB, counted after decoding.",
                    MAX_BODY_BYTES / 1024
                )),
            ),
            // Do not say that the submission was lost: a replica that did not respond may have stored it.
            (
                "away",
                error(
                    "The request could not be answered. Try again in a moment: an unchanged repeat is recognized.",
                ),
            ),
        ],
    )
}

/// The directives that replace or remove each header that replicas trust, so that clients cannot set it.
fn forwarding_directives(options: &WebOptions) -> String {
    let lines = TRUSTED_HEADERS.iter().map(|name| {
        let value = match (*name, options.http.forwarded_header) {
            (X_FORWARDED_FOR, ForwardedHeader::XForwardedFor) => "$remote_addr",
            (FORWARDED, ForwardedHeader::Forwarded) => "$frontdesk_hop",
            (X_FORWARDED_PROTO, _) => "$scheme",
            (X_REQUEST_ID, _) => "$request_id",
            // An empty value removes the header.
            _ => "\"\"",
        };
        format!("proxy_set_header {} {value};", capitalize(name))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Capitalizes each word of a header name, as in `Content-Security-Policy`.
fn capitalize(name: &str) -> String {
    let mut begins_word = true;
    let capital = |c: char| {
        let c = if begins_word { c.to_ascii_uppercase() } else { c };
        begins_word = c == '-';
        c
    };
    name.chars().map(capital).collect()
}
