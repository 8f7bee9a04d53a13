//! The operator's own forms: `forms/NAME.toml`, from the endpoint to the inbox, and forms that are switched
//! off.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{TestServer, frontdesk};

const QUOTE: &str = r#"
title = "Ask for a quote"
description = "Tell us about the site."
submit = "Ask"

[[field]]
name = "email"
type = "email"
label = "Work e-mail"
required = true

[[field]]
name = "phone"
type = "tel"
label = "Phone"

[[field]]
name = "people"
type = "number"
label = "People"
min = 1
max = 500

[[field]]
name = "day"
type = "date"
label = "Day"

[[field]]
name = "budget"
type = "choice"
label = "Budget"
options = ["below 10,000", "above 10,000"]
required = true

[[field]]
name = "topics"
type = "choices"
label = "Topics"
options = ["Cranes", "Ropes", "Hooks"]

[[field]]
name = "news"
type = "consent"
label = "Send me news"
required = false
"#;

/// A site with these files in addition to a home page and a contact page.
fn site(configuration: &str, files: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("site");
    let configuration = format!(
        "[operator]\nname = \"Harbour Tools\"\nemail = \"team@example.com\"\n[site]\ndescription = \"Cranes.\"\n{configuration}"
    );
    let pages = [
        ("frontdesk.toml", configuration.as_str()),
        ("pages/index.md", "---\ntitle: Home\ndescription: The home page.\n---\n\nWelcome.\n"),
    ];
    for (name, text) in pages.iter().chain(files) {
        write(&root, name, text);
    }
    (folder, root)
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("the folder");
    fs::write(path, text).expect("the file");
}

