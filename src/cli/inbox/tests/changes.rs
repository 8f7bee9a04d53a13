//! Tests of `retry`, `hold`, `release`, `erase` and `digest`.

use std::time::Duration;

use super::*;
use frontdesk_inbox::store::Filter;
use frontdesk_inbox::submission::Submission;
use frontdesk_inbox::submission::delivery::{Capacity, ChannelTarget, ClaimRequest, DeliveryState, Route};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};
use frontdesk_inbox::submission::schedule::NextStep;

#[test]
fn a_submission_is_shown_with_its_deliveries() {
    let inbox = parked(1);
    let id = &ids(&inbox)[0];
    let (_, out, _) = inbox.run(&format!("show --json {id}"));
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        shown["_deliveries"].to_string(),
        r#"[{"channel":"box","state":"parked","due_at":null,"obstacle":null,"attempts":[{"number":1,"#
            .to_owned()
            + r#""began_at":"2026-11-20T15:00:00.000Z","ended_at":"2026-11-20T15:00:02.500Z","delivered":false,"answer":"550 <0@example.com> never"}]}]"#
    );
    assert!(shown.get("_held").is_none() && shown.get("_sealed").is_none());
    let (_, out, _) = inbox.run(&format!("show {id}"));
    assert!(
        out.ends_with(
            "\nbox: parked\n  1. 2026-11-20T15:00:00.000Z  failed after 2.5 s: 550 <0@example.com> never\n"
        ),
        "{out}"
    );
}

#[test]
fn parked_deliveries_can_be_retried() {
    let inbox = parked(2);
    assert_eq!(
        inbox.run("retry --parked"),
        (
            ExitCode::SUCCESS,
            "2 retries are due now and will be attempted as soon as the server is running.\n".into(),
            String::new()
        )
    );
    assert_eq!(states(&inbox), [DeliveryState::Waiting, DeliveryState::Waiting]);
    assert_eq!(inbox.run("retry --parked").1, "Nothing to retry: no such delivery is parked.\n");
    let id = &ids(&inbox)[0];
    let (code, out, _) = inbox.run(&format!("retry {id}"));
    assert_eq!(
        (code, out.as_str()),
        (ExitCode::SUCCESS, "1 retry is due now and will be attempted as soon as the server is running.\n")
    );
    assert_eq!(
        inbox.run("retry --channel box --form contact --since 1d").1.split(' ').next(),
        Some("Nothing")
    );
    assert_eq!(inbox.run("retry --channel box --form waitlist --since 1d").1.split(' ').next(), Some("2"));
}

#[test]
fn a_retry_without_deliveries_explains_why() {
    let inbox = parked(1);
    let (code, out, err) = inbox.run("retry --channel bax");
    assert_eq!(code, ExitCode::SUCCESS);
    assert_eq!(out, "Nothing to retry: no such delivery for channel \"bax\" is waiting or parked.\n");
    assert_eq!(err, "The inbox contains no delivery to a channel \"bax\". Channels with deliveries: box.\n");
    let id = &ids(&inbox)[0];
    inbox.run(&format!("hold {id}"));
    let (_, out, err) = inbox.run(&format!("retry {id}"));
    assert_eq!(out, "Nothing to retry: no such delivery is waiting or parked.\n");
    assert_eq!(err, "1 submission is held: `frontdesk inbox release` delivers it.\n");
    let (code, out, err) = inbox.run("retry ffff");
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
    assert!(err.starts_with("error: no submission has an id that begins with `ffff`\n"), "{err}");
}

