//! Changes whose commit the server does not confirm take effect once.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::*;
use crate::store::sql::transaction::Change;

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_change_whose_commit_is_not_confirmed_is_applied_once() {
    // Statements that run during the commit, and how many times the change is then applied.
    let cases = [
        // As if the server had stopped waiting for a standby: the change is committed.
        ("RAISE WARNING 'not durable'", 1),
        (
            "IF nextval('tries') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(9); END IF",
            2,
        ),
    ];
    for (at_commit, times) in cases {
        for is_pooled in [false, true] {
            let fixture = Fixture::new();
            let server = fixture.server();
            if is_pooled {
                server.pooler().set_pooled();
            }
            let store = open_with_counter(&fixture, server, at_commit);
            let found = count(&store, || ());
            assert_eq!((found, fixture.number("SELECT number FROM counted")), (times, times), "{at_commit}");
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_change_is_applied_once_if_the_reply_to_its_commit_is_lost() {
    for is_pooled in [false, true] {
        let fixture = Fixture::new();
        let proxy = Proxy::start(&fixture);
        if is_pooled {
            proxy.server.pooler().set_pooled();
        }
        let store = open_with_counter(&fixture, proxy.server.clone(), "NULL");
        let cuts = proxy.cuts.clone();
        assert_eq!(count(&store, move || cuts.store(true, Ordering::SeqCst)), 1);
        assert!(!proxy.cuts.load(Ordering::SeqCst), "the connection was cut");
        assert_eq!(fixture.number("SELECT number FROM counted"), 1);
        // The next changes are committed by another connection.
        assert_eq!(count(&store, || ()), 1);
        assert_eq!(fixture.number("SELECT count(*) FROM counted"), 2);
    }
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_writer_has_one_mark_which_the_next_one_removes_after_a_day() {
    let fixture = Fixture::new();
    let marks = || fixture.number("SELECT count(*) FROM lease WHERE name LIKE 'commit %'");
    let store = open_with_counter(&fixture, fixture.server(), "NULL");
    for _ in 0..3 {
        count(&store, || ());
    }
    store.close();
    assert_eq!(marks(), 1);
    drop(PostgresWriter::open(&fixture.server()).unwrap());
    assert_eq!(marks(), 1, "it may be needed");
    fixture.run("UPDATE lease SET expires_at = expires_at - 25 * 3600000");
    let mut writer = PostgresWriter::open(&fixture.server()).unwrap();
    assert_eq!(marks(), 0);
    // Transactions that change nothing need no sync, so they get no mark.
    let mut commit = |change: Box<dyn Change>| {
        writer.commit(&[], &mut [change], &mut crate::store::ids::Ids::default(), &mut Vec::new()).unwrap();
    };
    commit(Box::new(Statement("SELECT 1 FROM meta")));
    assert_eq!(marks(), 0);
    commit(Box::new(Statement(crate::store::sql::TOUCH)));
    assert_eq!(marks(), 1);
}

/// A change that executes a statement.
struct Statement(&'static str);

impl Change for Statement {
    fn apply(&mut self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        tx.sql.execute(self.0, &[]).map(drop)
    }

    fn answer(self: Box<Self>, _: Result<(), StoreError>) {}
}

/// Opens the inbox, with a table `counted` whose trigger executes `at_commit` at the commit of each row.
fn open_with_counter(fixture: &Fixture, server: Server, at_commit: &str) -> TestInbox {
    fixture.run("CREATE TABLE counted (number bigint NOT NULL)");
    fixture.run("CREATE SEQUENCE tries");
    fixture.run(&format!(
        "CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {at_commit}; RETURN NULL; END $$"
    ));
    fixture.run(
        "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON counted DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION at_commit()",
    );
    TestInbox::open(&Options::new(DatabaseUrl::Postgres(server))).unwrap()
}

/// Makes a change that inserts how many times it has been applied, and returns that number. Calls `first`
/// when it is first applied.
fn count(store: &TestInbox, first: impl Fn() + Send + 'static) -> i64 {
    let mut times = 0;
    let counted = store.change_blocking(move |tx| {
        times += 1;
        if times == 1 {
            first();
        }
        tx.sql.execute("INSERT INTO counted VALUES (?1)", values![times])?;
        Ok(times)
    });
    counted.unwrap()
}

/// A proxy in front of the server that can lose the reply to a commit.
struct Proxy {
    server: Server,
    /// Set this to forward the next COMMIT, but to close its connection instead of forwarding the reply. The
    /// proxy then clears it.
    cuts: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts threads that run until the test process ends.
    fn start(fixture: &Fixture) -> Proxy {
        let direct = fixture.server();
        let tokio_postgres::config::Host::Unix(folder) = &direct.config().get_hosts()[0] else {
            panic!("the server has a socket")
        };
        let socket = folder.join(format!(".s.PGSQL.{}", direct.config().get_ports()[0]));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, schema) = (listener.local_addr().unwrap().port(), fixture.text("SELECT current_schema()"));
        let cuts = Arc::new(AtomicBool::new(false));
        let armed = Arc::clone(&cuts);
        thread::spawn(move || {
            for client in listener.incoming() {
                forward(client.unwrap(), UnixStream::connect(&socket).unwrap(), Arc::clone(&armed));
            }
        });
        let url = format!(
            "postgres://frontdesk@127.0.0.1:{port}/frontdesk?options=-csearch_path%3D{schema}&application_name={schema}"
        );
        Proxy { server: Server::parse(&url).unwrap(), cuts }
    }
}

/// Forwards both directions of a connection; see [`Proxy::cuts`].
fn forward(client: TcpStream, server: UnixStream, cuts: Arc<AtomicBool>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (mut from_server, mut to_client, cut) = (server, client, Arc::clone(&is_cut));
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = from_client.read(&mut bytes) {
            let is_commit = bytes[..length].windows(7).any(|text| text == b"COMMIT\0");
            if is_commit && cuts.swap(false, Ordering::SeqCst) {
                is_cut.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = from_server.read(&mut bytes) {
            if cut.load(Ordering::SeqCst) || to_client.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
}
