//! The response to a plain request (`plain_request.rs`), and the buffers that the fast path composes it in.

use std::cell::RefCell;

use bytes::Bytes;
use tokio::time::Instant;

use crate::connection_deadline::HEADER_LIMIT;
use crate::date::CurrentDate;
use crate::response_body::ResponseBody;

/// Maximum length in bytes of a body that is copied into the buffer after its header. Longer bodies are
/// written as a second slice, which costs the kernel more than copying a short body.
const MAX_COPIED: usize = 4096;

/// Buffers that the connections of one worker share.
pub(crate) struct SharedBuffers {
    /// The bytes that were just read from a connection.
    pub(crate) request: RefCell<Box<[u8]>>,
    pub(crate) response: RefCell<Vec<u8>>,
    pub(crate) date: RefCell<CurrentDate>,
}

impl SharedBuffers {
    pub(crate) fn new() -> Self {
        Self {
            request: RefCell::new(vec![0; HEADER_LIMIT].into()),
            response: RefCell::new(Vec::with_capacity(2 * MAX_COPIED)),
            date: RefCell::new(CurrentDate::new()),
        }
    }
}

/// Collects the response to a plain request.
pub struct PlainResponse<'a> {
    /// The header, and the body if it is short.
    buffer: &'a mut Vec<u8>,
    /// The body if it is long.
    pub(crate) body: ResponseBody,
    sends_files: bool,
    date: &'a RefCell<CurrentDate>,
    began: Instant,
}

impl<'a> PlainResponse<'a> {
    pub(crate) fn new(
        buffer: &'a mut Vec<u8>,
        date: &'a RefCell<CurrentDate>,
        began: Instant,
        sends_files: bool,
    ) -> Self {
        Self { buffer, body: ResponseBody::default(), sends_files, date, began }
    }

    /// Whether the body may be a file that the kernel sends, see [`Self::write_body`]. False over TLS.
    pub fn sends_files(&self) -> bool {
        self.sends_files
    }

    /// Sets the response to prepared bytes: the status line and all header lines but `Date`, each with its
    /// line break (RFC 9112 §4, §5), in any number of pieces; and the body, if the response has one. Must be
    /// called only once.
    pub fn write(&mut self, head: &[&[u8]], body: Option<&Bytes>) {
        self.write_head(head);
        match body {
            Some(body) if body.len() <= MAX_COPIED => self.buffer.extend_from_slice(body),
            Some(body) => self.body = ResponseBody::Bytes(body.clone()),
            None => {}
        }
    }

    /// Like [`Self::write`], with a body that is not one piece of memory. A file requires
    /// [`Self::sends_files`].
    pub fn write_body(&mut self, head: &[&[u8]], body: ResponseBody) {
        self.write_head(head);
        self.body = body;
    }

    /// Appends the header lines, `Date` and the empty line that ends the header.
    fn write_head(&mut self, head: &[&[u8]]) {
        for lines in head {
            self.buffer.extend_from_slice(lines);
        }
        self.buffer.extend_from_slice(self.date.borrow_mut().line_at(self.began).as_bytes());
        self.buffer.extend_from_slice(b"\r\n");
    }
}
