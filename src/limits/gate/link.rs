//! The connections to Redis: tried again and again while they are broken, and asked no longer than is bearable.
//!
//! A thread of its own connects, finds out whether the script runs, and tries it once a second. Everybody may ask by its connection; a
//! thread that asks often gets one of its own (`own.rs`). What many ask at a time by one connection shares a write.
//!
//! Who asks waits for [`Options::patience`] at most. Once several in a row have waited in vain, or anything has failed, nobody is made
//! to wait any more until a new connection has answered: a circuit breaker.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, ServerErrorKind, cmd};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::address::Options;
use super::own::Own;
use super::script::{self, Request, SCRIPT};
use crate::limits::ledger::Entry;

/// For connecting, logging in and trying the script out, taken together.
pub(super) const CONNECT: Duration = Duration::from_secs(1);

/// So many answers in a row that did not come in time end all connections: one may have met a moment at which Redis saved its memory.
const TOO_SLOW: u32 = 3;

/// A connection that nobody uses is tried so often.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The pauses between attempts grow from the first to the second, each twice as long as the one before.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// A connection that has lasted for so long was a good one: the next pause is the first again.
const LASTING: Duration = Duration::from_secs(10);

/// The upper bounds of the histogram's buckets in nanoseconds, and as they are written, in seconds.
pub const BOUNDS: [(u64, &str); 7] = [
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (20_000_000, "0.02"),
];

/// Why a decision was made by this server's own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// There was no connection that could be used, and nobody has waited.
    Disconnected,
    /// The answer did not come in time.
    Slow,
    /// The connection broke, or the answer was none.
    Failed,
}

impl Fallback {
    /// All of them, in the order of their places.
    pub const ALL: [Fallback; 3] = [Fallback::Disconnected, Fallback::Slow, Fallback::Failed];

    /// As `/metrics` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Fallback::Disconnected => "disconnected",
            Fallback::Slow => "slow",
            Fallback::Failed => "failed",
        }
    }
}

/// How it goes with Redis, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Whether limits are shared right now.
    pub is_connected: bool,
    /// Decisions that were made alone, in the order of [`Fallback::ALL`].
    pub fallbacks: [u64; Fallback::ALL.len()],
    /// Answers by how long they took: by the first of [`BOUNDS`] that it does not exceed; the last is for what exceeds all.
    pub durations: [u64; BOUNDS.len() + 1],
    /// How long they took together, in nanoseconds.
    pub took: u64,
}

/// Connections that are kept, for as long as this is there.
pub(super) struct Link {
    inner: Arc<Inner>,
    /// Dropped with the link, which ends the thread.
    _stop: watch::Sender<()>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

struct Inner {
    options: Options,
    /// What can be asked; none while there is nothing.
    line: ArcSwapOption<Line>,
    /// Why the last line was given up, and that it was.
    why: Mutex<Option<Why>>,
    lost: Notify,
    fallbacks: [AtomicU64; Fallback::ALL.len()],
    durations: [AtomicU64; BOUNDS.len() + 1],
    took: AtomicU64,
}

/// A server that has answered.
pub(super) struct Line {
    /// The keeper's, which is always in use.
    connection: MultiplexedConnection,
    /// Those of the threads that ask often.
    own: Own,
    /// By which the script is called.
    hash: String,
    /// How many answers in a row did not come in time.
    slow: AtomicU32,
}

impl Link {
    /// Begins to connect, and returns when the first attempt is over, however it went.
    pub(super) fn start(options: &Options) -> Link {
        let inner = Arc::new(Inner {
            options: options.clone(),
            line: ArcSwapOption::empty(),
            why: Mutex::default(),
            lost: Notify::new(),
            fallbacks: Default::default(),
            durations: Default::default(),
            took: AtomicU64::default(),
        });
        let (stop, stopped) = watch::channel(());
        let (tried, first) = mpsc::channel();
        let keeper = Keeper { inner: inner.clone(), tried: Some(tried), said: None };
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(keeper.run(stopped)),
                Err(error) => tracing::error!(%error, "limits cannot be shared"),
            }
        };
        match std::thread::Builder::new().name("limits".into()).spawn(run) {
            // Whether it went well or not is in the log, and in the link.
            Ok(_) => drop(first.recv_timeout(2 * CONNECT)),
            Err(error) => tracing::error!(%error, "limits cannot be shared"),
        }
        Link { inner, _stop: stop }
    }

    /// What Redis says to a request, as `read` understands it; none if it is to be decided without it.
    pub(super) async fn ask<T>(&self, request: &Request, read: impl Fn(Entry) -> Option<T>) -> Option<T> {
        let inner = &*self.inner;
        let Some(line) = inner.line.load_full() else {
            return inner.fall_back(Fallback::Disconnected);
        };
        let began = Instant::now();
        match timeout(inner.options.patience, line.ask(request, &inner.options, began)).await {
            Ok(Ok(entry)) => {
                let Some(read) = read(entry) else {
                    inner.lose(&line, Why::Nonsense);
                    return inner.fall_back(Fallback::Failed);
                };
                line.slow.store(0, Relaxed);
                inner.took(began.elapsed());
                Some(read)
            }
            Ok(Err(error)) => {
                inner.lose(&line, Why::from(&error));
                inner.fall_back(Fallback::Failed)
            }
            Err(_) => {
                inner.waited_in_vain(&line);
                inner.fall_back(Fallback::Slow)
            }
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let inner = &*self.inner;
        Figures {
            is_connected: inner.line.load().is_some(),
            fallbacks: inner.fallbacks.each_ref().map(|count| count.load(Relaxed)),
            durations: inner.durations.each_ref().map(|count| count.load(Relaxed)),
            took: inner.took.load(Relaxed),
        }
    }
}

