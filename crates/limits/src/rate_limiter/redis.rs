//! Calls the script in Redis, with a timeout and a circuit breaker, and reconnects after failures.
//!
//! A dedicated thread connects, loads the script, and probes the connection once a second. All threads can
//! share that connection; a thread that calls often gets its own (`redis_connection_pool.rs`). Concurrent
//! calls on one connection are sent in one write.
//!
//! A call waits for at most [`RedisOptions::timeout`]. After several consecutive timeouts, or after any other
//! failure, the breaker opens: calls do not wait for Redis until a probe of a new connection has succeeded.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, ServerErrorKind, cmd};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::redis_connection_pool::LocalPool;
use super::redis_options::{CONNECT_TIMEOUT, RedisOptions};
use super::script::{self, Keys, Operation, Request, SCRIPT};
use crate::rule::{LimitRule, ScriptReply};
use crate::source::Source;
use frontdesk_process::panics::{self, Part};

/// Consecutive timeouts that open the breaker. One or two may occur while Redis writes a snapshot.
const MAX_TIMEOUTS: u32 = 3;

const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest and the longest pause between attempts to connect. Each pause is twice as long as the
/// previous one, up to the longest.
const RECONNECT_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// A connection that lasts at least this long resets the pause before reconnecting to the minimum.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The upper bounds of the buckets of [`RedisMetrics::durations`], in microseconds.
pub const BOUNDS: [u64; 7] = [250, 500, 1_000, 2_500, 5_000, 10_000, 20_000];

/// The reason why the local limits decided instead of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The circuit breaker was open, so Redis was not called.
    Disconnected,
    /// Redis did not reply within [`RedisOptions::timeout`].
    Slow,
    /// The connection failed, or the reply was invalid.
    Failed,
}