#[test]
fn a_retry_names_the_channel_that_it_switches_on() {
    let inbox = parked(1);
    let at = "2026-11-20T16:00:00Z".parse().unwrap();
    let target = ChannelTarget { name: "box".to_owned(), destination: "/box".to_owned() };
    inbox.work(
        |_| {},
        |store, runtime| {
            runtime.block_on(store.switch_off(target, "410".to_owned(), at)).unwrap();
            runtime.block_on(store.pause("bax".to_owned(), "429".to_owned(), at)).unwrap();
        },
    );
    let nothing = "Nothing to retry: no such delivery for channel \"bax\" is waiting or parked.\n";
    assert_eq!(inbox.run("retry --channel bax").1, format!("{nothing}Channel \"bax\" is resumed.\n"));
    assert_eq!(inbox.run("retry --channel bax").1, nothing);
    let due = "1 retry is due now and will be attempted as soon as the server is running.\n";
    assert_eq!(inbox.run("retry --channel box").1, format!("{due}Channel \"box\" is switched on.\n"));
    assert_eq!(inbox.run("retry --channel box").1, due);
}

#[test]
fn commands_without_a_selection_change_nothing() {
    for arguments in ["erase", "erase --yes", "erase --yes --email ada", "erase --yes --email="] {
        let typed = Typed::try_parse_from(format!("inbox {arguments}").split(' '));
        let error = typed.err().unwrap_or_else(|| panic!("`{arguments}` was accepted"));
        assert_eq!(error.exit_code(), 2, "{arguments}");
    }
    let refused = |arguments: &str| {
        let mut typed = Typed::parse_from(format!("inbox {arguments}").split(' '));
        typed.command.take_site_folder().expect_err("it selects nothing")
    };
    for arguments in ["hold", "release", "deliver", "discard"] {
        assert!(refused(arguments).contains("id of a submission"), "{arguments}");
    }
    let error = refused("retry").replace("the id", "the ID");
    for name in ["ID", "--parked", "--channel", "--since", "--until", "--form"] {
        assert!(error.contains(name), "{name} is not in {error}");
    }
}

#[test]
fn held_submissions_wait_for_their_release() {
    let inbox = parked(2);
    let ids = ids(&inbox);
    let (code, out, err) = inbox.run(&format!("hold {} ffff --because looks-odd\u{1b}", ids[0]));
    assert_eq!(
        (code, out),
        (ExitCode::FAILURE, format!("{} is held until `frontdesk inbox release`.\n", ids[0]))
    );
    assert!(err.starts_with("error: no submission has an id that begins with `ffff`\n"), "{err}");
    let (code, out, _) = inbox.run(&format!("hold {}", ids[0]));
    assert_eq!((code, out), (ExitCode::SUCCESS, format!("{} is already held.\n", ids[0])));

    let (_, out, _) = inbox.run("list --json --status held");
    let held: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&held["id"], &held["status"]), (&ids[0].as_str().into(), &"held".into()));
    assert_eq!(
        held["_held"].to_string(),
        r#"{"since":"2026-11-20T16:03:05.120Z","because":"looks-odd\u001b"}"#
    );
    let (_, shown, _) = inbox.run(&format!("show {}", ids[0]));
    assert!(shown.contains("because      looks-odd\\u{1b}\n") && shown.contains("box: held\n"), "{shown}");

    let (code, out, _) = inbox.run(&format!("release {} {}", ids[0], ids[1]));
    assert_eq!(code, ExitCode::SUCCESS);
    assert_eq!(
        out,
        format!(
            "{} is released: 1 delivery is due now and will be attempted as soon as the server is running.\n{} is not held.\n",
            ids[0], ids[1]
        )
    );
    assert_eq!(states(&inbox), [DeliveryState::Waiting, DeliveryState::Parked]);
    assert_eq!(inbox.run("release --all").1, "No submission is held.\n");
    inbox.run(&format!("hold {} {}", ids[0], ids[1]));
    assert_eq!(inbox.run("release --all").1.lines().count(), 2);
    assert_eq!(states(&inbox), [DeliveryState::Waiting, DeliveryState::Waiting]);
}