fn faults(root: &Path) -> String {
    let output = frontdesk().arg("check").arg(root).output().expect("it runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_file_becomes_an_endpoint_with_typed_values() {
    let (_folder, root) = site("", &[("forms/quote.toml", QUOTE)]);
    let server = TestServer::with(&root, &[]);
    let body = json!({
        "email": "ada@example.com", "phone": "+49 (0)30 123 456", "people": 12, "day": "2026-12-01",
        "budget": "above 10,000", "topics": ["Hooks", "Cranes"], "news": true, "other": 1,
    });
    let answer = server.post("/api/quote", &body);
    assert_eq!((answer.status, answer.text()), (200, "{\"ok\":true}"));
    let kept = server.inbox().swap_remove(0);
    let expected = json!({
        "form": "quote", "status": "kept", "email": "ada@example.com", "phone": "+4930123456", "people": 12,
        "day": "2026-12-01", "budget": "above 10,000", "topics": ["Cranes", "Hooks"], "news": true,
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(kept[name], *value, "{name} of {kept}");
    }
    let wrong = json!({ "people": 0, "day": "2026-02-30", "budget": "much", "topics": ["Cranes", "Cranes"], "news": "yes" });
    let answer = server.post("/api/quote", &wrong);
    assert_eq!(answer.status, 400);
    let body = answer.json();
    let sentence = body["error"].as_str().expect("a sentence");
    for field in ["email", "people", "day", "budget", "topics", "news"] {
        assert!(sentence.contains(&format!("`{field}`")), "{sentence}");
    }
    let answer = server.get("/api/quote", &[]);
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    let metrics = server.ops("/metrics").text().to_owned();
    assert!(
        metrics.contains("frontdesk_submissions_total{form=\"quote\",verdict=\"accepted\"} 1"),
        "{metrics}"
    );
    server.expect(1);
}

#[test]
fn a_built_in_form_can_have_other_words_and_optional_fields() {
    let contact = "title = \"Write to us\"\n[[field]]\nname = \"phone\"\ntype = \"tel\"\nlabel = \"Phone\"\n";
    let (_folder, root) = site("", &[("forms/contact.toml", contact)]);
    let server = TestServer::with(&root, &[]);
    let mut body = json!({ "name": "Ada", "email": "ada@example.com", "message": "Hello" });
    assert_eq!(server.post("/api/contact", &body).status, 200);
    body["phone"] = "030 123456".into();
    assert_eq!(server.post("/api/contact", &body).status, 200);
    assert_eq!(server.inbox().iter().filter(|kept| kept["phone"] == "030123456").count(), 1);
    body["phone"] = "none".into();
    let answer = server.post("/api/contact", &body);
    assert!(answer.status == 400 && answer.text().contains("`phone`"), "{}", answer.text());
    server.expect(2);
}

#[test]
fn a_form_that_is_switched_off_is_mentioned_nowhere() {
    let (_folder, root) = site("[forms.waitlist]\nenabled = false\n", &[]);
    let server = TestServer::with(&root, &[]);
    let answer = server.post("/api/waitlist", &json!({ "email": "ada@example.com" }));
    assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/json")));
    assert!(!answer.text().contains("waitlist"), "{}", answer.text());
    for path in [
        "/",
        "/index.md",
        "/agents.md",
        "/llms.txt",
        "/llms-full.txt",
        "/openapi.json",
        "/nowhere",
        "/.well-known/api-catalog",
        "/.well-known/agent-skills/index.json",
        "/sitemap.md",
    ] {
        let answer = server.get(path, &[("Accept", "*/*")]);
        assert!(!answer.text().to_lowercase().contains("waitlist"), "{path}: {}", answer.text());
    }
    server.expect(0);

    let (_folder, root) =
        site("[forms]\nwaitlist = { enabled = false }\ncontact = { enabled = false }\n", &[]);
    let server = TestServer::with(&root, &[]);
    let answer = server.post("/api/contact", &json!({ "name": "Ada" }));
    assert_eq!(answer.status, 404);
    let openapi = server.get("/openapi.json", &[]);
    assert_eq!(openapi.json()["paths"], json!({}), "{}", openapi.text());
    server.expect(0);
}

#[test]
fn faults_in_files_name_the_file_and_the_line() {
    let quote =
        QUOTE.replace("type = \"tel\"", "type = \"telephone\"").replace("name = \"day\"", "name = \"id\"");
    let (_folder, root) = site(
        "[[channel]]\nname = \"box\"\nkind = \"maildir\"\npath = \"../box\"\nforms = [\"quotes\"]\n",
        &[
            ("forms/quote.toml", &quote),
            ("forms/Bad Name.toml", "title = \"x\"\n"),
            ("forms/waitlist.toml", "enabled = \"maybe\"\nlimits = { per_day = 3 }\n"),
            ("forms/notes.txt", "not a form"),
        ],
    );
    let faults = faults(&root);
    for expected in [
        "forms/quote.toml:14: there is no type `telephone`",
        "forms/quote.toml:25: the name `id` is reserved",
        "forms/Bad Name.toml:1: `Bad Name` cannot be the name of a form",
        "forms/waitlist.toml:1: `forms.waitlist.enabled` must be true or false",
        "forms/waitlist.toml:2: unknown key `forms.waitlist.limits.per_day`",
    ] {
        assert!(faults.contains(expected), "{expected} is missing in\n{faults}");
    }
    assert!(!faults.contains("notes.txt"), "{faults}");
}

#[test]
fn a_reload_adds_changes_and_removes_forms() {
    let (_folder, root) = site("", &[("forms/quote.toml", QUOTE)]);
    let server = TestServer::with(&root, &[]);
    let valid = json!({ "email": "ada@example.com", "budget": "above 10,000" });
    assert_eq!(server.post("/api/quote", &valid).status, 200);
    let reload = |count: usize| {
        server.signal(Signal::HUP);
        server.assert_logged_times("configuration reloaded", count);
    };
    write(&root, "forms/quote.toml", &QUOTE.replace("above 10,000", "more"));
    write(
        &root,
        "forms/visit.toml",
        "title = \"Visit\"\n[[field]]\nname = \"name\"\ntype = \"text\"\nlabel = \"Name\"\nrequired = true\n",
    );
    reload(1);
    assert_eq!(server.post("/api/quote", &valid).status, 400);
    assert_eq!(server.post("/api/visit", &json!({ "name": "Ada" })).status, 200);
    // A definition with a fault changes nothing.
    write(&root, "forms/visit.toml", "title = 3\n");
    server.signal(Signal::HUP);
    server.assert_logged("reload failed");
    server.assert_logged("forms/visit.toml");
    assert_eq!(server.post("/api/visit", &json!({ "name": "Grace" })).status, 200);
    fs::remove_file(root.join("forms/visit.toml")).expect("it exists");
    fs::remove_file(root.join("forms/quote.toml")).expect("it exists");
    reload(2);
    assert_eq!(server.post("/api/visit", &json!({ "name": "Ada" })).status, 404);
    // Stored submissions keep their fields.
    let inbox = server.inbox();
    let quotes: Vec<&Value> = inbox.iter().filter(|kept| kept["form"] == "quote").collect();
    assert_eq!((inbox.len(), quotes.len()), (3, 1));
    assert_eq!(quotes[0]["budget"], "above 10,000");
    server.expect(3);
}

#[test]
fn submissions_are_routed_by_their_values() {
    let channels = r#"
[[channel]]
name = "team"
kind = "maildir"
path = "../team"

[[channel]]
name = "large"
kind = "maildir"
path = "../large"
when = { budget = "above 10,000", topics = ["Cranes", "Ropes"] }

[[channel]]
name = "archive"
kind = "maildir"
path = "../archive"
when = "always"
"#;
    let (folder, root) = site(channels, &[("forms/quote.toml", QUOTE)]);
    let server = TestServer::with(&root, &[]);
    let post = |email: &str, budget: &str, topics: &[&str]| {
        let body = json!({ "email": email, "budget": budget, "topics": topics });
        assert_eq!(server.post("/api/quote", &body).status, 200);
    };
    post("a@example.com", "above 10,000", &["Hooks", "Ropes"]);
    post("b@example.com", "above 10,000", &["Hooks"]);
    post("c@example.com", "below 10,000", &["Cranes"]);
    let body = json!({ "name": "Ada", "email": "d@example.com", "message": "Hello" });
    assert_eq!(server.post("/api/contact", &body).status, 200);
    let delivered = || {
        let inbox = server.inbox();
        (inbox.len() == 4 && inbox.iter().all(|kept| kept["status"] == "delivered")).then_some(())
    };
    crate::support::channel_site::until(delivered).expect("everything is delivered");
    let receives = |channel: &str| {
        let mails = fs::read_dir(folder.path().join(channel).join("new")).expect("the Maildir");
        let text = |entry: std::io::Result<fs::DirEntry>| {
            fs::read_to_string(entry.expect("a mail").path()).expect("it is text")
        };
        let mails: Vec<String> = mails.map(text).collect();
        let from = |address: &&str| mails.iter().any(|mail| mail.contains(*address));
        let all = ["a@example.com", "b@example.com", "c@example.com", "d@example.com"];
        (all.into_iter().filter(from).map(|address| &address[..1]).collect::<String>(), mails.len())
    };
    assert_eq!(receives("large"), ("a".to_owned(), 1));
    assert_eq!(receives("team"), ("bcd".to_owned(), 3));
    assert_eq!(receives("archive"), ("abcd".to_owned(), 4));
    let doctor = frontdesk().args(["doctor", "--site"]).arg(&root).output().expect("it runs");
    let table = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let row = |value: &str| table.lines().find(|line| line.contains(value)).unwrap_or_default().to_owned();
    assert!(row("above 10,000").contains("large"), "{table}");
    server.expect(4);
}
