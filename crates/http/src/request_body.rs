//! Reads request bodies within limits, and discards unwanted ones.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use super::connection_memory::{Charge, Slot};
use super::private_connection_limits::{Answering, PrivateConn};

/// Maximum length in bytes of an unwanted body that is read and discarded. If the server did not read the
/// body, a client that is still sending would see a connection reset instead of the response.
const MAX_DRAINED: usize = 8 << 20;

const MAX_DRAIN_TIME: Duration = Duration::from_secs(2);

/// The body of a request, whose memory is charged to the connection.
pub struct RequestBody {
    body: Incoming,
    slot: Arc<Slot>,
    /// The connection, if a private listener accepted it; otherwise `None`.
    private: Option<Arc<PrivateConn>>,
    /// Set once a private connection's request is complete. Keeps it from being closed at a limit.
    pub(super) answering: Option<Answering>,
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// The body is longer than the limit.
    TooLong,
    /// The body did not arrive within the time limit.
    Slow,
    /// The connection failed, or the body is not valid HTTP.
    Broken,
}

impl RequestBody {
    /// Marks a private connection as answering if the request has no body to wait for.
    pub(super) fn new(body: Incoming, slot: &Arc<Slot>, private: Option<Arc<PrivateConn>>) -> Self {
        let answering = private.as_ref().filter(|_| body.is_end_stream()).map(PrivateConn::mark_answering);
        Self { body, slot: slot.clone(), private, answering }
    }

    pub(super) fn is_fully_read(&self) -> bool {
        self.body.is_end_stream()
    }

    /// Reads the whole body, of at most `limit` bytes, within `timeout`, and charges its memory to the
    /// connection until the charge is dropped. Drops trailers. Fails at once if `Content-Length` in `headers`
    /// exceeds the limit; after other errors, what has been read is lost. After success, a private connection
    /// is not closed at a limit until the response.
    pub async fn read(
        &mut self,
        headers: &HeaderMap,
        limit: usize,
        timeout: Duration,
    ) -> Result<(Bytes, Charge), ReadError> {
        let declared =
            headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if declared.is_some_and(|length| length > limit as u64) {
            return Err(ReadError::TooLong);
        }
        let whole = async {
            let mut bytes = BytesMut::new();
            let mut charge = self.slot.charge(0);
            while let Some(frame) = self.body.frame().await {
                let Ok(data) = frame.map_err(|_| ReadError::Broken)?.into_data() else { continue };
                if bytes.len() + data.len() > limit {
                    return Err(ReadError::TooLong);
                }
                bytes.extend_from_slice(&data);
                charge.resize(bytes.capacity());
            }
            Ok((bytes.freeze(), charge))
        };
        let read = tokio::time::timeout(timeout, whole).await.unwrap_or(Err(ReadError::Slow))?;
        if let Some(conn) = &self.private {
            // Keep an existing guard: dropping one guard marks the connection as waiting, even if there is
            // another.
            self.answering.get_or_insert_with(|| conn.mark_answering());
        }
        Ok(read)
    }

    /// A response body whose memory is charged to the connection until all of it is sent.
    pub fn charged_response(&self, text: String) -> Bytes {
        charged(&self.slot, text)
    }

    /// Discards the rest of the body, up to [`MAX_DRAINED`] bytes within [`MAX_DRAIN_TIME`]. Returns whether
    /// the body ended: only then can the connection be reused.
    pub(super) async fn drain(&mut self) -> bool {
        let rest = async {
            let mut drained = 0;
            while let Some(frame) = self.body.frame().await {
                let Ok(frame) = frame else { return false };
                drained += frame.data_ref().map_or(0, Bytes::len);
                if drained > MAX_DRAINED {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(MAX_DRAIN_TIME, rest).await.unwrap_or(false)
    }
}

/// Text whose memory is charged to a connection until the last reference to it is dropped.
struct ChargedText {
    text: String,
    _charge: Charge,
}

impl AsRef<[u8]> for ChargedText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

fn charged(slot: &Arc<Slot>, text: String) -> Bytes {
    let charge = slot.charge(text.capacity());
    Bytes::from_owner(ChargedText { text, _charge: charge })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charged_response_counts_until_it_is_dropped() {
        let slot = Arc::new(Slot::default());
        let before = slot.cost();
        let text = charged(&slot, "x".repeat(100_000));
        let part = text.slice(..10);
        assert!(slot.cost() >= before + 100_000);
        drop(text);
        assert!(slot.cost() >= before + 100_000, "a part is still to be sent");
        drop(part);
        assert_eq!(slot.cost(), before);
    }
}
