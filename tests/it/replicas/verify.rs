//! The final check of a run: compares the responses that visitors got with the inbox and the deliveries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::Ordering;

use super::Scale;
use super::clients::{Answered, Sent};
use super::testbed::{PATIENCE, REPLICAS, TestBed};

/// The duration of an attempt's lease in milliseconds.
const LEASE: u64 = 180_000;
/// The tolerated difference between the clocks of a replica and the database server, in milliseconds.
const NOTICED: u64 = 1_000;

#[derive(Debug)]
pub struct FinalCheck {
    sent: usize,
    acknowledged: usize,
    refused: usize,
    unanswered: usize,
    kept: usize,
    /// Submissions that got a 200 but are not in the inbox.
    lost: Vec<usize>,
    /// The number of submissions that got a 500 but are in the inbox.
    refused_but_kept: usize,
    /// Submissions that got a 500 but are in the inbox, and that no kill of their replica explains.
    unaccounted: Vec<usize>,
    /// The number of submissions that were delivered without a 200 and then removed from the inbox.
    refused_but_delivered: usize,
    /// The number of duplicate webhook requests with the same id.
    again: usize,
    /// Attempts that overlap with the next attempt of the same delivery.
    held_twice: Vec<String>,
    pages: usize,
    missed: Vec<String>,
    /// The number of attempts without a recorded end.
    interrupted: u64,
}

impl TestBed {
    /// Waits until everything has been delivered. The short run does not wait for leases: it kills all
    /// replicas and releases their deliveries immediately.
    pub fn settle(&mut self, extent: Scale) {
        self.recover("the last fault");
        let mut freed = BTreeSet::new();
        if extent == Scale::Short {
            for replica in 0..REPLICAS {
                self.kill_replica(replica);
            }
            let free = "UPDATE delivery SET due_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
                 WHERE state = 'sending' RETURNING submission || ' ' || channel";
            freed.extend(self.servers.ask("frontdesk", free));
            for replica in 0..REPLICAS {
                self.start_replica(replica);
            }
            self.recover("the last start");
        }
        self.inbox(&["retry", "--since", "1d"]);
        let undelivered =
            "SELECT count(*) + (SELECT count(*) FROM intake) FROM delivery WHERE state <> 'delivered'";
        self.wait_until("everything is delivered", PATIENCE, |testbed| {
            testbed.servers.count(undelivered) == 0
        });
        self.freed = freed;
    }

    /// Compares the visitors' responses with the inbox and the deliveries. Requires a settled system.
    ///
    /// # Panics
    ///
    /// Panics if a guarantee was broken.
    pub fn reckon(&self) -> FinalCheck {
        let inbox: BTreeMap<usize, String> = {
            let rows =
                self.servers.ask("frontdesk", "SELECT (fields ->> 'email') || ' ' || id FROM accepted");
            let by_number: BTreeMap<_, _> = rows.iter().map(|row| number_and_id(row)).collect();
            assert_eq!(by_number.len(), rows.len(), "each submission is in the inbox once");
            by_number
        };
        let sent = self.ledger.lock().clone();
        let with = |told: Answered| sent.iter().filter(move |(_, sent)| sent.told == told);
        let refused_but_kept: Vec<(usize, Sent)> = with(Answered::NotKept)
            .filter(|(number, _)| inbox.contains_key(number))
            .map(|(number, sent)| (*number, *sent))
            .collect();
        let unaccounted = refused_but_kept.iter().filter(|(_, refused)| {
            // A kill explains such a submission if the replica stored no other one between the 500 and the
            // kill.
            let of_replica = self.kills.iter().filter(|(replica, _)| *replica == refused.replica);
            let killed = of_replica.map(|(_, at)| *at).find(|at| *at > refused.at);
            !killed.is_some_and(|killed| {
                !with(Answered::Kept).any(|(_, kept)| {
                    kept.replica == refused.replica && kept.at > refused.at && kept.at < killed
                })
            })
        });
        let ids: BTreeSet<&str> = inbox.values().map(String::as_str).collect();
        let arrived = self.arrived();
        // Refused submissions may have been claimed before they were removed.
        let strays: Vec<usize> = arrived
            .iter()
            .filter(|(id, _)| !ids.contains(id.as_str()))
            .map(|(_, arrival)| arrival.number)
            .collect();
        let is_acknowledged =
            |number: &usize| sent.get(number).is_some_and(|sent| sent.told == Answered::Kept);
        assert!(
            !strays.iter().any(is_acknowledged),
            "acknowledged, delivered and not in the inbox: {strays:?}"
        );
        assert!(ids.iter().all(|id| arrived.contains_key(*id)), "what is in the inbox has arrived");
        self.check_maildir(&ids);
        let figures = FinalCheck {
            sent: sent.len(),
            acknowledged: with(Answered::Kept).count(),
            refused: with(Answered::NotKept).count(),
            unanswered: with(Answered::Nothing).count(),
            kept: inbox.len(),
            lost: with(Answered::Kept)
                .map(|(number, _)| *number)
                .filter(|number| !inbox.contains_key(number))
                .collect(),
            refused_but_kept: refused_but_kept.len(),
            unaccounted: unaccounted.map(|(number, _)| *number).collect(),
            refused_but_delivered: strays.len(),
            again: arrived.values().map(|arrival| arrival.times - 1).sum(),
            held_twice: self.held_twice(),
            pages: self.pages.served.load(Ordering::Relaxed),
            missed: self.pages.missed.lock().expect("no thread panicked").clone(),
            interrupted: self.servers.count("SELECT count(*) FROM attempt WHERE ended_at IS NULL"),
        };
        eprintln!("    {figures}");
        assert!(figures.acknowledged > 0, "no submission was acknowledged");
        assert!(figures.lost.is_empty(), "acknowledged and lost: {:?}", figures.lost);
        assert!(figures.unaccounted.is_empty(), "refused and kept: {:?}", figures.unaccounted);
        assert!(figures.held_twice.is_empty(), "held twice at a time: {:?}", figures.held_twice);
        assert!(figures.missed.is_empty(), "pages that were not served: {:?}", figures.missed);
        figures
    }

