//! Bodies of responses: in memory, or as a stream of limited depth.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How many chunks a stream may be ahead of its client.
const DEPTH: usize = 4;
/// How many bytes a writer collects before it sends a chunk.
const CHUNK: usize = 32 * 1024;
/// How long a client may take to read a chunk: about one KiB a second.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(30);

/// The body of a response of the web interface: in memory, or a stream of chunks.
pub enum DeskBody {
    Full(Full<Bytes>),
    Stream(mpsc::Receiver<StreamChunk>),
}

pub enum StreamChunk {
    Bytes(Bytes),
    /// The response is complete.
    End,
}

pub(super) type ChunkSender = mpsc::Sender<StreamChunk>;

/// A sender, and the body that streams the chunks sent through it. If the sender is dropped before
/// [`StreamChunk::End`], the response is cut off, so that the client does not take it for complete.
pub(super) fn stream() -> (ChunkSender, DeskBody) {
    let (sender, receiver) = mpsc::channel(DEPTH);
    (sender, DeskBody::Stream(receiver))
}

impl Body for DeskBody {
    type Data = Bytes;
    type Error = io::Error;

    /// Polls the next chunk. Fails if a stream's sender is dropped before `StreamChunk::End`.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Self::Full(full) => Pin::new(full).poll_frame(context).map_err(|never| match never {}),
            Self::Stream(receiver) => receiver.poll_recv(context).map(|chunk| match chunk {
                Some(StreamChunk::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
                Some(StreamChunk::End) => None,
                None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            }),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(full) => full.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// Writes to a stream from a thread, and waits while the client reads slowly. Fails if the client is gone, or
/// has read nothing for [`CHUNK_TIMEOUT`].
pub(super) struct ChunkWriter {
    sender: ChunkSender,
    buffer: Vec<u8>,
    runtime: Handle,
}

impl ChunkWriter {
    /// Creates a writer. Call this on a blocking thread of the runtime (`spawn_blocking`): writing blocks.
    pub(super) fn new(sender: ChunkSender) -> Self {
        Self { sender, buffer: Vec::new(), runtime: Handle::current() }
    }

    /// Sends the remaining bytes, and completes the response.
    pub(super) fn finish(mut self) -> io::Result<()> {
        io::Write::flush(&mut self)?;
        self.send(StreamChunk::End)
    }

    fn send(&self, chunk: StreamChunk) -> io::Result<()> {
        let sent = self.sender.send_timeout(chunk, CHUNK_TIMEOUT);
        self.runtime.block_on(sent).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl io::Write for ChunkWriter {
    /// Collects bytes. Sends all collected bytes once their number reaches [`CHUNK`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    /// Sends the collected bytes as one chunk, which blocks while the client reads slowly.
    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::take(&mut self.buffer));
        self.send(StreamChunk::Bytes(chunk))
    }
}
