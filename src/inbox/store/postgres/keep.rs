//! Keeps what waits in one transaction and two exchanges with the server: one reads what is known, one writes and commits.
//!
//! What the batch comes to is worked out here in between, in the order of arrival, as if each had come alone. Another replica
//! may have been at the same fingerprints meanwhile: then the transaction fails as a whole, and it is worked out again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Statement};
use uuid::Uuid;

use super::link::Link;
use super::{Server, open_to_write};
use crate::inbox::form::Sameness;
use crate::inbox::store::fingerprint::{Hash, Secret};
use crate::inbox::store::ids::Ids;
use crate::inbox::store::sql::change::{self, Change, Changing};
use crate::inbox::store::sql::deliver::millis;
use crate::inbox::store::sql::{Sql, values};
use crate::inbox::store::{Accepted, Doubt, Job, StoreError, bell};

/// How often a batch is worked out again because another replica was faster.
const AGAIN: usize = 8;
/// After so long nothing is tried again: visitors wait for it.
const LONG_ENOUGH: Duration = Duration::from_secs(12);
/// How long we try to find out what became of a commit that nobody answered.
const FIND_OUT: Duration = Duration::from_secs(8);
/// Between two looks at it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often replicas are told that something is queued, at most: telling holds up everybody's commits for a moment.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Rows are locked in the order of their keys, so that no two replicas wait for each other.
const KNOWN: &str = "SELECT f.key, f.submission, f.expires_at FROM fingerprint f WHERE f.key = ANY(?1) ORDER BY f.key FOR UPDATE";
const THERE: &str = "SELECT id FROM submission WHERE id = ANY(?1) ORDER BY id FOR UPDATE";
const CLAIM: &str = "INSERT INTO fingerprint (key, submission, expires_at)
    SELECT * FROM unnest(?1::bytea[], ?2::uuid[], ?3::bigint[])";
const POINT: &str = "UPDATE fingerprint f SET submission = n.submission, expires_at = n.expires_at
    FROM unnest(?1::bytea[], ?2::uuid[], ?3::bigint[]) AS n (key, submission, expires_at) WHERE f.key = n.key";
const REPEAT: &str = "UPDATE submission s SET repeats = repeats + n.times
    FROM unnest(?1::uuid[], ?2::bigint[]) AS n (id, times) WHERE s.id = n.id";
const INSERT: &str = "INSERT INTO submission (id, form, received_at, fields, sealed, source, sender, held_at, held_because,
        score, reasons, withheld, agent)
    SELECT id, form, received_at, fields::json, sealed, source, sender, held_at, held_because,
        score, reasons::json, withheld, agent
    FROM unnest(?1::uuid[], ?2::text[], ?3::bigint[], ?4::text[], ?5::bytea[], ?6::bytea[], ?7::bytea[], ?8::bigint[],
        ?9::text[], ?10::integer[], ?11::text[], ?12::integer[], ?13::text[])
    AS n (id, form, received_at, fields, sealed, source, sender, held_at, held_because, score, reasons, withheld, agent)";
/// What is due is due by the server's clock at the latest: a replica whose own is ahead would have its visitors' mail wait.
const QUEUE: &str = "INSERT INTO delivery (submission, channel, state, due_at)
    SELECT submission, channel, state, CASE WHEN due_at IS NOT NULL
        THEN least(due_at, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) END
    FROM unnest(?1::uuid[], ?2::text[], ?3::text[], ?4::bigint[]) AS n (submission, channel, state, due_at)";
/// What another replica removes just now need not be waited for.
const PRUNE: &str = "DELETE FROM fingerprint WHERE key IN
    (SELECT key FROM fingerprint WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2 FOR UPDATE SKIP LOCKED)";

/// The database, open for writing.
pub(in crate::inbox::store) struct Database {
    link: Link,
    secret: Secret,
    server: Server,
    /// When the others were last told that something is queued.
    told: Option<Instant>,
    /// Whether something was queued since.
    untold: bool,
}

