//! Shares the connections out among the workers. All accept from the same sockets, and whoever is idle first would take most of a
//! crowd, and keep it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::socket::{IdleStream, Peer, Scheme, Stream};
use super::source::Place;

/// A worker keeps what it has accepted unless another one has fewer connections by more than this.
const SLACK: usize = 1;

/// How one worker gives connections to the others. When all of them are dropped, nobody gets any more.
#[derive(Debug, Clone)]
pub(super) struct Share {
    own: usize,
    /// Connections by worker.
    open: Arc<[AtomicUsize]>,
    others: Arc<[UnboundedSender<Handed>]>,
}

/// A connection on its way to another thread.
#[derive(Debug)]
pub(super) struct Handed {
    scheme: Scheme,
    stream: IdleStream,
    peer: Peer,
    place: Place,
    seat: Seat,
}

/// A connection that somebody has accepted and nobody has looked at.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) scheme: Scheme,
    pub(super) stream: Stream,
    pub(super) peer: Peer,
    /// Among all connections, and among those of its source.
    pub(super) place: Place,
}

/// One connection's place at its worker; dropping it makes room.
#[derive(Debug)]
pub(super) struct Seat {
    worker: usize,
    open: Arc<[AtomicUsize]>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.open[self.worker].fetch_sub(1, Relaxed);
    }
}

/// For each of so many workers how it gives and where it gets.
pub(super) fn among(workers: usize) -> Vec<(Share, UnboundedReceiver<Handed>)> {
    let open: Arc<[AtomicUsize]> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded_channel()).unzip();
    let others: Arc<[_]> = senders.into();
    let share = |own| Share { own, open: open.clone(), others: others.clone() };
    receivers.into_iter().enumerate().map(|(own, receiver)| (share(own), receiver)).collect()
}

impl Share {
    /// The connection with its seat, if it stays with this worker. Otherwise it goes to the one that has the fewest.
    pub(super) fn keep(&self, accepted: Accepted) -> Option<(Accepted, Seat)> {
        let worker = self.choose();
        if worker == self.own {
            return Some((accepted, self.seat(self.own)));
        }
        let Accepted { scheme, stream, peer, place } = accepted;
        // It fails where the descriptor is not valid, and then there is no connection.
        let stream = stream.into_idle().ok()?;
        let handed = Handed { scheme, stream, peer, place, seat: self.seat(worker) };
        let SendError(handed) = self.others[worker].send(handed).err()?;
        // That worker has just ended.
        let (accepted, _) = handed.take().ok()?;
        Some((accepted, self.seat(self.own)))
    }

    fn seat(&self, worker: usize) -> Seat {
        self.open[worker].fetch_add(1, Relaxed);
        Seat { worker, open: self.open.clone() }
    }

    fn choose(&self) -> usize {
        let open = |worker: &AtomicUsize| worker.load(Relaxed);
        // One that has ended would have the fewest for ever.
        let workers = (0..self.open.len()).filter(|worker| !self.others[*worker].is_closed());
        let fewest = workers.min_by_key(|worker| open(&self.open[*worker])).unwrap_or(self.own);
        if open(&self.open[self.own]) > open(&self.open[fewest]) + SLACK { fewest } else { self.own }
    }
}

impl Handed {
    /// As a connection of this thread.
    pub(super) fn take(self) -> io::Result<(Accepted, Seat)> {
        let Self { scheme, stream, peer, place, seat } = self;
        Ok((Accepted { scheme, stream: stream.into_stream()?, peer, place }, seat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_many_more_than_another() {
        let (shares, mut workers): (Vec<_>, Vec<_>) = among(3).into_iter().unzip();
        let mut seats = Vec::new();
        for _ in 0..30 {
            // All of them come to the first worker.
            seats.push(shares[0].seat(shares[0].choose()));
        }
        let counts: Vec<usize> = shares[1].open.iter().map(|open| open.load(Relaxed)).collect();
        assert!(
            counts.iter().max() <= counts.iter().min().map(|least| least + 1 + SLACK).as_ref(),
            "{counts:?}"
        );
        seats.retain(|seat| seat.worker == 0);
        assert_eq!(shares[2].choose(), 2, "it has none any more");
        assert_ne!(shares[0].choose(), 0);
        workers.truncate(1);
        assert_eq!(shares[0].choose(), 0, "the others have ended");
        drop(seats);
        assert!(shares[0].open.iter().all(|open| open.load(Relaxed) == 0));
        assert_eq!(shares[0].choose(), 0, "one that comes alone stays");
    }
}