impl Fallback {
    /// The names of all reasons for a fallback, in the order of their discriminants.
    pub const NAMES: [&str; 3] = ["disconnected", "slow", "failed"];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedisMetrics {
    pub is_connected: bool,
    /// The number of local decisions by reason, in the order of [`Fallback::NAMES`].
    pub fallbacks: [u64; Fallback::NAMES.len()],
    /// The number of calls with a valid reply in each bucket; the last bucket counts those above all
    /// [`BOUNDS`].
    pub durations: [u64; BOUNDS.len() + 1],
    /// The total duration of the calls with a valid reply, in nanoseconds.
    pub took: u64,
}

/// Calls the script in Redis that counts requests against the shared quotas. Dropping the client stops the
/// thread that connects.
pub(super) struct RedisClient {
    inner: Arc<Inner>,
    rule: LimitRule,
    keys: Keys,
    _stop: watch::Sender<()>,
}

struct Inner {
    options: RedisOptions,
    primary: ArcSwapOption<Primary>,
    /// Whenever the breaker opens, sends the fault that opened it to the [`Reconnector`].
    lost: UnboundedSender<RedisFault>,
    /// The metrics, except `is_connected`, which is derived from `primary`.
    metrics: Mutex<RedisMetrics>,
}

/// A Redis primary that has answered a probe.
pub(super) struct Primary {
    /// The shared connection, served by the reconnecting thread.
    connection: MultiplexedConnection,
    pool: Arc<LocalPool>,
    /// The script's SHA-1, for EVALSHA.
    hash: String,
    /// The number of consecutive timeouts.
    consecutive_timeouts: AtomicU32,
}

impl RedisClient {
    /// Starts the thread that connects. Returns when the first attempt has succeeded or failed, or after two
    /// seconds. If the thread cannot be started, logs an error and never connects.
    pub(super) fn start(options: &RedisOptions, rule: LimitRule) -> RedisClient {
        let (lost, faults) = unbounded_channel();
        let inner = Arc::new(Inner {
            options: options.clone(),
            primary: ArcSwapOption::empty(),
            lost,
            metrics: Mutex::default(),
        });
        let (stop, mut stopped) = watch::channel(());
        let (tried, first) = mpsc::channel();
        let mut reconnector = Reconnector { inner: inner.clone(), faults, tried: Some(tried), logged: None };
        let run = async move {
            tokio::select! {
                // Nothing is ever sent on this channel; it only closes.
                _ = stopped.changed() => {}
                () = async {
                    while let Err(panic) =
                        panics::catch_async(Part::Background, reconnector.reconnect_forever()).await
                    {
                        tracing::error!("{panic} stopped the task that connects to Redis; will restart the task");
                        tokio::time::sleep(CONNECT_TIMEOUT).await;
                    }
                } => {}
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let thread = std::thread::Builder::new().name("limits".into());
        match runtime.and_then(|runtime| thread.spawn(move || runtime.block_on(run))) {
            // Wait until the first attempt to connect has ended. The thread itself logs the result.
            Ok(_) => drop(first.recv_timeout(2 * CONNECT_TIMEOUT)),
            Err(error) => {
                tracing::error!(%error, "could not start the thread for Redis; this server uses its own limits until it is restarted");
            }
        }
        RedisClient { inner, rule, keys: Keys::new(options.hash_secret()), _stop: stop }
    }

    /// Runs the script for `source` and converts its reply with `read`. `None` if local limits must decide:
    /// the reason is counted, and a failure or the third timeout in a row opens the breaker.
    pub(super) async fn call_script<T>(
        &self,
        operation: Operation,
        source: Source,
        read: impl Fn(&LimitRule, ScriptReply) -> Option<T>,
    ) -> Option<T> {
        let inner = &*self.inner;
        let request = self.keys.build_request(operation, source, &self.rule);
        let Some(primary) = inner.primary.load_full() else {
            return inner.count_fallback(Fallback::Disconnected);
        };
        let began = Instant::now();
        match timeout(inner.options.timeout, primary.call_with_pool(&request, &inner.options, began)).await {
            Ok(Ok(entry)) => {
                let Some(read) = read(&self.rule, entry) else {
                    inner.open_breaker(&primary, RedisFault::INVALID_REPLY);
                    return inner.count_fallback(Fallback::Failed);
                };
                primary.consecutive_timeouts.store(0, Relaxed);
                inner.record_duration(began.elapsed());
                Some(read)
            }
            Ok(Err(error)) => {
                inner.open_breaker(&primary, error.into());
                inner.count_fallback(Fallback::Failed)
            }
            Err(_) => {
                inner.record_timeout(&primary);
                inner.count_fallback(Fallback::Slow)
            }
        }
    }

    pub(super) fn metrics(&self) -> RedisMetrics {
        RedisMetrics { is_connected: self.inner.primary.load().is_some(), ..*self.inner.lock_metrics() }
    }
}

impl Inner {
    /// Counts a decision that the local limits make. Always returns `None`, for the caller to return.
    fn count_fallback<T>(&self, why: Fallback) -> Option<T> {
        self.lock_metrics().fallbacks[why as usize] += 1;
        None
    }

    /// Counts a call with a valid reply in the bucket for its duration, and adds the duration to the total.
    fn record_duration(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|bound| nanoseconds <= bound * 1000).unwrap_or(BOUNDS.len());
        let mut metrics = self.lock_metrics();
        metrics.durations[bucket] += 1;
        metrics.took = metrics.took.saturating_add(nanoseconds);
    }

    fn lock_metrics(&self) -> MutexGuard<'_, RedisMetrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a timeout, and opens the breaker at [`MAX_TIMEOUTS`] in a row.
    fn record_timeout(&self, primary: &Arc<Primary>) {
        if primary.consecutive_timeouts.fetch_add(1, Relaxed) + 1 >= MAX_TIMEOUTS {
            self.open_breaker(primary, RedisFault::SLOW);
        }
    }

    /// Opens the breaker. Only the first call for each primary has an effect.
    fn open_breaker(&self, primary: &Arc<Primary>, why: RedisFault) {
        let before = self.primary.compare_and_swap(primary, None);
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, primary)) {
            let _ = self.lost.send(why);
        }
    }
}