/// Why a transaction did not go well.
enum Trouble {
    /// Nothing of it was kept.
    Failed(StoreError),
    /// Another replica was at the same rows; nothing was kept, and it may go well now.
    Again(StoreError),
    /// The connection was lost while it was committed.
    Unknown { error: StoreError, transaction: String, plan: Box<Plan> },
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        match error {
            StoreError::Locked => Trouble::Again(error),
            error => Trouble::Failed(error),
        }
    }
}

impl Database {
    pub fn open(server: &Server) -> Result<Database, StoreError> {
        let (link, secret) = open_to_write(server)?;
        Ok(Database { link, secret, server: server.clone(), told: None, untold: false })
    }

    /// Commits all of them in one transaction, or none, with ids from `ids`. Writes something even if there are none, so that it
    /// shows whether that is possible.
    ///
    /// Where the connection is lost while a transaction is committed, the server is asked what became of it. If it cannot be asked in
    /// time, what it held stays in `doubtful`, and is taken out by the first transaction that sees it: it was not confirmed.
    pub fn keep(
        &mut self,
        jobs: &[Job],
        changes: &mut [Box<dyn Change>],
        ids: &mut Ids,
        doubtful: &mut Vec<Doubt>,
    ) -> Result<Vec<Accepted>, StoreError> {
        let mut last = StoreError::Locked;
        let mut is_new = false;
        let began = Instant::now();
        for at in 0..AGAIN {
            if at > 0 && began.elapsed() > LONG_ENOUGH {
                break;
            }
            let outcome = if jobs.is_empty() {
                self.change(changes, doubtful).map(|left| (Vec::new(), left)).map_err(Trouble::from)
            } else {
                self.accept(jobs, ids, doubtful)
            };
            match outcome {
                Ok((accepted, left)) => {
                    *doubtful = left;
                    return Ok(accepted);
                }
                // Nothing was to be committed yet. A connection that was idle may have been lost long ago.
                Err(Trouble::Failed(StoreError::Unreachable { .. })) if !is_new => {
                    self.reconnect()?;
                    is_new = true;
                }
                Err(Trouble::Failed(error)) => return Err(error),
                Err(Trouble::Again(error)) => last = error,
                Err(Trouble::Unknown { error, transaction, plan }) => {
                    match self.find_out(&transaction, &plan) {
                        Some(true) => {
                            self.untold |= !plan.deliveries.is_empty();
                            *doubtful = plan.left;
                            return Ok(plan.accepted);
                        }
                        Some(false) => last = error,
                        None => {
                            doubtful.extend(plan.doubts(&transaction));
                            return Err(error);
                        }
                    }
                }
            }
        }
        Err(last)
    }

    /// Whether the server is there and takes changes. Connects anew where the connection is lost.
    pub fn look(&mut self) -> Result<(), StoreError> {
        let ask = |link: &Link| -> Result<bool, StoreError> {
            let sql: &dyn Sql = link;
            sql.one("SELECT pg_is_in_recovery()", &[])?.get(0)
        };
        let is_standby = match ask(&self.link) {
            Err(StoreError::Unreachable { .. }) => {
                self.reconnect()?;
                ask(&self.link)?
            }
            asked => asked?,
        };
        if is_standby { Err(StoreError::ReadOnly) } else { Ok(()) }
    }

    fn reconnect(&mut self) -> Result<(), StoreError> {
        (self.link, self.secret) = open_to_write(&self.server)?;
        Ok(())
    }