    /// Counts the webhook requests for each submission. Panics if there are more requests than attempts.
    fn arrived(&self) -> HashMap<String, Arrival> {
        let mut arrived = HashMap::<String, Arrival>::new();
        for request in self.received() {
            let id = request.header("webhook-id").expect("each has an id").to_owned();
            let number = number_in(&String::from_utf8_lossy(&request.body));
            arrived.entry(id).or_insert(Arrival { number, times: 0 }).times += 1;
        }
        let attempts =
            "SELECT submission || ' ' || count(*) FROM attempt WHERE channel = 'hook' GROUP BY submission";
        let attempts: HashMap<String, usize> = (self.servers.ask("frontdesk", attempts).iter())
            .filter_map(|row| row.split_once(' '))
            .map(|(id, count)| (id.to_owned(), count.parse().expect("a number")))
            .collect();
        // Removed submissions have no attempts.
        for (id, Arrival { times, .. }) in &arrived {
            let tried = attempts.get(id).copied().unwrap_or(usize::MAX);
            assert!(*times <= tried, "{id} was sent {times} times in {tried} attempts");
        }
        arrived
    }

    /// Checks that each submission is in the Maildir as one file, regardless of the number of attempts.
    fn check_maildir(&self, ids: &BTreeSet<&str>) {
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(self.maildir().join("new")).expect("it is there") {
            let message = std::fs::read_to_string(entry.expect("a file").path()).expect("it is text");
            let id = message.lines().find_map(|line| line.strip_prefix("Message-ID: <")).expect("it has one");
            let id = id.split('.').next().expect("it begins with the id").to_owned();
            if !ids.contains(id.as_str()) {
                let number = number_in(&message);
                let told = self.ledger.lock().get(&number).map(|sent| sent.told);
                assert_ne!(told, Some(Answered::Kept), "{id} is in the Maildir but not in the inbox");
                continue;
            }
            assert!(found.insert(id.clone()), "{id} is in the Maildir twice");
        }
        assert_eq!(found.len(), ids.len(), "every submission is in the Maildir");
    }

    /// Attempts that began while the previous attempt had neither ended nor lost its lease, by the server's
    /// clock.
    fn held_twice(&self) -> Vec<String> {
        let overlapping = format!(
            "SELECT b.submission || ' ' || b.channel || ' ' || b.number FROM attempt a
             JOIN attempt b ON (b.submission, b.channel, b.number) = (a.submission, a.channel, a.number + 1)
             WHERE b.began_at < a.began_at + {LEASE} - {NOTICED}
             AND (a.ended_at IS NULL OR a.ended_at > b.began_at + {NOTICED})"
        );
        let overlapping = self.servers.ask("frontdesk", &overlapping);
        let was_freed =
            |row: &String| row.rsplit_once(' ').is_some_and(|(delivery, _)| self.freed.contains(delivery));
        overlapping.into_iter().filter(|row| !was_freed(row)).collect()
    }
}

/// The webhook's requests for one submission.
struct Arrival {
    number: usize,
    times: usize,
}

/// The number in the submission's unique address.
fn number_in(text: &str) -> usize {
    let numbers = text.match_indices("@example.com").filter_map(|(at, _)| {
        let word = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next()?;
        word.strip_prefix('n')?.parse().ok()
    });
    numbers.last().expect("it has one")
}

fn number_and_id(row: &str) -> (usize, String) {
    let (email, id) = row.split_once(' ').expect("two words");
    let number = email.strip_prefix('n').and_then(|rest| rest.split('@').next()?.parse().ok());
    (number.expect("it was sent by us"), id.to_owned())
}

impl fmt::Display for FinalCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sent {}, acknowledged {}, refused {}, unanswered {}, kept {}, lost {}, refused but kept {}, of which not accounted for {}, \
             refused but delivered {}, sent again to the webhook {}, attempts interrupted {}, held twice {}, pages served {}, missed {}",
            self.sent,
            self.acknowledged,
            self.refused,
            self.unanswered,
            self.kept,
            self.lost.len(),
            self.refused_but_kept,
            self.unaccounted.len(),
            self.refused_but_delivered,
            self.again,
            self.interrupted,
            self.held_twice.len(),
            self.pages,
            self.missed.len(),
        )
    }
}
