//! A server with a small site and channels, and queries for the state of each delivery.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use frontdesk_inbox::store::{Editor, InboxReader};
use frontdesk_inbox::submission::delivery::{Delivery, DeliveryState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Answer, PATIENCE, TestServer, frontdesk, store_of};

/// The name of the visitor, which must never appear in a log.
pub const NAME: &str = "Grace Hopper";
pub const EMAIL: &str = "grace@example.org";
pub const MESSAGE: &str = "A bug in relay 70";

/// Whether tests should wait until deliveries to silent peers time out, which takes most of a minute.
pub fn is_patient() -> bool {
    std::env::var_os("FRONTDESK_TEST_PATIENCE").is_some()
}

/// Writes the starter site and adds these lines to its configuration.
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

/// A channel that delivers into a Maildir.
pub fn maildir(name: &str, path: &Path) -> String {
    format!(
        "[[channel]]\nname = {name:?}\nkind = \"maildir\"\npath = \"{}\"\n\
         from = \"desk@example.com\"\nto = [\"team@example.com\"]\n",
        path.display()
    )
}

/// A running server with channels.
#[derive(Debug)]
pub struct ChannelSite {
    pub server: TestServer,
    folder: tempfile::TempDir,
}

impl ChannelSite {
    /// Starts a server with these channels and further environment variables.
    pub fn open(channels: &str, environment: &[(&str, &str)]) -> ChannelSite {
        ChannelSite::with_files(channels, &[], environment)
    }

    /// Like [`ChannelSite::open`], with these files in the site's folder `mails`.
    pub fn with_files(channels: &str, mails: &[(&str, &str)], environment: &[(&str, &str)]) -> ChannelSite {
        let folder = tempfile::tempdir().expect("a folder");
        let site = write_site(folder.path(), channels);
        std::fs::create_dir_all(site.join("mails")).expect("it can be created");
        for (name, text) in mails {
            let path = site.join("mails").join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be created");
            std::fs::write(path, text).expect("it can be written");
        }
        let mut all = vec![("FRONTDESK_LIMITS__ENABLED", "false")];
        all.extend(environment);
        let server = TestServer::with(&site, &all);
        server.expect_anything();
        ChannelSite { server, folder }
    }

    /// Sends the contact form. `number` makes the message unique.
    pub fn post(&self, number: usize) -> Answer {
        let message = format!("{MESSAGE} ({number})");
        self.server.post("/api/contact", &json!({ "name": NAME, "email": EMAIL, "message": message }))
    }

    /// Sends the contact form, which must be accepted, and returns the submission's id.
    pub fn submit(&self, number: usize) -> Uuid {
        assert_eq!(self.post(number).status, 200);
        self.id(number)
    }

    /// The id of the submission that was sent with this number.
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

    /// The state of a submission's delivery to a channel.
    pub fn delivery(&self, id: Uuid, channel: &str) -> Delivery {
        let deliveries = self.reader().deliveries(id).expect("it can be read");
        deliveries
            .into_iter()
            .find(|delivery| delivery.channel == channel)
            .expect("the channel has a delivery")
    }

    /// Waits until a submission's delivery to a channel meets the condition, and returns it.
    pub fn wait_for(&self, id: Uuid, channel: &str, is_so: impl Fn(&Delivery) -> bool) -> Delivery {
        until(|| Some(self.delivery(id, channel)).filter(&is_so))
            .unwrap_or_else(|| panic!("{channel}: {:#?}\n{}", self.delivery(id, channel), self.server.log()))
    }

    /// Waits until this many of a channel's deliveries are in this state.
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

    /// Asserts that the log contains none of the visitor's values.
    pub fn assert_discreet(&self) {
        let log = self.server.log();
        for secret in [NAME, EMAIL, MESSAGE, "Grace", "grace@"] {
            assert!(!log.contains(secret), "{log}");
        }
    }
}

/// Calls `look` until it returns a value. `None` after [`PATIENCE`].
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        match look() {
            None if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            found => return found,
        }
    }
}
