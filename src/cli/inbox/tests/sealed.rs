//! Tests of sealed submissions, which only their recipient can read.

use super::*;
use frontdesk_age::Recipient;
use frontdesk_inbox::testing::generate_key_texts;

#[test]
fn a_sealed_submission_names_the_command_that_opens_it() {
    let (inbox, _) = sealed(&["ada"]);
    let (code, out, err) = inbox.run("list --json");
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, err.as_str()), (ExitCode::SUCCESS, ""));
    assert_eq!((&object["_sealed"], object.get("email")), (&true.into(), None));
    assert!(inbox.run("list").1.contains("(encrypted: use --identity FILE)"));
    assert!(inbox.run("show 0").1.ends_with("\n\n(encrypted: use --identity FILE)\n"));
    let (_, out, err) = inbox.run("list --json --text ada");
    assert_eq!(
        (out.as_str(), err.as_str()),
        ("", "1 encrypted submission was not searched: `--identity FILE` decrypts submissions.\n")
    );
    let (_, out, err) = inbox.run("export --csv");
    assert_eq!(out.lines().count(), 2);
    assert_eq!(
        err,
        "1 submission is encrypted and written without its fields: `--identity FILE` decrypts submissions.\n"
    );
}

#[test]
fn an_identity_opens_sealed_submissions() {
    let (inbox, identity) = sealed(&["ada", "bob"]);
    let (_, out, err) = inbox.run(&format!("list --json --identity {identity}"));
    let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&objects[0]["email"], &objects[1]["email"]),
        (&"bob@example.com".into(), &"ada@example.com".into())
    );
    assert!(objects[0].get("_sealed").is_none() && err.is_empty(), "{err}");
    assert_eq!(inbox.run(&format!("list --json --text ADA@ --identity {identity}")).1.lines().count(), 1);
    let id = objects[1]["id"].as_str().unwrap();
    let (code, out, _) = inbox.run(&format!("show {id} --identity {identity}"));
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(out.contains("Work e-mail  ada@example.com\n"), "{out}");
    let (_, out, err) = inbox.run(&format!("export --csv --identity {identity}"));
    assert!(out.contains(",ada@example.com,") && err.is_empty(), "{out}");
}

#[test]
fn a_wrong_identity_is_reported_for_each_submission() {
    let (inbox, identity) = sealed(&["ada"]);
    accept_sealed(&inbox, &["bob"], 21);
    let (code, out, err) = inbox.run(&format!("list --json --identity {identity}"));
    assert_eq!(code, ExitCode::FAILURE);
    let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&objects[0]["_sealed"], &objects[1]["email"]), (&true.into(), &"ada@example.com".into()));
    let id = objects[0]["id"].as_str().unwrap();
    let said = format!(
        "error: {id} cannot be decrypted: the data is encrypted to a key that is not in the identity file; \
         use the identity file for the `store.recipient` of that time\n"
    );
    assert_eq!(err, said);
    for arguments in ["list", "export --csv", &format!("show {id}")] {
        let (code, out, err) = inbox.run(&format!("{arguments} --identity {identity}"));
        assert_eq!(code, ExitCode::FAILURE, "{arguments}");
        assert!(err.starts_with(&said) && out.contains(&id[..13]), "{arguments}: {err}");
    }
    let error = inbox.try_run("list --identity /nonexistent", &mut Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read /nonexistent"), "{error}");
}

/// An inbox with a sealed submission for each name, and the path of the identity that opens them.
fn sealed(names: &[&str]) -> (Inbox, String) {
    let inbox = Inbox::empty();
    let identity = accept_sealed(&inbox, names, 20);
    (inbox, identity)
}

/// Stores a sealed submission for each name, received on `day`. Returns the path of the new identity.
fn accept_sealed(inbox: &Inbox, names: &[&str], day: u8) -> String {
    let at = format!("2026-11-{day}T00:00:00Z");
    let (secret, public) = generate_key_texts();
    let recipient = Recipient::parse(&public).unwrap();
    inbox.work(
        |options| options.intake.recipient = Some(recipient),
        |store, runtime| {
            for name in names {
                let body = format!(r#"{{"email":"{name}@example.com"}}"#);
                accept_at(store, runtime, &WAITLIST, &body, &at);
            }
        },
    );
    let file = inbox.folder.path().join(names.concat());
    fs::write(&file, secret).unwrap();
    file.display().to_string()
}