impl Primary {
    /// Connects, loads the script and probes the connection. Also returns how long the probe took. Fails if
    /// the probe takes longer than a request may wait, or all steps before it longer than a second.
    async fn open(options: &RedisOptions) -> Result<(Primary, Duration), RedisFault> {
        let opened = timeout(CONNECT_TIMEOUT, async {
            let mut connection = options.connect().await?;
            let hash = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await?;
            Ok::<_, RedisError>(Primary {
                connection,
                pool: Arc::default(),
                hash,
                consecutive_timeouts: AtomicU32::new(0),
            })
        });
        let primary = opened.await.map_err(|_| RedisFault::SLOW)??;
        let began = Instant::now();
        // Redis may accept connections and still be slow, so probe it before requests wait for it again.
        primary.probe(options).await.map_err(|_| RedisFault::SLOW)??;
        Ok((primary, began.elapsed()))
    }

    /// Tests the shared connection. The outer error means that Redis did not respond in time.
    async fn probe(&self, options: &RedisOptions) -> Result<Result<ScriptReply, RedisError>, Elapsed> {
        timeout(options.timeout, self.run_script(&self.connection, &Request::probe())).await
    }

    /// Runs the script over this runtime's own connection if it has one, and otherwise over the shared one.
    /// If its own connection is lost, drops it and runs the script once more, over the shared one.
    async fn call_with_pool(
        &self,
        request: &Request,
        options: &RedisOptions,
        now: Instant,
    ) -> Result<ScriptReply, RedisError> {
        let Some(own) = self.pool.get(options, now) else {
            return self.run_script(&self.connection, request).await;
        };
        match self.run_script(&own, request).await {
            // Redis may have closed only this connection, because it was idle. Try the shared connection.
            Err(error) if error.is_unrecoverable_error() => {
                self.pool.drop_connection();
                self.run_script(&self.connection, request).await
            }
            answer => answer,
        }
    }

    /// Runs the script over `connection`, and reloads the script if Redis no longer has it.
    async fn run_script(
        &self,
        connection: &MultiplexedConnection,
        request: &Request,
    ) -> Result<ScriptReply, RedisError> {
        let mut connection = connection.clone();
        let answer = match request.to_command("EVALSHA", &self.hash).query_async(&mut connection).await {
            // Redis has been restarted, or its script cache has been flushed.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                request.to_command("EVAL", SCRIPT).query_async(&mut connection).await
            }
            answer => answer,
        };
        script::parse_reply(&answer?)
    }
}

/// Connects, probes and reconnects. Runs on its own thread.
struct Reconnector {
    inner: Arc<Inner>,
    faults: UnboundedReceiver<RedisFault>,
    /// Signals that the first attempt to connect has succeeded or failed.
    tried: Option<mpsc::Sender<()>>,
    logged: Option<Result<(), RedisFault>>,
}

