//! `frontdesk screening test`, and the operator's own phrases in `screening/`.

use std::path::Path;

use serde_json::{Value, json};

use super::{NO_LIMITS, post};
use crate::support::channel_site::{until, write_site};
use crate::support::{TestServer, frontdesk};

/// A feature that marks a text on its own.
const FEATURES: &str = "[feature.vice-zorp]\nkind = \"vice\"\npoints = 300\nsays = \"zorps\"\n";

fn write_own(site: &Path, name: &str, text: &str) {
    let folder = site.join("screening");
    std::fs::create_dir_all(&folder).expect("it can be created");
    std::fs::write(folder.join(name), text).expect("it can be written");
}

fn phrases(phrase: &str) -> String {
    format!("[phrases]\nvice-zorp = [\"{phrase} =4\"]\n")
}

/// Runs `frontdesk screening test` with these arguments: whether it succeeded, its output, and its errors.
fn test(site: &Path, arguments: &[&str]) -> (bool, String, String) {
    let data = site.join("data");
    let output = frontdesk()
        .args(["screening", "test"])
        .args(arguments)
        .arg("--site")
        .arg(site)
        .arg("--data-dir")
        .arg(data)
        .output()
        .expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

const SPAM: &str = "Dear sir, we offer first page ranking on Google, cheap backlinks and casino traffic! \
                    https://bit.ly/a https://bit.ly/b https://seo.example.com/x https://seo.example.com/y";
const QUESTION: &str =
    "Good morning, my daughter plays the flute. Could she come to the rehearsal on Tuesday?";

#[test]
fn texts_of_a_file_are_judged_and_counted_by_label() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = write_site(folder.path(), "");
    let file = folder.path().join("texts.jsonl");
    let path = file.to_str().expect("a path");
    let texts = [
        json!({ "message": SPAM, "email": "seo@mailinator.com", "label": "spam" }),
        json!({ "message": QUESTION, "label": "ham", "note": "is ignored" }),
        json!({ "form": "contact", "name": "Ada", "email": "ada@example.org", "message": QUESTION, "label": "spam" }),
        json!({ "form": "waitlist", "email": "ada@example.org" }),
    ];
    // The byte order mark that editors on Windows write is not part of the first text.
    std::fs::write(&file, format!("\u{feff}{}", lines(&texts))).expect("it can be written");
    let (is_good, out, err) = test(&site, &[path]);
    assert!(is_good && err.is_empty(), "{err}");
    assert!(out.starts_with("1. held, "), "{out}");
    for expected in [
        " points (spam): Dear sir, we offer first page ranking",
        "offer: an offer that you did not ask for: ",
        "\n2. delivered, 0 points (ham): Good morning, my daughter",
        "\n3. delivered, 0 points (spam): Good morning, my daughter",
        "\n4. delivered, 0 points: ada@example.org\n",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    assert!(
        out.ends_with("spam: 2 texts, 0 marked and 1 held (50 %)\nham: 1 text, 0 marked and 0 held (0 %)\n"),
        "{out}"
    );
    let (_, out, _) = test(&site, &[path, "--json"]);
    let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let found: Vec<[&Value; 4]> = objects[..4]
        .iter()
        .map(|line| [&line["text"], &line["form"], &line["result"], &line["label"]])
        .collect();
    assert_eq!(found[0], [&json!(1), &json!("contact"), &json!("held"), &json!("spam")]);
    assert_eq!(found[3], [&json!(4), &json!("waitlist"), &json!("delivered"), &json!(null)]);
    assert!(objects[0]["score"].as_u64().is_some_and(|score| score >= 100), "{out}");
    assert_eq!(objects[1]["reasons"], json!([]));
    assert_eq!(
        objects[4],
        json!({ "summary": {
            "spam": { "texts": 2, "delivered": 1, "marked": 0, "held": 1 },
            "ham": { "texts": 1, "delivered": 1, "marked": 0, "held": 0 },
        } })
    );
    assert_eq!(objects.len(), 5);
    // Without labels, there is no summary, also for a plain text.
    std::fs::write(&file, QUESTION).expect("it can be written");
    assert_eq!(test(&site, &[path, "--json"]).1.lines().count(), 1);
    assert!(!site.join("data").exists(), "nothing is stored");
}

#[test]
fn taught_texts_change_the_judgment_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = write_site(folder.path(), "");
    let (file, taught) = (folder.path().join("texts.jsonl"), folder.path().join("taught.jsonl"));
    let offer = |number: usize| {
        format!(
            "Velvet curtains number {number} hang in the theatre of Ghent, {} brass rings",
            "sewn with ".repeat(number)
        )
    };
    let question = |number: usize| {
        format!("My {number} children play in the orchestra, {} Tuesday?", "may they come on ".repeat(number))
    };
    let lessons: Vec<Value> = (1..9)
        .flat_map(|number| {
            [
                json!({ "message": format!("{} w{number} x{number} y{number} z{number}", offer(number)), "label": "spam" }),
                json!({ "message": format!("{} a{number} b{number} c{number} d{number}", question(number)), "label": "ham" }),
            ]
        })
        .collect();
    std::fs::write(&taught, lines(&lessons)).expect("it can be written");
    std::fs::write(&file, offer(11)).expect("it can be written");
    let (path, taught) = (file.to_str().expect("a path"), taught.to_str().expect("a path"));
    let score = |arguments: &[&str]| -> (u64, String) {
        let (is_good, out, err) = test(&site, arguments);
        assert!(is_good, "{err}");
        let line: Value = serde_json::from_str(&out).expect("JSON");
        (line["score"].as_u64().expect("a number"), out)
    };
    let (without, out) = score(&[path, "--json"]);
    assert!(!out.contains("\"learned\""), "{out}");
    let (with, out) = score(&[path, "--json", "--learn", taught]);
    assert!(with >= without + 20 && out.contains("\"learned\""), "{without}, {out}");
    assert!(!site.join("data").exists(), "nothing is stored");
}

