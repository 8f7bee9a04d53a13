//! Calls the script in Redis with a timeout, and reconnects behind a circuit breaker.
//!
//! A dedicated thread connects, loads the script, and probes the connection once a second. All threads can
//! share that connection; a thread that calls often gets its own (`local_pool.rs`). Concurrent calls on one
//! connection are sent in one write.
//!
//! A call waits for at most [`RedisOptions::timeout`]. After several consecutive timeouts, or after any other
//! failure, the breaker opens: calls no longer wait until a new connection has answered a probe.

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

use super::local_pool::LocalPool;
use super::options::{CONNECT_TIMEOUT, RedisOptions};
use super::script::{self, Request, SCRIPT};
use crate::limits::rule::ScriptReply;

/// Number of consecutive timeouts that open the breaker. One or two may happen while Redis writes a snapshot.
const MAX_TIMEOUTS: u32 = 3;

const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest and the longest pause between attempts to connect. Each pause is twice as long as the one
/// before.
const RECONNECT_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// If a connection has lasted this long, the next pauses start at the shortest one again.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The upper bounds of the histogram's buckets, in nanoseconds and as label text in seconds.
pub const BOUNDS: [(u64, &str); 7] = [
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (20_000_000, "0.02"),
];

/// The reason why the local limits made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The breaker was open, so the request did not wait.
    Disconnected,
    Slow,
    /// The connection failed, or the reply was invalid.
    Failed,
}

impl Fallback {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Fallback; 3] = [Fallback::Disconnected, Fallback::Slow, Fallback::Failed];

    pub const fn name(self) -> &'static str {
        match self {
            Fallback::Disconnected => "disconnected",
            Fallback::Slow => "slow",
            Fallback::Failed => "failed",
        }
    }
}

/// Metrics of the connection to Redis since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisMetrics {
    pub is_connected: bool,
    /// The number of local decisions by reason, in the order of [`Fallback::ALL`].
    pub fallbacks: [u64; Fallback::ALL.len()],
    /// The number of calls by duration. Each call counts in the first bucket of [`BOUNDS`] that it does not
    /// exceed; the last counter is for longer calls.
    pub durations: [u64; BOUNDS.len() + 1],
    /// The total duration of all calls in nanoseconds.
    pub took: u64,
}

/// The connections to Redis. Dropping this stops the thread that reconnects.
pub(super) struct RedisClient {
    inner: Arc<Inner>,
    _stop: watch::Sender<()>,
}

struct Inner {
    options: RedisOptions,
    primary: ArcSwapOption<Primary>,
    why: Mutex<Option<RedisFault>>,
    lost: Notify,
    fallbacks: [AtomicU64; Fallback::ALL.len()],
    durations: [AtomicU64; BOUNDS.len() + 1],
    took: AtomicU64,
}

/// A Redis primary that has answered a probe.
pub(super) struct Primary {
    /// The connection that the reconnecting thread serves.
    connection: MultiplexedConnection,
    /// Connections of threads that call often.
    pool: Arc<LocalPool>,
    /// The script's SHA-1, for EVALSHA.
    hash: String,
    slow: AtomicU32,
}

impl RedisClient {
    /// Starts to connect. Returns once the first attempt has succeeded or failed, or after two seconds.
    pub(super) fn start(options: &RedisOptions) -> RedisClient {
        let inner = Arc::new(Inner {
            options: options.clone(),
            primary: ArcSwapOption::empty(),
            why: Mutex::default(),
            lost: Notify::new(),
            fallbacks: Default::default(),
            durations: Default::default(),
            took: AtomicU64::default(),
        });
        let (stop, stopped) = watch::channel(());
        let (tried, first) = mpsc::channel();
        let reconnector = Reconnector { inner: inner.clone(), tried: Some(tried), logged: None };
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(reconnector.run(stopped)),
                Err(error) => tracing::error!(%error, "limits cannot be shared"),
            }
        };
        match std::thread::Builder::new().name("limits".into()).spawn(run) {
            // The thread logs the result and stores the connection.
            Ok(_) => drop(first.recv_timeout(2 * CONNECT_TIMEOUT)),
            Err(error) => tracing::error!(%error, "limits cannot be shared"),
        }
        RedisClient { inner, _stop: stop }
    }

    /// Runs the script and converts its reply with `read`. `None` if the local limits must decide.
    pub(super) async fn call_script<T>(
        &self,
        request: &Request,
        read: impl Fn(ScriptReply) -> Option<T>,
    ) -> Option<T> {
        let inner = &*self.inner;
        let Some(primary) = inner.primary.load_full() else {
            return inner.fall_back(Fallback::Disconnected);
        };
        let began = Instant::now();
        match timeout(inner.options.timeout, primary.call_with_pool(request, &inner.options, began)).await {
            Ok(Ok(entry)) => {
                let Some(read) = read(entry) else {
                    inner.open_breaker(&primary, RedisFault::InvalidReply);
                    return inner.fall_back(Fallback::Failed);
                };
                primary.slow.store(0, Relaxed);
                inner.record_duration(began.elapsed());
                Some(read)
            }
            Ok(Err(error)) => {
                inner.open_breaker(&primary, error.into());
                inner.fall_back(Fallback::Failed)
            }
            Err(_) => {
                inner.record_timeout(&primary);
                inner.fall_back(Fallback::Slow)
            }
        }
    }

    pub(super) fn metrics(&self) -> RedisMetrics {
        let inner = &*self.inner;
        RedisMetrics {
            is_connected: inner.primary.load().is_some(),
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

    fn record_duration(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|(bound, _)| nanoseconds <= *bound).unwrap_or(BOUNDS.len());
        self.durations[bucket].fetch_add(1, Relaxed);
        self.took.fetch_add(nanoseconds, Relaxed);
    }

    fn record_timeout(&self, primary: &Arc<Primary>) {
        if primary.slow.fetch_add(1, Relaxed) + 1 >= MAX_TIMEOUTS {
            self.open_breaker(primary, RedisFault::Slow);
        }
    }

    /// Opens the breaker. Only the first call for each primary has an effect.
    fn open_breaker(&self, primary: &Arc<Primary>, why: RedisFault) {
        let before = self.primary.compare_and_swap(primary, None);
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, primary)) {
            *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            self.lost.notify_one();
        }
    }
}

