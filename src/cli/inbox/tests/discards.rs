//! Tests of `discard`.

use super::*;
use frontdesk_inbox::store::Filter;
use frontdesk_inbox::submission::Submission;
use frontdesk_screening::verdict::Signal;

#[test]
fn held_submissions_are_removed_after_a_question() {
    let inbox = held();
    let (code, out, err) = inbox.run("discard --held");
    assert_eq!((code, out.as_str()), (ExitCode::from(2), ""));
    assert_eq!(
        err,
        "error: nothing was removed: standard input is not a terminal on which to confirm; `--yes` skips the question\n"
    );
    let (code, out, err) = inbox.run_as("discard --held", true, Some("n\n"));
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
    assert_eq!(
        err,
        "Remove 3 held submissions, received from 2026-11-18T00:00:00.000Z to 2026-11-20T00:00:00.000Z, for \
         good? [y/N] Nothing was removed.\n"
    );
    assert_eq!(listed(&inbox).len(), 4);
    let (code, out, err) = inbox.run_as("discard --held", true, Some("y\n"));
    assert_eq!(
        (code, out.as_str()),
        (ExitCode::SUCCESS, "3 submissions removed\n0 deliveries removed\n0 attempts removed\n")
    );
    assert!(
        err.contains("warning: earlier backups") && err.contains("The database's log was wiped"),
        "{err}"
    );
    assert_eq!(texts(&inbox), ["not held"]);
    let again = inbox.run("discard --held --yes");
    assert_eq!(again, (ExitCode::SUCCESS, "nothing\n".to_owned(), String::new()));
}

#[test]
fn submissions_that_arrive_during_the_question_stay() {
    struct Answer<'a>(&'a Inbox, &'a [u8]);
    impl io::Read for Answer<'_> {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            unreachable!("it is read by lines")
        }
    }
    impl BufRead for Answer<'_> {
        fn fill_buf(&mut self) -> io::Result<&[u8]> {
            self.0.work(|_| {}, |store, runtime| hold(store, runtime, "new", 9, 21, &[Signal::Links]));
            Ok(self.1)
        }
        fn consume(&mut self, count: usize) {
            self.1 = &self.1[count..];
        }
    }
    let inbox = held();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut answer = Answer(&inbox, b"y\n");
    let code = inbox.execute("discard --held", true, (&mut answer, true), &mut out, &mut err).unwrap();
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(out.starts_with(b"3 submissions removed\n"));
    assert_eq!(texts(&inbox), ["new", "not held"]);
}

#[test]
fn the_options_of_discard_are_combined() {
    let inbox = held();
    assert_eq!(inbox.run("discard --held --reason honeypot --before 2026-11-19 --yes").1, "nothing\n");
    assert_eq!(inbox.run("discard --held --before 2026-11-18 --yes").1, "nothing\n");
    assert_eq!(inbox.run("discard --held --before 2d --yes").1.lines().next(), Some("1 submission removed"));
    assert_eq!(texts(&inbox), ["not held", "links and honeypot", "honeypot"]);
    let source = listed(&inbox).iter().find(|s| s.get("message") == Some("honeypot")).unwrap().source.clone();
    assert_eq!(inbox.run(&format!("discard --held --reason links --source {source} --yes")).1, "nothing\n");
    let (code, out, _) = inbox.run(&format!("discard --held --source {} --yes", &source[..12]));
    assert_eq!((code, out.lines().next()), (ExitCode::SUCCESS, Some("1 submission removed")));
    assert_eq!(texts(&inbox), ["not held", "links and honeypot"]);
    inbox.run("discard --held --reason links --yes");
    assert_eq!(texts(&inbox), ["not held"]);
}

#[test]
fn submissions_held_by_a_flood_stay_unless_selected() {
    let inbox = held();
    let connection = rusqlite::Connection::open(&inbox.database).unwrap();
    connection.execute("UPDATE submission SET flood = 1 WHERE fields LIKE '%honeypot%'", []).unwrap();
    let (code, _, err) = inbox.run_as("discard --held", true, Some("n\n"));
    assert_eq!(
        (code, err.as_str()),
        (
            ExitCode::FAILURE,
            "2 submissions are held only until a flood ends and are not selected: `--reason form-rate` selects them.\n\
             Remove 1 held submission, received at 2026-11-18T00:00:00.000Z, for good? [y/N] Nothing was removed.\n"
        )
    );
    let (code, out, err) = inbox.run("discard --held --reason honeypot --before 2026-11-20 --yes");
    assert_eq!((code, out.as_str()), (ExitCode::SUCCESS, "nothing\n"));
    assert!(
        err.starts_with(
            "1 submission is held only until a flood ends and is not selected: `--reason form-rate` selects it.\n"
        ),
        "{err}"
    );
    inbox.run("discard --held --reason form-rate --yes");
    assert_eq!(texts(&inbox), ["not held", "links"]);
}

#[test]
fn an_ambiguous_hash_selects_no_source() {
    let inbox = Inbox::empty();
    inbox.work(
        |_| {},
        |store, runtime| {
            // Among seventeen hashes, at least two begin with the same hexadecimal digit.
            for n in 0..17 {
                hold(store, runtime, &n.to_string(), n, 20, &[Signal::Links]);
            }
        },
    );
    let sources: Vec<String> = listed(&inbox).into_iter().map(|submission| submission.source).collect();
    let digit = (0..16)
        .map(|digit| format!("{digit:x}"))
        .find(|digit| sources.iter().filter(|source| source.starts_with(digit)).count() > 1)
        .unwrap();
    let (code, out, err) = inbox.run(&format!("discard --held --source {digit} --yes"));
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
    assert!(
        err.contains(&format!("sources of held submissions have a hash that begins with `{digit}`\nhint: ")),
        "{err}"
    );
    assert_eq!(listed(&inbox).len(), 17);
}

