//! Distributes connections among the workers. Otherwise, the first idle worker would accept most of a burst:
//! of 128 connections to two workers, one sometimes got all (commit 44627f76).

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::conn_limits::ConnPermit;
use super::socket::{Peer, Scheme};

/// A worker keeps a new connection if it has at most this many more than the least loaded worker.
const SLACK: usize = 1;

/// Transfers connections from one worker to others. The receivers close when all balancers have been dropped.
#[derive(Debug, Clone)]
pub(super) struct Balancer {
    /// The index of this worker.
    own: usize,
    open: Arc<[AtomicUsize]>,
    workers: Arc<[UnboundedSender<(AcceptedConn, ConnGuard)>]>,
}

/// An accepted connection from which nothing has been read yet.
pub(super) struct AcceptedConn {
    pub(super) scheme: Scheme,
    /// The socket, which is not registered with a runtime yet.
    pub(super) stream: TcpStream,
    pub(super) peer: Peer,
    pub(super) permit: ConnPermit,
}

/// Receives the connections that other workers transfer to this worker.
pub(super) type TransferredConns = UnboundedReceiver<(AcceptedConn, ConnGuard)>;

/// Counts a connection as open at its worker until the guard is dropped.
pub(super) struct ConnGuard {
    worker: usize,
    open: Arc<[AtomicUsize]>,
}

impl Drop for ConnGuard {
    fn drop(&mut self) {
        self.open[self.worker].fetch_sub(1, Relaxed);
    }
}

impl Balancer {
    /// Creates one balancer per worker, each with the receiver for connections transferred to that worker.
    pub(super) fn for_workers(count: usize) -> Vec<(Self, TransferredConns)> {
        let open: Arc<[AtomicUsize]> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| unbounded_channel()).unzip();
        let workers: Arc<[_]> = senders.into();
        let balancer = |own| Self { own, open: open.clone(), workers: workers.clone() };
        receivers.into_iter().enumerate().map(|(own, receiver)| (balancer(own), receiver)).collect()
    }

    /// Returns the connection if this worker has at most [`SLACK`] more than the least loaded one. Otherwise,
    /// transfers it to that worker and returns `None`, or keeps it if that worker has just stopped. Counts it
    /// at the worker that gets it.
    pub(super) fn keep_or_transfer(&self, accepted: AcceptedConn) -> Option<(AcceptedConn, ConnGuard)> {
        let worker = self.choose_worker();
        if worker == self.own {
            return Some((accepted, self.count_connection(self.own)));
        }
        let SendError((accepted, _)) =
            self.workers[worker].send((accepted, self.count_connection(worker))).err()?;
        // The other worker has just stopped, so this one keeps the connection.
        Some((accepted, self.count_connection(self.own)))
    }

    fn count_connection(&self, worker: usize) -> ConnGuard {
        self.open[worker].fetch_add(1, Relaxed);
        ConnGuard { worker, open: self.open.clone() }
    }

    /// The least loaded worker that has not stopped, or this one if it has at most [`SLACK`] more
    /// connections.
    fn choose_worker(&self) -> usize {
        let open = |worker: usize| self.open[worker].load(Relaxed);
        // Skip workers that have stopped: they would always have the fewest connections.
        let workers = (0..self.open.len()).filter(|worker| !self.workers[*worker].is_closed());
        let fewest = workers.min_by_key(|worker| open(*worker)).unwrap_or(self.own);
        if open(self.own) > open(fewest) + SLACK { fewest } else { self.own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_nearly_the_same_number_of_connections() {
        let (balancers, mut workers): (Vec<_>, Vec<_>) = Balancer::for_workers(3).into_iter().unzip();
        let mut guards = Vec::new();
        for _ in 0..30 {
            // The first worker accepts all of them.
            guards.push(balancers[0].count_connection(balancers[0].choose_worker()));
        }
        let counts: Vec<usize> = balancers[1].open.iter().map(|open| open.load(Relaxed)).collect();
        assert!(
            counts.iter().max() <= counts.iter().min().map(|least| least + 1 + SLACK).as_ref(),
            "{counts:?}"
        );
        guards.retain(|guard| guard.worker == 0);
        assert_eq!(balancers[2].choose_worker(), 2, "it has no connections");
        assert_ne!(balancers[0].choose_worker(), 0);
        workers.truncate(1);
        assert_eq!(balancers[0].choose_worker(), 0, "the others have stopped");
        drop(guards);
        assert!(balancers[0].open.iter().all(|open| open.load(Relaxed) == 0));
        assert_eq!(balancers[0].choose_worker(), 0, "a single connection stays");
    }
}
