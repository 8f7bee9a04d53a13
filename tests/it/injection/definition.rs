//! Injection by a form's definition: its title, labels and options in every output.

use std::fs;

use serde_json::{Value, json};

use super::{assert_inert, mailed};
use crate::support::channel_site::{ChannelSite, maildir, smtp, webhook};
use crate::support::http_peer::{HttpPeer, Reply};
use crate::support::smtp_peer::{Script, SmtpPeer};
use frontdesk_inbox::submission::delivery::DeliveryState;

/// Texts that are syntax in one of the outputs. Each is one line without white space at its ends.
const HOSTILE: [&str; 18] = [
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(1)</script>",
    "</textarea></select><b>",
    "=cmd|' /C calc'!A1",
    "@SUM(1+1)*cmd",
    "[x](javascript:alert(1))",
    "| a | b |",
    "`*_~#",
    "{{ 7 * 7 }}{% raw %}",
    "%0d%0aBcc: eve@example.net",
    "=?utf-8?q?Bcc:_eve?=",
    "\u{202e}moc.elpmaxe",
    "a\u{2028}b",
    "<!-- --!>",
    "<!channel> @everyone <@U123>",
    "'; DROP TABLE submission; --",
    "&lt;b&gt; &amp;amp;",
    "\\u001b[2J\\",
];

/// The definition of a form whose texts are all hostile. Field `n` is a choice among all of them.
fn definition() -> String {
    let quoted = |text: &str| json!(text).to_string();
    let options = HOSTILE.map(quoted).join(", ");
    let field = |(n, text): (usize, &&str)| {
        format!(
            "[[field]]\nname = \"f{n}\"\ntype = \"choice\"\nlabel = {label}\ndescription = {label}\noptions = [{options}]\n\
             [[field]]\nname = \"t{n}\"\ntype = \"text\"\nlabel = {label}\nplaceholder = {label}\ndefault = {label}\n",
            label = quoted(text)
        )
    };
    let fields: String = HOSTILE.iter().enumerate().map(field).collect();
    let texts = ["title", "summary", "description", "submit", "thanks"].iter().zip(&HOSTILE);
    let texts: String = texts.map(|(key, text)| format!("{key} = {}\n", quoted(text))).collect();
    texts + &fields
}

