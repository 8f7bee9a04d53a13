//! Tests of `list` and `export` with options, and of `stats` and `watch`.

use super::*;

#[test]
fn a_listing_is_selected_by_time_and_text() {
    let inbox = three_days();
    let names = |arguments: &str| names(&inbox, arguments);
    assert_eq!(names("list --json"), ["Cäsar", "Bob", "Ada"]);
    assert_eq!(names("list --json --since 2026-11-19"), ["Cäsar", "Bob"]);
    assert_eq!(names("list --json --until 2026-11-19T12:00:00Z"), ["Ada"]);
    // The current time is 16:03 on the 20th.
    assert_eq!(names("list --json --since 4h"), ["Cäsar"]);
    assert_eq!(names("list --json --since 2d --until 3h"), ["Bob"]);
    assert_eq!(names("list --json --text CÄSAR"), ["Cäsar"]);
    assert_eq!(names("list --json --text example.com --limit 2"), ["Cäsar", "Bob"]);
    assert_eq!(names("export --jsonl --text hello"), ["Ada"]);
    assert_eq!(names("ls --json --text nowhere"), [""; 0]);
    // `run` divides its arguments at spaces, so these words have another white space between them.
    assert_eq!(names("list --json --text EXAMPLE\u{a0}\u{a0}cäsar"), ["Cäsar"]);
    assert_eq!(names("list --json --text ada\u{a0}cäsar"), [""; 0]);
    // A variable in a script may be empty.
    for (command, text) in [("list", " "), ("list", "?"), ("export", "!!!")] {
        let error = Typed::try_parse_from(["inbox", command, "--text", text]).unwrap_err().to_string();
        assert!(error.contains("it has no letter or digit to search for"), "{error}");
    }
    assert_eq!(names("list --json --status kept --form contact").len(), 3);
    assert_eq!(names("list --json --status held"), [""; 0]);
}

