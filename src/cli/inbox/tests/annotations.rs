//! Tests of `done`, `note`, `log` and `sessions`.

use super::*;
use crate::cli::diagnostics::hint;
use crate::cli::inbox::annotate::read_note;
use frontdesk_desk::Role;
use frontdesk_inbox::store::NewSession;

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
    assert!(out.contains("\nnote by ada, 2026-11-20T16:03:05.120Z\n  call\\u{1b}[2J\n"), "{out}");
    let other = &ids(&inbox)[1];
    inbox.run(&format!("note {other} one\r\ntwo\rthree"));
    let (_, out, _) = inbox.run(&format!("show --json {other}"));
    assert!(out.contains(r#""_note":"one\ntwo\nthree""#), "{out}");
    let (_, out, _) = inbox.run(&format!("show {other}"));
    assert!(out.contains("\n  one\n  two\n  three\n"), "{out}");
    let long = format!("note {id} {}", "x".repeat(4001));
    let refused = inbox.try_run(&long, &mut Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("the maximum is 4000"), "{refused}");
    let empty = inbox.try_run(&format!("note {id} \u{a0}"), &mut Vec::new()).unwrap_err();
    assert_eq!(empty.to_string(), "the note is empty");
    inbox.run(&format!("note {id} again"));
    let (_, out, _) = inbox.run(&format!("show --json {id}"));
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["_note"], "call\u{1b}[2J\n\nagain");
    let second = &shown["_notes"][1];
    assert_eq!((&second["user"], &second["text"]), (&"ada".into(), &"again".into()));
    let (_, csv, _) = inbox.run("export --all");
    assert!(csv.contains("\"2026-11-20 ada: call\u{1b}[2J\n2026-11-20 ada: again\""), "{csv}");
    let (_, lines, _) = inbox.run("export --jsonl");
    let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(line["_notes"], shown["_notes"]);
}

#[test]
fn a_note_is_read_from_the_standard_input_of_the_command() {
    let inbox = two();
    let id = &ids(&inbox)[0];
    for can_ask in [false, true] {
        let (code, out, err) = inbox.run_with(&format!("note {id} -"), false, ("Called back\n", can_ask));
        assert_eq!((code, err.as_str()), (ExitCode::SUCCESS, ""), "{out}");
    }
    let (_, out, _) = inbox.run(&format!("show --json {id}"));
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["_note"], "Called back");
    let empty = inbox.try_run(&format!("note {id} -"), &mut Vec::new()).unwrap_err();
    assert_eq!(empty.to_string(), "the note is empty");
}

#[test]
fn a_note_from_standard_input_is_too_long_rather_than_invalid() {
    let longest = format!("{}\r\n", "\u{1f60a}".repeat(4000));
    assert_eq!(read_note(longest.as_bytes()).unwrap(), longest);
    for (input, expected) in [
        ("€".repeat(6000).into_bytes(), "the note is longer than the maximum of 4000 characters"),
        (b"caf\xe9".to_vec(), "the note on standard input is not UTF-8"),
    ] {
        assert_eq!(read_note(&input[..]).unwrap_err().to_string(), expected);
    }
}

#[test]
fn work_on_a_submission_is_assigned_planned_and_recorded() {
    let inbox = two();
    let ids = ids(&inbox);
    let id = &ids[0];
    let prints = |arguments: String, expected: String| {
        assert_eq!(inbox.run(&arguments).1, expected, "{arguments}");
    };
    prints(
        format!("assign {} {id} grace", ids[1]),
        format!("{} is assigned to grace.\n{id} is assigned to grace.\n", ids[1]),
    );
    prints(format!("assign {id} grace"), format!("{id} is already assigned to grace.\n"));
    let unnamed = inbox.try_run(&format!("assign {id} \u{a0}"), &mut Vec::new()).unwrap_err();
    assert_eq!(unnamed.to_string(), "the name of the user is empty");
    prints(format!("assign {} --none", ids[1]), format!("{} is no longer assigned to a user.\n", ids[1]));
    prints(format!("follow-up {id} today"), format!("{id} is to be followed up on 2026-11-20.\n"));
    prints(format!("replied {id}"), format!("{id} is marked as replied.\n"));
    let (_, out, _) = inbox.run(&format!("show {id}"));
    for line in [
        "assigned to  grace\n",
        "follow up    2026-11-20 (due)\n",
        "replied      2026-11-20T16:03:05.120Z (now), by ada\n",
    ] {
        assert!(out.contains(line), "{line}{out}");
    }
    let (_, out, _) = inbox.run(&format!("show --json {id}"));
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        [&shown["_assignee"], &shown["_follow_up"], &shown["_replied_by"]],
        ["grace", "2026-11-20", "ada"]
    );
    prints(format!("follow-up {id} 2026-12-01"), format!("{id} is to be followed up on 2026-12-01.\n"));
    prints(format!("follow-up {id} --none"), format!("{id} no longer has a follow-up.\n"));
    prints(format!("replied {id} --undo"), format!("{id} is no longer marked as replied.\n"));
    for day in ["2026-02-30", "1026-11-20", "soon"] {
        let refused = inbox.try_run(&format!("follow-up {id} {day}"), &mut Vec::new()).unwrap_err();
        assert_eq!(refused.to_string(), "give a date such as 2026-11-30, today or tomorrow");
    }
}

