//! `manifest.json`: every URL with its answer, for whoever writes rules for a server that we do not know. `docs/export.md` explains it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::folder::{BLAKE3, BYTES, FILES, FORMAT, GENERATOR};
use super::layout::{Coded, Layout, Place, Stored};
use super::public;
use crate::pages::file::fingerprint;
use crate::pages::path;
use crate::web::describe::Reply;

/// The text of the manifest, with the names of all `files` beside it.
pub(super) fn compose(layout: &Layout, base_url: &str, files: &BTreeMap<String, Bytes>) -> String {
    let urls: Map<String, Value> = layout
        .urls
        .iter()
        .map(|(path, place)| (path::encode(path).into_owned(), of(layout, place)))
        .collect();
    let listed: Map<String, Value> = files
        .iter()
        .map(|(name, body)| (name.clone(), json!({ BYTES: body.len(), BLAKE3: fingerprint(body, 64) })))
        .collect();
    let manifest = json!({
        "generator": GENERATOR,
        "format": FORMAT,
        "base_url": base_url,
        "headers": object(&layout.common),
        "endpoints": layout.endpoints,
        "urls": urls,
        "missing": of(layout, &layout.missing),
        "unknown_endpoint": spoken(layout, &layout.unknown_endpoint),
        "other_methods": spoken(layout, &layout.read_only),
        FILES: listed,
    });
    let mut text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
    text.push('\n');
    text
}

fn of(layout: &Layout, place: &Place) -> Value {
    match place {
        Place::Page { html, markdown, neither } => json!({
            "status": html.identity().reply.status,
            "negotiated": true,
            "representations": [representation(layout, html), representation(layout, markdown)],
            "not_acceptable": spoken(layout, neither),
        }),
        Place::File(stored) => json!({
            "status": stored.identity().reply.status,
            "negotiated": false,
            "representations": [representation(layout, stored)],
        }),
        Place::Moved(reply) => spoken(layout, reply),
    }
}

fn representation(layout: &Layout, stored: &Stored) -> Value {
    let identity = stored.identity();
    let content_type = identity.reply.header("content-type").unwrap_or_default();
    let mut value = json!({ "media_type": content_type.split(';').next() });
    let encodings: Vec<Value> = stored.0[1..]
        .iter()
        .map(|coded| {
            let mut value = json!({ "encoding": coded.encoding.token() });
            describe(&mut value, coded);
            value
        })
        .collect();
    describe(&mut value, identity);
    value["headers"] = own_headers(layout, &identity.reply);
    value["encodings"] = encodings.into();
    value
}

fn describe(value: &mut Value, coded: &Coded) {
    value["file"] = public(&coded.name).into();
    value[BYTES] = coded.reply.body.len().into();
    if let Some(etag) = coded.reply.header("etag") {
        value["etag"] = etag.into();
    }
}

/// An answer that is no file.
fn spoken(layout: &Layout, reply: &Reply) -> Value {
    let mut value = json!({ "status": reply.status });
    if let Some(location) = reply.header("location") {
        value["location"] = location.into();
    }
    value["headers"] = own_headers(layout, reply);
    value["body"] = String::from_utf8_lossy(&reply.body).into();
    value
}

/// What other answers do not say alike, and what is not said elsewhere.
fn own_headers(layout: &Layout, reply: &Reply) -> Value {
    let is_own = |header: &&(String, String)| {
        !layout.common.contains(header) && !["etag", "location", "content-encoding"].contains(&&*header.0)
    };
    object(reply.headers.iter().filter(is_own))
}

fn object<'a>(headers: impl IntoIterator<Item = &'a (String, String)>) -> Value {
    headers
        .into_iter()
        .map(|(name, value)| (name.clone(), value.clone().into()))
        .collect::<Map<_, _>>()
        .into()
}
