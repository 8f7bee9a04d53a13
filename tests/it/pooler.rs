//! Two replicas share an inbox through a PgBouncer in transaction mode, which has fewer sessions of
//! PostgreSQL than the replicas have connections. `FRONTDESK_TEST_POSTGRES` has the URL of the server itself.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::channel_site::{maildir, write_site};
use crate::support::{TestServer, frontdesk};

/// The sessions that the replicas share. Each has three connections.
const SESSIONS: usize = 3;
const PATIENCE: Duration = Duration::from_mins(1);

#[test]
#[ignore = "needs PostgreSQL and PgBouncer; run by `scripts/test postgres`"]
fn replicas_accept_and_deliver_and_leave_nothing_in_sessions() {
    let fixture = Fixture::start(&[]);
    thread::scope(|scope| {
        for sender in 0..6 {
            let replica = &fixture.replicas[sender % 2].address;
            scope.spawn(move || {
                for number in 0..10 {
                    assert_eq!(post(*replica, &format!("{sender}-{number}")), Some(200));
                }
            });
        }
    });
    // A mail is there before its outcome is recorded.
    fixture.wait_until("everything is delivered", || {
        fixture.list().iter().filter(|one| one["status"] == "delivered").count() == 60
    });
    assert_eq!(fixture.list().len(), 60);
    thread::sleep(Duration::from_secs(2));
    assert_eq!(fixture.count_mails(), 60, "each is delivered once");
    for replica in &fixture.replicas {
        replica.assert_logged("a connection pooler is in front of");
    }
    // A lock, a subscription or a prepared statement of a session would be used by the next client.
    fixture.wait_until("no transaction has a lock", || {
        fixture.direct("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0"
    });
    for _ in 0..20 {
        let found = fixture.psql(
            "SELECT (SELECT count(*) FROM pg_prepared_statements) + (SELECT count(*) FROM pg_listening_channels())",
        );
        assert_eq!(found, "0");
        assert_eq!(fixture.psql("SHOW statement_timeout"), "0");
    }
}

#[test]
#[ignore = "needs PostgreSQL and PgBouncer; run by `scripts/test postgres`"]
fn commands_work_while_the_replicas_run() {
    let fixture = Fixture::start(&[]);
    for number in 0..6 {
        assert_eq!(post(fixture.replicas[number % 2].address, &number.to_string()), Some(200));
    }
    fixture.wait_until("everything is delivered", || fixture.count_mails() == 6);
    let id = |at: usize| fixture.list()[at]["id"].as_str().expect("an id").to_owned();
    fixture.succeed(&["inbox", "stats"]);
    fixture.succeed(&["inbox", "show", &id(0)]);
    let exported = fixture.succeed(&["inbox", "export"]);
    assert!(exported.contains("visitor5@example.org"), "{exported}");
    fixture.succeed(&["inbox", "done", &id(0)]);
    fixture.succeed(&["inbox", "erase", "--email", "visitor3@example.org", "--yes"]);
    let left = fixture.list();
    assert_eq!(left.len(), 5);
    assert!(left.iter().all(|one| one["email"] != "visitor3@example.org"), "{left:#?}");
    let doctor = text(&fixture.run(&["doctor"]));
    assert!(doctor.contains("a connection pooler is in front of the database"), "{doctor}");
    // The copy must not miss what the replicas accept meanwhile.
    let target = format!("sqlite:{}", fixture.folder.path().join("copy.sqlite").display());
    let refused = fixture.run(&["store", "move", "--to", &target]);
    assert!(!refused.status.success() && text(&refused).contains("in use"), "{refused:?}");
}

#[test]
#[ignore = "needs PostgreSQL and PgBouncer; run by `scripts/test postgres`"]
fn an_inbox_moves_out_once_no_replica_runs() {
    let mut fixture = Fixture::start(&[]);
    for number in 0..4 {
        assert_eq!(post(fixture.replicas[number % 2].address, &number.to_string()), Some(200));
    }
    fixture.wait_until("everything is delivered", || fixture.count_mails() == 4);
    for replica in &mut fixture.replicas {
        assert_eq!(replica.terminate().0, Some(0));
    }
    let leases = "SELECT count(*) FROM lease WHERE name NOT LIKE 'commit %'";
    assert_eq!(fixture.direct(leases), "0", "stopped processes keep nothing");
    let file = fixture.folder.path().join("copy.sqlite");
    fixture.succeed(&["store", "move", "--to", &format!("sqlite:{}", file.display())]);
    let listed = fixture
        .command(&["inbox", "list", "--json"])
        .env("FRONTDESK_STORE__URL", format!("sqlite:{}", file.display()))
        .output()
        .expect("the command runs");
    assert_eq!(text(&listed).lines().filter(|line| line.starts_with('{')).count(), 4, "{listed:?}");
}

#[test]
#[ignore = "needs PostgreSQL and PgBouncer; run by `scripts/test postgres`"]
fn restarts_of_the_pooler_or_the_server_lose_nothing_acknowledged() {
    let mut fixture = Fixture::start(&[]);
    let addresses = fixture.replicas.iter().map(|replica| replica.address).collect::<Vec<_>>();
    let (answers, stop, sent) = (Mutex::new(Vec::new()), AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for sender in 0..6 {
            let (answers, stop, sent, address) = (&answers, &stop, &sent, addresses[sender % 2]);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let message = format!("{sender}-{number}");
                    let status = post(address, &message);
                    sent.fetch_add(1, Ordering::Relaxed);
                    answers.lock().unwrap().push((message, status));
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        for round in 0..4 {
            let before = sent.load(Ordering::Relaxed);
            let began = Instant::now();
            while sent.load(Ordering::Relaxed) < before + 30 && began.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(50));
            }
            if round % 2 == 0 {
                fixture.pooler.restart();
            } else {
                // As a restart of the server, which the pooler survives.
                fixture.end_sessions();
            }
        }
        thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
    });
    let answers = answers.into_inner().unwrap();
    // The first commit of each replica removes what was stored after its failure.
    for (number, address) in addresses.iter().enumerate() {
        fixture
            .wait_until("a replica accepts again", || post(*address, &format!("last-{number}")) == Some(200));
    }
    fixture.wait_until("everything is processed", || {
        fixture.direct("SELECT count(*) FROM intake WHERE error IS NULL") == "0"
    });
    let stored: Vec<String> =
        fixture.list().iter().map(|one| one["message"].as_str().expect("a message").to_owned()).collect();
    let accepted = answers.iter().filter(|(_, status)| *status == Some(200)).count();
    assert!(accepted > 60, "hardly any submission was accepted: {accepted} of {}", answers.len());
    for (message, status) in &answers {
        let count = stored.iter().filter(|other| *other == &message_of(message)).count();
        assert_eq!(count, usize::from(*status == Some(200)), "{message}: {status:?}");
    }
    fixture.wait_until("everything is delivered", || fixture.count_mails() >= stored.len());
}

