//! Tests of the commands on a database that a store has written.

mod annotations;
mod changes;
mod choices;
mod discards;
mod removed_forms;
mod screened;
mod sealed;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use clap::Parser;
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use std::io::{self, BufRead, Write};

use super::command_context::StandardInput;
use super::*;
use crate::cli::is_broken_pipe;
use frontdesk_desk::User;
use frontdesk_desk::time::{self, TimeArgument};
use frontdesk_forms::text::is_unsafe;
use frontdesk_forms::{CONTACT, Form, LeadSource, WAITLIST, parse};
use frontdesk_inbox::intake::Arrival;
use frontdesk_inbox::store::{DatabaseUrl, InboxReader};
use frontdesk_inbox::submission::delivery::Route;
use frontdesk_inbox::testing::inbox::{Options, TestInbox};
use frontdesk_limits::Source;
use frontdesk_screening::Evidence;
use frontdesk_screening::verdict::ScreeningVerdict;

#[test]
fn a_json_listing_has_one_object_per_line_newest_first() {
    let inbox = Inbox::with(&[
        (&WAITLIST, r#"{"email":"ada@example.com"}"#),
        (&CONTACT, r#"{"name":"Ada","email":"ada@example.com","message":"Hello\nthere"}"#),
        (&WAITLIST, r#"{"email":"ADA@example.com"}"#),
    ]);
    let (code, out, err) = inbox.run("list --json");
    assert_eq!((code, err.as_str()), (ExitCode::SUCCESS, ""));
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&lines[0]),
        [
            "id",
            "form",
            "received_at",
            "status",
            "name",
            "email",
            "message",
            "_repeats",
            "_source",
            "_score",
            "_reasons",
            "_suspicious",
            "_agent"
        ]
    );
    assert_eq!(names(&lines[1])[4..7], ["email", "_repeats", "_source"]);
    assert_eq!(
        (&lines[1]["_score"], lines[1]["_reasons"].to_string(), &lines[1]["_agent"]),
        (&0.into(), "[]".to_owned(), &Value::Null)
    );
    assert_eq!(lines[0]["message"], "Hello\nthere");
    assert_eq!(lines[0]["received_at"], "2026-11-20T14:03:05.120Z");
    assert_eq!(
        (&lines[1]["form"], &lines[1]["status"], &lines[1]["_repeats"]),
        (&"waitlist".into(), &"kept".into(), &1.into())
    );
}

#[test]
fn a_listing_can_be_limited_and_of_one_form() {
    let inbox = Inbox::with(&[
        (&WAITLIST, r#"{"email":"a@example.com"}"#),
        (&WAITLIST, r#"{"email":"b@example.com"}"#),
        (&CONTACT, r#"{"name":"C","email":"c@example.com","message":"Hi"}"#),
    ]);
    let emails = |arguments: &str| {
        let (_, out, _) = inbox.run(arguments);
        out.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["email"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(emails("list --json --limit 1"), ["c@example.com"]);
    assert_eq!(emails("list --json --form waitlist"), ["b@example.com", "a@example.com"]);
    assert_eq!(emails("export --jsonl --form waitlist --limit 1"), ["b@example.com"]);
}

#[test]
fn json_escapes_control_characters_and_loses_nothing() {
    let inbox = Inbox::with(&[(
        &CONTACT,
        r#"{"name":"Ada\u202e","email":"a@b","message":"\u001b[2J\u009b\u007f\udb40\udc41"}"#,
    )]);
    let (_, out, _) = inbox.run("list --json");
    assert!(!out.trim_end().contains(is_unsafe), "{out}");
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["name"], "Ada\u{202e}");
    assert_eq!(object["message"], "\u{1b}[2J\u{9b}\u{7f}\u{e0041}");
}

#[test]
fn a_table_shows_one_submission_per_line() {
    let inbox =
        Inbox::with(&[(&CONTACT, r#"{"name":"Ada","email":"ada@example.com","message":"One\n\u001btwo"}"#)]);
    let (_, out, _) = inbox.run_as("list", true, None);
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].starts_with("ID "), "{out}");
    assert!(
        lines[1].ends_with("2026-11-20 14:03  contact  kept    ada@example.com  Ada · One⏎\\u{1b}two"),
        "{out}"
    );
}

#[test]
fn a_submission_is_found_by_a_prefix_of_its_id() {
    let inbox = Inbox::with(&[
        (&WAITLIST, r#"{"email":"a@example.com"}"#),
        (&WAITLIST, r#"{"email":"b@example.com"}"#),
    ]);
    let (_, out, _) = inbox.run("list --json");
    let ids: Vec<String> = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    let (code, out, _) = inbox.run(&format!("show {}", ids[1]));
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(out.contains("Work e-mail  a@example.com\n"), "{out}");
    let (_, out, _) = inbox.run(&format!("show --json {}", ids[0]));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["email"], "b@example.com");

    let (code, out, err) = inbox.run(&format!("show {}", &ids[0][..8]));
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
    assert!(err.starts_with("error: more than one") && ids.iter().all(|id| err.contains(id)), "{err}");
    let (code, out, err) = inbox.run("show ffff");
    assert_eq!((code, out.as_str()), (ExitCode::FAILURE, ""));
    assert_eq!(
        err,
        "error: no submission has an id that begins with `ffff`\nhint: `frontdesk inbox list` shows the ids\n"
    );
}

#[test]
fn an_export_in_csv_has_a_column_for_every_field() {
    let inbox = Inbox::with(&[
        (&WAITLIST, r#"{"email":"ada@example.com"}"#),
        (&CONTACT, r#"{"name":"=1+1","email":"ada@example.com","message":"Hello, \"you\""}"#),
    ]);
    let (_, out, _) = inbox.run("export --csv");
    let lines: Vec<_> = out.split("\r\n").collect();
    assert_eq!(
        lines[0],
        "\u{feff}id,form,received_at,status,email,name,message,firstname,lastname,company,lead_page,lead_referrer,\
         lead_utm_source,lead_utm_medium,lead_utm_campaign,lead_utm_term,lead_utm_content,lead_ref"
    );
    let contact = ",contact,2026-11-20 14:03:05,kept,ada@example.com,'=1+1,\"Hello, \"\"you\"\"\",,,,,,,,,,,";
    assert!(lines[1].ends_with(contact), "{out}");
    assert!(lines[2].ends_with(",waitlist,2026-11-20 14:03:05,kept,ada@example.com,,,,,,,,,,,,,"), "{out}");
    assert_eq!(lines[3..], [""]);
    let (_, out, _) = inbox.run("export --csv --all");
    let lines: Vec<_> = out.split("\r\n").collect();
    assert!(lines[0].ends_with(",lead_ref,_repeats,_source,_score,_reasons,_agent,_confirmed_at,_done_at,_assignee,_follow_up,_replied_at,_replied_by,_notes"), "{out}");
    assert!(lines[1].contains(contact) && lines[1].ends_with(",0,,,,,,,,,"), "{out}");
}

#[test]
fn the_source_of_a_lead_is_shown_exported_and_counted() {
    let mut lead = LeadSource::default();
    lead.complete_from("/pricing/?utm_campaign=%3Dspring&ref=letter");
    lead.set("referrer", "search.example.com");
    let inbox = Inbox::empty();
    inbox.work(
        |_| {},
        |store, runtime| {
            let arrival = Arrival {
                entry: parse(&WAITLIST, br#"{"email":"ada@example.com"}"#).unwrap(),
                idempotency_key: None,
                source: Source::V4([192, 0, 2, 1]),
                received_at: "2026-11-20T14:03:05.12Z".parse().unwrap(),
                evidence: Evidence::Verdict(ScreeningVerdict::default()),
                agent: None,
                lead,
            };
            runtime.block_on(store.accept_and_process(arrival)).unwrap();
        },
    );
    let (_, out, _) = inbox.run("show 0");
    assert!(
        out.contains("page          /pricing/\nreferrer      search.example.com\nutm_campaign  =spring\n"),
        "{out}"
    );
    let listed: Value = serde_json::from_str(&inbox.run("list --json").1).unwrap();
    assert_eq!(listed["lead"]["ref"], "letter");
    let (_, out, _) = inbox.run("export --csv");
    assert!(out.ends_with(",/pricing/,search.example.com,,,'=spring,,,letter\r\n"), "{out}");
    let (_, out, _) = inbox.run("stats");
    let counts = "\nWhere do leads come from?\npages      1 /pricing/\nreferrers  1 search.example.com\ncampaigns  1 =spring\n";
    assert!(out.ends_with(counts), "{out}");
    let stats: Value = serde_json::from_str(&inbox.run("stats --json").1).unwrap();
    assert_eq!(stats["leads"]["campaigns"].to_string(), r#"[{"name":"=spring","count":1}]"#);
}

#[test]
fn times_are_in_the_operators_time_zone() {
    let zoned: Zoned = "2026-11-20T17:03:05+01:00[Europe/Berlin]".parse().unwrap();
    let at = |text: &str| TimeArgument::parse(text).unwrap().at(&zoned).to_string();
    assert_eq!(at("2026-11-20"), "2026-11-19T23:00:00Z");
    assert_eq!(at("1h"), "2026-11-20T15:03:05Z");
    let time = "2026-11-20T14:03:05.12Z".parse().unwrap();
    assert_eq!(time::format_time(time, zoned.time_zone()), "2026-11-20T15:03:05.120+01:00");
    assert_eq!(time::format_local(time, zoned.time_zone()), "2026-11-20 15:03:05");
    assert_eq!(time::format_time(time, &TimeZone::UTC), "2026-11-20T14:03:05.120Z");
}

#[test]
fn an_argument_that_is_no_id_is_the_sites_folder() {
    let check = |arguments: &str, expected: Result<Option<&str>, &str>| {
        let mut typed = Typed::parse_from(format!("inbox {arguments}").split(' '));
        let found = typed.command.take_site_folder();
        match expected {
            Ok(folder) => assert_eq!(found, Ok(folder.map(PathBuf::from)), "{arguments}"),
            Err(part) => assert!(found.as_ref().is_err_and(|e| e.contains(part)), "{arguments}: {found:?}"),
        }
    };
    check("list", Ok(None));
    check("list desk --json", Ok(Some("desk")));
    check("export desk", Ok(Some("desk")));
    check("show 01a1 ./cafe", Ok(Some("./cafe")));
    check("release 01a1c5e2-86af 01b2", Ok(None));
    check("release 01a1 sites/desk 01b2", Ok(Some("sites/desk")));
    check("release --all desk", Ok(Some("desk")));
    check("retry --parked desk", Ok(Some("desk")));
    check("retry 01a1 --parked", Ok(None));
    check("deliver --kept", Ok(None));
    check("hold desk", Err("give the id"));
    check("release desk", Err("`--all`"));
    check("release 01a1 --all", Err("not both"));
    check("discard 01a1 --held", Err("not both"));
    check("deliver 01a1 desk other", Err("`other`"));
}

#[test]
fn only_its_owner_can_read_an_exported_file() {
    let inbox = Inbox::with(&[(&WAITLIST, r#"{"email":"ada@example.com"}"#)]);
    let file = inbox.folder.path().join("out.csv");
    let (code, out, err) = inbox.run(&format!("export --csv -o {}", file.display()));
    assert_eq!((code, out.as_str()), (ExitCode::SUCCESS, ""));
    assert_eq!(err, format!("1 submission written to {}.\n", file.display()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&file).unwrap(), inbox.run("export --csv").1);
    assert_eq!(inbox.run("export --csv -o -"), inbox.run("export --csv"));
    // `--force` replaces an existing file, and makes it readable by its owner alone.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&file, "mine").unwrap();
    let refused = inbox.try_run(&format!("export --output {}", file.display()), &mut Vec::new()).unwrap_err();
    assert_eq!(refused.to_string(), format!("{} already exists", file.display()));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    inbox.run(&format!("export --output {} --force", file.display()));
    assert_eq!(fs::read_to_string(&file).unwrap(), inbox.run("export").1);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let nowhere = inbox.try_run("export --jsonl --output /nonexistent/out", &mut Vec::new()).unwrap_err();
    assert_eq!(nowhere.to_string(), "cannot write /nonexistent/out");
}

#[test]
fn a_missing_inbox_is_empty_and_no_error() {
    let inbox = Inbox::empty();
    for arguments in ["list", "list --json", "export --jsonl"] {
        let (code, out, err) = inbox.run(arguments);
        assert_eq!((code, out.as_str()), (ExitCode::SUCCESS, ""), "{arguments}");
        assert!(err.starts_with("Nothing has been received yet"), "{err}");
    }
    assert_eq!(inbox.run("export --csv").1.lines().count(), 1);
    assert_eq!(inbox.run("show 01").0, ExitCode::FAILURE);
    assert!(!inbox.database.exists());

    let inbox = Inbox::with(&[]);
    assert_eq!(inbox.run("list"), (ExitCode::SUCCESS, String::new(), "No submissions to list.\n".to_owned()));
    assert_eq!(inbox.run("list --json"), (ExitCode::SUCCESS, String::new(), String::new()));
}

#[test]
fn a_closed_standard_output_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let inbox = Inbox::with(&[(&WAITLIST, r#"{"email":"ada@example.com"}"#)]);
    for arguments in ["list", "list --json", "export --csv", "export --jsonl", "show 0"] {
        assert!(is_broken_pipe(&inbox.try_run(arguments, &mut Closed).unwrap_err()), "{arguments}");
    }
}

#[test]
fn contradictory_options_are_refused() {
    for arguments in
        ["list --form No_such", "list --limit -1", "export --csv --jsonl", "export --force", "show"]
    {
        assert!(Typed::try_parse_from(format!("inbox {arguments}").split(' ')).is_err(), "{arguments}");
    }
}

/// Stores these submissions one after another.
fn accept(store: &TestInbox, runtime: &Runtime, bodies: &[(&'static Form, &str)]) {
    for (form, body) in bodies {
        accept_at(store, runtime, form, body, "2026-11-20T14:03:05.12Z");
    }
}

fn accept_at(
    store: &TestInbox,
    runtime: &Runtime,
    form: &'static Form,
    body: &str,
    received_at: &str,
) -> Uuid {
    let arrival = Arrival {
        entry: parse(form, body.as_bytes()).unwrap(),
        idempotency_key: None,
        source: Source::V4([192, 0, 2, 1]),
        received_at: received_at.parse().unwrap(),
        evidence: Evidence::Verdict(ScreeningVerdict::default()),
        agent: None,
        lead: frontdesk_forms::LeadSource::default(),
    };
    runtime.block_on(store.accept_and_process(arrival)).unwrap().id()
}

#[derive(Debug, clap::Parser)]
struct Typed {
    #[command(subcommand)]
    command: InboxCommand,
}

struct Inbox {
    /// The configured channels.
    channels: Vec<Route>,
    /// The configured users.
    users: Vec<User>,
    database: PathBuf,
    url: DatabaseUrl,
    folder: TempDir,
}

impl Inbox {
    fn with(bodies: &[(&'static Form, &str)]) -> Inbox {
        let inbox = Inbox::empty();
        inbox.work(|_| {}, |store, runtime| accept(store, runtime, bodies));
        inbox
    }

    /// An inbox whose database does not exist yet.
    fn empty() -> Inbox {
        let folder = TempDir::new().unwrap();
        let database = folder.path().join("inbox.db");
        Inbox { channels: Vec::new(), users: Vec::new(), url: DatabaseUrl::from(&database), database, folder }
    }

    /// Opens the inbox as a server would.
    fn work<T>(&self, set: impl FnOnce(&mut Options), work: impl FnOnce(&TestInbox, &Runtime) -> T) -> T {
        let mut options = Options::new(self.database.clone());
        set(&mut options);
        let store = TestInbox::open(&options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let done = work(&store, &runtime);
        store.close();
        done
    }

    fn run(&self, arguments: &str) -> (ExitCode, String, String) {
        self.run_as(arguments, false, None)
    }

    /// Runs a command. `None` as the answer means that standard input is not a terminal, and empty.
    fn run_as(&self, arguments: &str, is_terminal: bool, answer: Option<&str>) -> (ExitCode, String, String) {
        self.run_with(arguments, is_terminal, (answer.unwrap_or_default(), answer.is_some()))
    }

    /// Runs a command with a standard input that has this text, and may be a terminal.
    fn run_with(
        &self,
        arguments: &str,
        is_terminal: bool,
        (text, can_ask): (&str, bool),
    ) -> (ExitCode, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let input = (&mut text.as_bytes() as &mut dyn BufRead, can_ask);
        let code = self.execute(arguments, is_terminal, input, &mut out, &mut err).unwrap();
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    fn try_run(&self, arguments: &str, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        self.execute(arguments, false, (&mut std::io::empty(), false), out, &mut Vec::new())
    }

    fn execute<'a>(
        &'a self,
        arguments: &str,
        is_terminal: bool,
        (input, can_ask): (&'a mut (dyn BufRead + 'a), bool),
        out: &'a mut dyn Write,
        err: &'a mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let typed = Typed::parse_from(format!("inbox {arguments}").split(' '));
        let mut console = Console {
            url: &self.url,
            user: "ada".to_owned(),
            inbox: None,
            now: "2026-11-20T16:03:05.12[UTC]".parse().unwrap(),
            min_free: frontdesk_process::disk_space::MinFree::Off,
            channels: &self.channels,
            lexicon: frontdesk_screening::Lexicon::built_in(),
            users: &self.users,
            width: 200,
            is_terminal,
            has_colors: false,
            has_unicode: true,
            input: StandardInput { reader: input, is_terminal: can_ask },
            out,
            err,
        };
        execute(&typed.command, &mut console)
    }
}
