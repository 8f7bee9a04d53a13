//! A pool of Redis connections for threads that call often, with one connection for each thread's runtime.
//!
//! A call over another thread's connection wakes that thread, and the reply wakes the caller, which costs at
//! least 1.5 times as much as a call over the thread's own connection (`benches/shared_limits.rs`). A thread
//! that makes few calls has no connection of its own: Redis or a middlebox would close it between two calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::runtime::{Handle, Id};
use tokio::time::timeout;

use super::redis_options::{CONNECT_TIMEOUT, RedisOptions};

/// A thread that makes two calls within this time gets its own connection.
const FREQUENT_WITHIN: Duration = Duration::from_millis(500);

/// A connection that has been idle for longer than this may be broken, so it is dropped.
const MAX_IDLE: Duration = Duration::from_secs(20);

/// The minimum time between a runtime's attempts to open a connection. An attempt never takes longer than
/// this.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of runtimes with calls within [`MAX_IDLE`]. Further ones use the shared connection. Far
/// above the number of workers of any server; bounds memory if callers create a runtime for each call.
const MAX_CONNECTIONS: usize = 1024;

#[derive(Default)]
pub(super) struct LocalPool {
    entries: Mutex<Vec<(Id, PoolEntry)>>,
}

struct PoolEntry {
    /// The time of the latest call to Redis from this runtime.
    called_at: Instant,
    connection: Option<MultiplexedConnection>,
    /// The time of the last attempt to open a connection.
    open_tried_at: Option<Instant>,
}

impl LocalPool {
    /// The calling runtime's connection; with `None`, the caller must use the shared one. If the runtime has
    /// none but calls often, opens one in the background, unless it has tried within [`RETRY_PAUSE`] or
    /// [`MAX_CONNECTIONS`] other runtimes call. Drops a connection that has been idle for longer than
    /// [`MAX_IDLE`].
    pub(super) fn get(
        self: &Arc<Self>,
        options: &RedisOptions,
        now: Instant,
    ) -> Option<MultiplexedConnection> {
        let handle = Handle::try_current().ok()?;
        let id = handle.id();
        let mut entries = self.lock_entries();
        let Some((_, entry)) = entries.iter_mut().find(|(other, _)| *other == id) else {
            // Remove the connections of runtimes without recent calls, because these runtimes may have ended.
            entries.retain(|(_, entry)| now.saturating_duration_since(entry.called_at) <= MAX_IDLE);
            if entries.len() < MAX_CONNECTIONS {
                entries.push((id, PoolEntry { called_at: now, connection: None, open_tried_at: None }));
            }
            return None;
        };
        let silence = now.saturating_duration_since(entry.called_at);
        entry.called_at = entry.called_at.max(now);
        if silence > MAX_IDLE {
            entry.connection = None;
        }
        let may_open = entry.open_tried_at.is_none_or(|at| now.saturating_duration_since(at) > RETRY_PAUSE);
        if entry.connection.is_none() && silence < FREQUENT_WITHIN && may_open {
            entry.open_tried_at = Some(now);
            handle.spawn(open_connection(options.clone(), Arc::downgrade(self), id));
        }
        entry.connection.clone()
    }

    /// Drops the calling runtime's connection, after it has failed.
    pub(super) fn drop_connection(&self) {
        if let Ok(handle) = Handle::try_current() {
            self.set_connection(handle.id(), None);
        }
    }

    /// Sets or drops the connection of a runtime. Does nothing if the pool does not know the runtime.
    fn set_connection(&self, id: Id, connection: Option<MultiplexedConnection>) {
        if let Some((_, entry)) = self.lock_entries().iter_mut().find(|(other, _)| *other == id) {
            entry.connection = connection;
        }
    }

