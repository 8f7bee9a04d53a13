//! Commands of the inbox while the file of a form, or what names a form, has a fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{TestServer, frontdesk, store_of};

const QUOTE: &str = "title = \"Quote\"\n\n[[field]]\nname = \"email\"\ntype = \"email\"\nlabel = \"E-mail\"\nrequired = true\n\n\
    [[field]]\nname = \"plan\"\ntype = \"choice\"\nlabel = \"Plan\"\noptions = [\"Team\", \"Solo\"]\n";

const CONFIGURATION: &str = "[operator]\nname = \"Harbour Tools\"\nemail = \"team@example.com\"\n[site]\ndescription = \"Cranes.\"\n\
    [[channel]]\nname = \"box\"\nkind = \"maildir\"\npath = \"../box\"\nforms = [\"quote\"]\nwhen = { plan = \"Team\" }\n";

/// The warning that each command prints about [`break_form`].
const WARNING: &str = "warning: forms/quote.toml:11: there is no type `choise`\n";

/// A site with a form, a channel that gets some of its submissions, and pages that show the form.
fn site() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("site");
    for (name, text) in [
        ("frontdesk.toml", CONFIGURATION),
        ("forms/quote.toml", QUOTE),
        ("pages/index.md", "---\ntitle: Home\ndescription: The home page.\n---\n\nWelcome.\n"),
        ("pages/quote.md", "---\ntitle: Quote\ndescription: Ask for a quote.\nform: quote\n---\n\nAsk us.\n"),
        (
            "theme/page.html",
            "{% if page.form %}{{ form(page.form) }}{% endif %}{{ form('quote', plan='Team') }}",
        ),
    ] {
        write(&root, name, text);
    }
    (folder, root)
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("the folder");
    fs::write(path, text).expect("the file");
}

fn break_form(root: &Path) {
    write(root, "forms/quote.toml", &QUOTE.replace("\"choice\"", "\"choise\""));
}

struct Commands {
    root: PathBuf,
    data: PathBuf,
}

impl Commands {
    /// Runs a command with the site and the server's data. Returns its exit code and both outputs.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = frontdesk();
        command.args(arguments).arg("--site").arg(&self.root).arg("--data-dir").arg(&self.data);
        let output = command.envs(store_of(&self.data)).output().expect("it runs");
        let Output { status, stdout, stderr } = output;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
        (status.code(), text(stdout), text(stderr))
    }

    fn succeeds(&self, arguments: &[&str], warning: &str) -> String {
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(warning), "{arguments:?}: {stderr}");
        assert_eq!(stderr.matches("warning: ").count(), 1, "{arguments:?}: {stderr}");
        stdout
    }

    /// Checks that a command fails because of a fault that could route a submission wrongly.
    fn refuses_to_route(&self, arguments: &[&str], fault: &str) {
        let expected = format!(
            "error: nothing was queued: with this configuration, a submission could miss a channel or reach a wrong one\n  \
             because: {fault}"
        );
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(stderr.starts_with(&expected), "{arguments:?}: {stderr}");
    }
}

/// A server with one submission of the form that no channel gets, and its id.
fn start(root: &Path) -> (TestServer, Commands, String) {
    let server = TestServer::with(root, &[]);
    let quote = json!({ "email": "ada@example.com", "plan": "Solo" });
    assert_eq!(server.post("/api/quote", &quote).status, 200);
    server.catch_up();
    let id = server.inbox()[0]["id"].as_str().expect("an id").to_owned();
    let commands = Commands { root: root.to_owned(), data: server.data_dir() };
    (server, commands, id)
}

#[test]
fn commands_of_the_inbox_go_on_with_a_faulty_form_file() {
    let (folder, root) = site();
    let (server, commands, id) = start(&root);
    break_form(&root);
    let listed = commands.succeeds(&["inbox", "list", "--json"], WARNING);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!((&listed["form"], &listed["plan"]), (&"quote".into(), &"Solo".into()));
    assert!(commands.succeeds(&["inbox", "show", &id], WARNING).contains("Solo"));
    assert!(commands.succeeds(&["inbox", "export"], WARNING).contains(",Solo"));
    commands.succeeds(&["inbox", "done", &id], WARNING);
    commands.succeeds(&["inbox", "hold", &id], WARNING);
    commands.succeeds(&["inbox", "stats"], WARNING);
    commands.succeeds(&["store", "migrate"], WARNING);
    if store_of(&commands.data).is_none() {
        let copy = folder.path().join("copy.db");
        commands.succeeds(&["backup", &copy.display().to_string()], WARNING);
    }
    let (code, settings, stderr) = commands.run(&["config"]);
    assert!(code == Some(1) && stderr.starts_with(&WARNING.replace("warning", "error")), "{stderr}");
    assert!(settings.contains("channel.box.forms = [\"quote\"]"), "{settings}");

    let fault = "forms/quote.toml:11: there is no type `choise`\nhint: did you mean `choice`?\n";
    commands.refuses_to_route(&["inbox", "release", &id], fault);
    commands.refuses_to_route(&["inbox", "deliver", "--kept"], fault);
    assert_eq!(server.inbox()[0]["status"], "held");
    server.expect(1);
}