#[test]
fn hostile_definitions_stay_in_their_places_in_every_output() {
    let mails = SmtpPeer::start(vec![Script::usual()]);
    let bodies = ["standard", "slack", "mattermost", "discord", "teams", "ntfy"];
    let hooks = bodies.map(|_| HttpPeer::start([Reply::status(200)]));
    let boxes = tempfile::tempdir().expect("a folder");
    let mut channels =
        vec![smtp("mail", mails.address.port(), ""), maildir("box", &boxes.path().join("box"))];
    for (body, hook) in bodies.iter().zip(&hooks) {
        channels.push(webhook(body, &hook.url("/in"), &format!("body = {body:?}\n")));
    }
    let definition = definition();
    let page = "---\ntitle: Odd\ndescription: Odd.\nform: odd\n---\n";
    let files = [("../forms/odd.toml", definition.as_str()), ("../pages/odd.md", page)];
    let site =
        ChannelSite::with_files(&channels.concat(), &files, &[("FRONTDESK_SCREENING__ENABLED", "false")]);

    let values = HOSTILE.iter().enumerate().flat_map(|(n, text)| {
        [(format!("f{n}"), Value::from(*text)), (format!("t{n}"), Value::from(format!("value of {n}")))]
    });
    let body = Value::Object(values.collect());
    // Forty fields are the most: the definition has 36.
    let answer = site.server.post("/api/odd", &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    for channel in bodies.iter().chain(&["mail", "box"]) {
        site.wait_for_count(channel, DeliveryState::Delivered, 1);
    }

    check_pages(&site);
    check_mail(&mails);
    for (body, hook) in bodies.iter().zip(&hooks) {
        let requests = hook.requests();
        assert_eq!(requests.len(), 1, "{body}");
        if *body != "ntfy" {
            let json: Value = serde_json::from_slice(&requests[0].body).expect("JSON");
            let text = json.to_string();
            assert!(text.contains("value of 17"), "{body}: {text}");
        }
        let mentions = ["<!channel>", "<@U123>"]
            .iter()
            .any(|it| requests[0].body.windows(it.len()).any(|w| w == it.as_bytes()));
        assert!(!(mentions && *body == "slack"), "Slack must not notify anybody");
    }
    check_commands(&site, &body);
}

/// The pages, guides and descriptions contain the texts, but none as syntax.
fn check_pages(site: &ChannelSite) {
    let get = |path: &str, accept: &str| site.server.get(path, &[("Accept", accept)]).text().to_owned();
    let html = get("/odd/", "text/html");
    for raw in ["<img src=x", "<script>alert", "<b>", "</textarea></select>", "<!-- --!>", "<!channel>"] {
        assert!(!html.contains(raw), "{raw} in {html}");
    }
    assert_eq!(html.matches("</select>").count(), HOSTILE.len());
    assert!(html.contains("{{ 7 * 7 }}") && !html.contains("49{"), "templates do not run in texts");
    for path in ["/odd.md", "/agents.md"] {
        let markdown = get(path, "*/*");
        let is_row = |line: &&str| {
            let rest = line.strip_prefix("| `f").or_else(|| line.strip_prefix("| `t"));
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let rows: Vec<&str> = markdown.lines().filter(is_row).collect();
        assert_eq!(rows.len(), 2 * HOSTILE.len(), "{path}: {markdown}");
        for row in rows {
            let unescaped = ["\\|", "\\<", "\\["].iter().fold(row.to_owned(), |row, it| row.replace(it, ""));
            assert_eq!(unescaped.matches('|').count(), 5, "{path}: {row}");
            for syntax in ["<img", "<script", "<b>", "[x]"] {
                assert!(!unescaped.contains(syntax), "{syntax} in {path}: {row}");
            }
        }
    }
    let openapi: Value = serde_json::from_str(&get("/openapi.json", "*/*")).expect("JSON");
    assert_eq!(openapi["paths"]["/api/odd"]["post"]["summary"], HOSTILE[1]);
    let options = &openapi["components"]["schemas"]["OddRequest"]["properties"]["f3"];
    assert!(options.to_string().contains("onerror"), "{options}");
}

/// The mail has only headers that frontdesk writes, and one recipient.
fn check_mail(mails: &SmtpPeer) {
    let record = mails.record();
    mailed::check_commands(&record);
    let [received] = &record.received[..] else { panic!("{} mails", record.received.len()) };
    assert_eq!(received.to, ["team@example.com"]);
    let message = String::from_utf8_lossy(&received.message()).into_owned();
    let (head, _) = message.split_once("\r\n\r\n").expect("a header");
    for line in head.lines().filter(|line| !line.starts_with([' ', '\t'])) {
        let (name, _) = line.split_once(':').expect("a field");
        assert!(!name.eq_ignore_ascii_case("bcc") && !name.contains(' '), "{line}");
    }
}

/// The commands print the texts on the lines where they belong, without control characters.
fn check_commands(site: &ChannelSite, sent: &Value) {
    let json = site.inbox(&["list", "--json"]);
    assert_inert(&json);
    let stored: Value = serde_json::from_str(json.trim()).expect("one line");
    for (name, value) in sent.as_object().expect("an object") {
        assert_eq!(stored[name], *value, "{name}");
    }
    let id = stored["id"].as_str().expect("an id");
    let list = site.inbox(&["list"]);
    assert_eq!(list.lines().count(), 2, "{list}");
    for line in list.lines() {
        line.split('\t').for_each(assert_inert);
        assert_eq!(line.split('\t').count(), 6, "{list}");
    }
    let shown = site.inbox(&["show", id]);
    assert_inert(&shown);
    for n in 0..HOSTILE.len() {
        let value = format!("value of {n}");
        assert_eq!(shown.lines().filter(|line| line.ends_with(&value)).count(), 1, "{shown}");
    }
    let csv = site.inbox(&["export", "--csv"]);
    for cell in ["=cmd", "@SUM", ",=", ",@"] {
        let starts = csv.split(',').filter(|it| it.trim_start_matches('"').starts_with(cell)).count();
        assert_eq!(starts, 0, "a formula in {csv}");
    }
    let folder = site.server.data_dir();
    assert!(fs::metadata(folder.join("inbox.sqlite")).is_ok(), "the table is still there");
}