#[test]
fn a_faulty_line_is_named_with_its_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = write_site(folder.path(), "");
    let file = folder.path().join("texts.jsonl");
    let path = file.to_str().expect("a path");
    for (line, expected) in [
        ("{\"message\": 3}", "`message` is not a string"),
        ("{\"name\": \"Ada\"}", "`message` is missing"),
        ("{\"message\": \"Hello\", \"label\": \"good\"}", "`label` is `good`, and must be `spam` or `ham`"),
        ("{\"message\": \"Hello\"", "EOF while parsing an object"),
        ("{\"message\": \"\"}", "the form `contact` does not accept this text: "),
        ("{\"form\": \"nosuch\"}", "no form is called `nosuch`; the site has "),
        ("{\"form\": \"waitlist\", \"email\": \"ada\"}", "the form `waitlist` does not accept this text: "),
        ("plain text", "expected value"),
    ] {
        std::fs::write(&file, format!("{{\"message\": \"Hello\"}}\n\n{line}\n")).expect("it can be written");
        let (is_good, _, err) = test(&site, &[path]);
        assert!(!is_good && err.contains(&format!("texts.jsonl, line 3: {expected}")), "{line}: {err}");
    }
    std::fs::write(&file, "{\"message\": \"Hello\", \"label\": \"ham\"}\n{\"message\": \"Hello\"}\n")
        .expect("it");
    let (is_good, _, err) = test(&site, &[path, "--learn", path]);
    assert!(!is_good && err.contains("texts.jsonl, line 2: a text to learn needs a `label`"), "{err}");
    let (is_good, _, err) = test(&site, &[folder.path().join("nosuch").to_str().expect("a path")]);
    assert!(!is_good && err.contains("cannot read "), "{err}");
}

#[test]
fn a_reload_takes_changed_phrases_and_refuses_faulty_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = write_site(folder.path(), "");
    write_own(&site, "features.toml", FEATURES);
    write_own(&site, "own.toml", &phrases("zorp"));
    let server = TestServer::with(&site, &[NO_LIMITS]);
    server.expect_anything();
    let mut number = 0;
    let mut is_marked = |word: &str| {
        number += 1;
        let email = format!("visitor{number}@example.com");
        let message = format!(
            "Good day, we run {number} machines with a {word} and wonder whether your sandbox works on them. \
             Could we talk?"
        );
        let body = json!({ "name": "Ada", "email": email, "message": message });
        assert_eq!(post(&server, &body, &[]).status, 200);
        let stored = server.inbox().into_iter().find(|submission| submission["email"] == email);
        stored.expect("it is kept")["_suspicious"] == true
    };
    assert_eq!((is_marked("zorp"), is_marked("flumph")), (true, false));
    write_own(&site, "own.toml", &phrases("flumph"));
    server.reload();
    until(|| is_marked("flumph").then_some(())).expect("the new phrases are used");
    assert!(!is_marked("zorp"), "the old ones are gone");

    write_own(&site, "own.toml", "[phrases]\nvice-zorp = [\n  \"zorp\",\n  \"zorp =7\",\n]\n");
    let output = frontdesk().arg("check").arg(&site).output().expect("it runs");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = "error: screening/own.toml:4: the weight of `zorp =7` must be a number from 1 to 4";
    assert!(said.contains(expected), "{said}");
    server.reload();
    server.assert_logged("the weight of `zorp =7` must be a number from 1 to 4");
    assert_eq!((is_marked("zorp"), is_marked("flumph")), (false, true), "the previous phrases stay");
}