#[test]
#[ignore = "needs PostgreSQL and PgBouncer; run by `scripts/test postgres`"]
fn a_confirmed_delivery_is_a_200_at_each_replica() {
    let environment =
        [("FRONTDESK_FORMS__CONTACT__ACCEPT", "delivered"), ("FRONTDESK_FORMS__CONFIRM_TIMEOUT", "15s")];
    let fixture = Fixture::start(&environment);
    for number in 0..8 {
        assert_eq!(post(fixture.replicas[number % 2].address, &number.to_string()), Some(200), "{number}");
        assert_eq!(fixture.count_mails(), number + 1, "delivered before the response");
    }
}

#[test]
#[ignore = "needs PostgreSQL and PgBouncer; run by `scripts/test postgres`"]
fn one_replica_runs_maintenance_and_the_other_takes_over() {
    const HOLDER: &str = "SELECT holder FROM lease WHERE name = 'maintenance'";
    let mut fixture = Fixture::start(&[]);
    fixture.wait_until("a replica runs maintenance", || !fixture.direct(HOLDER).is_empty());
    let standby = |fixture: &Fixture| {
        fixture
            .replicas
            .iter()
            .position(|replica| replica.log().contains("another process runs this inbox's maintenance"))
    };
    fixture.wait_until("a replica is on standby", || standby(&fixture).is_some());
    let standby = standby(&fixture).expect("one is on standby");
    let before = fixture.direct(HOLDER);
    thread::sleep(Duration::from_secs(12));
    assert_eq!(fixture.direct(HOLDER), before, "a running holder keeps its lease");
    fixture.replicas[1 - standby].kill();
    fixture.wait_until("the other takes over", || !["", &before].contains(&fixture.direct(HOLDER).as_str()));
    assert_eq!(post(fixture.replicas[standby].address, "after"), Some(200));
}

/// PgBouncer in transaction mode, in a folder of its own.
struct PgBouncer {
    process: Child,
    folder: tempfile::TempDir,
}

impl PgBouncer {
    fn start(server: &str) -> PgBouncer {
        let part = |name: &str| {
            let (_, rest) = server.split_once(&format!("{name}=")).expect("the URL of a socket");
            rest.split('&').next().unwrap_or(rest).to_owned()
        };
        let folder = tempfile::tempdir().expect("a folder");
        let sockets = folder.path().join("sockets");
        std::fs::create_dir(&sockets).expect("it can be created");
        let text = format!(
            "[databases]\nfrontdesk = host={} port={} user=frontdesk\n\
             [pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {}\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = {SESSIONS}\nmax_client_conn = 100\n",
            part("host"),
            part("port"),
            sockets.display(),
        );
        std::fs::write(folder.path().join("pgbouncer.ini"), text).expect("it can be written");
        if rustix::process::geteuid().is_root() {
            use std::os::unix::fs::PermissionsExt as _;
            for path in [folder.path(), &sockets] {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("ours");
            }
        }
        let process = PgBouncer::spawn(folder.path());
        let pooler = PgBouncer { process, folder };
        pooler.wait();
        pooler
    }