#[test]
fn a_listing_continues_where_another_ended() {
    let inbox = three_days();
    let (_, out, _) = inbox.run("list --json");
    let id = |line: usize| {
        serde_json::from_str::<Value>(out.lines().nth(line).unwrap()).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(names(&inbox, &format!("list --json --before {}", id(0))), ["Bob", "Ada"]);
    assert_eq!(names(&inbox, &format!("list --json --before {}", &id(1)[..13])), ["Ada"]);
    // A listing can continue after the id of a submission that has been removed.
    assert_eq!(names(&inbox, &format!("list --json --before {}", Uuid::max())).len(), 3);
    let error = inbox.try_run("list --before 0", &mut Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("more than one submission has an id that begins with `0`\n"), "{error}");
}

#[test]
fn a_terminal_shows_a_limited_table_and_how_to_continue() {
    let inbox = Inbox::empty();
    inbox.work(
        |_| {},
        |store, runtime| {
            for n in 0..51 {
                accept(store, runtime, &[(&WAITLIST, &format!(r#"{{"email":"a{n}@example.com"}}"#))]);
            }
        },
    );
    let (_, out, err) = inbox.run_as("list", true, None);
    assert_eq!(out.lines().count(), 51, "a head and 50");
    let (_, json, _) = inbox.run("list --json --limit 50");
    let last: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    let last = last["id"].as_str().unwrap();
    assert_eq!(
        err,
        format!("There are more: `--before {last}` continues here, `--limit N` shows more at once.\n")
    );
    let (_, out, err) = inbox.run_as(&format!("list --before {last}"), true, None);
    assert_eq!((out.lines().count(), err.as_str()), (2, ""));
    let (_, out, err) = inbox.run_as("list --limit 51", true, None);
    assert_eq!((out.lines().count(), err.as_str()), (52, ""));
    let (_, out, err) = inbox.run("list");
    assert_eq!((out.lines().count(), err.as_str()), (52, ""), "output to a pipe has no limit");
    assert_eq!(inbox.run_as("list --json", true, None).1.lines().count(), 51);
}

#[test]
fn csv_on_a_terminal_has_no_control_characters() {
    let inbox =
        Inbox::with(&[(&CONTACT, r#"{"name":"Ada\u202e","email":"a@example.com","message":"\u001b[2J"}"#)]);
    let (_, shown, _) = inbox.run_as("export --csv", true, None);
    assert!(!shown.contains(|c| is_unsafe(c) && c != '\r' && c != '\n'), "{shown:?}");
    assert!(shown.contains(r"\u{1b}[2J") && shown.contains(r"Ada\u{202e}"), "{shown}");
    let (_, piped, _) = inbox.run("export --csv");
    assert!(piped.contains("\u{1b}[2J") && piped.contains("Ada\u{202e}"), "{piped:?}");
}

#[test]
fn submissions_are_counted_by_day_form_and_status() {
    let inbox = three_days();
    inbox.work(
        |_| {},
        |store, runtime| {
            accept(
                store,
                runtime,
                &[(&WAITLIST, r#"{"email":"d@example.com"}"#), (&WAITLIST, r#"{"email":"e@example.com"}"#)],
            );
        },
    );
    let (code, out, err) = inbox.run("stats --json --days 2");
    assert_eq!((code, err.as_str()), (ExitCode::SUCCESS, ""));
    let stats: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&stats["submissions"], &stats["by_form"]["waitlist"]), (&5.into(), &2.into()));
    let days: Vec<_> = stats["days"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(
        days,
        [
            r#"{"day":"2026-11-19","form":"contact","status":"kept","count":1}"#,
            r#"{"day":"2026-11-20","form":"contact","status":"kept","count":1}"#,
            r#"{"day":"2026-11-20","form":"waitlist","status":"kept","count":2}"#,
        ]
    );
    let (_, out, _) = inbox.run("stats");
    assert!(out.contains("2026-11-18  1  contact: 1 kept\n"), "{out}");
    assert!(Typed::try_parse_from(["inbox", "stats", "--days", "0"]).is_err());
}

#[test]
fn watch_shows_new_submissions_even_in_a_replaced_inbox() {
    let inbox = Inbox::empty();
    let mut watch = watch::InboxWatch::default();
    let mut look = || {
        let new = watch.query(&inbox.url).unwrap();
        new.map(|new| new.iter().map(|s| s.get("email").unwrap().to_owned()).collect::<Vec<_>>())
    };
    let arrive = |day: u8, email: &str| {
        let body = format!(r#"{{"email":"{email}"}}"#);
        let at = format!("2026-11-{day}T00:00:00Z");
        inbox.work(|_| {}, |store, runtime| accept_at(store, runtime, &WAITLIST, &body, &at));
    };
    assert_eq!(look(), None);
    arrive(10, "a@example.com");
    arrive(11, "b@example.com");
    assert_eq!(look().unwrap(), ["a@example.com", "b@example.com"]);
    assert_eq!(look().unwrap(), [""; 0]);
    for file in fs::read_dir(inbox.folder.path()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    assert_eq!(look(), None);
    arrive(12, "a@example.com");
    assert_eq!(look().unwrap(), ["a@example.com"]);
}

#[test]
fn watch_skips_existing_submissions() {
    let inbox = three_days();
    let mut watch = watch::InboxWatch::default();
    watch.skip_existing(&inbox.url).unwrap();
    assert_eq!(watch.query(&inbox.url).unwrap(), Some(Vec::new()));
}

/// One submission each on the 18th, the 19th and the 20th.
fn three_days() -> Inbox {
    let inbox = Inbox::empty();
    inbox.work(
        |_| {},
        |store, runtime| {
            for (day, name, message) in [(18, "Ada", "Hello"), (19, "Bob", "Good day"), (20, "Cäsar", "Ave")]
            {
                let body =
                    format!(r#"{{"name":"{name}","email":"{day}@example.com","message":"{message}"}}"#);
                let at = format!("2026-11-{day}T14:00:00Z");
                accept_at(store, runtime, &CONTACT, &body, &at);
            }
        },
    );
    inbox
}

fn names(inbox: &Inbox, arguments: &str) -> Vec<String> {
    let (code, out, err) = inbox.run(arguments);
    assert_eq!((code, err.as_str()), (ExitCode::SUCCESS, ""), "{arguments}");
    let name = |line: &str| serde_json::from_str::<Value>(line).unwrap()["name"].as_str().unwrap().to_owned();
    out.lines().map(name).collect()
}
