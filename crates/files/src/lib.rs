//! Files as the server sends them: bodies with their headers, validators and encodings.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

mod compression;
mod encoding_cache;
mod served_file;

pub use compression::{Effort, Encoded, encode, gzip_size_after, is_served_from_disk};
pub use encoding_cache::{Encodings, encode_strongly};
pub use served_file::{
    Blob, CACHE_SLOTS, Cache, EncodedBody, File, cors_header, document_version, fingerprint, noindex_header,
};
