//! The command line: output streams, exit codes and error messages.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{TestServer, example_site, frontdesk};

fn run(arguments: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        frontdesk().args(arguments).current_dir(folder).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn init_writes_a_site_without_findings() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, stdout, stderr) = run(&["init", "desk"], folder.path());
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert!(stderr.contains("frontdesk serve desk"), "{stderr}");
    let (code, _, stderr) = run(&["check", "desk"], folder.path());
    assert_eq!(code, Some(0), "{stderr}");
    let note = "note: replace the texts of the starter site: frontdesk.toml:";
    assert!(stderr.contains(note) && stderr.contains("fine: "), "{stderr}");
    let server = TestServer::with(&folder.path().join("desk"), &[]);
    assert_eq!(server.get("/", &[]).status, 200);
    assert_eq!(server.get("/blog/hello/", &[]).status, 200);
    let (code, _, stderr) = run(&["init", "desk"], folder.path());
    assert_eq!(code, Some(1));
    assert!(stderr.contains("desk already holds a site\nhint: `frontdesk serve desk` serves it"), "{stderr}");
}

#[test]
fn check_reports_every_fault_with_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "."], folder.path());
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("it can be written");
    write("pages/a.md", "---\ntitle: A\n---\n\n[nowhere](/contcat/)\n\n[no anchor](/contact/#nope)\n");
    write("pages/b.md", "---\ntitle: B\ndescription: B.\nslug: contact\n---\n");
    write("pages/c.md", "no front matter\n");
    write("pages/d.md", "---\ntitle: D\ndescription: D.\nform: contcat\n---\n");
    let (code, stdout, stderr) = run(&["check", ".", "--json"], folder.path());
    assert_eq!(code, Some(1), "{stderr}");
    let faults: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let has = |place: &str, line: u64, words: &str| {
        let found = faults.iter().any(|fault| {
            fault["place"] == place
                && fault["line"] == line
                && fault["message"].as_str().is_some_and(|text| text.contains(words))
        });
        assert!(found, "{place}:{line} {words} is not in {faults:#?}");
    };
    has("pages/a.md", 1, "no `description`");
    has("pages/b.md", 4, "the path `/contact/` is taken by pages/contact.md");
    has("pages/c.md", 1, "no front matter");
    has("pages/d.md", 4, "there is no form `contcat`");
    has("pages/a.md", 5, "the link to `/contcat/` is broken");
    has("pages/a.md", 7, "there is no anchor `#nope` on `/contact/`");

    for name in ["pages/b.md", "pages/c.md", "pages/d.md"] {
        std::fs::remove_file(folder.path().join(name)).expect("it can be removed");
    }
    let (code, stdout, stderr) = run(&["check", "."], folder.path());
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    let expected =
        "warning: pages/a.md:5: the link to `/contcat/` is broken\n    hint: did you mean `/contact/`?";
    assert!(stderr.contains(expected), "{stderr}");
    assert!(stderr.ends_with("3 warnings\n"), "{stderr}");
}

#[test]
fn check_warns_of_a_configuration_whose_secrets_every_user_can_read() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "desk"], folder.path());
    let file = folder.path().join("desk/frontdesk.toml");
    let set_mode = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    // The file's mode does not matter if the file contains no secret.
    set_mode(0o644);
    assert_eq!(run(&["check", "desk"], folder.path()).0, Some(0));
    let mut text = std::fs::read_to_string(&file).expect("it can be read");
    text.push_str("\n[[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"mail.example.com\"\n");
    text.push_str("username = \"desk\"\npassword = \"very secret\"\n");
    std::fs::write(&file, text).expect("it can be written");
    let (code, stdout, stderr) = run(&["check", "desk"], folder.path());
    let expected = "warning: frontdesk.toml: holds the secret of `channel.mail.password`, and every user of this machine can read it (mode 0644)\n    \
                    hint: `chmod o-rwx desk/frontdesk.toml`; the server's user or group must own the file\n1 warning\n";
    assert_eq!((code, &*stdout, &*stderr), (Some(1), "", expected));
    set_mode(0o640);
    let (code, _, stderr) = run(&["check", "desk"], folder.path());
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn conflicting_paths_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "."], folder.path());
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be created");
        std::fs::write(file, text).expect("it can be written");
    };
    let page = |more: &str| format!("---\ntitle: T\ndescription: D.\n{more}\n---\n");
    write("pages/agents.md", &page(""));
    write("pages/one.md", &page("aliases: [/openapi.json, /old/, /contact.md]"));
    write("pages/two.md", &page("aliases: [/old/]"));
    write("static/waitlist.md", "x");
    write("static/robots.txt", "User-agent: *\n");
    write("posts/2026-01-01-a.md", &page("tags: [C, web dev]"));
    write("posts/2026-01-02-b.md", &page("tags: [C++, Web-dev, +++]"));
    let (code, stdout, stderr) = run(&["check", ".", "--json"], folder.path());
    assert_eq!(code, Some(1), "{stderr}");
    let said: Vec<String> = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|fault| {
            format!(
                "{}: {}",
                fault["place"].as_str().expect("text"),
                fault["message"].as_str().expect("text")
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            "pages/agents.md: the path `/agents.md` is taken by a built-in resource",
            "pages/one.md: the path `/contact.md` is taken by pages/contact.md",
            "pages/one.md: the path `/openapi.json` is taken by a built-in resource",
            "pages/two.md: the path `/old/` is taken by pages/one.md",
            "pages/waitlist.md: the path `/waitlist.md` is taken by static/waitlist.md",
            "posts/2026-01-02-b.md: the tag `Web-dev` has the same page as `web dev`",
        ]
    );
}