impl Primary {
    async fn open(options: &RedisOptions) -> Result<(Primary, Duration), RedisFault> {
        let opened = timeout(CONNECT_TIMEOUT, async {
            let mut connection = options.connect().await?;
            let hash = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await?;
            Ok::<_, RedisError>(Primary { connection, pool: Arc::default(), hash, slow: AtomicU32::new(0) })
        });
        let primary = opened.await.map_err(|_| RedisFault::Slow)??;
        let began = Instant::now();
        // If a server accepts connections but responds too slowly, requests must not start to wait again.
        let probe = timeout(options.timeout, primary.call(&primary.connection, &Request::probe())).await;
        probe.map_err(|_| RedisFault::Slow)??;
        Ok((primary, began.elapsed()))
    }

    /// Calls over this thread's own connection if it has one, and otherwise over the shared one.
    async fn call_with_pool(
        &self,
        request: &Request,
        options: &RedisOptions,
        now: Instant,
    ) -> Result<ScriptReply, RedisError> {
        let Some(own) = self.pool.get(options, now) else {
            return self.call(&self.connection, request).await;
        };
        match self.call(&own, request).await {
            // Only this connection may be broken, because servers and middleboxes drop idle connections.
            Err(error) if error.is_unrecoverable_error() => {
                self.pool.forget();
                self.call(&self.connection, request).await
            }
            answer => answer,
        }
    }

    async fn call(
        &self,
        connection: &MultiplexedConnection,
        request: &Request,
    ) -> Result<ScriptReply, RedisError> {
        let mut connection = connection.clone();
        let answer = match request.call("EVALSHA", &self.hash).query_async(&mut connection).await {
            // Redis has been restarted, or its script cache has been flushed.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                request.call("EVAL", SCRIPT).query_async(&mut connection).await
            }
            answer => answer,
        };
        script::parse_reply(&answer?)
    }
}

/// Connects, probes and reconnects. Runs on its own thread.
struct Reconnector {
    inner: Arc<Inner>,
    /// Signals that the first attempt has ended.
    tried: Option<mpsc::Sender<()>>,
    /// The state that was logged last.
    logged: Option<Result<(), RedisFault>>,
}

impl Reconnector {
    async fn run(mut self, mut stopped: watch::Receiver<()>) {
        tokio::select! {
            // Nothing is ever sent on this channel. It only closes.
            _ = stopped.changed() => {}
            () = self.reconnect_forever() => {}
        }
    }

    async fn reconnect_forever(&mut self) {
        let mut pause = RECONNECT_PAUSES[0];
        loop {
            let opened = Primary::open(&self.inner.options).await;
            let why = match opened {
                Ok((primary, _)) => {
                    let since = Instant::now();
                    self.inner.primary.store(Some(Arc::new(primary)));
                    self.log_change(Ok(()));
                    let why = self.wait_until_lost().await;
                    if since.elapsed() >= STABLE_AFTER {
                        pause = RECONNECT_PAUSES[0];
                    }
                    why
                }
                Err(why) => why,
            };
            self.log_change(Err(why));
            tokio::time::sleep(add_jitter(pause)).await;
            pause = (pause * 2).min(RECONNECT_PAUSES[1]);
        }
    }

    async fn wait_until_lost(&self) -> RedisFault {
        loop {
            match timeout(PROBE_INTERVAL, self.inner.lost.notified()).await {
                Ok(()) => {
                    let why = self.inner.why.lock().unwrap_or_else(PoisonError::into_inner).take();
                    return why.unwrap_or(RedisFault::Slow);
                }
                Err(_) => self.probe().await,
            }
        }
    }