impl Inner {
    fn fall_back<T>(&self, why: Fallback) -> Option<T> {
        self.fallbacks[why as usize].fetch_add(1, Relaxed);
        None
    }

    fn took(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|(bound, _)| nanoseconds <= *bound).unwrap_or(BOUNDS.len());
        self.durations[bucket].fetch_add(1, Relaxed);
        self.took.fetch_add(nanoseconds, Relaxed);
    }

    fn waited_in_vain(&self, line: &Arc<Line>) {
        if line.slow.fetch_add(1, Relaxed) + 1 >= TOO_SLOW {
            self.lose(line, Why::Slow);
        }
    }

    /// Nobody asks this line any more. Only the first who says so is heard.
    fn lose(&self, line: &Arc<Line>, why: Why) {
        let before = self.line.compare_and_swap(line, None);
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, line)) {
            *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            self.lost.notify_one();
        }
    }
}

impl Line {
    async fn open(options: &Options) -> Result<(Line, Duration), Why> {
        let opened = timeout(CONNECT, async {
            let mut connection = options.connect().await?;
            let hash = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await?;
            Ok::<_, RedisError>(Line { connection, own: Own::default(), hash, slow: AtomicU32::new(0) })
        });
        let line = opened.await.map_err(|_| Why::Slow)?.map_err(|error| Why::from(&error))?;
        let began = Instant::now();
        // A server that is up and too slow would have requests wait in vain once more.
        let probe = timeout(options.patience, line.call(&line.connection, &Request::probe())).await;
        probe.map_err(|_| Why::Slow)?.map_err(|error| Why::from(&error))?;
        Ok((line, began.elapsed()))
    }

    /// By this thread's own connection if it has one, by the keeper's otherwise.
    async fn ask(
        self: &Arc<Self>,
        request: &Request,
        options: &Options,
        now: Instant,
    ) -> Result<Entry, RedisError> {
        let Some(own) = self.own.get(options, now, || Arc::downgrade(self)) else {
            return self.call(&self.connection, request).await;
        };
        match self.call(&own, request).await {
            // It alone may be broken: servers close connections that are quiet for long, and what is between forgets them.
            Err(error) if error.is_unrecoverable_error() => {
                self.own.forget();
                self.call(&self.connection, request).await
            }
            answer => answer,
        }
    }

    pub(super) fn own(&self) -> &Own {
        &self.own
    }

    async fn call(&self, connection: &MultiplexedConnection, request: &Request) -> Result<Entry, RedisError> {
        let mut connection = connection.clone();
        let answer = match request.by_hash(&self.hash).query_async(&mut connection).await {
            // Somebody has emptied Redis's list of scripts, or it was started again behind the same address.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                request.in_full().query_async(&mut connection).await
            }
            answer => answer,
        };
        script::entry(&answer?)
    }
}

/// Whoever connects and sees to it that this is known.
struct Keeper {
    inner: Arc<Inner>,
    /// Who waits for the first attempt.
    tried: Option<mpsc::Sender<()>>,
    /// What was said last.
    said: Option<Result<(), Why>>,
}

