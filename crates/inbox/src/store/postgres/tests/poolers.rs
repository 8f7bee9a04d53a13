//! Tests with a PgBouncer in front of the server, and of how one is detected.

use super::*;
use crate::store::postgres::connection_registration::{Registration, end_registration};
use crate::store::postgres::maintenance_lease::MaintenanceLease;

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_session_of_ones_own_is_used_as_one() {
    let fixture = Fixture::new();
    let connection = PgConnection::open(&fixture.server(), WRITING).unwrap();
    assert!(!connection.is_pooled());
    assert_eq!(connection.query_text("SHOW statement_timeout").unwrap(), "10s");
    assert_eq!(connection.query_text("SHOW lock_timeout").unwrap(), "2s");
    let url = std::env::var("FRONTDESK_TEST_POSTGRES_TLS").expect("a URL that requires TLS");
    let encrypted = PgConnection::open(&Server::parse(&url).unwrap(), READING).unwrap();
    assert!(!encrypted.is_pooled(), "the announced process is known over TLS, too");
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn every_pooler_is_detected_and_works() {
    let fixture = Fixture::new();
    // In these modes, with few and with many other clients.
    for (mode, pool_size) in [("transaction", 2), ("transaction", 20), ("session", 20)] {
        let pooler = Pooler::start(&fixture, mode, pool_size);
        let _others: Vec<_> =
            (0..pool_size.min(3)).filter(|_| mode == "transaction").map(|_| pooler.open().unwrap()).collect();
        let before = fixture.list_if_any();
        let store = TestInbox::open(&Options::new(pooler.url())).unwrap();
        accept(&store, &format!("{mode} {pool_size}")).unwrap();
        store.close();
        assert_eq!(fixture.list().len(), before + 1);
        let DatabaseUrl::Postgres(server) = pooler.url() else { unreachable!("it is a server") };
        let connection = PgConnection::open(&server, WRITING).unwrap();
        assert!(connection.is_pooled(), "{mode} {pool_size}");
        let sql: &dyn Sql = &connection;
        let timeout: String = sql.one_value("SELECT current_setting('statement_timeout')", &[]).unwrap();
        assert_eq!(timeout, "10s", "each transaction has its settings");
        assert_eq!(connection.query_text("SHOW statement_timeout").unwrap(), "0", "and the session none");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_pooler_in_statement_mode_is_refused() {
    let fixture = Fixture::new();
    let pooler = Pooler::start(&fixture, "statement", 20);
    let error = TestInbox::open(&Options::new(pooler.url())).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::SharedSessions(_)), "{error}");
    assert!(error.hint().unwrap().contains("pool_mode = transaction"));
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_statement_of_another_session_shows_a_pooler() {
    let fixture = Fixture::new();
    let server = fixture.server();
    let connection = PgConnection::open(&server, READING).unwrap();
    (&connection as &dyn Sql).query("SELECT 1", &[]).unwrap();
    connection.run_statements("DEALLOCATE ALL").unwrap();
    let error = (&connection as &dyn Sql).query("SELECT 1", &[]).map(drop).unwrap_err();
    assert!(error.is_temporary(), "{error}");
    let next = PgConnection::open(&server, READING).unwrap();
    assert!(next.is_pooled());
    assert!((&next as &dyn Sql).exists("SELECT 1", &[]).unwrap());
}

/// Connections that are used as if there were a pooler, which there need not be.
fn pooled(fixture: &Fixture) -> Server {
    let server = fixture.server();
    server.pooler().set_pooled();
    server
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_statement_that_fails_leaves_no_transaction() {
    let fixture = Fixture::new();
    fixture.open().close();
    let connection = PgConnection::open(&pooled(&fixture), WRITING).unwrap();
    let sql: &dyn Sql = &connection;
    let error = sql.execute("INSERT INTO meta (name, value) VALUES ('secret', ?1)", values![[7_u8; 4]]);
    assert!(matches!(error, Err(StoreError::Postgres(code)) if code == "23505"));
    assert_eq!(
        connection
            .query_text(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND pid = pg_backend_pid()"
            )
            .unwrap(),
        "0"
    );
    for (statement, expected) in [("SELECT 1 / 0", false), ("SELECT 1", true)] {
        let is_done = connection.run_alone(statement, std::time::Duration::from_secs(10));
        assert_eq!(is_done, Some(expected), "{statement}");
    }
    // An error within a transaction undoes all of it.
    let failed: Result<(), StoreError> = sql.transaction(|| {
        sql.execute("INSERT INTO meta (name, value) VALUES ('other', ?1)", values![[7_u8; 4]])?;
        sql.execute("SELECT 1 / length(?1)", values![""]).map(drop)
    });
    assert!(failed.is_err());
    assert_eq!(fixture.number("SELECT count(*) FROM meta WHERE name = 'other'"), 0);
    assert!(sql.exists("SELECT 1", &[]).unwrap(), "the connection still works");
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn no_prepared_statement_stays_in_a_session() {
    let fixture = Fixture::new();
    fixture.open().close();
    let connection = PgConnection::open(&pooled(&fixture), WRITING).unwrap();
    let sql: &dyn Sql = &connection;
    connection.warm_up_insert(crate::store::sql::intake::INTAKE).unwrap();
    sql.transaction(|| sql.query("SELECT name FROM meta WHERE name = ?1", values!["secret"])).unwrap();
    assert_eq!(connection.query_text("SELECT count(*) FROM pg_prepared_statements").unwrap(), "0");
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_registration_that_has_ended_prevents_a_late_commit() {
    let fixture = Fixture::new();
    fixture.open().close();
    let server = pooled(&fixture);
    let (late, _) = open_to_write(&server).unwrap();
    let (next, _) = open_to_write(&server).unwrap();
    let registered = late.registered().expect("it is registered");
    let (late_sql, next_sql): (&dyn Sql, &dyn Sql) = (&late, &next);
    let insert = |name: &str| {
        late_sql.execute("INSERT INTO meta (name, value) VALUES (?1, ?2)", values![name, [7_u8; 4]])
    };
    // A transaction that is under way keeps the registration.
    late_sql.execute("BEGIN", &[]).unwrap();
    insert("in time").unwrap();
    assert!(!next_sql.transaction(|| end_registration(next_sql, registered)).unwrap());
    late_sql.execute("COMMIT", &[]).unwrap();
    assert!(next_sql.transaction(|| end_registration(next_sql, registered)).unwrap());
    for _ in 0..2 {
        let error = insert("late").unwrap_err();
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
        assert!(late_sql.execute("BEGIN", &[]).is_err());
    }
    assert_eq!(fixture.number("SELECT count(*) FROM meta WHERE name = 'in time'"), 1);
    assert_eq!(fixture.number("SELECT count(*) FROM meta WHERE name = 'late'"), 0);
    // A writer notices that, registers again and stores the submission.
    let store = TestInbox::open(&Options::new(DatabaseUrl::Postgres(server))).unwrap();
    accept(&store, "one").unwrap();
    fixture.run("DELETE FROM lease");
    accept(&store, "two").unwrap();
    assert_eq!(fixture.list().len(), 2);
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn an_unresolved_commit_waits_for_the_end_of_its_registration() {
    let fixture = Fixture::new();
    let store = fixture.open();
    accept(&store, "one").unwrap();
    let server = pooled(&fixture);
    let (hung, _) = open_to_write(&server).unwrap();
    let hung_sql: &dyn Sql = &hung;
    hung_sql.execute("BEGIN", &[]).unwrap();
    let id = uuid::Uuid::now_v7();
    let copy = format!(
        "INSERT INTO submission (id, form, received_at, fields, source)
         SELECT '{id}', form, received_at, fields, source FROM submission"
    );
    hung_sql.execute(&copy, &[]).unwrap();
    let backend = format!("registered {}", hung.registered().unwrap());
    let mut unresolved = vec![UnresolvedCommit { id, backend: Some(backend) }];
    let mut database = PostgresWriter::open(&server).unwrap();
    let mut ids = crate::store::ids::Ids::default();
    database.commit(&[], &mut [], &mut ids, &mut unresolved).unwrap();
    assert_eq!(unresolved.len(), 1, "it is still under way");
    hung_sql.execute("COMMIT", &[]).unwrap();
    assert_eq!(fixture.list().len(), 2);
    database.commit(&[], &mut [], &mut ids, &mut unresolved).unwrap();
    assert_eq!((fixture.list().len(), unresolved.len()), (1, 0));
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_copy_excludes_writers_behind_a_pooler_and_they_exclude_it() {
    let fixture = Fixture::new();
    fixture.open().close();
    let server = pooled(&fixture);
    let (writer, _) = open_to_write(&server).unwrap();
    let (copier, _) = open_to_edit(&server).unwrap();
    let (direct, _) = open_to_edit(&fixture.server()).unwrap();
    assert!(lock_exclusively(&copier, &server).unwrap().is_none(), "a direct writer has the inbox open");
    assert!(lock_exclusively(&direct, &fixture.server()).unwrap().is_none(), "a pooled one has it open");
    drop(direct);
    assert!(lock_exclusively(&copier, &server).unwrap().is_none());
    // A process that was killed leaves its registration until it expires.
    fixture.run("UPDATE lease SET expires_at = 0");
    let lock = lock_exclusively(&copier, &server).unwrap().expect("only expired registrations are left");
    assert!((&writer as &dyn Sql).execute("DELETE FROM meta WHERE name = 'x'", &[]).is_err());
    assert!(matches!(open_to_edit(&server).map(drop), Err(StoreError::Locked)));
    assert!(matches!(open_to_edit(&fixture.server()).map(drop), Err(StoreError::Locked)));
    drop((lock, copier));
    let began = Instant::now();
    while let Err(error) = open_to_edit(&server) {
        assert!(began.elapsed() < Duration::from_secs(10), "{error}");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn one_process_has_maintenance_until_its_lease_ends() {
    let fixture = Fixture::new();
    fixture.open().close();
    for server in [fixture.server(), pooled(&fixture)] {
        assert!(!MaintenanceLease::is_taken(&server).unwrap());
        let lease = MaintenanceLease::try_acquire(&server).unwrap().expect("it is free");
        assert!(lease.is_held() && MaintenanceLease::is_taken(&server).unwrap());
        assert!(MaintenanceLease::try_acquire(&server).unwrap().is_none());
        // As if the process had been stopped for longer than its lease.
        fixture.run("UPDATE lease SET expires_at = 0");
        let next = MaintenanceLease::try_acquire(&server).unwrap().expect("it has expired");
        let began = Instant::now();
        while lease.is_held() {
            assert!(began.elapsed() < Duration::from_secs(20), "it does not notice that it is lost");
            thread::sleep(Duration::from_millis(100));
        }
        drop(lease);
        assert!(MaintenanceLease::is_taken(&server).unwrap(), "the end of a lost lease ends no other");
        drop(next);
        assert!(!MaintenanceLease::is_taken(&server).unwrap(), "stopping releases it at once");
        // As if the process had been killed: without a pooler, its session ends with it.
        fixture.run("INSERT INTO lease VALUES ('maintenance', gen_random_uuid(), 99999999999999, '1 2.5')");
        let next = MaintenanceLease::try_acquire(&server).unwrap();
        assert!(next.is_some(), "the session of the holder has ended");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server; run by `scripts/test postgres`"]
fn a_registration_is_renewed_and_old_ones_are_removed() {
    let fixture = Fixture::new();
    fixture.open().close();
    fixture.run("INSERT INTO lease VALUES ('writer x', gen_random_uuid(), 5)");
    let sql = fixture.fresh.sql();
    let registration = sql.transaction(|| Registration::insert(&*sql)).unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM lease WHERE name = 'writer x'"), 0);
    assert!(!registration.check().contains("UPDATE"), "it is new");
    let left = fixture.number(
        "SELECT expires_at - (extract(epoch FROM now()) * 1000)::bigint FROM lease WHERE name LIKE 'writer %'",
    );
    assert!((40_000..=60_500).contains(&left), "{left}");
}

/// PgBouncer in front of the server.
struct Pooler {
    process: std::process::Child,
    _folder: tempfile::TempDir,
    port: u16,
}

impl Pooler {
    /// PgBouncer does not pass on the URL's `options`, so `connect_query` sets the schema.
    pub fn start(fixture: &Fixture, mode: &str, pool_size: usize) -> Pooler {
        let server = Server::parse(&fixture.url).unwrap();
        let tokio_postgres::config::Host::Unix(socket) = &server.config().get_hosts()[0] else {
            panic!("the server has a socket")
        };
        let folder = tempfile::TempDir::new().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = format!(
            "[databases]
             frontdesk = host={} port={} user=frontdesk connect_query='SET search_path TO {}'
             [pgbouncer]
             listen_addr = 127.0.0.1
             listen_port = {port}
             unix_socket_dir =
             auth_type = any
             pool_mode = {mode}
             default_pool_size = {pool_size}
             server_reset_query =
            ",
            socket.display(),
            server.config().get_ports()[0],
            fixture.text("SELECT current_schema()"),
        );
        let file = folder.path().join("pgbouncer.ini");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        std::fs::write(&file, lines.join("\n")).unwrap();
        let mut command = std::process::Command::new("/usr/sbin/pgbouncer");
        // PgBouncer refuses to run as root.
        if rustix::process::geteuid().is_root() {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
            command.args(["-u", "postgres"]);
        }
        let process = command.arg("--quiet").arg(&file).spawn().expect("pgbouncer is installed");
        let pooler = Pooler { process, _folder: folder, port };
        let began = Instant::now();
        while let Err(error) = pooler.open() {
            assert!(began.elapsed() < Duration::from_mins(1), "{error}");
            thread::sleep(Duration::from_millis(20));
        }
        pooler
    }

    pub fn open(&self) -> Result<PgConnection, StoreError> {
        let DatabaseUrl::Postgres(server) = self.url() else { unreachable!("it is a server") };
        let connection = PgConnection::open(&server, READING)?;
        connection.query_text("SELECT 1")?;
        Ok(connection)
    }

    pub fn url(&self) -> DatabaseUrl {
        let url = format!("postgres://frontdesk@127.0.0.1:{}/frontdesk", self.port);
        DatabaseUrl::Postgres(Server::parse(&url).unwrap())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
