//! Detects a connection pooler that gives each transaction another session, and executes a single statement
//! as a transaction.
//!
//! A server announces the process of each session in its first messages, for cancel requests. A pooler has to
//! announce a number of its own, or none, because it cannot know which process a later request concerns. So a
//! session is ours alone only if the process that executes a query is the announced one. In any doubt, the
//! connection is used as if there were a pooler, which is slower but right without one, too.

use std::future::{Future, poll_fn, ready};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

/// The detected properties of a connection pooler in front of a database.
#[derive(Default)]
pub struct PoolerState {
    is_pooled: AtomicBool,
    refuses_options: AtomicBool,
    is_reported: AtomicBool,
}

/// A statement with the types of its parameters and columns, which are the same in all sessions.
pub struct Described {
    /// The statement, with parameters in PostgreSQL's form: `$1`, `$2`.
    pub sql: String,
    pub parameters: Vec<Type>,
    pub columns: Arc<[String]>,
    pub column_types: Vec<Type>,
}

impl Described {
    /// Pairs each value with the type of its parameter. Drops surplus values.
    pub fn bind<'a, T: ToSql + Sync>(&self, values: &'a [T]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
        let value = |(value, kind): (&'a T, &Type)| (value as &(dyn ToSql + Sync), kind.clone());
        values.iter().zip(&self.parameters).map(value).collect()
    }
}

impl PoolerState {
    pub fn is_pooled(&self) -> bool {
        self.is_pooled.load(Ordering::Relaxed)
    }

    /// Marks the database as being behind a pooler, for all clones of the server.
    pub fn set_pooled(&self) {
        self.is_pooled.store(true, Ordering::Relaxed);
    }

    /// Whether the pooler refuses the parameter `options` when a client connects.
    pub fn refuses_options(&self) -> bool {
        self.refuses_options.load(Ordering::Relaxed)
    }

    /// Records that the pooler refuses the parameter `options`. From now on, connections are also used as if
    /// there were a pooler.
    pub fn set_refuses_options(&self) {
        self.refuses_options.store(true, Ordering::Relaxed);
        self.set_pooled();
    }

    /// Returns true only on the first call, so that the pooler is logged once.
    pub fn report(&self) -> bool {
        !self.is_reported.swap(true, Ordering::Relaxed)
    }
}

/// The error of a failed transaction, and whether its beginning or a later statement failed.
pub enum FailedPart {
    Begin(Error),
    Later(Error),
}

/// Executes a statement in a transaction of its own. The session must have no open transaction. Sends
/// `begin`, the statement and COMMIT at once, so that this takes no longer than the statement alone. `begin`
/// is BEGIN, and may have further statements. If the server refuses one part after BEGIN, it executes no
/// later statement, and treats COMMIT as ROLLBACK.
pub async fn in_transaction<T>(
    client: &Client,
    begin: &str,
    statement: impl Future<Output = Result<T, Error>>,
) -> Result<T, FailedPart> {
    let mut begin = pin!(client.batch_execute(begin));
    let mut statement = pin!(statement);
    let mut commit = pin!(client.batch_execute("COMMIT"));
    let (mut first, mut done, mut last) = (None, None, None);
    // Poll the futures in this order, because each request is sent when its future is first polled.
    poll_fn(|cx| {
        poll_once(begin.as_mut(), &mut first, cx);
        poll_once(statement.as_mut(), &mut done, cx);
        poll_once(commit.as_mut(), &mut last, cx);
        if first.is_some() && done.is_some() && last.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    // All three requests have a result now.
    if let Some(Err(error)) = first {
        return Err(FailedPart::Begin(error));
    }
    match (done, last) {
        (Some(Ok(_)), Some(Err(error))) => Err(FailedPart::Later(error)),
        (Some(done), _) => done.map_err(FailedPart::Later),
        (None, _) => std::future::pending().await,
    }
}

/// Polls a future and stores its output, unless `result` already has it.
fn poll_once<F: Future>(future: Pin<&mut F>, result: &mut Option<F::Output>, cx: &mut Context<'_>) {
    if result.is_none()
        && let Poll::Ready(output) = future.poll(cx)
    {
        *result = Some(output);
    }
}

/// The server process that was announced when the client connected; zero if none was, as by Amazon's RDS
/// Proxy. The library shows the number only in cancel requests, so one is written to memory.
pub fn announced_process(client: &Client) -> i32 {
    let mut request = CancelRequest::default();
    let token = client.cancel_token();
    let written = pin!(token.cancel_query_raw(&mut request, NoEncryption))
        .poll(&mut Context::from_waker(Waker::noop()));
    debug_assert!(matches!(written, Poll::Ready(Ok(()))), "writing to memory succeeds at once");
    // The request has four fields of 4 bytes each: its length, a code, the process and a key.
    let process = request.0.last_chunk::<16>().and_then(|request| request[8..12].try_into().ok());
    process.map_or(0, i32::from_be_bytes)
}

/// Collects the bytes of a cancel request instead of sending them.
#[derive(Default)]
struct CancelRequest(Vec<u8>);

impl AsyncWrite for CancelRequest {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for CancelRequest {
    /// The answer of a server that supports TLS, so that the library continues with [`NoEncryption`], which
    /// encrypts nothing.
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        out.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for &mut CancelRequest {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

struct NoEncryption;

impl<'a> TlsConnect<&'a mut CancelRequest> for NoEncryption {
    type Stream = &'a mut CancelRequest;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<&'a mut CancelRequest>>;

    fn connect(self, stream: &'a mut CancelRequest) -> Self::Future {
        ready(Ok(stream))
    }
}