impl Reconnector {
    /// Connects, waits until the connection is lost, pauses and connects again. Logs each change, and a
    /// failure only once while its reason stays the same. Never returns.
    async fn reconnect_forever(&mut self) {
        let mut pause = RECONNECT_PAUSES[0];
        loop {
            let why = match Primary::open(&self.inner.options).await {
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

    /// Probes the connection once a second until the breaker opens, so that failures are noticed early. A
    /// failed probe opens it, and a slow one counts as a timeout of a request. Returns the reason.
    async fn wait_until_lost(&mut self) -> RedisFault {
        loop {
            if let Ok(why) = timeout(PROBE_INTERVAL, self.faults.recv()).await {
                return why.unwrap_or(RedisFault::SLOW);
            }
            let Some(primary) = self.inner.primary.load_full() else { continue };
            match primary.probe(&self.inner.options).await {
                Ok(Ok(_)) => primary.consecutive_timeouts.store(0, Relaxed),
                Ok(Err(error)) => self.inner.open_breaker(&primary, error.into()),
                Err(_) => self.inner.record_timeout(&primary),
            }
        }
    }

    /// Logs the state of the connection if it, or the reason for a failure, has changed. The first call
    /// also signals that the first attempt has ended.
    fn log_change(&mut self, state: Result<(), RedisFault>) {
        if self.logged.as_ref() != Some(&state) {
            let redis = &self.inner.options;
            match &state {
                Ok(()) => tracing::info!(%redis, "connected to Redis; limits are shared"),
                Err(why) => {
                    tracing::warn!(%redis, %why, "using this server's own limits until Redis is available again");
                }
            }
            self.logged = Some(state);
        }
        let _ = self.tried.take().map(|tried| tried.send(()));
    }
}

/// Changes a pause by up to a quarter, so that servers do not all reconnect to Redis at the same moment.
fn add_jitter(pause: Duration) -> Duration {
    let random = u32::try_from(RandomState::new().hash_one(0) % 512).unwrap_or_default();
    pause * (768 + random) / 1024
}

/// Connects to Redis and runs the script once. Returns how long that run took, or a description of the
/// problem. Blocks at most 1 s plus [`RedisOptions::timeout`].
pub fn test_connection(options: &RedisOptions) -> Result<Duration, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let opened = runtime.block_on(Primary::open(options));
    // Do not wait for a DNS lookup that is still running.
    runtime.shutdown_background();
    opened.map(|(_, took)| took).map_err(|why| why.to_string())
}

/// The reason why Redis cannot be used, as a clause for the log and for `frontdesk doctor`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct RedisFault(Cow<'static, str>);

impl RedisFault {
    const SLOW: Self = Self(Cow::Borrowed("it does not respond in time"));
    const INVALID_REPLY: Self = Self(Cow::Borrowed(
        "its reply is invalid: check that it is Redis or Valkey, and that nothing else writes to keys `frontdesk:*`",
    ));
}

impl From<RedisError> for RedisFault {
    /// Describes an error, for some with what to change. Leaves out the text of the server, which may be
    /// arbitrary.
    fn from(error: RedisError) -> RedisFault {
        use ServerErrorKind::{
            Ask, BusyLoading, ClusterDown, CrossSlot, MasterDown, Moved, NoPerm, ReadOnly, ResponseError,
        };
        const PASSWORD: &str = "it requires a different user or password from the one in `limits.shared_url`";
        let why = match error.kind() {
            // Include the message: it comes from the operating system or the TLS library, not from Redis.
            ErrorKind::Io | ErrorKind::InvalidClientConfig => {
                return RedisFault(format!("the connection failed: {error}").into());
            }
            ErrorKind::AuthenticationFailed => PASSWORD,
            ErrorKind::Server(NoPerm) => {
                "the user lacks permissions: it needs EVAL, EVALSHA, SCRIPT LOAD, TIME, MGET and SET on keys `frontdesk:*`"
            }
            ErrorKind::Server(ReadOnly | MasterDown) => {
                "it is a read-only replica, or a replica that has lost its primary: `limits.shared_url` must name a primary"
            }
            ErrorKind::Server(BusyLoading) => "it is still loading its data",
            // The `redis` crate generates this text itself, but classifies it as an error of the server.
            ErrorKind::Server(ResponseError)
                if error.to_string().starts_with("Redis server refused to switch database") =>
            {
                "it has no database with the number in `limits.shared_url`"
            }
            ErrorKind::Server(Moved | Ask | CrossSlot | ClusterDown) => {
                "it is part of a cluster, but a single primary is needed"
            }
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => return RedisFault::INVALID_REPLY,
            _ => match error.code() {
                Some("NOAUTH" | "WRONGPASS") => PASSWORD,
                // Include only the code: the rest of the message may contain arbitrary text.
                code => {
                    return RedisFault(format!("it rejected the command ({})", code.unwrap_or("ERR")).into());
                }
            },
        };
        RedisFault(Cow::Borrowed(why))
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
