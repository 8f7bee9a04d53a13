//! Limits the connections of a private listener, in total and per source.
//!
//! At a limit, the connection that has waited longest for a complete request is closed, so that clients that
//! send half a request do not keep operators and monitors out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::socket::Peer;
use super::trusted_proxies::{Network, is_trusted};
use frontdesk_limits::Source;

/// A source may have at most the maximum number of connections divided by this, but always at least one.
const SOURCE_SHARE_DIVISOR: usize = 2;

pub(super) struct PrivateConns {
    /// The maximum number of open connections.
    most: usize,
    open: Mutex<PrivateConnTable>,
}

#[derive(Default)]
struct PrivateConnTable {
    /// The connections by a sequence number. A connection gets a new number when it opens, when its request
    /// is complete, and when that has been answered.
    by_age: BTreeMap<u64, PrivateConnEntry>,
    next: u64,
}

struct PrivateConnEntry {
    /// `None` for a trusted proxy, whose connections belong to many clients.
    source: Option<Source>,
    is_answering: bool,
    close: Arc<Notify>,
}

impl PrivateConnTable {
    /// Adds a connection as the newest, and returns its sequence number.
    fn insert(&mut self, conn: PrivateConnEntry) -> u64 {
        self.next += 1;
        self.by_age.insert(self.next, conn);
        self.next
    }

    /// Closes the connection that has waited longest for a request: of those of `source` or, if that is
    /// `None`, of all. Returns false if none is waiting.
    fn close_oldest(&mut self, source: Option<Source>) -> bool {
        let counts = |conn: &PrivateConnEntry| source.is_none() || conn.source == source;
        let oldest = self.by_age.iter().find(|(_, conn)| !conn.is_answering && counts(conn));
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        self.by_age.remove(&number).inspect(|conn| conn.close.notify_one()).is_some()
    }
}

impl PrivateConns {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    /// Admits a connection. At a limit, first closes the one that has waited longest for a request. If the
    /// source has half of the maximum, closes one of the same source. `None` if requests are being answered
    /// on all connections that count towards the limit. Trusted proxies have no limit per source.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer, proxies: &[Network]) -> Option<Arc<PrivateConn>> {
        let source = (!is_trusted(proxies, peer)).then(|| Source::from(peer.address));
        let mut open = self.lock();
        let is_same = |conn: &&PrivateConnEntry| source.is_some() && conn.source == source;
        let most_of_source = (self.most / SOURCE_SHARE_DIVISOR).max(1);
        if open.by_age.values().filter(is_same).count() >= most_of_source && !open.close_oldest(source) {
            return None;
        }
        if open.by_age.len() >= self.most && !open.close_oldest(None) {
            return None;
        }
        let close = Arc::new(Notify::new());
        let number = open.insert(PrivateConnEntry { source, is_answering: false, close: close.clone() });
        Some(Arc::new(PrivateConn { conns: self.clone(), number: Mutex::new(number), close }))
    }

    fn lock(&self) -> MutexGuard<'_, PrivateConnTable> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An admitted connection, which counts towards the limits until it is dropped.
pub(super) struct PrivateConn {
    conns: Arc<PrivateConns>,
    number: Mutex<u64>,
    close: Arc<Notify>,
}

impl PrivateConn {
    /// Runs `connection` until it ends, or drops it when it must close because of a connection limit.
    pub(super) async fn run(&self, connection: impl Future) {
        tokio::select! {
            _ = connection => {}
            () = self.close.notified() => {}
        }
    }

    /// Marks a connection whose request is complete, so that it is not closed at a limit until the returned
    /// guard is dropped.
    pub(super) fn mark_answering(self: &Arc<Self>) -> Answering {
        self.set_answering(true);
        Answering(self.clone())
    }

    /// Sets whether the connection's request is being answered, and makes the connection the newest. Has no
    /// effect if the connection has been closed.
    fn set_answering(&self, is_answering: bool) {
        let mut number = self.number();
        let mut open = self.conns.lock();
        if let Some(conn) = open.by_age.remove(&number) {
            *number = open.insert(PrivateConnEntry { is_answering, ..conn });
        }
    }

    fn number(&self) -> MutexGuard<'_, u64> {
        self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PrivateConn {
    fn drop(&mut self) {
        let number = *self.number();
        self.conns.lock().by_age.remove(&number);
    }
}

/// Keeps a connection from being closed at a limit while its request is being answered. When this guard is
/// dropped, the connection waits for its next request.
pub(super) struct Answering(Arc<PrivateConn>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set_answering(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::at([192, 0, 2, last].into())
    }

    fn count(conns: &PrivateConns) -> usize {
        conns.lock().by_age.len()
    }

    #[tokio::test]
    async fn the_oldest_connection_without_a_request_makes_room() {
        let conns = PrivateConns::new(4);
        let admit = |source: u8| conns.admit(peer(source), &[]);
        let first = admit(1).expect("room");
        let answered = admit(2).expect("room");
        let answering = answered.mark_answering();
        let third = admit(3).expect("room");
        let fourth = admit(4).expect("room");
        let fifth = admit(5).expect("room is made");
        // Ends only because the connection is closed.
        first.run(std::future::pending::<()>()).await;
        let sixth = admit(6).expect("room is made");
        third.run(std::future::pending::<()>()).await;
        let busy = [fourth.mark_answering(), fifth.mark_answering(), sixth.mark_answering()];
        assert!(admit(7).is_none(), "requests are answered on all");
        drop(answering);
        assert!(admit(7).is_some(), "a connection between two requests makes room");
        answered.run(std::future::pending::<()>()).await;
        drop(busy);
        drop((first, answered, third, fourth, fifth, sixth));
        assert_eq!(count(&conns), 0);
    }

    #[test]
    fn a_single_connection_is_admitted() {
        let conns = PrivateConns::new(1);
        let first = conns.admit(peer(1), &[]).expect("room");
        let second = conns.admit(peer(1), &[]).expect("the one without a request makes room");
        let answering = second.mark_answering();
        assert!(conns.admit(peer(2), &[]).is_none(), "a request is being answered");
        drop((answering, first, second));
        assert_eq!(count(&conns), 0);
    }

    #[tokio::test]
    async fn a_source_has_half_of_the_connections_and_a_proxy_all() {
        let conns = PrivateConns::new(4);
        let own = [conns.admit(peer(1), &[]), conns.admit(peer(1), &[])].map(|conn| conn.expect("room"));
        let third = conns.admit(peer(1), &[]).expect("its oldest makes room");
        own[0].run(std::future::pending::<()>()).await;
        let answering = [own[1].mark_answering(), third.mark_answering()];
        assert!(conns.admit(peer(1), &[]).is_none());
        assert!(conns.admit(peer(2), &[]).is_some(), "another source is not affected");
        drop(answering);
        drop((own, third));
        let proxies = ["192.0.2.1".parse().expect("an address")];
        let of_proxy: Vec<_> = (0..4).filter_map(|_| conns.admit(peer(1), &proxies)).collect();
        assert_eq!((of_proxy.len(), count(&conns)), (4, 4));
        let local: Vec<_> = (0..4).filter_map(|_| conns.admit(Peer::LOCAL, &[])).collect();
        assert_eq!((local.len(), count(&conns)), (4, 4));
    }
}
