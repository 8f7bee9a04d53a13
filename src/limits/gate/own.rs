//! Connections of the threads that ask often.
//!
//! A question that is handed to another thread wakes that thread up, and its answer wakes up this one: at least half as much work again
//! as by a connection that is served by the thread which asks (`benches/shared_limits.rs`). Who asks seldom has no use for one: it
//! would be forgotten by whatever lies between, or be closed by the server, before it is needed again.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::runtime::{Handle, Id};
use tokio::time::timeout;

use super::address::Options;
use super::link::{CONNECT, Line};

/// Who asks twice within this time asks often.
const OFTEN: Duration = Duration::from_millis(500);

/// What was not used for so long may be broken, and is not used again.
const FRESH: Duration = Duration::from_secs(20);

/// One that could not be opened, or broke, is not opened again before. Longer than opening may take.
const AGAIN: Duration = Duration::from_secs(5);

/// So many threads may have one. There are never more workers than cores that anybody has; whoever makes a runtime for each question
/// shall not fill the memory.
const MOST: usize = 1024;

/// The connections by the runtimes that serve them.
#[derive(Default)]
pub(super) struct Own {
    seats: Mutex<Vec<(Id, Seat)>>,
}

/// What is known of one runtime.
struct Seat {
    asked: Instant,
    connection: Option<MultiplexedConnection>,
    /// When one was opened last, whether that went well or not.
    opened: Option<Instant>,
}

impl Own {
    /// The connection of the runtime on which this is called. If it has none and asks often, one is opened meanwhile.
    pub(super) fn get(
        &self,
        options: &Options,
        now: Instant,
        line: impl FnOnce() -> Weak<Line>,
    ) -> Option<MultiplexedConnection> {
        let handle = Handle::try_current().ok()?;
        let id = handle.id();
        let mut seats = self.seats();
        let Some((_, seat)) = seats.iter_mut().find(|(other, _)| *other == id) else {
            if seats.len() < MOST {
                seats.push((id, Seat { asked: now, connection: None, opened: None }));
            }
            return None;
        };
        let silence = now.saturating_duration_since(seat.asked);
        seat.asked = seat.asked.max(now);
        if silence > FRESH {
            seat.connection = None;
        }
        let may_open = seat.opened.is_none_or(|opened| now.saturating_duration_since(opened) > AGAIN);
        if seat.connection.is_none() && silence < OFTEN && may_open {
            seat.opened = Some(now);
            handle.spawn(open(options.clone(), line(), id));
        }
        seat.connection.clone()
    }

    /// The connection of this runtime is broken.
    pub(super) fn forget(&self) {
        if let Ok(handle) = Handle::try_current() {
            self.put(handle.id(), None);
        }
    }

    fn put(&self, id: Id, connection: Option<MultiplexedConnection>) {
        if let Some((_, seat)) = self.seats().iter_mut().find(|(other, _)| *other == id) {
            seat.connection = connection;
        }
    }

    fn seats(&self) -> MutexGuard<'_, Vec<(Id, Seat)>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until it is there, or where it cannot be had, everybody asks as before.
async fn open(options: Options, line: Weak<Line>, id: Id) {
    let opened = timeout(CONNECT, options.connect()).await;
    if let Some(line) = line.upgrade() {
        line.own().put(id, opened.ok().and_then(Result::ok));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use redis::RedisConnectionInfo;

    use super::*;

    /// Asks once at this moment: whether there is a connection, and how many were opened by then.
    type Ask<'a> = &'a dyn Fn(Duration) -> (bool, u32);

    #[test]
    fn who_asks_seldom_has_none_and_who_asks_often_gets_one() {
        check(|ask, _| {
            assert_eq!(ask(Duration::ZERO), (false, 0));
            assert_eq!(ask(OFTEN), (false, 0));
            assert_eq!(ask(OFTEN * 3 / 2), (false, 1));
        });
    }

    #[test]
    fn what_was_not_used_for_long_is_not_used_again() {
        check(|ask, own| {
            ask(Duration::ZERO);
            own.put(Handle::current().id(), Some(connection()));
            assert_eq!(ask(FRESH), (true, 0));
            assert_eq!(ask(FRESH * 2), (true, 0));
            assert_eq!(ask(FRESH * 3 + OFTEN), (false, 0));
            assert_eq!(ask(FRESH * 3 + OFTEN), (false, 1));
        });
    }

    #[test]
    fn what_breaks_or_cannot_be_had_is_not_opened_again_at_once() {
        check(|ask, own| {
            assert_eq!([Duration::ZERO; 3].map(ask), [(false, 0), (false, 1), (false, 1)]);
            own.put(Handle::current().id(), Some(connection()));
            assert_eq!(ask(OFTEN), (true, 1));
            own.forget();
            let mut now = OFTEN;
            while now < AGAIN {
                now += OFTEN / 2;
                assert_eq!(ask(now), (false, 1), "{now:?}");
            }
            assert_eq!(ask(now + OFTEN / 2), (false, 2));
        });
    }

    #[test]
    fn each_runtime_has_its_own_and_none_fills_the_memory() {
        let (own, now) = (Own::default(), Instant::now());
        for _ in 0..MOST + 3 {
            runtime().block_on(async { own.get(&nowhere(), now, Weak::new) });
        }
        assert_eq!(own.seats().len(), MOST);
        assert!(own.get(&nowhere(), now, Weak::new).is_none(), "there is no runtime here at all");
    }

    fn check(story: impl Fn(Ask<'_>, &Own)) {
        let (own, start, opened) = (Own::default(), Instant::now(), Cell::new(0));
        let line = || {
            opened.set(opened.get() + 1);
            Weak::new()
        };
        runtime().block_on(async {
            story(
                &|at| {
                    let connection = own.get(&nowhere(), start + at, line);
                    (connection.is_some(), opened.get())
                },
                &own,
            );
        });
    }

    /// One that nobody answers.
    fn connection() -> MultiplexedConnection {
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (near, _) = tokio::io::duplex(64);
        let connecting = MultiplexedConnection::new(&settings, near);
        let mut connecting = std::pin::pin!(connecting);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match connecting.as_mut().poll(&mut context) {
            std::task::Poll::Ready(Ok((connection, _))) => connection,
            _ => panic!("nothing has to be said at first"),
        }
    }

    fn nowhere() -> Options {
        Options::parse("redis://127.0.0.1:1").unwrap()
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }
}