    fn lock_entries(&self) -> MutexGuard<'_, Vec<(Id, PoolEntry)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a connection for the runtime `id`. Until it is open, or if it cannot be opened, calls use the shared
/// connection.
async fn open_connection(options: RedisOptions, pool: Weak<LocalPool>, id: Id) {
    let opened = timeout(CONNECT_TIMEOUT, options.connect()).await;
    if let Some(pool) = pool.upgrade() {
        pool.set_connection(id, opened.ok().and_then(Result::ok));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use redis::RedisConnectionInfo;

    use super::*;

    /// Makes a call at this time. Returns whether there is a connection, and how many attempts to open one
    /// have been made so far.
    type Ask<'a> = &'a dyn Fn(Duration) -> (bool, u32);

    #[test]
    fn only_a_frequent_caller_gets_a_connection() {
        check(|ask, _| {
            assert_eq!(ask(Duration::ZERO), (false, 0));
            assert_eq!(ask(FREQUENT_WITHIN), (false, 0));
            assert_eq!(ask(FREQUENT_WITHIN * 3 / 2), (false, 1));
        });
    }

    #[test]
    fn an_idle_connection_is_dropped() {
        check(|ask, own| {
            ask(Duration::ZERO);
            own.set_connection(Handle::current().id(), Some(connection()));
            assert_eq!(ask(MAX_IDLE), (true, 0));
            assert_eq!(ask(MAX_IDLE * 2), (true, 0));
            assert_eq!(ask(MAX_IDLE * 3 + FREQUENT_WITHIN), (false, 0));
            assert_eq!(ask(MAX_IDLE * 3 + FREQUENT_WITHIN), (false, 1));
        });
    }

    #[test]
    fn a_failed_connection_is_not_reopened_at_once() {
        check(|ask, own| {
            assert_eq!([Duration::ZERO; 3].map(ask), [(false, 0), (false, 1), (false, 1)]);
            own.set_connection(Handle::current().id(), Some(connection()));
            assert_eq!(ask(FREQUENT_WITHIN), (true, 1));
            own.drop_connection();
            let mut now = FREQUENT_WITHIN;
            while now < RETRY_PAUSE {
                now += FREQUENT_WITHIN / 2;
                assert_eq!(ask(now), (false, 1), "{now:?}");
            }
            assert_eq!(ask(now + FREQUENT_WITHIN / 2), (false, 2));
        });
    }

    #[test]
    fn each_runtime_has_its_own_up_to_a_limit() {
        let (own, now) = (Arc::new(LocalPool::default()), Instant::now());
        for _ in 0..MAX_CONNECTIONS + 3 {
            runtime().block_on(async { own.get(&nowhere(), now) });
        }
        assert_eq!(own.lock_entries().len(), MAX_CONNECTIONS);
        let later = now + MAX_IDLE + Duration::from_millis(1);
        runtime().block_on(async { own.get(&nowhere(), later) });
        assert_eq!(own.lock_entries().len(), 1, "the others have ended");
        assert!(own.get(&nowhere(), now).is_none(), "this thread has no runtime");
    }

    fn check(story: impl Fn(Ask<'_>, &LocalPool)) {
        let (own, start, opened) = (Arc::new(LocalPool::default()), Instant::now(), Cell::new(0));
        let last = Cell::new(None);
        runtime().block_on(async {
            story(
                &|at| {
                    let connection = own.get(&nowhere(), start + at);
                    let latest = own.lock_entries().first().and_then(|(_, entry)| entry.open_tried_at);
                    if last.replace(latest) != latest {
                        opened.set(opened.get() + 1);
                    }
                    (connection.is_some(), opened.get())
                },
                &own,
            );
        });
    }

    /// A connection without a server.
    fn connection() -> MultiplexedConnection {
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (near, _) = tokio::io::duplex(64);
        let connecting = MultiplexedConnection::new(&settings, near);
        let mut connecting = std::pin::pin!(connecting);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match connecting.as_mut().poll(&mut context) {
            std::task::Poll::Ready(Ok((connection, _))) => connection,
            _ => panic!("a new connection needs no commands"),
        }
    }

    fn nowhere() -> RedisOptions {
        RedisOptions::parse("redis://127.0.0.1:1").unwrap()
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }
}