#[test]
fn submissions_received_before_a_channel_existed_can_be_delivered() {
    let mut inbox = Inbox::with(&[
        (&WAITLIST, r#"{"email":"a@example.com"}"#),
        (&WAITLIST, r#"{"email":"b@example.com"}"#),
        (&CONTACT, r#"{"name":"C","email":"c@example.com","message":"Hi"}"#),
    ]);
    let ids = ids(&inbox);
    let (code, out, err) = inbox.run("deliver --kept");
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
    assert!(err.starts_with("error: no channel is configured\nhint: "), "{err}");

    let of_waitlist = Route { forms: vec!["waitlist".to_owned()], ..Route::new("list") };
    inbox.channels = vec![Route::new("box"), of_waitlist];
    let (code, out, err) = inbox.run("deliver --kept --channel bax");
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
    assert_eq!(err, "error: there is no channel `bax`; configured channels: box, list\n");

    // Deliver one submission through one channel, then through the others.
    let due = |n: usize| match n {
        1 => "1 delivery is due now and will be attempted as soon as the server is running.\n".to_owned(),
        n => format!("{n} deliveries are due now and will be attempted as soon as the server is running.\n"),
    };
    let (code, out, _) = inbox.run(&format!("deliver {} --channel list", ids[1]));
    assert_eq!((code, out), (ExitCode::SUCCESS, format!("{}: {}", ids[1], due(1))));
    let (code, out, _) = inbox.run(&format!("deliver {} --channel list", ids[1]));
    assert_eq!(code, ExitCode::FAILURE);
    assert_eq!(out, format!("{} has been delivered to these channels, or is about to be.\n", ids[1]));
    let (_, out, _) = inbox.run(&format!("deliver {}", ids[1]));
    assert_eq!(out, format!("{}: {}", ids[1], due(1)));

    // The rest: two deliveries of a waitlist request, and one of the message.
    let (code, out, err) = inbox.run("deliver --kept --channel list");
    assert_eq!((code, out), (ExitCode::SUCCESS, due(1)));
    assert!(err.starts_with("1 submission stays in the inbox only"), "{err}");
    assert_eq!(inbox.run("deliver --kept"), (ExitCode::SUCCESS, due(1), String::new()));
    assert_eq!(inbox.run("deliver --kept").1, "Nothing to deliver.\n");
    assert_eq!(states(&inbox), [DeliveryState::Waiting; 4]);

    inbox.run(&format!("hold {}", ids[0]));
    let (code, out, _) = inbox.run(&format!("deliver {}", ids[0]));
    assert_eq!(code, ExitCode::FAILURE);
    assert_eq!(out, format!("{} is held: `frontdesk inbox release` delivers it.\n", ids[0]));
}

#[test]
fn erased_submissions_are_counted_and_gone() {
    let inbox = parked(2);
    let (code, out, err) = inbox.run("erase --email 1@example.com");
    assert_eq!((code, out.as_str()), (ExitCode::from(2), ""));
    assert_eq!(
        err,
        "error: nothing was removed: standard input is not a terminal on which to confirm; `--yes` skips the question\n"
    );
    let (code, out, err) = inbox.run_as("erase --email 1@Example.com", true, Some("\n"));
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
    assert_eq!(err, "Remove 1 submission from 1@Example.com for good? [y/N] Nothing was removed.\n");
    assert_eq!(ids(&inbox).len(), 2);
    let (code, out, err) = inbox.run_as("erase --email \u{a0}1@EXAMPLE.com\u{200b}", true, Some("Yes\n"));
    assert_eq!(code, ExitCode::SUCCESS, "{err}");
    assert_eq!(out, "1 submission removed\n1 delivery removed\n1 attempt removed\n");
    assert!(err.contains("warning: earlier backups") && !err.contains("had arrived"), "{err}");
    assert!(
        err.ends_with("The database's log was wiped: no removed data is left in the inbox's files.\n"),
        "{err}"
    );
    assert_eq!(ids(&inbox).len(), 1);
    let again = inbox.run("erase --email 1@example.com --yes");
    assert_eq!(again, (ExitCode::SUCCESS, "nothing\n".to_owned(), String::new()));
    let (code, out, _) = Inbox::empty().run("erase --email 1@example.com --yes");
    assert_eq!((code, out.as_str()), (ExitCode::SUCCESS, "nothing\n"));
}

#[test]
fn digest_prints_what_needs_attention() {
    let inbox = parked(2);
    inbox.work(channel, |store, runtime| {
        let now = "2026-11-20T15:30:00Z".parse().unwrap();
        runtime.block_on(store.pause("box".to_owned(), "451 \u{1b}[2J".to_owned(), now)).unwrap();
    });
    let (code, out, _) = inbox.run("digest");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((code, lines.len()), (ExitCode::SUCCESS, 2), "{out}");
    assert!(
        lines[0].starts_with("Channel \"box\" has been failing since") && !lines[0].contains("451"),
        "{out}"
    );
    assert!(lines[1].starts_with("2 deliveries for channel \"box\" are parked"), "{out}");
    assert_eq!(Inbox::with(&[]).run("digest").1, "Nothing needs your attention.\n");
}

#[test]
fn a_missing_inbox_has_nothing_to_change() {
    let inbox = Inbox::empty();
    for (arguments, code) in [
        ("retry --parked", ExitCode::SUCCESS),
        ("retry 01", ExitCode::FAILURE),
        ("hold 01", ExitCode::FAILURE),
        ("release 01", ExitCode::FAILURE),
        ("release --all", ExitCode::SUCCESS),
        ("stats", ExitCode::SUCCESS),
        ("digest", ExitCode::SUCCESS),
    ] {
        assert_eq!(inbox.run(arguments).0, code, "{arguments}");
    }
    assert!(!inbox.database.exists());
}

/// An inbox with `count` submissions, each parked in the channel `box` after one attempt.
fn parked(count: usize) -> Inbox {
    let inbox = Inbox::empty();
    inbox.work(channel, |store, runtime| {
        for n in 0..count {
            accept(store, runtime, &[(&WAITLIST, &format!(r#"{{"email":"{n}@example.com"}}"#))]);
        }
        let target = ChannelTarget { name: "box".to_owned(), destination: "there".to_owned() };
        let want =
            ClaimRequest { target, capacity: Capacity { any: count, retries: count }, earlier_attempts: 0 };
        let began = "2026-11-20T15:00:00Z".parse().unwrap();
        let claims = store.claim_by_rank(vec![want], Vec::new(), began, Duration::from_mins(3));
        for claimed in runtime.block_on(claims).unwrap().remove(0).claimed {
            let email = claimed.submission.get("email").unwrap();
            let outcome = Outcome::failed(Cause::Refused, format!("550 <{email}> never"));
            let ended = "2026-11-20T15:00:02.5Z".parse().unwrap();
            runtime.block_on(store.record(claimed.lease, outcome, NextStep::Parked, ended)).unwrap();
        }
    });
    assert_eq!(states(&inbox), vec![DeliveryState::Parked; count]);
    inbox
}

pub(super) fn channel(options: &mut Options) {
    options.channels = vec![Route::new("box")];
}

fn listed(inbox: &Inbox) -> Vec<Submission> {
    let reader = InboxReader::open(&inbox.database).unwrap();
    reader.list(&Filter::default()).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The ids of all submissions, newest first.
fn ids(inbox: &Inbox) -> Vec<String> {
    listed(inbox).iter().map(|submission| submission.id.to_string()).collect()
}

fn states(inbox: &Inbox) -> Vec<DeliveryState> {
    let reader = InboxReader::open(&inbox.database).unwrap();
    let deliveries = |submission: &Submission| reader.deliveries(submission.id).unwrap();
    listed(inbox).iter().flat_map(deliveries).map(|delivery| delivery.state).collect()
}
