//! Three replicas on separate addresses, with site folders that tests replace and a shared database that
//! tests stop.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::port::Port;
use crate::support::{TestServer, example_site, frontdesk};

/// The number of replicas.
pub const COUNT: usize = 3;

/// The drain time that the packaged configurations require.
pub const DRAIN: Duration = Duration::from_secs(5);

/// An asset that only the next version of the site has.
pub const NEXT_ASSET: &str = "/assets/next.txt";

pub struct Replicas {
    pub desks: Vec<TestServer>,
    /// The URL of the PostgreSQL server, and the name of the database that the replicas share.
    server: String,
    database: String,
    folder: tempfile::TempDir,
    _ports: Vec<[Port; 2]>,
}

impl Replicas {
    /// Starts the replicas with these environment variables.
    pub fn start(environment: &[(&str, &str)]) -> Self {
        let server = std::env::var("FRONTDESK_TEST_POSTGRES").expect("scripts/test balance starts a server");
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().file_name().and_then(|name| name.to_str()).expect("it has a name");
        let database: String =
            format!("balance_{name}").bytes().filter(u8::is_ascii_alphanumeric).map(char::from).collect();
        let database = database.to_ascii_lowercase();
        psql(&server, &format!("CREATE DATABASE {database}"));
        let url = url_of(&server, &database);
        for version in ["v1", "v2"] {
            copy(&example_site(), &folder.path().join(version));
        }
        let page = folder.path().join("v2/pages/index.md");
        let text = std::fs::read_to_string(&page).expect("there is a first page");
        std::fs::write(&page, format!("{text}\nThis is the next version.\n")).expect("it can be written");
        let asset = folder.path().join("v2").join(NEXT_ASSET.trim_start_matches('/'));
        std::fs::write(asset, "next\n").expect("it can be written");
        let (desks, ports) = (0..3)
            .map(|number: u8| {
                let site = folder.path().join(format!("site-{number}"));
                symlink("v1", &site).expect("a link");
                // Clients do not connect from these addresses, so their ports are free again after a restart.
                let ports = [(); 2].map(|()| Port::reserve_at([127, 0, 1, 11 + number].into()));
                let [public, private] = ports.each_ref().map(|port| port.address().to_string());
                let mut all = vec![
                    ("FRONTDESK_BASE_URL", "https://www.example.com"),
                    ("FRONTDESK_STORE__URL", url.as_str()),
                    ("FRONTDESK_SERVER__DRAIN", "5s"),
                    ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
                    ("FRONTDESK_SERVER__WORKERS", "1"),
                ];
                all.extend(environment);
                let arguments = ["--listen", &public, "--ops-listen", &private];
                let data = folder.path().join(format!("data-{number}"));
                let desk = TestServer::serving(&site, &data, &arguments, &all);
                desk.expect_anything();
                (desk, ports)
            })
            .unzip();
        Self { desks, server, database, folder, _ports: ports }
    }

    /// Replaces a replica's site with the next version, which the replica serves after a restart or reload.
    pub fn deploy(&self, number: usize) {
        let (draft, site) =
            (self.folder.path().join("draft"), self.folder.path().join(format!("site-{number}")));
        symlink("v2", &draft).expect("a link");
        std::fs::rename(draft, site).expect("it takes its place");
    }

    /// The distinct hashes of the sites that the replicas are serving.
    pub fn hashes(&self) -> Vec<String> {
        let hash = |desk: &TestServer| {
            let metrics = desk.ops("/metrics");
            let line = metrics.text().lines().find(|line| line.starts_with("frontdesk_site_info{"));
            let hash = line.and_then(|line| line.split("hash=\"").nth(1)?.split('"').next());
            hash.expect("it says which").to_owned()
        };
        let mut hashes: Vec<String> = self.desks.iter().map(hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    /// The email addresses in the inbox, sorted.
    pub fn addresses_in_inbox(&self) -> Vec<String> {
        let output = frontdesk()
            .args(["inbox", "list", "--json", "--site"])
            .arg(example_site())
            .arg("--data-dir")
            .arg(self.folder.path())
            .env("FRONTDESK_STORE__URL", url_of(&self.server, &self.database))
            .output()
            .expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("JSON is text");
        let address = |line: &str| {
            let submission: Value = serde_json::from_str(line).expect("each line is JSON");
            submission["email"].as_str().expect("it has an address").to_owned()
        };
        let mut addresses: Vec<String> = text.lines().map(address).collect();
        addresses.sort_unstable();
        addresses
    }

    /// Refuses new connections to the database and ends existing ones.
    pub fn stop_database(&self) {
        let Self { server, database, .. } = self;
        psql(server, &format!("ALTER DATABASE {database} ALLOW_CONNECTIONS false"));
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity";
        psql(server, &format!("{end} WHERE datname = '{database}'"));
    }

    pub fn start_database(&self) {
        psql(&self.server, &format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.database));
    }
}

/// The URL of another database on the same server.
fn url_of(server: &str, database: &str) -> String {
    let (before, parameters) = server.split_once('?').unwrap_or((server, ""));
    let (before, _) = before.rsplit_once('/').expect("a URL names a database");
    format!("{before}/{database}?{parameters}")
}

fn psql(url: &str, sql: &str) {
    let output = Command::new("psql").args([url, "-qtc", sql]).output().expect("psql runs");
    assert!(output.status.success(), "{output:?}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("it can be read") {
        let entry = entry.expect("it can be read");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("it has one").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("it can be copied");
        }
    }
}