    /// Tells the other replicas what was queued, from time to time.
    pub fn tell(&mut self) {
        if self.untold && self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            self.told = Some(Instant::now());
            self.untold = false;
            // They also look from time to time.
            let _ = bell::announce(&self.link);
        }
    }

    fn change(&self, changes: &mut [Box<dyn Change>], doubtful: &[Doubt]) -> Result<Vec<Doubt>, StoreError> {
        let sql: &dyn Sql = &self.link;
        let left = sql.transaction(|| {
            let left = self.remove(doubtful)?;
            if changes.is_empty() {
                sql.execute("UPDATE meta SET value = value WHERE name = 'secret'", &[])?;
                let _ = self.link.was_warned();
                return Ok(left);
            }
            let ahead = change::clock_ahead(sql)?;
            change::apply(&Changing { tx: sql, secret: &self.secret, ahead }, changes)?;
            let _ = self.link.was_warned();
            Ok(left)
        })?;
        // Who has claimed something that only this server knows of must not send it: another would, after a failover.
        if self.link.was_warned() { Err(self.link.unreachable("the commit is in doubt")) } else { Ok(left) }
    }

    /// Takes out what commits that were reported as failed may have left behind. Returns what cannot be seen yet, because its
    /// transaction is still under way: it may be waiting for a standby, whoever has given it up.
    fn remove(&self, doubtful: &[Doubt]) -> Result<Vec<Doubt>, StoreError> {
        // Asked before anything is removed, so that what has ended by then is seen.
        let over = "SELECT pg_visible_in_snapshot(CAST(CAST(?1 AS text) AS xid8), pg_current_snapshot())";
        let mut left = Vec::new();
        for doubt in doubtful {
            let is_over = match &doubt.transaction {
                Some(transaction) => (&self.link as &dyn Sql).one(over, values![transaction])?.get(0)?,
                None => true,
            };
            if !is_over {
                left.push(doubt.clone());
            }
            self.link.execute(
                "DELETE FROM submission WHERE id = ?1 AND repeats = ?2",
                values![doubt.id.as_bytes(), doubt.repeats],
            )?;
        }
        Ok(left)
    }

    /// What became of each, and what is still in doubt.
    fn accept(
        &mut self,
        jobs: &[Job],
        ids: &mut Ids,
        doubtful: &[Doubt],
    ) -> Result<(Vec<Accepted>, Vec<Doubt>), Trouble> {
        let accepted = self.try_accept(jobs, ids, doubtful);
        match &accepted {
            // Whoever did not answer in time would not answer this either. There is a new connection after it.
            Ok(_) | Err(Trouble::Failed(StoreError::Unreachable { .. }) | Trouble::Unknown { .. }) => {}
            Err(Trouble::Failed(_) | Trouble::Again(_)) => {
                let _ = self.link.run("ROLLBACK");
            }
        }
        accepted
    }

    fn try_accept(
        &mut self,
        jobs: &[Job],
        ids: &mut Ids,
        doubtful: &[Doubt],
    ) -> Result<(Vec<Accepted>, Vec<Doubt>), Trouble> {
        let link = &self.link;
        let (opening, known) = (link.client().batch_execute("BEGIN"), link.prepare(KNOWN)?);
        let prints: Vec<Prints> = jobs.iter().map(|job| Prints::of(job, &self.secret)).collect();
        let keys: Vec<&[u8]> = prints.iter().flat_map(Prints::keys).map(<[u8; 16]>::as_slice).collect();
        // One exchange: nothing is waited for before all of it is sent.
        let ((), rows, transaction) = link.wait(async {
            let query = async { link.client().query(&known, &[&keys]).await };
            let transaction = link.client().query_typed("SELECT pg_current_xact_id()::text", &[]);
            let (began, rows, transaction) = tokio::join!(biased; opening, query, transaction);
            Ok((began?, rows?, transaction?))
        })?;
        let left = self.remove(doubtful)?;
        let mut standing: HashMap<Hash, Standing> = HashMap::new();
        for row in &rows {
            let key: &[u8] = row.get(0);
            let Ok(key) = key.try_into() else {
                return Err(StoreError::Damaged("a fingerprint is too short").into());
            };
            let print = Standing { submission: row.get(1), expires_at: row.get(2), is_new: false };
            standing.insert(key, print);
        }
        let transaction: String = transaction.first().map(|row| row.get(0)).unwrap_or_default();
        // An original that is removed just now would take its repeats along, unheard.
        let originals: Vec<Uuid> = standing.values().map(|standing| standing.submission).collect();
        let there: Vec<Uuid> = if originals.is_empty() {
            Vec::new()
        } else {
            let statement = link.prepare(THERE)?;
            let rows = link.wait(link.client().query(&statement, &[&originals]))?;
            rows.iter().map(|row| row.get(0)).collect()
        };
        let plan = Plan { left, ..Plan::of(jobs, &prints, standing, &there, ids) };
        match self.write(&plan, jobs) {
            Ok(()) => {
                self.untold |= !plan.deliveries.is_empty();
                Ok((plan.accepted, plan.left))
            }
            Err(error) if self.link.is_lost() => {
                Err(Trouble::Unknown { error, transaction, plan: Box::new(plan) })
            }
            // A key that was not there a moment ago.
            Err(StoreError::Postgres(code)) if code == "23505" => Err(Trouble::Again(StoreError::Locked)),
            // No answer in time: it may still be at it, and this connection is of no use any more. Or an answer that is none.
            Err(error @ StoreError::Unreachable { .. }) => {
                Err(Trouble::Unknown { error, transaction, plan: Box::new(plan) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes and commits in one exchange. If a part fails so does the commit.
    fn write(&self, plan: &Plan, jobs: &[Job]) -> Result<(), StoreError> {
        let link = &self.link;
        let claim = Columns::of(&plan.claims);
        let point = Columns::of(&plan.points);
        let (again, times): (Vec<Uuid>, Vec<i64>) = plan.repeats.iter().copied().unzip();
        let rows = Rows::of(plan, jobs, &self.secret);
        let (submissions, channels, states, due) = plan.deliveries.iter().fold(
            (Vec::new(), Vec::new(), Vec::new(), Vec::new()),
            |(mut a, mut b, mut c, mut d), delivery| {
                a.push(delivery.submission);
                b.push(delivery.channel.as_str());
                c.push(if delivery.due_at.is_some() { "waiting" } else { "held" });
                d.push(delivery.due_at);
                (a, b, c, d)
            },
        );
        let now = jobs.iter().map(|job| job.arrival.received_at.as_millisecond()).max().unwrap_or_default();
        // A few more than a batch of this size can have made.
        let most = i64::try_from(2 * jobs.len() + 16).unwrap_or(i64::MAX);
        let parts = [
            (CLAIM, claim.parameters(), plan.claims.is_empty()),
            (POINT, point.parameters(), plan.points.is_empty()),
            (INSERT, rows.parameters(), plan.new.is_empty()),
            // Some of them may just have been inserted.
            (REPEAT, vec![&again as _, &times as _], again.is_empty()),
            (
                QUEUE,
                vec![&submissions as _, &channels as _, &states as _, &due as _],
                plan.deliveries.is_empty(),
            ),
            (PRUNE, vec![&now as _, &most as _], false),
        ];
        let mut prepared = Vec::with_capacity(parts.len());
        for (sql, parameters, is_empty) in parts {
            if !is_empty {
                prepared.push((link.prepare(sql)?, parameters));
            }
        }
        // What was said of earlier statements says nothing of these.
        let _ = link.was_warned();
        let mut prepared = prepared.iter();
        let mut next = || prepared.next().map(|(statement, parameters)| (statement, parameters.as_slice()));
        let parts = [next(), next(), next(), next(), next(), next()];
        let outcomes = super::link::wait(
            async {
                let part = |at: usize| run(link, parts[at]);
                let commit = link.client().batch_execute("COMMIT");
                let all = tokio::join!(biased; part(0), part(1), part(2), part(3), part(4), part(5), commit);
                <[Result<(), Error>; 7]>::from(all)
            },
            link.patience(),
        );
        let Some(outcomes) = outcomes else { return Err(link.unreachable("no answer in time")) };
        // The first one says why; the others say that there is no transaction any more.
        outcomes.into_iter().collect::<Result<Vec<()>, Error>>().map_err(|error| link.failed(&error))?;
        if link.was_warned() { Err(link.unreachable("the commit is in doubt")) } else { Ok(()) }
    }

    /// Whether a transaction was committed whose end nobody told us, as lastingly as one whose end we were told; nothing if that cannot be
    /// found out in time. There is a new connection afterwards where one could be had.
    fn find_out(&mut self, transaction: &str, plan: &Plan) -> Option<bool> {
        let began = Instant::now();
        let mut is_new = false;
        while began.elapsed() < FIND_OUT {
            if !is_new || self.link.is_lost() {
                is_new = self.reconnect().is_ok();
                if !is_new {
                    std::thread::sleep(LOOK_AGAIN);
                    continue;
                }
            }
            match self.became(transaction, plan) {
                Ok(Some(false)) => return Some(false),
                Ok(Some(true)) => {
                    let left = FIND_OUT.saturating_sub(began.elapsed());
                    match self.make_last(plan, left) {
                        Some(true) => return Some(true),
                        Some(false) => std::thread::sleep(LOOK_AGAIN),
                        // It waits, and so would whatever else is asked.
                        None => return None,
                    }
                }
                Ok(None) | Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
        None
    }

    /// Commits something after what a transaction has left, and so waits for the standby as that one should have: what is seen may be
    /// known to nobody else. A server shows it when it starts anew, or when the session that waited was ended. Whether it has waited; nothing if it takes too long.
    fn make_last(&self, plan: &Plan, patience: Duration) -> Option<bool> {
        let ids = plan.new.iter().map(|(id, _)| id).chain(plan.repeats.iter().map(|(id, _)| id));
        // A row that nobody else is at.
        let of = ids.map(Uuid::to_string).next().unwrap_or_default();
        let touch = format!("UPDATE submission SET repeats = repeats WHERE id = '{of}'");
        let _ = self.link.was_warned();
        let touched = super::link::wait(self.link.client().batch_execute(&touch), patience)?;
        Some(touched.is_ok() && !self.link.was_warned())
    }

    /// What became of a transaction; nothing while it is under way.
    fn became(&self, transaction: &str, plan: &Plan) -> Result<Option<bool>, StoreError> {
        let sql: &dyn Sql = &self.link;
        // The rows say it, whoever leads by now: a server that has taken over may know nothing of the number.
        let witness = plan.new.first().map(|(id, _)| *id);
        if let Some(id) = witness
            && sql.exists("SELECT 1 FROM submission WHERE id = ?1", values![id.as_bytes()])?
        {
            return Ok(Some(true));
        }
        let status = sql.query("SELECT pg_xact_status(CAST(CAST(?1 AS text) AS xid8))", values![transaction]);
        let status: Option<String> = match status {
            Ok(rows) => rows.first().map(|row| row.get(0)).transpose()?.flatten(),
            // A number that it has not given out yet: it took over before it heard of this one.
            Err(StoreError::Postgres(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(match status.as_deref() {
            Some("in progress") => None,
            Some("committed") => Some(
                witness.is_none()
                    || sql.exists(
                        "SELECT 1 FROM submission WHERE id = ?1",
                        values![witness.unwrap_or_default().as_bytes()],
                    )?,
            ),
            _ => Some(false),
        })
    }
}

async fn run(link: &Link, part: Option<(&Statement, &[&(dyn ToSql + Sync)])>) -> Result<(), Error> {
    match part {
        Some((statement, parameters)) => link.client().execute(statement, parameters).await.map(drop),
        None => Ok(()),
    }
}

/// What a repeat of a submission would have in common with it.
struct Prints {
    /// By the sender's own name for it.
    key: Option<Hash>,
    content: Hash,
}

impl Prints {
    fn of(job: &Job, secret: &Secret) -> Prints {
        Prints { key: secret.idempotency_key(&job.arrival), content: secret.content(&job.arrival.entry) }
    }

    fn keys(&self) -> impl Iterator<Item = &Hash> {
        self.key.iter().chain([&self.content])
    }
}

/// What a fingerprint stands for.
#[derive(Clone, Copy)]
struct Standing {
    submission: Uuid,
    expires_at: Option<i64>,
    /// Whether it is of this batch.
    is_new: bool,
}

/// A fingerprint and what it is to stand for.
#[derive(Clone, Copy)]
struct Print {
    key: Hash,
    submission: Uuid,
    expires_at: Option<i64>,
}

struct Delivery {
    submission: Uuid,
    channel: String,
    /// Nothing if it is held.
    due_at: Option<i64>,
}

/// What a batch comes to.
struct Plan {
    accepted: Vec<Accepted>,
    /// What is new, with its place in the batch.
    new: Vec<(Uuid, usize)>,
    deliveries: Vec<Delivery>,
    /// Fingerprints that were not there, in the order of their keys.
    claims: Vec<Print>,
    /// Fingerprints that stand for something else from now on.
    points: Vec<Print>,
    /// How often a submission was sent again, one of this batch included, in the order of their ids.
    repeats: Vec<(Uuid, i64)>,
    /// What earlier commits may still leave behind.
    left: Vec<Doubt>,
}

impl Plan {
    /// One after the other, each as it would be if it had come alone.
    fn of(
        jobs: &[Job],
        of_jobs: &[Prints],
        known: HashMap<Hash, Standing>,
        there: &[Uuid],
        ids: &mut Ids,
    ) -> Plan {
        let before: Vec<Hash> = known.keys().copied().collect();
        let mut work = Work {
            standing: known,
            there,
            touched: Vec::new(),
            repeats: HashMap::new(),
            made: HashMap::new(),
        };
        let (mut accepted, mut new, mut deliveries) =
            (Vec::with_capacity(jobs.len()), Vec::new(), Vec::new());
        for (at, (job, prints)) in jobs.iter().zip(of_jobs).enumerate() {
            let arrival = &job.arrival;
            let now = arrival.received_at.as_millisecond();
            let id = ids.next(arrival.received_at);
            let within_window = Some(now.saturating_add(millis(job.options.duplicate_window)));
            if let Some(key) = prints.key
                && let Some(original) = work.claim(key, id, within_window, now)
            {
                accepted.push(Accepted::Duplicate(original));
                continue;
            }
            let expires_at = match arrival.entry.form().sameness {
                Sameness::Address => None,
                Sameness::Content => within_window,
            };
            if let Some(original) = work.claim(prints.content, id, expires_at, now) {
                if let Some(key) = prints.key {
                    work.point(key, original, within_window);
                }
                accepted.push(Accepted::Duplicate(original));
                continue;
            }
            work.made.insert(id, 0);
            new.push((id, at));
            let due_at = (!arrival.verdict.hold).then_some(now);
            deliveries.extend(job.channels().map(|channel| Delivery {
                submission: id,
                channel: channel.name.clone(),
                due_at,
            }));
            accepted.push(Accepted::New(id));
        }
        let Work { standing, mut touched, repeats, made, .. } = work;
        touched.sort_unstable();
        touched.dedup();
        let print = |key: &Hash| {
            let standing = standing[key];
            Print { key: *key, submission: standing.submission, expires_at: standing.expires_at }
        };
        let (points, claims): (Vec<Print>, Vec<Print>) =
            touched.iter().map(print).partition(|print| before.contains(&print.key));
        let mut repeats: Vec<(Uuid, i64)> = repeats.into_iter().collect();
        repeats.extend(made.into_iter().filter(|(_, times)| *times > 0));
        repeats.sort_unstable();
        Plan { accepted, new, deliveries, claims, points, repeats, left: Vec::new() }
    }
}

impl Plan {
    /// What is to be taken out again, should it turn out to be there.
    fn doubts(&self, transaction: &str) -> impl Iterator<Item = Doubt> {
        self.new.iter().map(move |(id, _)| Doubt {
            id: *id,
            transaction: Some(transaction.to_owned()),
            repeats: self.repeats.iter().find(|(other, _)| other == id).map_or(0, |(_, times)| *times),
        })
    }
}

/// A batch as it is worked out.
struct Work<'a> {
    standing: HashMap<Hash, Standing>,
    /// Which of the submissions that fingerprints stand for are there.
    there: &'a [Uuid],
    touched: Vec<Hash>,
    repeats: HashMap<Uuid, i64>,
    /// What is new in this batch, and how often it was sent again.
    made: HashMap<Uuid, i64>,
}

impl Work<'_> {
    /// Makes the fingerprint stand for `id`, unless it stands for an earlier submission, whose repeat this then is.
    fn claim(&mut self, key: Hash, id: Uuid, expires_at: Option<i64>, now: i64) -> Option<Uuid> {
        if let Some(standing) = self.standing.get(&key)
            && standing.expires_at.is_none_or(|at| at > now)
        {
            let original = standing.submission;
            if standing.is_new
                && let Some(times) = self.made.get_mut(&original)
            {
                *times += 1;
                return Some(original);
            }
            if self.there.contains(&original) {
                *self.repeats.entry(original).or_default() += 1;
                return Some(original);
            }
        }
        // It is new, has expired, or stood for what is gone.
        self.point(key, id, expires_at);
        None
    }

    fn point(&mut self, key: Hash, submission: Uuid, expires_at: Option<i64>) {
        let is_new = !self.there.contains(&submission);
        self.standing.insert(key, Standing { submission, expires_at, is_new });
        self.touched.push(key);
    }
}

/// Fingerprints, column by column.
#[derive(Default)]
struct Columns<'a> {
    keys: Vec<&'a [u8]>,
    submissions: Vec<Uuid>,
    expiries: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    fn of(prints: &'a [Print]) -> Columns<'a> {
        let mut columns = Columns::default();
        for print in prints {
            columns.keys.push(&print.key);
            columns.submissions.push(print.submission);
            columns.expiries.push(print.expires_at);
        }
        columns
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.keys, &self.submissions, &self.expiries]
    }
}

/// New submissions, column by column.
#[derive(Default)]
struct Rows<'a> {
    ids: Vec<Uuid>,
    forms: Vec<&'a str>,
    received: Vec<i64>,
    fields: Vec<&'a str>,
    sealed: Vec<Option<&'a [u8]>>,
    sources: Vec<Vec<u8>>,
    senders: Vec<Option<Vec<u8>>>,
    held: Vec<Option<i64>>,
    because: Vec<Option<String>>,
    scores: Vec<i32>,
    reasons: Vec<Option<&'a str>>,
    withheld: Vec<i32>,
    agents: Vec<Option<&'a str>>,
}

impl<'a> Rows<'a> {
    fn of(plan: &Plan, jobs: &'a [Job], secret: &Secret) -> Rows<'a> {
        let mut rows = Rows::default();
        for (id, at) in &plan.new {
            let job = &jobs[*at];
            let (arrival, verdict) = (&job.arrival, &job.arrival.verdict);
            let now = arrival.received_at.as_millisecond();
            rows.ids.push(*id);
            rows.forms.push(arrival.entry.form().name);
            rows.received.push(now);
            rows.fields.push(&job.fields);
            rows.sealed.push(job.sealed.as_deref());
            rows.sources.push(secret.source(arrival.source).to_vec());
            rows.senders.push(arrival.entry.get("email").map(|email| secret.sender(email).to_vec()));
            rows.held.push(verdict.hold.then_some(now));
            rows.because.push(verdict.hold.then(|| verdict.because().clone()));
            rows.scores.push(i32::try_from(verdict.score).unwrap_or(i32::MAX));
            rows.reasons.push(job.reasons.as_deref());
            rows.withheld.push(i32::from(verdict.hold));
            rows.agents.push(arrival.agent.as_deref());
        }
        rows
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.ids,
            &self.forms,
            &self.received,
            &self.fields,
            &self.sealed,
            &self.sources,
            &self.senders,
            &self.held,
            &self.because,
            &self.scores,
            &self.reasons,
            &self.withheld,
            &self.agents,
        ]
    }
}