#[test]
fn submissions_are_assigned_to_configured_users_only() {
    let mut inbox = two();
    inbox.users = vec![User { address: "ada@example.com".to_owned(), role: Role::Edit }];
    let id = &ids(&inbox)[0];
    let (_, out, _) = inbox.run(&format!("assign {id} Ada@Example.com"));
    assert_eq!(out, format!("{id} is assigned to ada@example.com.\n"));
    for (name, expected) in [
        ("Adda@example.com", "did you mean `ada@example.com`?"),
        ("grace", "`inbox.users` in frontdesk.toml"),
    ] {
        let refused = inbox.try_run(&format!("assign {id} {name}"), &mut Vec::new()).unwrap_err();
        assert_eq!(refused.to_string(), format!("the inbox has no user `{name}`"));
        assert!(hint(&refused).unwrap().starts_with(expected), "{refused:?}");
    }
    assert!(inbox.run(&format!("show {id}")).1.contains("assigned to  ada@example.com\n"));
}

#[test]
fn a_list_is_limited_to_the_work_of_a_user_and_to_what_is_due() {
    let inbox = two();
    let ids = ids(&inbox);
    inbox.run(&format!("assign {} grace", ids[0]));
    inbox.run(&format!("follow-up {} today", ids[0]));
    inbox.run(&format!("follow-up {} tomorrow", ids[1]));
    let listed = |options: &str| -> Vec<String> {
        let (_, out, _) = inbox.run(&format!("list --json {options}"));
        ids.iter().filter(|id| out.contains(*id)).cloned().collect()
    };
    assert_eq!(listed("--assignee grace"), ids[..1]);
    assert_eq!(listed("--assignee Grace"), ids[..1]);
    assert_eq!(listed("--assignee ada"), [""; 0]);
    assert_eq!(listed("--unassigned"), ids[1..]);
    assert_eq!(listed("--due"), ids[..1]);
    assert_eq!(listed("--due --unassigned"), [""; 0]);
    inbox.run(&format!("done {}", ids[0]));
    assert_eq!(listed("--due"), [""; 0]);
    assert_eq!(listed("--assignee grace --since 2026-11-19"), ids[..1]);
}

#[test]
fn the_folder_of_the_site_may_follow_the_name_of_the_assignee() {
    let taken = |words: &[&str]| {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let folder = take_folder_after_user(&mut words)?;
        Ok((words.join(" "), folder.map(|folder| folder.display().to_string())))
    };
    assert_eq!(taken(&["01a1", "ada"]), Ok(("01a1 ada".to_owned(), None)));
    assert_eq!(taken(&["01a1", "ada", "/"]), Ok(("01a1 ada".to_owned(), Some("/".to_owned()))));
    assert_eq!(taken(&["01a1", "/"]), Ok(("01a1 /".to_owned(), None)));
    let error: Result<(String, Option<String>), String> = taken(&["01a1"]);
    assert!(error.unwrap_err().starts_with("give the ids of submissions and the name"));
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
    let editor = frontdesk_inbox::store::Editor::open(&inbox.url).unwrap();
    editor.on_behalf_of("ada").save_view("Mine", "held=1").unwrap();
    let (_, out, _) = inbox.run("log");
    let lines: Vec<_> = out.lines().map(|line| line[21..].to_owned()).collect();
    assert_eq!(
        lines,
        [
            "ada  save-view".to_owned(),
            "ada  erase        1 submission".to_owned(),
            "ada  discard      1 submission".to_owned(),
            format!("ada  hold         {}", ids[0]),
            format!("ada  done         {}", ids[1]),
            format!("ada  done         {}", ids[0])
        ]
    );
    assert!(!out.contains("example.com"));
    let (_, out, _) = inbox.run("log --json --limit 1");
    let entry: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&entry["user"], &entry["action"], &entry["count"]),
        (&"ada".into(), &"save-view".into(), &1.into())
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
        let session = NewSession { hash: [n + 0x10; 32], is_trusted: false, client: String::new() };
        editor.log_in(&[n; 32], None, &session, at).unwrap().unwrap();
    }
    let (_, out, _) = inbox.run("sessions");
    assert_eq!(
        out.lines().next(),
        Some("11111111  ada  unknown browser, by a command since 2026-11-20 16:00:05, last used 3 min ago")
    );
    assert_eq!(inbox.run("sessions --revoke 12").1, "1 session ended\n");
    for (prefix, what) in [("12", "no session has"), ("1", "several sessions have"), ("x", "no session has")]
    {
        let refused = inbox.try_run(&format!("sessions --revoke {prefix}"), &mut Vec::new()).unwrap_err();
        assert!(refused.to_string().starts_with(what), "{refused}");
    }
    let ended = "sessions ended; unused login links are no longer valid\n";
    assert_eq!(inbox.run("sessions --all").1, format!("2 {ended}"));
    assert_eq!(inbox.run("sessions --all").1, format!("0 {ended}"));
}