#[test]
fn check_and_doctor_report_the_fault_and_nothing_that_follows_from_it() {
    let (_folder, root) = site();
    let (server, commands, _) = start(&root);
    break_form(&root);
    let (code, _, stderr) = commands.run(&["check"]);
    assert_eq!(code, Some(1), "{stderr}");
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors, ["error: forms/quote.toml:11: there is no type `choise`"], "{stderr}");
    let (code, stdout, _) = commands.run(&["doctor"]);
    assert_eq!(code, Some(1), "{stdout}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], "fix   forms/quote.toml:11: there is no type `choise` (did you mean `choice`?)");
    assert!(lines[1].starts_with("ok    channel box: "), "{stdout}");
    assert_eq!(lines[2], "note  forms and channels: not shown, because of the faults above");
    assert!(lines[3].starts_with("note  inbox: 1 submission was never delivered to anyone: "), "{stdout}");
    assert_eq!(lines.last(), Some(&"the channel delivered a test message; 1 other problem to fix"));
    let refused = frontdesk().arg("serve").arg(&root).output().expect("it ends");
    assert_eq!(refused.status.code(), Some(1));
    server.expect(1);
}

#[test]
fn a_channel_may_name_a_form_that_was_removed() {
    let (_folder, root) = site();
    let (server, commands, id) = start(&root);
    fs::remove_file(root.join("forms/quote.toml")).expect("it is there");
    // Without the condition, whose field was removed with the form.
    write(&root, "frontdesk.toml", &CONFIGURATION.replace("when = { plan = \"Team\" }\n", ""));
    let fault = "frontdesk.toml:10: `channel.box.forms` must be a list of existing forms; there is no form `quote`: \
                 the forms are \"waitlist\", \"contact\"\n";
    let shown = commands.succeeds(&["inbox", "show", &id], &format!("warning: {fault}"));
    assert!(shown.contains("Solo"), "{shown}");
    commands.succeeds(&["inbox", "hold", &id], &format!("warning: {fault}"));
    commands.refuses_to_route(&["inbox", "release", "--all"], fault);
    server.expect(1);
}

#[test]
fn a_fault_that_may_concern_the_inbox_stops_its_commands() {
    let (_folder, root) = site();
    for (added, expected) in [
        ("[store]\nurl = \"mysql://db\"\n", "error: frontdesk.toml:13: `store.url` must be "),
        (
            "[stroe]\nurl = \"sqlite:other.db\"\n",
            "error: frontdesk.toml:12: unknown table `[stroe]`\nhint: did you mean `[store]`?",
        ),
        ("[database]\nurl = \"sqlite:other.db\"\n", "error: frontdesk.toml:12: unknown table `[database]`\n"),
        (
            "[server]\ndata_dir = \"other\"\n",
            "error: frontdesk.toml:13: unknown key `server.data_dir`\nhint: did you mean `store.data_dir`?",
        ),
        ("[store\n", "error: frontdesk.toml:12: "),
    ] {
        write(&root, "frontdesk.toml", &format!("{CONFIGURATION}{added}"));
        for arguments in [&["inbox", "list"][..], &["stats"], &["backup", "copy.db"]] {
            let output = frontdesk().args(arguments).arg("--site").arg(&root).output().expect("it runs");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
            assert!(stderr.starts_with(expected), "{arguments:?} {added}: {stderr}");
        }
    }
    // Other faults are warnings.
    write(&root, "frontdesk.toml", &format!("{CONFIGURATION}[log]\nlevel = \"loud\"\n[serve]\nlisten = 1\n"));
    let output = frontdesk().args(["inbox", "list", "--site"]).arg(&root).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.starts_with("warning: frontdesk.toml:13: `log.level` must be "), "{stderr}");
    assert!(stderr.contains("warning: frontdesk.toml:14: unknown table `[serve]`\n"), "{stderr}");
}