#[test]
fn a_symbolic_link_that_leaves_the_site_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert_eq!(run(&["init", "site"], folder.path()).0, Some(0));
    std::fs::write(folder.path().join("secret.txt"), "not for the public").expect("it can be written");
    for part in ["static", "assets"] {
        std::fs::create_dir_all(site.join(part)).expect("a folder");
    }
    for (link, destination) in [("static/file.txt", "../../secret.txt"), ("assets/folder", "../..")] {
        std::os::unix::fs::symlink(destination, site.join(link)).expect("a link");
        let (code, out, error) = run(&["check", "site"], folder.path());
        assert_eq!(code, Some(1), "{link}: {out} {error}");
        assert!((out + &error).contains("the symbolic link points outside"), "{link}");
        assert_eq!(
            run(&["serve", "site", "--listen", "127.0.0.1:0", "--ops-listen", "off"], folder.path()).0,
            Some(1)
        );
        std::fs::remove_file(site.join(link)).expect("it is there");
    }
    // A link that stays within the site is published with the content of its target.
    std::os::unix::fs::symlink("../pages/index.md", site.join("static/source.txt")).expect("a link");
    assert_eq!(run(&["check", "site"], folder.path()).0, Some(0));
}

#[test]
fn a_wrong_configuration_stops_the_start_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "."], folder.path());
    std::fs::write(folder.path().join("frontdesk.toml"), "[server]\nlisen = \"127.0.0.1:1\"\nworkers = -1\n")
        .expect("written");
    for command in ["serve", "check", "config"] {
        let (code, _, stderr) = run(&[command, "."], folder.path());
        assert_eq!(code, Some(1));
        assert!(
            stderr.contains(
                "frontdesk.toml:2: unknown key `server.lisen`\n    hint: did you mean `server.listen`?"
            ),
            "{stderr}"
        );
        assert!(
            stderr.contains("frontdesk.toml:3: `server.workers` must be a whole number from 0 to 1024"),
            "{stderr}"
        );
    }
}

#[test]
fn a_command_in_the_wrong_folder_is_one_error_that_names_the_site() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let outside = "error: elsewhere/frontdesk.toml: there is no such file";
    let new = "is elsewhere a site folder? `frontdesk init DIR` writes a small site to start from";
    for command in ["serve", "config"] {
        let (code, _, stderr) = run(&[command, "elsewhere"], path);
        assert_eq!((code, stderr), (Some(1), format!("{outside}\nhint: {new}\n")));
    }
    run(&["init", "desk"], path);
    let site = |name: &str| format!("there is a site in {name}: name that folder in the command");
    for (folder, argument, file, near) in [
        (path.to_owned(), ".", "frontdesk.toml", "desk"),
        (path.to_owned(), "desk/pages", "desk/pages/frontdesk.toml", "desk"),
        (path.join("desk"), "pages", "pages/frontdesk.toml", "."),
        (path.join("desk/pages"), ".", "frontdesk.toml", ".."),
    ] {
        let (code, _, stderr) = run(&["check", argument], &folder);
        let expected = format!("error: {file}: there is no such file\n    hint: {}\n1 error\n", site(near));
        assert_eq!((code, stderr), (Some(1), expected));
    }
}

#[test]
fn one_mistake_in_a_site_is_one_error() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "."], folder.path());
    let file = folder.path().join("frontdesk.toml");
    let configuration = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, configuration.replace("[operator]", "[operater]")).expect("written");
    let (_, _, stderr) = run(&["check"], folder.path());
    let expected = "unknown table `[operater]`\n    hint: did you mean `[operator]`?\n1 error\n";
    assert!(stderr.starts_with("error: frontdesk.toml:") && stderr.ends_with(expected), "{stderr}");
    assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
    std::fs::write(&file, configuration).expect("written");
    let page = "---\ntitle: Ours: the site\n---\n";
    std::fs::write(folder.path().join("pages/index.md"), page).expect("written");
    let (_, stdout, stderr) = run(&["check", "--json"], folder.path());
    assert!(stdout.contains("not valid YAML") && stdout.lines().count() == 1, "{stdout} {stderr}");
}

