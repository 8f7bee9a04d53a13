//! Tests of `done`, `note`, `log` and `sessions`.

use super::*;

fn ids(inbox: &Inbox) -> Vec<String> {
    let (_, out, _) = inbox.run("list --json");
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    out.lines().map(id).collect()
}

fn two() -> Inbox {
    Inbox::with(&[
        (&WAITLIST, r#"{"email":"a@example.com"}"#),
        (&CONTACT, r#"{"name":"Ada","email":"b@example.com","message":"Hi"}"#),
    ])
}

#[test]
fn a_submission_is_done_and_open_again() {
    let inbox = two();
    let id = &ids(&inbox)[0];
    let succeeds = |arguments: String, expected: String| {
        assert_eq!(inbox.run(&arguments), (ExitCode::SUCCESS, expected, String::new()), "{arguments}");
    };
    succeeds(format!("done {id}"), format!("{id} is done.\n"));
    succeeds(format!("done {}", &id[..35]), format!("{id} is already done.\n"));
    assert!(inbox.run(&format!("show {id}")).1.contains("done since   2026-11-20T16:03:05.120Z (now)\n"));
    let (_, out, _) = inbox.run(&format!("show --json {id}"));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["_done_at"], "2026-11-20T16:03:05.120Z");
    succeeds(format!("done --undo {id}"), format!("{id} is open again.\n"));
    succeeds(format!("done {id} --undo"), format!("{id} is already open.\n"));
    succeeds(format!("reopen {id}"), format!("{id} is already open.\n"));
    let (code, out, err) = inbox.run("done ffff");
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
    assert!(err.starts_with("error: no submission"), "{err}");
}

#[test]
fn a_note_is_shown_with_its_submission_and_safe_to_print() {
    let inbox = two();
    let id = &ids(&inbox)[0];
    assert_eq!(inbox.run(&format!("note {id} call\u{1b}[2J")).1, format!("{id} has this note.\n"));
    assert_eq!(inbox.run(&format!("note {id} call\u{1b}[2J")).1, format!("{id} already has this note.\n"));
    let (_, out, _) = inbox.run(&format!("show {id}"));
    assert!(out.contains("note         call\\u{1b}[2J\n"), "{out}");
    let long = format!("note {id} {}", "x".repeat(4001));
    let refused = inbox.try_run(&long, &mut Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("the maximum is 4000"), "{refused}");
    let typed = Typed::parse_from(["inbox", "note", id, ""]);
    assert!(matches!(typed.command, InboxCommand::Note { ref text, .. } if text.is_empty()));
}

#[test]
fn the_log_names_user_action_and_extent() {
    let inbox = two();
    let ids = ids(&inbox);
    for arguments in [
        format!("done {} {}", ids[0], ids[1]),
        format!("hold {}", ids[0]),
        "discard --held --yes".to_owned(),
        "erase --email a@example.com --yes".to_owned(),
    ] {
        inbox.run(&arguments);
    }
    let (_, out, _) = inbox.run("log");
    let lines: Vec<_> = out.lines().map(|line| line[21..].to_owned()).collect();
    assert_eq!(
        lines,
        [
            "ada  erase    1 submission".to_owned(),
            "ada  discard  1 submission".to_owned(),
            format!("ada  hold     {}", ids[0]),
            format!("ada  done     {}", ids[1]),
            format!("ada  done     {}", ids[0])
        ]
    );
    assert!(!out.contains("example.com"));
    let (_, out, _) = inbox.run("log --json --limit 1");
    let entry: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&entry["user"], &entry["action"], &entry["count"]),
        (&"ada".into(), &"erase".into(), &1.into())
    );
    assert_eq!((&entry["submission"], &entry["channel"]), (&Value::Null, &Value::Null));
    assert_eq!(out.lines().count(), 1);
    assert_eq!(Inbox::with(&[]).run("log").1, "");
}

#[test]
fn sessions_are_listed_and_ended() {
    let inbox = two();
    assert_eq!(inbox.run("sessions").1, "No session is open.\n");
    let at = "2026-11-20T16:00:05Z".parse().unwrap();
    let mut editor = frontdesk_inbox::store::Editor::open(&inbox.url).unwrap().on_behalf_of("ada");
    for n in 1..=3 {
        editor.create_login(&[n; 32], at).unwrap();
        editor.log_in(&[n; 32], &[n + 0x10; 32], at).unwrap().unwrap();
    }
    let (_, out, _) = inbox.run("sessions");
    assert_eq!(out.lines().next(), Some("11111111  ada  since 2026-11-20 16:00:05, last used 3 min ago"));
    assert_eq!(inbox.run("sessions --revoke 12").1, "1 session ended\n");
    for (prefix, what) in [("12", "no session has"), ("1", "several sessions have"), ("x", "no session has")]
    {
        let refused = inbox.try_run(&format!("sessions --revoke {prefix}"), &mut Vec::new()).unwrap_err();
        assert!(refused.to_string().starts_with(what), "{refused}");
    }
    assert_eq!(inbox.run("sessions --all").1, "2 sessions ended\n");
}
