//! Batches with rows that the database refuses.

use std::sync::Arc;

use super::*;
use crate::store::write_queue::WriteQueue;
use crate::store::writer::start_thread;

/// Makes the database refuse each submission whose message contains `poison`.
fn refuse_poison(fresh: &Fresh) {
    let sql = fresh.sql();
    let statement = match sql.dialect() {
        Dialect::Sqlite => {
            "CREATE TRIGGER poison BEFORE INSERT ON intake WHEN NEW.fields LIKE '%poison%'
             BEGIN SELECT RAISE(ABORT, 'poison'); END"
        }
        Dialect::Postgres => "ALTER TABLE intake ADD CHECK (fields::text NOT LIKE '%poison%')",
    };
    sql.execute(statement, &[]).unwrap();
}

/// The outcomes of a batch.
struct BatchOutcomes {
    submissions: Vec<Result<Uuid, StoreError>>,
    change: Result<i64, StoreError>,
    /// The store's health afterwards.
    health: Result<(), StoreError>,
}

/// Commits one batch of submissions and one change.
fn commit_batch(fresh: &Fresh, messages: &[String]) -> BatchOutcomes {
    let options = Options::new(fresh.url.clone());
    let queue = Arc::new(WriteQueue::default());
    // As in `Writer::start`.
    let changes = if fresh.url.file().is_some() { queue.clone() } else { Arc::default() };
    runtime().block_on(async {
        let jobs: Vec<_> = messages.iter().map(|message| row(contact(message), &options)).collect();
        let accept = |job| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.accept(job).await })
        };
        let accepted: Vec<_> = jobs.into_iter().map(accept).collect();
        // Each task runs until it waits for the writer, which is not yet running.
        tokio::task::yield_now().await;
        let change = changes
            .change(|tx| {
                tx.sql.execute("UPDATE form_rate SET minute = minute + 1", &[])?;
                tx.sql.one_value::<i64>("SELECT minute FROM form_rate", &[])
            })
            .unwrap();
        let queues = if Arc::ptr_eq(&queue, &changes) { vec![&queue] } else { vec![&queue, &changes] };
        let threads = queues.iter().map(|queue| start_thread(&fresh.url, queue, &Arc::default()).unwrap());
        let threads: Vec<_> = threads.collect();
        let mut submissions = Vec::new();
        for one in accepted {
            submissions.push(one.await.unwrap());
        }
        let change = change.await.unwrap();
        let health = queue.health();
        for (queue, thread) in queues.into_iter().zip(threads) {
            queue.close();
            thread.join().unwrap();
        }
        BatchOutcomes { submissions, change, health }
    })
}

fn inbox() -> Fresh {
    let fresh = Fresh::place();
    TestInbox::open(&Options::new(fresh.url.clone())).unwrap().close();
    fresh.sql().execute("INSERT INTO form_rate (form, minute, hour) VALUES ('contact', 5, 0)", &[]).unwrap();
    refuse_poison(&fresh);
    fresh
}

#[test]
fn only_the_faulty_rows_of_a_batch_fail() {
    let poisoned: [&[usize]; 6] = [&[0], &[36], &[17, 18], &[0, 1, 2, 20, 36], &[], &[5, 11, 29]];
    for poisoned in poisoned {
        let fresh = inbox();
        let message = |n: usize| if poisoned.contains(&n) { format!("poison {n}") } else { n.to_string() };
        let messages: Vec<String> = (0..37).map(message).collect();
        let BatchOutcomes { submissions: outcomes, change, health } = commit_batch(&fresh, &messages);
        let failed: Vec<usize> = (0..37).filter(|n| outcomes[*n].is_err()).collect();
        assert_eq!(failed, poisoned);
        assert!(outcomes.iter().flat_map(Result::as_ref).is_sorted(), "ids ascend");
        assert_eq!(change.unwrap(), 6, "the change is applied once");
        assert!(health.is_ok(), "{poisoned:?}: {health:?}");
        let stored = fresh.sql().one_value::<i64>("SELECT count(*) FROM intake", &[]).unwrap();
        assert_eq!(stored, i64::try_from(37 - poisoned.len()).unwrap());
    }
}

#[test]
fn a_batch_of_faulty_rows_fails_and_the_store_stays_healthy() {
    let fresh = inbox();
    for count in [1, 2, 9] {
        let BatchOutcomes { submissions: outcomes, change, health } =
            commit_batch(&fresh, &vec!["poison".to_owned(); count]);
        assert_eq!(outcomes.len(), count);
        assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(StoreError::is_caused_by_row)));
        assert!(change.is_ok() && health.is_ok(), "{change:?} {health:?}");
    }
}

#[test]
fn a_fault_of_the_database_fails_the_whole_batch() {
    let fresh = inbox();
    fresh.sql().execute("ALTER TABLE intake RENAME TO elsewhere", &[]).unwrap();
    let BatchOutcomes { submissions: outcomes, change, health } =
        commit_batch(&fresh, &vec!["one".to_owned(); 3]);
    assert!(outcomes.iter().all(Result::is_err) && change.is_err() && health.is_err());
}

#[test]
fn a_change_with_a_faulty_value_fails_alone() {
    let fresh = inbox();
    let store = TestInbox::open(&Options::new(fresh.url.clone())).unwrap();
    let outcomes = runtime().block_on(async {
        let change = |statement: &'static str| {
            let store = store.clone();
            tokio::spawn(async move { store.change(move |tx| tx.sql.execute(statement, &[])).await })
        };
        let good = "UPDATE form_rate SET minute = minute + 1";
        // A missing value and a repeated key.
        let bad = [
            "INSERT INTO form_rate (form) VALUES (NULL)",
            "INSERT INTO form_rate (form, minute, hour) VALUES ('contact', 1, 1)",
        ];
        let changes = [good, bad[0], good, bad[1], good].map(change);
        let mut outcomes = Vec::new();
        for change in changes {
            outcomes.push(change.await.unwrap().is_ok());
        }
        outcomes
    });
    assert_eq!(outcomes, [true, false, true, false, true]);
    let minute = fresh.sql().one_value::<i64>("SELECT minute FROM form_rate", &[]).unwrap();
    assert_eq!(minute, 8);
    store.close();
}