#[test]
fn the_inbox_is_never_put_where_it_would_be_published() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "desk"], folder.path());
    for data in ["desk/static/data", "desk/pages/../assets", "./desk/posts"] {
        let (code, _, stderr) =
            run(&["serve", "desk", "--listen", "127.0.0.1:0", "--data-dir", data], folder.path());
        assert_eq!(code, Some(1));
        assert!(stderr.contains("must not be inside a folder that is published"), "{stderr}");
    }
}

#[test]
fn a_port_in_use_is_reported() {
    let server = TestServer::start();
    let site = example_site();
    let site = site.to_str().expect("a name");
    let (code, _, stderr) = run(&["serve", site, "--listen", &server.address.to_string()], Path::new("."));
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains("--listen") && stderr.contains(&format!("cannot listen on {}", server.address)),
        "{stderr}"
    );
    let address = server.address.to_string();
    let (code, _, stderr) =
        run(&["serve", site, "--listen", &address, "--ops-listen", &address], Path::new("."));
    assert_eq!(code, Some(1));
    assert!(stderr.contains(&format!("cannot listen on {address} and {address}")), "{stderr}");
    assert!(stderr.contains("`--listen ADDR:PORT --ops-listen ADDR:PORT`"), "{stderr}");
}

#[test]
fn config_prints_every_key_and_init_writes_a_short_file() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "."], folder.path());
    let file = folder.path().join("frontdesk.toml");
    let short = std::fs::read_to_string(&file).expect("it is there");
    assert!(short.lines().count() <= 60, "{short}");
    let (code, complete, stderr) = run(&["config", "--all"], Path::new("/"));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(complete.contains("\n# max_connections = 10000\n") && !short.contains("max_connections"));
    // It is a configuration, with the values of a new site.
    std::fs::write(&file, complete).expect("it can be written");
    assert_eq!(run(&["check", "."], folder.path()).0, Some(0));
    assert_eq!(run(&["config", "--all", "--json"], folder.path()).0, Some(2));
}

#[test]
fn config_prints_effective_values_and_their_origins() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "."], folder.path());
    let output = frontdesk()
        .args(["config", "--json", "--listen", "127.0.0.1:4000"])
        .env("FRONTDESK_LIMITS__PER_MINUTE", "7")
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let settings: Vec<Value> = String::from_utf8(output.stdout)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let origin = |key: &str| {
        let setting = settings.iter().find(|setting| setting["key"] == key).expect("it is there");
        (
            setting["value"].as_str().expect("text").to_owned(),
            setting["origin"].as_str().expect("text").to_owned(),
        )
    };
    assert_eq!(origin("server.listen"), ("\"127.0.0.1:4000\"".into(), "flag --listen".into()));
    assert_eq!(
        origin("limits.per_minute"),
        ("\"7\"".into(), "environment FRONTDESK_LIMITS__PER_MINUTE".into())
    );
    assert_eq!(origin("server.workers"), ("0".into(), "default".into()));
    assert!(origin("operator.email").1.starts_with("frontdesk.toml:"));
}

#[test]
fn the_inbox_is_listed_shown_and_exported() {
    let server = TestServer::start();
    let message = "=1+1\nsecond line \u{202e}";
    assert_eq!(
        server
            .post("/api/contact", &json!({ "name": "Ada", "email": "ada@example.com", "message": message }))
            .status,
        200
    );
    let data = server.data_dir();
    let inbox = |arguments: &[&str]| {
        let output = frontdesk()
            .arg("inbox")
            .args(arguments)
            .arg("--site")
            .arg(example_site())
            .arg("--data-dir")
            .arg(&data)
            .output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let table = inbox(&["list"]);
    assert!(table.contains("ada@example.com") && !table.contains('\u{202e}'), "{table}");
    let id = server.inbox()[0]["id"].as_str().expect("an id").to_owned();
    let shown = inbox(&["show", &id]);
    assert!(shown.contains("Ada") && shown.contains("\\u{202e}"), "{shown}");
    let csv = inbox(&["export", "--csv"]);
    assert!(csv.contains("\"'=1+1\n"), "no formula for a spreadsheet: {csv}");
    let lines = inbox(&["export", "--jsonl"]);
    let exported: Value = serde_json::from_str(lines.trim()).expect("JSON");
    assert_eq!(exported["message"], message);
    assert_eq!(inbox(&["list", "--json", "--limit", "0"]), "");
    server.expect(1);
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in [&["completions"][..], &["no-such-command"], &["inbox", "list", "--limit", "many"], &[]]
    {
        let (code, stdout, stderr) = run(arguments, Path::new("."));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr.contains("Usage:") || stderr.contains("--help"), "{stderr}");
    }
}

