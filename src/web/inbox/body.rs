//! Bodies of responses: in memory, or as a stream of limited depth.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tokio::sync::mpsc;

/// How many chunks a stream may be ahead of its client.
const DEPTH: usize = 4;
/// How many bytes a writer collects before it sends a chunk.
const CHUNK: usize = 32 * 1024;

pub(super) enum InboxBody {
    Full(Full<Bytes>),
    Stream(mpsc::Receiver<Bytes>),
}

pub(super) type ChunkSender = mpsc::Sender<Bytes>;

/// A body that streams what is sent to the sender. It ends when the sender is dropped.
pub(super) fn stream() -> (ChunkSender, InboxBody) {
    let (sender, receiver) = mpsc::channel(DEPTH);
    (sender, InboxBody::Stream(receiver))
}

impl Body for InboxBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Self::Full(full) => Pin::new(full).poll_frame(context).map_err(|never| match never {}),
            Self::Stream(receiver) => {
                receiver.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(full) => full.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// Writes to a stream from a thread, and waits while the client reads slowly. Fails if the client is gone.
pub(super) struct ChunkWriter {
    sender: ChunkSender,
    buffer: Vec<u8>,
}

impl ChunkWriter {
    pub(super) fn new(sender: ChunkSender) -> Self {
        Self { sender, buffer: Vec::new() }
    }
}

impl io::Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::take(&mut self.buffer));
        self.sender.blocking_send(chunk).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
