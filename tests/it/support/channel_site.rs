//! A server with a small site and channels, and queries for the state of each delivery.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use frontdesk::store::{Editor, InboxReader};
use frontdesk::submission::delivery::{Delivery, DeliveryState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Answer, PATIENCE, TestServer, frontdesk, store_of};

/// Nothing of this visitor's may ever stand in a log.
pub const NAME: &str = "Grace Hopper";
pub const EMAIL: &str = "grace@example.org";
pub const MESSAGE: &str = "A bug in relay 70";

/// Whether peers that say nothing are waited for until the server gives them up; that takes most of a minute.
pub fn is_patient() -> bool {
    std::env::var_os("FRONTDESK_TEST_PATIENCE").is_some()
}

/// Writes the starter site with these lines added to its configuration.
pub fn write_site(folder: &Path, channels: &str) -> PathBuf {
    let site = folder.join("site");
    let output = frontdesk().arg("init").arg(&site).output().expect("the command runs");
    assert!(output.status.success(), "{output:?}");
    let file = site.join("frontdesk.toml");
    let text = std::fs::read_to_string(&file).expect("it was written");
    std::fs::write(&file, format!("{text}\n{channels}")).expect("it can be written");
    site
}

/// A channel to a scripted mail server without TLS.
pub fn smtp(name: &str, port: u16, more: &str) -> String {
    let tls = if more.contains("tls = ") { "" } else { "tls = \"none\"\n" };
    format!(
        "[[channel]]\nname = {name:?}\nkind = \"smtp\"\nhost = \"127.0.0.1\"\nport = {port}\n\
         from = \"desk@example.com\"\nto = [\"team@example.com\"]\n{tls}{more}\n"
    )
}

/// A channel to a scripted HTTP server.
pub fn webhook(name: &str, url: &str, more: &str) -> String {
    format!("[[channel]]\nname = {name:?}\nkind = \"webhook\"\nurl = {url:?}\n{more}\n")
}

/// A channel into a Maildir.
pub fn maildir(name: &str, path: &Path) -> String {
    format!(
        "[[channel]]\nname = {name:?}\nkind = \"maildir\"\npath = \"{}\"\n\
         from = \"desk@example.com\"\nto = [\"team@example.com\"]\n",
        path.display()
    )
}

/// A running desk with channels.
#[derive(Debug)]
pub struct ChannelSite {
    pub server: TestServer,
    folder: tempfile::TempDir,
}

impl ChannelSite {
    /// Serves with these channels and further environment variables.
    pub fn open(channels: &str, environment: &[(&str, &str)]) -> ChannelSite {
        let folder = tempfile::tempdir().expect("a folder");
        let site = write_site(folder.path(), channels);
        let mut all = vec![("FRONTDESK_LIMITS__ENABLED", "false")];
        all.extend(environment);
        let server = TestServer::with(&site, &all);
        server.expect_anything();
        ChannelSite { server, folder }
    }

    /// Sends the contact form. The number makes it another message.
    pub fn post(&self, number: usize) -> Answer {
        let message = format!("{MESSAGE} ({number})");
        self.server.post("/api/contact", &json!({ "name": NAME, "email": EMAIL, "message": message }))
    }

    /// Sends the contact form, which is accepted, and returns its id.
    pub fn submit(&self, number: usize) -> Uuid {
        assert_eq!(self.post(number).status, 200);
        self.id(number)
    }

    /// The id of what was sent under this number.
    pub fn id(&self, number: usize) -> Uuid {
        let message = format!("{MESSAGE} ({number})");
        let inbox = self.server.inbox();
        let is_it = |submission: &&Value| submission["message"] == message;
        let mut found = inbox.iter().filter(is_it).map(|submission| submission["id"].as_str());
        let id = found.next().flatten().and_then(|id| id.parse().ok()).expect("it is in the inbox");
        assert_eq!(found.next(), None, "it is there once");
        id
    }

    pub fn database(&self) -> PathBuf {
        self.server.data_dir().join("inbox.sqlite")
    }

    pub fn reader(&self) -> InboxReader {
        self.server.catch_up();
        InboxReader::open(self.database()).expect("there is an inbox")
    }

    /// How a submission's way down a channel stands.
    pub fn delivery(&self, id: Uuid, channel: &str) -> Delivery {
        let deliveries = self.reader().deliveries(id).expect("it can be read");
        deliveries
            .into_iter()
            .find(|delivery| delivery.channel == channel)
            .expect("it goes down that channel")
    }

    /// Waits until a submission's way down a channel stands as described.
    pub fn wait_for(&self, id: Uuid, channel: &str, is_so: impl Fn(&Delivery) -> bool) -> Delivery {
        until(|| Some(self.delivery(id, channel)).filter(&is_so))
            .unwrap_or_else(|| panic!("{channel}: {:#?}\n{}", self.delivery(id, channel), self.server.log()))
    }

    /// Waits until so many of a channel's deliveries are in that state.
    pub fn wait_for_count(&self, channel: &str, state: DeliveryState, count: usize) {
        let current = || {
            let channels = self.reader().channels().expect("it can be read");
            channels.iter().find(|other| other.name == channel).map_or(0, |channel| channel.count(state))
        };
        until(|| (current() == count).then_some(())).unwrap_or_else(|| {
            panic!("{channel}: {} of {count} are {state}\n{}", current(), self.server.log())
        });
    }

    /// The cause of the last failure, as in the table `delivery`.
    pub fn blame(&self, id: Uuid, channel: &str) -> Option<String> {
        let connection = rusqlite::Connection::open(self.database()).expect("it is there");
        let sql = "SELECT blame FROM delivery WHERE submission = ?1 AND channel = ?2";
        connection.query_row(sql, (id.as_bytes(), channel), |row| row.get(0)).expect("there is such a row")
    }

    /// The output of `frontdesk inbox` with these arguments.
    pub fn inbox(&self, arguments: &[&str]) -> String {
        let output = frontdesk()
            .arg("inbox")
            .args(arguments)
            .arg("--site")
            .arg(self.folder.path().join("site"))
            .arg("--data-dir")
            .arg(self.server.data_dir())
            .envs(store_of(&self.server.data_dir()))
            .output()
            .expect("the command runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("it is UTF-8")
    }

    pub fn editor(&self) -> Editor {
        Editor::open(self.database()).expect("there is an inbox")
    }

    /// The server has written nothing of what the visitor sent to its log.
    pub fn assert_discreet(&self) {
        let log = self.server.log();
        for secret in [NAME, EMAIL, MESSAGE, "Grace", "grace@"] {
            assert!(!log.contains(secret), "{log}");
        }
    }
}

/// Looks until there is something, or for [`PATIENCE`].
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        match look() {
            None if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            found => return found,
        }
    }
}