#[test]
fn the_first_help_screen_has_what_operators_need() {
    let lists = |text: &str, name: &str| text.lines().any(|line| line.starts_with(&format!("  {name} ")));
    let (code, first, _) = run(&["help"], Path::new("."));
    assert_eq!((code, run(&["--help"], Path::new("."))), (Some(0), (Some(0), first.clone(), String::new())));
    let (code, all, _) = run(&["help", "--all"], Path::new("."));
    assert_eq!(code, Some(0));
    for name in ["serve", "check", "inbox", "backup", "doctor"] {
        assert!(lists(&first, name) && lists(&all, name), "{name}: {first}");
    }
    for name in ["convert", "completions", "man"] {
        assert!(!lists(&first, name) && lists(&all, name), "{name}: {first}{all}");
        assert_eq!(run(&["help", name], Path::new(".")), run(&[name, "--help"], Path::new(".")));
    }
    let (_, list, _) = run(&["help", "inbox", "ls"], Path::new("."));
    assert!(list.contains("Usage: frontdesk inbox list [OPTIONS] [SITE]"), "{list}");
    let (code, stdout, stderr) = run(&["help", "inbox", "lits"], Path::new("."));
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("unrecognized subcommand 'lits'") && stderr.contains("'list'"), "{stderr}");
}

#[test]
fn check_counts_submissions_in_the_data_folder_that_it_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = TestServer::with(&example_site(), &[]);
    let sent = server.post("/api/waitlist", &json!({ "email": "ada@example.com" }));
    assert_eq!(sent.status, 200);
    server.expect(1);
    let data = server.data_dir();
    run(&["init", "."], folder.path());
    let (code, _, stderr) = run(&["check", "."], folder.path());
    assert!(code == Some(0) && !stderr.contains("never delivered"), "{stderr}");
    let (code, _, stderr) = run(&["check", ".", "--data-dir", &data.display().to_string()], folder.path());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.starts_with("note: 1 submission was never delivered to anyone: "), "{stderr}");
}

#[test]
fn the_theme_is_listed_and_copied_to_be_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "."], folder.path());
    let (code, stdout, _) = run(&["theme", "."], folder.path());
    assert_eq!(code, Some(0));
    assert!(stdout.contains("style.css\n") && stdout.contains("partials/header.html\n"), "{stdout}");
    let (code, _, stderr) = run(&["theme", ".", "partials/footer.html"], folder.path());
    assert_eq!(code, Some(0), "{stderr}");
    let footer = folder.path().join("theme/partials/footer.html");
    std::fs::write(&footer, "<footer>Our own</footer>").expect("it is there");
    std::fs::write(folder.path().join("theme/custom.css"), "h1 { color: teal }").expect("it can be written");
    let (code, _, stderr) = run(&["theme", ".", "partials/footer.html"], folder.path());
    assert!(code == Some(1) && stderr.contains("already exists"), "{stderr}");
    let (_, _, stderr) = run(&["theme", ".", "stile.css"], folder.path());
    assert!(stderr.contains("did you mean `style.css`?"), "{stderr}");
    let server = TestServer::with(folder.path(), &[]);
    let home = server.get("/", &[]);
    assert!(home.text().contains("<footer>Our own</footer>"));
    assert!(home.text().contains("href=\"/assets/custom."), "the page links custom.css");
}

#[test]
fn init_writes_into_a_fresh_repository() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join(".git")).expect("a folder");
    std::fs::write(folder.path().join("README.md"), "# Ours").expect("a file");
    let (code, _, stderr) = run(&["init", "."], folder.path());
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(std::fs::read_to_string(folder.path().join("README.md")).expect("it is there"), "# Ours");
}

#[test]
fn an_unreadable_inbox_is_not_reported_as_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&["init", "."], folder.path());
    let (code, stdout, stderr) = run(&["inbox", "list"], folder.path());
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert!(stderr.contains("Nothing has been received yet"), "{stderr}");
    // Put a file in place of the folder: not even root can open an inbox there.
    std::fs::write(folder.path().join("data"), "no folder").expect("a file");
    let (code, _, stderr) = run(&["inbox", "list"], folder.path());
    assert!(code == Some(1) && stderr.contains("cannot use"), "{stderr}");
}

#[test]
fn completions_and_manual_pages_are_written() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, stdout, _) = run(&["completions", shell], Path::new("."));
        assert!(code == Some(0) && stdout.contains("frontdesk"), "{shell}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (code, _, stderr) = run(&["man", "man1"], folder.path());
    assert_eq!(code, Some(0), "{stderr}");
    for page in ["frontdesk.1", "frontdesk-serve.1", "frontdesk-inbox-list.1", "frontdesk-convert.1"] {
        assert!(folder.path().join("man1").join(page).exists(), "{page}");
    }
}