impl Keeper {
    /// Until the link is gone.
    async fn run(mut self, mut stopped: watch::Receiver<()>) {
        tokio::select! {
            // It only ever ends.
            _ = stopped.changed() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        let mut pause = PAUSES[0];
        loop {
            let opened = Line::open(&self.inner.options).await;
            let why = match opened {
                Ok((line, _)) => {
                    let since = Instant::now();
                    self.inner.line.store(Some(Arc::new(line)));
                    self.tell(Ok(()));
                    let why = self.watch().await;
                    if since.elapsed() >= LASTING {
                        pause = PAUSES[0];
                    }
                    why
                }
                Err(why) => why,
            };
            self.tell(Err(why));
            tokio::time::sleep(jittered(pause)).await;
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    /// Returns when the line is lost, and why.
    async fn watch(&self) -> Why {
        loop {
            match timeout(HEARTBEAT, self.inner.lost.notified()).await {
                Ok(()) => {
                    let why = self.inner.why.lock().unwrap_or_else(PoisonError::into_inner).take();
                    return why.unwrap_or(Why::Slow);
                }
                Err(_) => self.beat().await,
            }
        }
    }

    /// Asks something, so that a server that is gone is missed before somebody needs it.
    async fn beat(&self) {
        let Some(line) = self.inner.line.load_full() else { return };
        match timeout(self.inner.options.patience, line.call(&line.connection, &Request::probe())).await {
            Ok(Ok(_)) => line.slow.store(0, Relaxed),
            Ok(Err(error)) => self.inner.lose(&line, Why::from(&error)),
            Err(_) => self.inner.waited_in_vain(&line),
        }
    }

    /// One line for each change.
    fn tell(&mut self, state: Result<(), Why>) {
        if self.said.as_ref() != Some(&state) {
            let redis = &self.inner.options;
            match &state {
                Ok(()) => tracing::info!(%redis, "limits are shared"),
                Err(why) => {
                    tracing::warn!(%redis, %why, "limits are this server's own until Redis can be used again");
                }
            }
            self.said = Some(state);
        }
        // Nobody waits any more after the first attempt.
        let _ = self.tried.take().map(|tried| tried.send(()));
    }
}

/// Up to a quarter more or less, so that servers which have lost Redis at the same moment do not come back at the same moment.
fn jittered(pause: Duration) -> Duration {
    let random = u32::try_from(RandomState::new().hash_one(0) % 512).unwrap_or_default();
    pause * (768 + random) / 1024
}

pub(super) fn try_out(options: &Options) -> Result<Duration, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let opened = runtime.block_on(Line::open(options));
    // A name server that does not answer is not waited for.
    runtime.shutdown_background();
    opened.map(|(_, took)| took).map_err(|why| why.to_string())
}

/// Why Redis cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// It cannot be reached, or was reached and is gone. With the system's or the TLS library's words.
    Unreachable(String),
    Slow,
    Password,
    Database,
    Permission,
    ReadOnly,
    Loading,
    Cluster,
    /// The script has answered what the rule cannot have led to.
    Nonsense,
    /// Anything else, with the word by which Redis names it.
    Refused(String),
}

impl From<&RedisError> for Why {
    fn from(error: &RedisError) -> Why {
        use ServerErrorKind::{
            Ask, BusyLoading, ClusterDown, CrossSlot, MasterDown, Moved, NoPerm, ReadOnly, ResponseError,
        };
        match error.kind() {
            ErrorKind::Io | ErrorKind::InvalidClientConfig => Why::Unreachable(error.to_string()),
            ErrorKind::AuthenticationFailed => Why::Password,
            ErrorKind::Server(NoPerm) => Why::Permission,
            ErrorKind::Server(ReadOnly | MasterDown) => Why::ReadOnly,
            ErrorKind::Server(BusyLoading) => Why::Loading,
            // The library's own words, without Redis's.
            ErrorKind::Server(ResponseError)
                if error.to_string().starts_with("Redis server refused to switch database") =>
            {
                Why::Database
            }
            ErrorKind::Server(Moved | Ask | CrossSlot | ClusterDown) => Why::Cluster,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Why::Nonsense,
            _ => match error.code() {
                Some("NOAUTH" | "WRONGPASS") => Why::Password,
                // What it says beyond that may be anything.
                code => Why::Refused(code.unwrap_or("ERR").to_owned()),
            },
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Unreachable(error) => write!(f, "it cannot be reached: {error}"),
            Why::Slow => f.write_str("it does not answer in time"),
            Why::Password => f.write_str("it wants another user or password than `limits.shared_url` has"),
            Why::Database => f.write_str("it has no database of the number in `limits.shared_url`"),
            Why::Permission => f.write_str(
                "the user may not do what is needed: EVAL, EVALSHA, SCRIPT LOAD, TIME, MGET and SET, with keys `frontdesk:*`",
            ),
            Why::ReadOnly => f.write_str("it is a replica that may not be written to, or has lost its primary"),
            Why::Loading => f.write_str("it is still reading its data"),
            Why::Cluster => f.write_str("it is part of a cluster, and a single primary is needed"),
            Why::Nonsense => f.write_str("what it answers makes no sense: is it a Redis, and does nothing else write to keys `frontdesk:*`?"),
            Why::Refused(code) => write!(f, "it refuses what it is asked ({code})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_never_far_from_what_was_meant() {
        for _ in 0..1000 {
            let pause = jittered(PAUSES[1]);
            assert!((PAUSES[1] * 3 / 4..PAUSES[1] * 5 / 4).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        let check = |kind: ErrorKind, expected: &str| {
            let said = Why::from(&RedisError::from((kind, "x"))).to_string();
            assert!(said.contains(expected), "{said}");
        };
        check(ErrorKind::AuthenticationFailed, "another user or password");
        check(ErrorKind::Server(ServerErrorKind::NoPerm), "EVALSHA");
        check(ErrorKind::Server(ServerErrorKind::ReadOnly), "replica");
        check(ErrorKind::Server(ServerErrorKind::Moved), "single primary");
        check(ErrorKind::Server(ServerErrorKind::BusyLoading), "still reading");
        check(ErrorKind::UnexpectedReturnType, "makes no sense");
        check(ErrorKind::Server(ServerErrorKind::ResponseError), "(ERR)");
    }
}
