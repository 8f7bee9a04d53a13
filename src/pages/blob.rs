//! What was read from a file, and by what it is told from other contents.

use blake3::Hash;
use bytes::Bytes;

/// The content of a file that is sent, or of a template.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub bytes: Bytes,
    pub hash: Hash,
}

impl Blob {
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { hash: blake3::hash(&bytes), bytes }
    }

    /// The first `length` hexadecimal digits of its hash.
    pub fn print(&self, length: usize) -> String {
        let mut hex = self.hash.to_hex().to_string();
        hex.truncate(length);
        hex
    }
}