    fn spawn(folder: &Path) -> Child {
        let mut command = Command::new("/usr/sbin/pgbouncer");
        // PgBouncer refuses to run as root.
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "postgres"]);
        }
        command.arg("--quiet").arg(folder.join("pgbouncer.ini")).spawn().expect("pgbouncer is installed")
    }

    fn url(&self) -> String {
        format!(
            "postgres:///frontdesk?host={}&port=6432&user=frontdesk",
            self.folder.path().join("sockets").display()
        )
    }

    fn wait(&self) {
        let began = Instant::now();
        let is_there = || {
            let asked = Command::new("psql").args([&self.url(), "-qAtc", "SELECT 1"]).output();
            asked.expect("psql runs").status.success()
        };
        while !is_there() {
            assert!(began.elapsed() < PATIENCE, "PgBouncer does not answer");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the pooler, with all its connections, and starts it again.
    fn restart(&mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it ends");
        // A killed PgBouncer leaves its socket.
        let _ = std::fs::remove_file(self.folder.path().join("sockets/.s.PGSQL.6432"));
        self.process = PgBouncer::spawn(self.folder.path());
        self.wait();
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two replicas with a Maildir, and an inbox in a schema of its own.
struct Fixture {
    replicas: Vec<TestServer>,
    pooler: PgBouncer,
    site: PathBuf,
    /// The name of the schema, and the URLs without it.
    schema: String,
    server: String,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn start(environment: &[(&str, &str)]) -> Fixture {
        let server = std::env::var("FRONTDESK_TEST_POSTGRES").expect("scripts/test starts a server");
        let pooler = PgBouncer::start(&server);
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().file_name().and_then(|name| name.to_str()).expect("it has a name");
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let schema = format!("pooler_{}", name.to_ascii_lowercase());
        run_sql(&server, &format!("CREATE SCHEMA {schema}"));
        let site = write_site(folder.path(), &maildir("box", &folder.path().join("box")));
        let url = format!("{}&application_name={schema}", in_schema(&pooler.url(), &schema));
        let replicas = (0..2)
            .map(|number| {
                let mut all = vec![
                    ("FRONTDESK_STORE__URL", url.as_str()),
                    ("FRONTDESK_LIMITS__ENABLED", "false"),
                    ("FRONTDESK_SERVER__WORKERS", "1"),
                ];
                all.extend(environment);
                let replica = TestServer::at(&site, &folder.path().join(format!("data-{number}")), &all);
                replica.expect_anything();
                replica
            })
            .collect();
        Fixture { replicas, pooler, site, schema, server, folder }
    }

    /// Runs a query on the server, past the pooler.
    fn direct(&self, sql: &str) -> String {
        run_sql(&in_schema(&self.server, &self.schema), sql)
    }

    /// Runs a query through the pooler.
    fn psql(&self, sql: &str) -> String {
        run_sql(&self.pooler.url(), sql)
    }

    /// Ends the sessions of the pool.
    fn end_sessions(&self) {
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity";
        let ended = self.direct(&format!("{end} WHERE application_name = '{}'", self.schema));
        assert_ne!(ended, "0", "the pool has sessions");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = frontdesk();
        command.args(arguments).arg("--site").arg(&self.site);
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        command.env("FRONTDESK_STORE__URL", in_schema(&self.pooler.url(), &self.schema));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command runs")
    }

    /// Runs a command that must succeed. Returns its standard output.
    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn list(&self) -> Vec<Value> {
        let listed = self.succeed(&["inbox", "list", "--json", "--limit", "10000"]);
        listed.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
    }

    fn count_mails(&self) -> usize {
        let count = |folder| {
            std::fs::read_dir(self.folder.path().join("box").join(folder)).map_or(0, Iterator::count)
        };
        count("new") + count("cur")
    }

    fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            let logs = || self.replicas.iter().map(TestServer::log).collect::<Vec<_>>().join("\n");
            assert!(began.elapsed() < PATIENCE, "not in time: {what}; {}", logs());
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.replicas.clear();
        if !thread::panicking() {
            run_sql(
                &self.server,
                &format!("SET client_min_messages = warning; DROP SCHEMA {} CASCADE", self.schema),
            );
        }
    }
}

fn in_schema(url: &str, schema: &str) -> String {
    format!("{url}&options=-csearch_path%3D{schema}")
}

fn run_sql(url: &str, sql: &str) -> String {
    let output = Command::new("psql").args([url, "-qAtc", sql]).output().expect("psql runs");
    assert!(output.status.success(), "{sql}: {output:?}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

fn message_of(number: &str) -> String {
    format!("A question about relay {number}")
}

/// Sends the contact form. Returns the status; `None` if there was no response.
fn post(address: std::net::SocketAddr, number: &str) -> Option<u16> {
    let email = format!("visitor{number}@example.org");
    let body = json!({ "name": "Grace Hopper", "email": email, "message": message_of(number) });
    let headers = [("Content-Type", "application/json")];
    let sent = crate::support::Connection::open(address).request(
        "POST",
        "/api/contact",
        &headers,
        body.to_string().as_bytes(),
    );
    sent.ok().map(|answer| answer.status)
}
