//! Reads the preferences of requests from their header maps. Most values of `Accept` and `Accept-Encoding`
//! are found in a cache; `header_cache.rs` states the gain.

use std::cell::RefCell;

use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap};

use super::get_page::{RequestPreferences, field_values};
use super::parsed_header_values::ParseCache;
use super::range::ByteRange;
use frontdesk_negotiate::{self as negotiate, Codings, Media};
use frontdesk_site::file::EncodedBody;

/// Parsed values of `Accept` and `Accept-Encoding`, which all connections of a worker share.
#[derive(Default)]
pub(super) struct PreferenceCache {
    accept: RefCell<ParseCache<Option<Media>>>,
    accept_encoding: RefCell<ParseCache<Codings>>,
}

impl PreferenceCache {
    /// The preferred representation. `line` must be the only `Accept` line of the request.
    pub(super) fn media(&self, line: &[u8]) -> Option<Media> {
        self.accept.borrow_mut().get(line, |line| negotiate::choose([line]))
    }

    /// The acceptable content codings. `line` must be the only `Accept-Encoding` line of the request.
    pub(super) fn codings(&self, line: &[u8]) -> Codings {
        self.accept_encoding.borrow_mut().get(line, |line| Codings::parse([line]))
    }
}

/// Reads a request's preferences from its `headers`. If a field has only one line, takes its parsed value
/// from `cache`.
pub(super) struct HeaderPreferences<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) cache: &'a PreferenceCache,
}

impl RequestPreferences for HeaderPreferences<'_> {
    fn media(&self) -> Option<Media> {
        let mut lines = field_values(self.headers, ACCEPT);
        match (lines.next(), lines.next()) {
            (Some(line), None) => self.cache.media(line),
            _ => self.headers.media(),
        }
    }

    fn codings(&self) -> Codings {
        let mut lines = field_values(self.headers, ACCEPT_ENCODING);
        match (lines.next(), lines.next()) {
            (Some(line), None) => self.cache.codings(line),
            _ => self.headers.codings(),
        }
    }

    fn fails_if_match(&self, body: &EncodedBody) -> bool {
        self.headers.fails_if_match(body)
    }

    fn matches_if_none_match(&self, body: &EncodedBody) -> bool {
        self.headers.matches_if_none_match(body)
    }

    fn range(&self) -> Option<ByteRange> {
        self.headers.range()
    }

    fn fails_if_range(&self, body: &EncodedBody) -> bool {
        self.headers.fails_if_range(body)
    }
}