    /// Probes the connection, so that a failure is noticed before a request needs it.
    async fn probe(&self) {
        let Some(primary) = self.inner.primary.load_full() else { return };
        match timeout(self.inner.options.timeout, primary.call(&primary.connection, &Request::probe())).await
        {
            Ok(Ok(_)) => primary.slow.store(0, Relaxed),
            Ok(Err(error)) => self.inner.open_breaker(&primary, error.into()),
            Err(_) => self.inner.record_timeout(&primary),
        }
    }

    fn log_change(&mut self, state: Result<(), RedisFault>) {
        if self.logged.as_ref() != Some(&state) {
            let redis = &self.inner.options;
            match &state {
                Ok(()) => tracing::info!(%redis, "limits are shared"),
                Err(why) => {
                    tracing::warn!(%redis, %why, "using this server's own limits until Redis can be used again");
                }
            }
            self.logged = Some(state);
        }
        // The caller of `start` waits only for the first attempt.
        let _ = self.tried.take().map(|tried| tried.send(()));
    }
}

/// Changes a pause by up to a quarter, so that servers that lost Redis at the same time do not reconnect at
/// the same time.
fn add_jitter(pause: Duration) -> Duration {
    let random = u32::try_from(RandomState::new().hash_one(0) % 512).unwrap_or_default();
    pause * (768 + random) / 1024
}

/// Tests the connection to Redis. Returns the time that a check takes, or the problem and its remedy. Blocks
/// for at most a second plus [`RedisOptions::timeout`].
pub fn test_connection(options: &RedisOptions) -> Result<Duration, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let opened = runtime.block_on(Primary::open(options));
    // Do not wait for a DNS lookup that is still running.
    runtime.shutdown_background();
    opened.map(|(_, took)| took).map_err(|why| why.to_string())
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum RedisFault {
    /// Connecting failed, or the connection broke. Holds the message of the operating system or the TLS
    /// library.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it does not respond in time")]
    Slow,
    #[error("it requires a different user or password than `limits.shared_url` has")]
    Password,
    #[error("it has no database with the number in `limits.shared_url`")]
    Database,
    #[error(
        "the user lacks permissions: it needs EVAL, EVALSHA, SCRIPT LOAD, TIME, MGET and SET, with keys `frontdesk:*`"
    )]
    Permission,
    #[error("it is a replica that cannot be written to, or that has lost its primary")]
    ReadOnly,
    #[error("it is still loading its data")]
    Loading,
    #[error("it is part of a cluster, but a single primary is needed")]
    Cluster,
    /// The script's reply contradicts the rule.
    #[error("its reply is invalid: is it really Redis, and does anything else write to keys `frontdesk:*`?")]
    InvalidReply,
    /// Any other error. Holds Redis's error code.
    #[error("it refuses the command ({0})")]
    Refused(String),
}

impl From<RedisError> for RedisFault {
    fn from(error: RedisError) -> RedisFault {
        use ServerErrorKind::{
            Ask, BusyLoading, ClusterDown, CrossSlot, MasterDown, Moved, NoPerm, ReadOnly, ResponseError,
        };
        match error.kind() {
            ErrorKind::Io | ErrorKind::InvalidClientConfig => RedisFault::Unreachable(error.to_string()),
            ErrorKind::AuthenticationFailed => RedisFault::Password,
            ErrorKind::Server(NoPerm) => RedisFault::Permission,
            ErrorKind::Server(ReadOnly | MasterDown) => RedisFault::ReadOnly,
            ErrorKind::Server(BusyLoading) => RedisFault::Loading,
            // The library writes this text, not Redis.
            ErrorKind::Server(ResponseError)
                if error.to_string().starts_with("Redis server refused to switch database") =>
            {
                RedisFault::Database
            }
            ErrorKind::Server(Moved | Ask | CrossSlot | ClusterDown) => RedisFault::Cluster,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => RedisFault::InvalidReply,
            _ => match error.code() {
                Some("NOAUTH" | "WRONGPASS") => RedisFault::Password,
                // The rest of the message may contain arbitrary text.
                code => RedisFault::Refused(code.unwrap_or("ERR").to_owned()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_changes_a_pause_by_at_most_a_quarter() {
        for _ in 0..1000 {
            let pause = add_jitter(RECONNECT_PAUSES[1]);
            assert!((RECONNECT_PAUSES[1] * 3 / 4..RECONNECT_PAUSES[1] * 5 / 4).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn an_error_names_the_remedy() {
        let check = |kind: ErrorKind, expected: &str| {
            let said = RedisFault::from(RedisError::from((kind, "x"))).to_string();
            assert!(said.contains(expected), "{said}");
        };
        check(ErrorKind::AuthenticationFailed, "different user or password");
        check(ErrorKind::Server(ServerErrorKind::NoPerm), "EVALSHA");
        check(ErrorKind::Server(ServerErrorKind::ReadOnly), "replica");
        check(ErrorKind::Server(ServerErrorKind::Moved), "single primary");
        check(ErrorKind::Server(ServerErrorKind::BusyLoading), "still loading");
        check(ErrorKind::UnexpectedReturnType, "its reply is invalid");
        check(ErrorKind::Server(ServerErrorKind::ResponseError), "(ERR)");
    }
}