#[test]
fn discard_refuses_only_submissions_that_are_not_held() {
    let inbox = held();
    let ids: Vec<String> = listed(&inbox).iter().map(|submission| submission.id.to_string()).collect();
    let (not_held, honeypot) = (&ids[0], &ids[2]);
    let arguments = format!("discard {not_held} {honeypot} {honeypot} ffff");
    let (code, out, err) = inbox.run_as(&arguments, true, Some("y\n"));
    assert_eq!(code, ExitCode::FAILURE);
    assert_eq!(out.lines().next(), Some("1 submission removed"));
    let refused = format!(
        "error: no submission has an id that begins with `ffff`\nhint: `frontdesk inbox list` shows the ids\n\
         error: submission {not_held} is kept, not held, so it cannot be discarded\n\
         hint: `frontdesk inbox hold {not_held}` holds it, so that it can be discarded; \
         `frontdesk inbox erase --email ADDRESS` removes everything that came from an address\n\
         Remove 1 held submission, received at 2026-11-19T00:00:00.000Z, for good? [y/N] "
    );
    assert!(err.starts_with(&refused), "{err}");
    assert_eq!(texts(&inbox), ["not held", "links and honeypot", "links"]);
    // A submission that the operator holds can be discarded.
    inbox.run(&format!("hold {not_held}"));
    let (code, out, _) = inbox.run(&format!("discard {not_held} --yes"));
    assert_eq!((code, out.lines().next()), (ExitCode::SUCCESS, Some("1 submission removed")));
    assert_eq!(texts(&inbox), ["links and honeypot", "links"]);
}

#[test]
fn delivered_submissions_can_only_be_erased() {
    let inbox = Inbox::empty();
    inbox.work(changes::channel, |store, runtime| {
        accept(store, runtime, &[(&WAITLIST, r#"{"email":"ada@example.com"}"#)]);
    });
    let connection = rusqlite::Connection::open(&inbox.database).unwrap();
    connection.execute("UPDATE delivery SET state = 'delivered', due_at = NULL", []).unwrap();
    let id = listed(&inbox)[0].id;
    let (code, out, err) = inbox.run(&format!("discard {id} --yes"));
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, "nothing\n"));
    assert_eq!(
        err,
        format!(
            "error: submission {id} is delivered, not held, so it cannot be discarded\n\
             hint: `frontdesk inbox erase --email ADDRESS` removes everything that came from an address\n"
        )
    );
    assert_eq!(listed(&inbox).len(), 1);
}

#[test]
fn contradictory_options_of_discard_are_refused() {
    for arguments in [
        "",
        "--yes",
        "01 --held",
        "01 --reason rate",
        "--reason rate",
        "--before 3d",
        "--source 00",
        "--held --before yesterday",
        "--held --source 192.0.2.1",
    ] {
        let typed = Typed::try_parse_from(format!("inbox discard {arguments}").split_whitespace());
        match typed.map(|mut typed| typed.command.take_site_folder()) {
            Err(error) => assert_eq!(error.exit_code(), 2, "{arguments}"),
            Ok(selected) => assert!(selected.is_err(), "`{arguments}` was accepted"),
        }
    }
    let error =
        Typed::try_parse_from("inbox discard --held --reason tone".split(' ')).err().unwrap().to_string();
    for signal in Signal::ALL {
        assert!(error.contains(signal.name()), "{error}");
    }
    for arguments in ["discard --held --yes", "discard --held --reason rate --yes"] {
        let (code, out, _) = Inbox::empty().run(arguments);
        assert_eq!((code, out.as_str()), (ExitCode::SUCCESS, "nothing\n"));
    }
    assert_eq!(Inbox::empty().run("discard 01 --yes").0, ExitCode::FAILURE);
}

/// An inbox with held submissions from the 18th, 19th and 20th, and one that is not held.
fn held() -> Inbox {
    let inbox = Inbox::empty();
    inbox.work(
        |_| {},
        |store, runtime| {
            hold(store, runtime, "links", 1, 18, &[Signal::Links]);
            hold(store, runtime, "honeypot", 2, 19, &[Signal::Honeypot]);
            hold(store, runtime, "links and honeypot", 1, 20, &[Signal::Links, Signal::Honeypot]);
            let body = r#"{"name":"Ada","email":"ada@example.com","message":"not held"}"#;
            accept(store, runtime, &[(&CONTACT, body)]);
        },
    );
    inbox
}

fn hold(store: &TestInbox, runtime: &Runtime, message: &str, source: u8, day: u8, signals: &[Signal]) {
    let body = format!(r#"{{"name":"Ada","email":"ada@example.com","message":"{message}"}}"#);
    let arrival = Arrival {
        entry: parse(&CONTACT, body.as_bytes()).unwrap(),
        idempotency_key: None,
        source: Source::V4([192, 0, 2, source]),
        received_at: format!("2026-11-{day}T00:00:00Z").parse().unwrap(),
        evidence: Evidence::Verdict(ScreeningVerdict::default()),
        agent: None,
        lead: frontdesk_forms::LeadSource::default(),
    };
    let reasons: Vec<_> = signals.iter().map(|signal| (*signal, "of course")).collect();
    runtime.block_on(store.accept_and_process(arrival.held_for(&reasons))).unwrap();
}

/// All submissions, newest first.
fn listed(inbox: &Inbox) -> Vec<Submission> {
    let reader = InboxReader::open(&inbox.database).unwrap();
    reader.list(&Filter::default()).unwrap().collect::<Result<_, _>>().unwrap()
}

fn texts(inbox: &Inbox) -> Vec<String> {
    listed(inbox).iter().map(|submission| submission.get("message").unwrap().to_owned()).collect()
}
