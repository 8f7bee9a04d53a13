//! Users of the inbox who log in with a link in a mail: the link, its browser, roles, limits, removed users.

use std::time::Instant;

use tempfile::TempDir;

use crate::inbox_pages::{Desk, FORM, ORIGIN};
use crate::support::channel_site::{smtp, until, write_site};
use crate::support::smtp_peer::{Script, SmtpPeer};
use crate::support::{Answer, PATIENCE};

const USERS: &str =
    "users = [\"ada@example.com = admin\", \"grace@example.com\", \"joan@example.com = read\"]";
const FIREFOX: (&str, &str) =
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0");

/// An inbox with users, and the mail server of its login links.
struct Office {
    desk: Desk,
    mails: SmtpPeer,
    folder: TempDir,
}

/// A browser: the cookies that responses have set.
#[derive(Default)]
struct Browser {
    cookies: Vec<(String, String)>,
}

impl Browser {
    fn keep(&mut self, answer: &Answer) {
        for line in answer.headers("set-cookie") {
            let (name, value) = line.split(';').next().and_then(|pair| pair.split_once('=')).expect("a pair");
            self.cookies.retain(|(known, _)| known != name);
            if !value.is_empty() {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    fn header(&self) -> String {
        self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }
}

impl Office {
    fn open() -> Office {
        let mails = SmtpPeer::start(vec![Script::usual()]);
        let folder = tempfile::tempdir().expect("a folder");
        let site = write_site(folder.path(), &smtp("team", mails.address.port(), ""));
        let office = Office { desk: Desk::of_site(&Self::with_users(&site, USERS), &[]), mails, folder };
        office.desk.server.expect_anything();
        office
    }

    fn with_users(site: &std::path::Path, users: &str) -> std::path::PathBuf {
        let file = site.join("frontdesk.toml");
        let text = std::fs::read_to_string(&file).expect("it was written");
        let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("users = ")).collect();
        let text = kept.join("\n").replace("[inbox]\n", &format!("[inbox]\n{users}\n"));
        assert!(text.contains(users), "{text}");
        std::fs::write(&file, text).expect("it can be written");
        site.to_owned()
    }

    fn get(&self, browser: &mut Browser, path: &str) -> Answer {
        let answer = self.desk.get(path, &[("Cookie", &browser.header()), FIREFOX]);
        browser.keep(&answer);
        answer
    }

    fn post(&self, browser: &mut Browser, path: &str, body: &str) -> Answer {
        let headers =
            [("Cookie", browser.header()), (ORIGIN.0, ORIGIN.1.to_owned()), (FORM.0, FORM.1.to_owned())];
        let mut headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(FIREFOX);
        let answer = self.desk.request("POST", path, &headers, body);
        browser.keep(&answer);
        answer
    }

    /// The texts of the mails with links to this user, once there are `count`.
    fn links_to(&self, user: &str, count: usize) -> Vec<String> {
        let began = Instant::now();
        loop {
            let record = self.mails.record();
            let of_user = record.received.iter().filter(|mail| mail.to == [user]);
            let texts: Vec<String> = of_user
                .map(|mail| String::from_utf8_lossy(&mail.message()).replace("=\r\n", "").replace("=3D", "="))
                .collect();
            drop(record);
            if texts.len() >= count {
                return texts;
            }
            assert!(began.elapsed() < PATIENCE, "{texts:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// The path of the link in a mail.
    fn path_in(text: &str) -> String {
        let link = text.split("https://www.example.com").nth(1).expect("a link");
        link.split_whitespace().next().expect("its end").to_owned()
    }

    /// Logs a user in, in a new browser.
    fn log_in(&self, user: &str, trust: &str) -> Browser {
        let mut browser = Browser::default();
        let before = self.links_to(user, 0).len();
        assert_eq!(self.post(&mut browser, "/login", &format!("email={user}")).status, 200);
        let path = Self::path_in(&self.links_to(user, before + 1)[before]);
        let token = path.rsplit_once('=').expect("a token").1;
        let answer = self.post(&mut browser, "/login", &format!("token={token}{trust}"));
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some("/?state=open")),
            "{}",
            answer.text()
        );
        browser
    }

    /// Sends a form with its token.
    fn submit(&self, browser: &mut Browser, path: &str, fields: &str) -> Answer {
        let page = self.get(browser, "/sessions").text().to_owned();
        let token = page.split_once("name=\"form_token\" value=\"").expect("a token").1;
        let token = token.split('"').next().expect("its end");
        self.post(browser, path, &format!("form_token={token}&{fields}"))
    }
}

#[test]
fn a_mailed_link_works_once_in_the_browser_that_asked() {
    let office = Office::open();
    let mut asking = Browser::default();
    assert!(office.get(&mut asking, "/").text().contains("Mail me a link"));
    assert_eq!(office.post(&mut asking, "/login", "email=Grace%40Example.com").status, 200);
    let mail = office.links_to("grace@example.com", 1).remove(0);
    assert!(mail.contains("Firefox on Linux asked for it"), "{mail}");
    let path = Office::path_in(&mail);
    let token = path.rsplit_once('=').expect("a token").1.to_owned();
    // Another browser, such as that of a colleague with the forwarded mail, cannot use the link.
    let mut other = Browser::default();
    for _ in 0..2 {
        let page = office.get(&mut other, &path);
        assert_eq!(page.status, 403);
        assert!(page.text().contains("belongs to another browser"), "{}", page.text());
        assert_eq!(office.post(&mut other, "/login", &format!("token={token}")).status, 403);
    }
    // A second request in the same browser does not make the first link useless.
    assert_eq!(office.post(&mut asking, "/login", "email=grace%40example.com").status, 200);
    assert!(office.get(&mut asking, &path).text().contains("Trust this device"));
    let answer = office.post(&mut asking, "/login", &format!("token={token}"));
    assert_eq!(answer.status, 303);
    let session = answer.headers("set-cookie").into_iter().next().expect("a session").to_owned();
    assert!(
        session.ends_with("; Path=/; HttpOnly; SameSite=Strict") && !session.contains("Max-Age"),
        "{session}"
    );
    assert_eq!(office.post(&mut other, "/login", &format!("token={token}")).status, 401);
    let page = office.get(&mut asking, "/sessions").text().to_owned();
    assert!(page.contains("Firefox on Linux") && page.contains("grace@example.com, by mail"), "{page}");
}

#[test]
fn a_trusted_device_keeps_its_cookie_for_thirty_days() {
    let office = Office::open();
    let mut browser = Browser::default();
    office.post(&mut browser, "/login", "email=ada%40example.com");
    let path = Office::path_in(&office.links_to("ada@example.com", 1)[0]);
    let token = path.rsplit_once('=').expect("a token").1;
    let answer = office.post(&mut browser, "/login", &format!("token={token}&trust=yes"));
    let session = answer.headers("set-cookie").into_iter().next().expect("a session").to_owned();
    assert!(session.contains("; Max-Age=2592000; "), "{session}");
    assert!(office.get(&mut browser, "/sessions").text().contains("trusted"));
}

#[test]
fn the_answer_is_the_same_for_all_addresses() {
    let office = Office::open();
    let page = |email: &str| {
        let answer = office.post(&mut Browser::default(), "/login", &format!("email={email}"));
        let cookie = answer.headers("set-cookie").into_iter().next().expect("a cookie").to_owned();
        let shape: String = cookie.chars().map(|c| if c.is_ascii_hexdigit() { '0' } else { c }).collect();
        (answer.status, answer.text().to_owned(), shape)
    };
    let known = page("ada%40example.com");
    assert_eq!(known.0, 200);
    for email in ["unknown%40example.com", "", "ada%40example.com%0D%0ABcc%3A+eve%40example.com", "%3Cb%3E"] {
        assert_eq!(page(email), known, "{email}");
    }
    office.links_to("ada@example.com", 1);
    assert!(office.mails.record().received.iter().all(|mail| mail.to == ["ada@example.com"]));
}

#[test]
fn a_forged_host_does_not_change_the_link() {
    let office = Office::open();
    // The guard accepts the listener's own address and any port as a host.
    for host in ["127.0.0.1:9", "localhost:1234", "www.example.com:81"] {
        let origin = format!("http://{host}");
        let headers = [("Host", host), ("Origin", origin.as_str()), FORM];
        office.desk.request("POST", "/login", &headers, "email=ada%40example.com");
    }
    assert_eq!(office.post(&mut Browser::default(), "/login", "email=ada%40example.com").status, 200);
    for text in office.links_to("ada@example.com", 1) {
        assert_eq!(text.matches("://").count(), 1, "{text}");
        Office::path_in(&text);
    }
}

#[test]
fn links_are_limited_by_user_and_by_source() {
    let office = Office::open();
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(office.post(&mut Browser::default(), "/login", "email=joan%40example.com").status);
    }
    assert!(
        statuses[..5].iter().all(|status| *status == 200) && statuses[5..].contains(&429),
        "{statuses:?}"
    );
    let texts = office.links_to("joan@example.com", 3);
    assert_eq!(texts.len(), 3, "one network cannot use up the links of a user");
}

#[test]
fn a_reader_changes_nothing() {
    let office = Office::open();
    let id = office.desk.submit("Ada", "Hello");
    let mut reader = office.log_in("joan@example.com", "");
    let path = format!("/submissions/{id}");
    let page = office.get(&mut reader, &path);
    assert!(page.status == 200 && !page.text().contains("value=\"done\""), "{}", page.text());
    for (path, fields) in [
        (path.as_str(), "action=done"),
        (&path, "action=note&note=x"),
        (&path, "action=erase&confirmed=yes"),
        ("/selected", &format!("action=spam&id={id}")),
        ("/views", "action=save&name=x"),
        ("/channels/test", "channel=team"),
        ("/sessions", "action=all"),
    ] {
        let answer = office.submit(&mut reader, path, fields);
        assert_eq!(answer.status, 403, "{path} {fields}");
        assert!(answer.text().contains("This needs the role"), "{}", answer.text());
    }
    let mut editor = office.log_in("grace@example.com", "");
    assert!(
        office.get(&mut editor, "/?state=unread").text().contains("is-unread"),
        "a reader marks nothing as read"
    );
    assert_eq!(office.submit(&mut editor, &path, "action=done").status, 303);
    assert_eq!(office.submit(&mut editor, "/channels/test", "channel=team").status, 403);
    let mut admin = office.log_in("ada@example.com", "");
    assert_eq!(office.submit(&mut admin, "/sessions", "action=user&user=grace%40example.com").status, 303);
    assert_eq!(office.get(&mut editor, "/").status, 401);
    assert_eq!(office.get(&mut reader, "/").status, 200);
}

#[test]
fn a_removed_user_is_logged_out_for_good() {
    let office = Office::open();
    let mut grace = office.log_in("grace@example.com", "&trust=yes");
    let mut joan = office.log_in("joan@example.com", "");
    let site = office.folder.path().join("site");
    Office::with_users(&site, "users = [\"ada@example.com\", \"joan@example.com = edit\"]");
    office.desk.server.reload();
    until(|| (office.get(&mut grace, "/").status == 401).then_some(())).expect("the session has ended");
    assert!(office.get(&mut joan, "/?state=open").status == 200);
    let answer = office.submit(&mut joan, "/views", "action=save&name=Mine");
    assert_eq!(answer.status, 303, "the new role applies");
    Office::with_users(&site, USERS);
    office.desk.server.reload();
    until(|| (office.submit(&mut joan, "/views", "action=save&name=x").status == 403).then_some(()))
        .expect("the old role applies again");
    assert_eq!(office.get(&mut grace, "/").status, 401, "it stays ended");
}
