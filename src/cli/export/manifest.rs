//! Writes `manifest.json`, which lists every URL with its response, so that rules for other servers can be
//! generated from it. `docs/pages/export.md` documents the format.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::folder::{BLAKE3, BYTES, FILES, FORMAT, GENERATOR};
use super::layout::{EncodedFile, ExportLayout, StoredRepresentation, UrlContent, public_path};
use frontdesk_app::responses_for_export::RecordedResponse;
use frontdesk_site::file::fingerprint;
use frontdesk_site::path;

/// Composes the manifest of all URLs and `files` as JSON. Leaves out the response to ambiguous paths.
pub(super) fn compose(layout: &ExportLayout, base_url: &str, files: &BTreeMap<String, Bytes>) -> String {
    let urls: Value = layout
        .urls
        .iter()
        .map(|(path, content)| (path::encode(path).into_owned(), describe_url(layout, content)))
        .collect();
    let missing_in: Value = layout
        .missing_in
        .iter()
        .map(|(folder, content)| (format!("{}/", path::encode(folder)), describe_url(layout, content)))
        .collect();
    let listed: Value = files
        .iter()
        .map(|(name, body)| (name.clone(), json!({ BYTES: body.len(), BLAKE3: fingerprint(body, 64) })))
        .collect();
    let manifest = json!({
        "generator": GENERATOR,
        "format": FORMAT,
        "base_url": base_url,
        "headers": layout.common.iter().cloned().collect::<Value>(),
        "endpoints": layout.endpoints,
        "urls": urls,
        "missing": describe_url(layout, &layout.missing),
        "missing_in": missing_in,
        "unknown_endpoint": describe_response(layout, &layout.unknown_endpoint),
        "other_methods": describe_response(layout, &layout.read_only),
        FILES: listed,
    });
    let mut text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
    text.push('\n');
    text
}

/// Describes the responses at a URL: the representations of a page or a file, or else one response.
fn describe_url(layout: &ExportLayout, content: &UrlContent) -> Value {
    match content {
        UrlContent::Page { html, markdown, neither } => json!({
            "status": html.identity().reply.status,
            "negotiated": true,
            "representations": [describe_representation(layout, html), describe_representation(layout, markdown)],
            "not_acceptable": describe_response(layout, neither),
        }),
        UrlContent::File(stored) => json!({
            "status": stored.identity().reply.status,
            "negotiated": false,
            "representations": [describe_representation(layout, stored)],
        }),
        UrlContent::Moved(reply) | UrlContent::RemovedEndpoint(reply) => describe_response(layout, reply),
    }
}

/// An object for a representation: its media type, the unencoded file with its own headers, and in
/// `encodings` each encoded file, without headers.
fn describe_representation(layout: &ExportLayout, stored: &StoredRepresentation) -> Value {
    let identity = stored.identity();
    let content_type = identity.reply.header("content-type").unwrap_or_default();
    let mut value = json!({ "media_type": content_type.split(';').next() });
    let encodings: Vec<Value> = stored.0[1..]
        .iter()
        .map(|coded| {
            let mut value = json!({ "encoding": coded.encoding.token() });
            add_file(&mut value, coded);
            value
        })
        .collect();
    add_file(&mut value, identity);
    value["headers"] = own_headers(layout, &identity.reply);
    value["encodings"] = encodings.into();
    value
}

/// Adds the name, the size and the validator (ETag) of a file to an object.
fn add_file(value: &mut Value, coded: &EncodedFile) {
    value["file"] = public_path(&coded.name).into();
    value[BYTES] = coded.reply.body.len().into();
    if let Some(etag) = coded.reply.header("etag") {
        value["etag"] = etag.into();
    }
}

/// Describes a response that is not stored as a file: its status, location, own headers ([`own_headers`]),
/// and body, in which invalid UTF-8 is replaced.
fn describe_response(layout: &ExportLayout, reply: &RecordedResponse) -> Value {
    let mut value = json!({ "status": reply.status });
    if let Some(location) = reply.header("location") {
        value["location"] = location.into();
    }
    value["headers"] = own_headers(layout, reply);
    value["body"] = String::from_utf8_lossy(&reply.body).into();
    value
}

/// The headers of a response that are not common to all responses, except `etag` and `location`.
fn own_headers(layout: &ExportLayout, reply: &RecordedResponse) -> Value {
    layout.own_headers(reply, &["etag", "location"]).cloned().collect()
}
