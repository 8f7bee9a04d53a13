//! Neither the operator's files nor files that look private are published.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::process::Signal;
use serde_json::json;

use crate::support::tls::Authority;
use crate::support::{PATIENCE, TestServer, frontdesk};

/// A site in a temporary folder, with its data beside it.
struct Desk {
    place: tempfile::TempDir,
    /// The folder with `frontdesk.toml`.
    site: PathBuf,
    /// The folder whose files are served at `/`.
    served: PathBuf,
}

const HTML: &str = "<!doctype html><html lang=en><title>Home</title><main><h1>Home</h1><p>Welcome.</main>";
const MARKDOWN: &str =
    "---\ntitle: Home\ndescription: What we make, told in a sentence or two.\n---\n\nWelcome.\n";
const OPERATOR: &str = "[operator]\nname = \"Acme\"\nemail = \"hello@example.com\"\n";

impl Desk {
    /// A site with Markdown pages.
    fn native() -> Self {
        let place = place();
        let site = place.path().join("site");
        let desk = Self { served: site.join("static"), site, place };
        write(&desk.site.join("pages/index.md"), MARKDOWN);
        fs::create_dir(&desk.served).expect("a folder");
        desk.configure("");
        desk
    }

    /// A build with the configuration in its root.
    fn build() -> Self {
        let place = place();
        let site = place.path().join("dist");
        let desk = Self { served: site.clone(), site, place };
        write(&desk.served.join("index.html"), HTML);
        desk.configure("");
        desk
    }

    /// A build with the configuration in a folder inside it.
    fn inside_build() -> Self {
        let place = place();
        let served = place.path().join("dist");
        let desk = Self { site: served.join("desk"), served, place };
        write(&desk.served.join("index.html"), HTML);
        desk.configure("");
        desk
    }

    fn all() -> [Self; 3] {
        [Self::native(), Self::build(), Self::inside_build()]
    }

    /// Writes the configuration. `site` has keys of `[site]` and further tables.
    fn configure(&self, site: &str) {
        let is_beside = self.site != self.served && self.site.starts_with(&self.served);
        let build = if is_beside { "prebuilt = \"..\"\n" } else { "" };
        write(
            &self.site.join("frontdesk.toml"),
            format!("{OPERATOR}[site]\ndescription = \"What Acme makes.\"\n{build}{site}"),
        );
    }

    fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    fn start(&self) -> TestServer {
        TestServer::at(&self.site, &self.data(), &[("FRONTDESK_LIMITS__ENABLED", "false")])
    }

    fn plant(&self, name: &str, content: impl AsRef<[u8]>) {
        write(&self.served.join(name), content);
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.served.join(name), Permissions::from_mode(mode)).expect("ours");
    }

    /// Runs a command about this site. Returns its exit code and standard error.
    fn run(&self, command: &[&str]) -> (Option<i32>, String) {
        self.run_in(Path::new("/"), command)
    }

    fn run_in(&self, folder: &Path, command: &[&str]) -> (Option<i32>, String) {
        let mut process = frontdesk();
        process.args(command).current_dir(folder).env("FRONTDESK_STORE__DATA_DIR", self.data());
        let Output { status, stderr, .. } = process.output().expect("it runs");
        (status.code(), String::from_utf8(stderr).expect("it is text"))
    }

    /// The notes and faults of `frontdesk check`.
    fn check(&self) -> (Option<i32>, String) {
        self.run(&["check", self.site.to_str().expect("a name")])
    }
}

/// A temporary folder. Sets the umask, on which the modes of new files and folders depend.
fn place() -> tempfile::TempDir {
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    tempfile::tempdir().expect("a folder")
}

fn write(file: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(file.parent().expect("a folder")).expect("the folder exists");
    fs::write(file, content).expect("it is written");
    fs::set_permissions(file, Permissions::from_mode(0o644)).expect("ours");
}

fn reload(server: &TestServer) {
    let count = |server: &TestServer| server.log().matches("configuration reloaded").count();
    let (before, began) = (count(server), Instant::now());
    server.signal(Signal::HUP);
    while count(server) == before {
        assert!(began.elapsed() < PATIENCE, "the reload: {}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn url(name: &str) -> String {
    format!("/{}", name.replace('#', "%23"))
}

fn assert_published(server: &TestServer, names: &[&str]) {
    for name in names {
        assert_eq!(server.get(&url(name), &[]).status, 200, "{name}");
    }
}

fn assert_not_published(server: &TestServer, names: &[&str]) {
    for name in names {
        for headers in [&[][..], &[("Accept", "text/markdown, */*;q=0.1")]] {
            let answer = server.get(&url(name), headers);
            assert_eq!(answer.status, 404, "{name}: {}", answer.text());
        }
    }
}

/// Files that may not be published unless `site.publish` lists them.
const PRIVATE: [(&str, &str); 36] = [
    (".env", "PASSWORD=x"),
    (".htpasswd", "x:y"),
    (".git/config", "[core]"),
    ("sub/.DS_Store", "x"),
    ("index.html~", HTML),
    ("index.html.bak", HTML),
    ("#index.html#", HTML),
    ("sub/.#index.html", HTML),
    ("index.html.swp", HTML),
    ("a.swo", "x"),
    ("a.orig", "x"),
    ("a.old", "x"),
    ("a.rej", "x"),
    ("a.tmp", "x"),
    ("Thumbs.db", "x"),
    ("b.sqlite", "x"),
    ("b.sqlite-wal", "x"),
    ("b.sqlite.gz", "x"),
    ("sub/FRONTDESK.TOML", "x"),
    ("sub/netlify.toml", "x"),
    ("frontdesk.toml.bak", "x"),
    ("prod.env", "PASSWORD=x"),
    ("wp-config.php", "<?php"),
    ("a.p12", "x"),
    ("a.pfx", "x"),
    ("tls.key", "\u{1}"),
    ("key.txt", "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"),
    ("bom.txt", "\u{feff}\n  -----BEGIN RSA PRIVATE KEY-----\nMIIE\n"),
    ("id_ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n"),
    (
        "all.pem",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\nMHc\n",
    ),
    ("pgp.asc", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ\n"),
    ("age.txt", "# created: 2026-01-15\nAGE-SECRET-KEY-1QQ\n"),
    ("data.bin", "SQLite format 3\0"),
    ("node_modules/a/index.js", "x"),
    ("dump.sql", "--\n-- PostgreSQL database dump\n--\n"),
    ("leads.csv", "id,form,received_at,status,email\r\n"),
];

/// Files that are published although they resemble private ones.
const PUBLIC: [(&str, &str); 9] = [
    (".well-known/security.txt", "Contact: mailto:a@example.com"),
    ("sub/.well-known/x", "x"),
    ("table.csv", "id,name\r\n1,Ada\r\n"),
    ("cert.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"),
    ("pgp-public.asc", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n"),
    ("app.js", "const begin = \"-----BEGIN PRIVATE KEY-----\";\n"),
    ("sqlite.css", "p {}"),
    ("talk.key", "PK\u{3}\u{4}"),
    ("package.json", "{}"),
];

#[test]
fn no_private_file_is_served_at_start_or_after_a_reload() {
    for desk in Desk::all() {
        // An HTML page may show a key.
        desk.plant("guide/x.html", "<pre>\n-----BEGIN PRIVATE KEY-----\nMIIE\n</pre>");
        for (name, content) in PUBLIC {
            desk.plant(name, content);
        }
        let server = desk.start();
        let public = PUBLIC.map(|(name, _)| name);
        assert_published(&server, &public);
        assert!(server.get("/guide/x.html", &[]).text().contains("PRIVATE KEY"));
        for (name, content) in PRIVATE {
            desk.plant(name, content);
        }
        let private = PRIVATE.map(|(name, _)| name);
        let header = [&b"SQLite format 3\0"[..], &[0; 52], b"FDSK"].concat();
        desk.plant("copy.sqlite", header);
        reload(&server);
        assert_not_published(&server, &private);
        assert_published(&server, &public);
        drop(server);
        let server = desk.start();
        assert_not_published(&server, &private);
        assert_published(&server, &public);
        server.assert_logged("files or folders are not published: `frontdesk check ");
        let (code, said) = desk.check();
        assert_eq!(code, Some(0), "{said}");
        let prefix = if desk.served.ends_with("static") { "static/" } else { "" };
        for (name, reason) in [
            ("index.html.bak", "its name is that of a backup"),
            ("sub/FRONTDESK.TOML", "its name is that of a configuration"),
            ("key.txt", "it contains a private key"),
            ("data.bin", "it is a SQLite database"),
            ("copy.sqlite", "it is an inbox or a backup of one"),
            ("leads.csv", "it is an export of submissions"),
            ("node_modules/", "it contains installed packages"),
        ] {
            let expected = format!("note: {prefix}{name} is not published: {reason}");
            assert!(said.contains(&expected), "{expected} is not in {said}");
        }
        assert!(
            said.contains("`publish = [\"")
                && said.contains("hidden files or folders are not published, such as "),
            "{said}"
        );
        assert!(
            said.contains("5 hidden files") && !said.contains(".git/config"),
            "a folder counts once: {said}"
        );
    }
}

#[test]
fn the_operators_files_are_never_served_under_any_name() {
    for desk in Desk::all() {
        let server = desk.start();
        assert_eq!(server.post("/api/waitlist", &json!({ "email": "ada@example.com" })).status, 200);
        server.catch_up();
        server.expect(1);
        let outside = desk.place.path().join("outside");
        fs::create_dir(&outside).expect("a folder");
        let site = desk.site.to_str().expect("a name");
        for (command, output) in [
            (&["backup"][..], "backup"),
            (&["inbox", "export", "--output"], "table"),
            (&["inbox", "export", "--all", "--output"], "all"),
            (&["inbox", "export", "--jsonl", "--output"], "lines"),
        ] {
            let output = outside.join(output);
            let arguments = [command, &[output.to_str().expect("a name"), "--site", site]].concat();
            let (code, said) = desk.run(&arguments);
            assert_eq!(code, Some(0), "{said}");
        }
        let exports = ["backup", "table", "all", "lines"];
        for name in exports {
            desk.plant(&format!("{name}.bin"), fs::read(outside.join(name)).expect("it is there"));
        }
        // Files that the configuration names, in the served folder and outside of it.
        desk.plant("domains", "bad.example.com\n");
        desk.plant("mails/thanks.txt", "x");
        write(&outside.join("disposable"), "worse.example.com\n");
        let domains = desk.served.join("domains");
        desk.configure(&format!(
            "publish = [\"**\", \".git/**\", \"domains\", \"backup.bin\", \"frontdesk.toml\", \"linked\"]\n[screening]\n\
             blocked_domains = {domains:?}\ndisposable_domains = {:?}\n",
            outside.join("disposable")
        ));
        for (from, to) in [
            (desk.site.join("frontdesk.toml"), "linked"),
            (outside.join("disposable"), "linked-domains"),
            (desk.data().join("inbox.sqlite"), "linked-inbox"),
            (desk.data().join("inbox.sqlite-wal"), "linked-log"),
        ] {
            fs::hard_link(from, desk.served.join(to)).expect("a link");
        }
        symlink("domains", desk.served.join("symbolic")).expect("a link");
        reload(&server);
        let configuration = desk.site.join("frontdesk.toml");
        let configuration = configuration.strip_prefix(&desk.served).unwrap_or(Path::new("frontdesk.toml"));
        let names = [
            "domains",
            "symbolic",
            "linked",
            "linked-domains",
            "linked-inbox",
            "linked-log",
            "backup.bin",
            "table.bin",
            "all.bin",
            "lines.bin",
            configuration.to_str().expect("a name"),
        ];
        assert_not_published(&server, &names);
        assert_published(&server, &["mails/thanks.txt"]);
        let (code, said) = desk.check();
        assert_eq!(code, Some(1), "{said}");
        for expected in [
            "domains is not published: `screening.blocked_domains` names it",
            "linked is not published: it is the configuration of this site",
            "linked-domains is not published: `screening.disposable_domains` names it",
            "linked-inbox is not published: it belongs to the inbox",
            "backup.bin is not published: it is an inbox or a backup of one",
            "lines.bin is not published: it is an export of submissions",
            "`site.publish`: no file that can be published matches `.git/**`",
            "cannot be published: it is an inbox or a backup of one",
            "cannot be published: `screening.blocked_domains` names it",
        ] {
            assert!(said.contains(expected), "{expected} is not in {said}");
        }
    }
}

#[test]
fn listed_files_are_published_although_they_look_private() {
    for desk in Desk::all() {
        for (name, content) in PRIVATE {
            desk.plant(name, content);
        }
        desk.plant("package.json", "{}");
        desk.plant("closed/a.txt", "x");
        desk.plant("closed/b.txt", "x");
        desk.set_mode("closed", 0o700);
        let server = desk.start();
        let listed = [
            "b.sqlite",
            "a.swo",
            "key.txt",
            "sub/.DS_Store",
            ".git/config",
            "node_modules/a/index.js",
            "data.bin",
            "closed/a.txt",
            "tls.key",
        ];
        assert_not_published(&server, &listed);
        desk.configure(
            "publish = [\"b.sqlite\", \"*.swo\", \"/key.txt\", \"**/.DS_Store\", \".git/\", \"node_modules/**\", \"*.bin\", \
             \"closed/a.txt\", \"tls.key\"]\n",
        );
        reload(&server);
        assert_published(&server, &listed);
        assert_not_published(&server, &["closed/b.txt", ".env", "b.sqlite-wal", "a.orig", "leads.csv"]);
        let (code, said) = desk.check();
        assert_eq!(code, Some(0), "{said}");
        // A file that is no longer listed is no longer published, although it is unchanged.
        desk.configure("publish = [\"a.swo\"]\n");
        reload(&server);
        assert_published(&server, &["a.swo"]);
        assert_not_published(&server, &["key.txt", "data.bin", "tls.key"]);
    }
}

#[test]
fn a_reload_stops_publishing_what_became_private() {
    let authority = Authority::new();
    let (chain, key) = authority.issue_for(vec!["127.0.0.1".to_owned()]);
    for desk in Desk::all() {
        for name in ["a.txt", "b.txt", "in/c.txt"] {
            desk.plant(name, "x");
        }
        desk.plant("chain", &chain);
        desk.plant("domains", "bad.example.com\n");
        let outside = desk.place.path().join("key.pem");
        write(&outside, &key);
        let server = desk.start();
        let names = ["a.txt", "b.txt", "in/c.txt", "chain", "domains"];
        assert_published(&server, &names);
        desk.set_mode("a.txt", 0o600);
        desk.set_mode("b.txt", 0o640);
        desk.set_mode("in", 0o750);
        // The server uses the certificate only after a restart.
        desk.configure(&format!(
            "[screening]\nblocked_domains = {:?}\n[tls]\ncertificate = {:?}\nkey = {outside:?}\n",
            desk.served.join("domains"),
            desk.served.join("chain"),
        ));
        reload(&server);
        assert_not_published(&server, &names);
        desk.configure("");
        for (name, mode) in [("a.txt", 0o644), ("b.txt", 0o604), ("in", 0o711)] {
            desk.set_mode(name, mode);
        }
        reload(&server);
        assert_published(&server, &names);
    }
}

#[test]
fn modes_are_compared_with_those_of_the_pages() {
    for desk in Desk::all() {
        let home = if desk.served.ends_with("static") { "../pages/index.md" } else { "index.html" };
        for (name, mode) in [("own.txt", 0o600), ("group.txt", 0o640), ("all.txt", 0o644)] {
            desk.plant(name, "x");
            desk.set_mode(name, mode);
        }
        let all = ["own.txt", "group.txt", "all.txt"];
        for (mode, published, note) in [
            (0o644, 1, None),
            (0o640, 2, Some("can be read only by the owner and the group, ")),
            (0o600, 0, Some("can be read only by the owner, ")),
        ] {
            desk.set_mode(home, mode);
            let server = desk.start();
            assert_eq!(server.get("/", &[]).status, 200);
            let (private, public) = all.split_at(if published == 0 { 0 } else { 3 - published });
            assert_published(&server, public);
            assert_not_published(&server, private);
            let (code, said) = desk.check();
            assert_eq!(code, Some(0), "{said}");
            for text in [said, server.log()] {
                assert_eq!(text.contains("most pages in "), note.is_some(), "{text}");
                assert!(note.is_none_or(|note| text.contains(note)), "{text}");
            }
        }
    }
}

#[test]
fn a_private_home_page_among_public_pages_is_an_error_that_says_why() {
    for desk in Desk::all() {
        let (home, other, content) = if desk.served.ends_with("static") {
            ("../pages/index.md", "../pages/other.md", MARKDOWN)
        } else {
            ("index.html", "other.html", HTML)
        };
        desk.plant(other, content);
        desk.set_mode(home, 0o600);
        let (code, said) = desk.check();
        let name = home.trim_start_matches("../");
        let reason = format!(
            "{name} is not published: fewer users of this machine may read it (mode 0600) than the pages"
        );
        assert!(code == Some(1) && said.contains("no home page") && said.contains(&reason), "{said}");
    }
}

#[test]
fn excluded_pages_and_images_appear_nowhere() {
    let desk = Desk::native();
    let page = |title: &str, text: &str| MARKDOWN.replace("Home", title).replace("Welcome.", text);
    let at = |name: &str| desk.site.join(name);
    write(&at("pages/secret.md"), page("Secret", "The word is quokka."));
    write(&at("posts/2026-01-15-plan.md"), page("Plan", "The word is quokka."));
    write(&at("assets/secret.svg"), "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"4\" height=\"4\"/>");
    write(&at("theme/note.css"), "/* quokka */");
    write(&at("static/sheet.txt"), "quokka");
    let links = "[a](secret.md) [b](/secret/) [c](/sheet.txt) ![d](/assets/secret.svg)";
    write(&at("pages/index.md"), page("Home", links));
    let files = [
        "pages/secret.md",
        "posts/2026-01-15-plan.md",
        "assets/secret.svg",
        "theme/note.css",
        "static/sheet.txt",
    ];
    for name in files {
        fs::set_permissions(at(name), Permissions::from_mode(0o600)).expect("ours");
    }
    desk.configure("search = true\n");
    let server = desk.start();
    let names = [
        "secret/",
        "secret.md",
        "secret",
        "blog/plan/",
        "assets/secret.svg",
        "assets/note.css",
        "sheet.txt",
        "blog/",
    ];
    assert_not_published(&server, &names);
    for path in ["/", "/index.md", "/llms.txt", "/llms-full.txt", "/sitemap.xml", "/sitemap.md", "/agents.md"]
    {
        let answer = server.get(path, &[]);
        let text = answer.text();
        assert!(
            !text.contains("quokka") && !text.contains("Secret") && !text.contains("Plan"),
            "{path}: {text}"
        );
    }
    let (code, said) = desk.check();
    assert_eq!(code, Some(1), "{said}");
    for (fault, name) in [
        ("the link to `secret.md` is broken", "pages/secret.md"),
        ("the link to `/secret/` is broken", "pages/secret.md"),
        ("the link to `/sheet.txt` is broken", "static/sheet.txt"),
        ("the image `/assets/secret.svg` does not exist", "assets/secret.svg"),
    ] {
        let expected =
            format!("{fault}\n    hint: {name} is not published: fewer users of this machine may read it");
        assert!(said.contains(&expected), "{expected} is not in {said}");
    }
    // An export has the same files.
    let output = desk.place.path().join("export");
    let (code, said) = {
        let mut command = frontdesk();
        command.args(["export", "--output"]).arg(&output).arg(&desk.site);
        command
            .env("FRONTDESK_BASE_URL", "https://www.example.com")
            .env("FRONTDESK_STORE__DATA_DIR", desk.data());
        let Output { status, stderr, .. } = command.output().expect("it runs");
        (status.code(), String::from_utf8(stderr).expect("it is text"))
    };
    assert_eq!(code, Some(0), "{said}");
    let manifest = fs::read_to_string(output.join("manifest.json")).expect("it is there");
    assert!(!manifest.contains("secret") && !manifest.contains("sheet.txt"), "{manifest}");
}

#[test]
fn no_command_writes_data_into_a_served_folder() {
    for desk in Desk::all() {
        let server = desk.start();
        assert_eq!(server.post("/api/waitlist", &json!({ "email": "ada@example.com" })).status, 200);
        server.catch_up();
        server.expect(1);
        let (site, folder) = (desk.site.to_str().expect("a name"), desk.served.clone());
        fs::create_dir(folder.join("deep")).expect("a folder");
        symlink(&folder, desk.place.path().join("link")).expect("a link");
        symlink(folder.join("new"), desk.place.path().join("broken")).expect("a link");
        let places = [
            (folder.clone(), "new"),
            (folder.clone(), "./deep/new"),
            (folder.join("deep"), "../new"),
            (desk.place.path().to_owned(), "link/new"),
            (desk.place.path().to_owned(), "broken"),
        ];
        for command in [
            &["backup", "--force"][..],
            &["inbox", "export", "--force", "--output"],
            &["inbox", "export", "--jsonl", "--force", "--output"],
        ] {
            for (from, name) in &places {
                let (code, said) = desk.run_in(from, &[command, &[*name, "--site", site]].concat());
                assert_eq!(code, Some(1), "{command:?} {name}: {said}");
                assert!(said.contains(", whose files are published\nhint: write "), "{said}");
            }
        }
        let (code, said) = desk.run_in(&folder, &["export", "--output", "new", site]);
        assert!(code == Some(1), "{said}");
        let to = format!("sqlite:{}", folder.join("new").display());
        let (code, said) = desk.run(&["store", "move", "--to", &to, "--site", site]);
        assert!(code == Some(1) && said.contains(", whose files are published"), "{said}");
        assert!(!folder.join("new").exists() && !folder.join("deep/new").exists());
    }
}

#[test]
fn init_puts_the_site_beside_a_build() {
    let place = tempfile::tempdir().expect("a folder");
    let build = place.path().join("dist");
    write(&build.join("index.html"), HTML);
    let run = |folder: &Path, arguments: &[&str]| {
        let output = frontdesk().arg("init").args(arguments).current_dir(folder).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("it is text"))
    };
    for name in ["desk", ".", "./a/b"] {
        let (code, said) = run(&build, &[name, "--prebuilt", "."]);
        assert_eq!(code, Some(1), "{name}: {said}");
        assert!(said.contains("is inside the build ."), "{said}");
    }
    let (_, said) = run(&build, &["desk", "--prebuilt", "."]);
    assert!(said.contains("`frontdesk init ../desk --prebuilt .`"), "{said}");
    assert_eq!(fs::read_dir(&build).expect("a folder").count(), 1, "nothing is written into the build");
    let (code, said) = run(&build, &["--prebuilt", "."]);
    assert_eq!(code, Some(0), "{said}");
    let text = fs::read_to_string(place.path().join("desk/frontdesk.toml")).expect("it is there");
    assert!(text.contains("prebuilt = \"../dist\""), "{text}");
    assert_eq!(run(&build, &[]).0, Some(2), "a site without a build needs a name");
}

#[test]
fn files_for_the_server_of_a_host_are_not_published() {
    for desk in Desk::all() {
        let is_build = !desk.served.ends_with("static");
        let never = [
            "_worker.js/index.js",
            "_worker.js/chunks/a_1b2c3d4e.mjs",
            "_worker.js.map",
            "_worker.bundle",
            "_routes.json",
            "_headers.br",
            "_redirects.gz",
        ];
        let configurations = ["netlify.toml", "vercel.json", "wrangler.toml", "wrangler.jsonc"];
        for name in never.iter().chain(&configurations) {
            desk.plant(name, "SECRET");
        }
        desk.plant("_headers", "/*\n  X-Robots-Tag: noarchive\n");
        desk.plant("_redirects", "/from /a.txt 301\n");
        desk.plant("functions/api/x.js", "export const onRequest = () => SECRET");
        desk.plant("guide/functions/x.js", "x");
        desk.plant("a.txt", "x");
        symlink("_worker.js/index.js", desk.served.join("link")).expect("a link");
        let server = desk.start();
        assert_not_published(&server, &never);
        assert_not_published(&server, &configurations);
        assert_not_published(&server, &["_headers", "_redirects", "link"]);
        assert_published(&server, &["a.txt", "guide/functions/x.js"]);
        let status = |path: &str| server.get(path, &[]).status;
        assert_eq!(status("/from"), if is_build { 301 } else { 404 });
        // Only builds have functions.
        assert_eq!(status("/functions/api/x.js"), if is_build { 404 } else { 200 });
        let (code, said) = desk.check();
        assert_eq!(code, Some(1), "{said}");
        let prefix = if is_build { "" } else { "static/" };
        for (name, message) in [
            ("_worker.js/", "is for Cloudflare Pages Functions; it is neither run nor published"),
            (
                "vercel.json",
                "is the configuration of a hosting provider; it is neither applied nor published",
            ),
        ] {
            let expected = format!("{prefix}{name}: {message}");
            assert!(said.contains(&expected), "{expected} is not in {said}");
        }
        let rules =
            "_headers: has no effect here: rules apply only at the root of a build; it is not published";
        assert_eq!(said.contains(rules), !is_build, "{said}");
        assert_eq!(said.contains("functions/: is for the server of a hosting provider"), is_build, "{said}");

        desk.configure("publish = [\"vercel.json\", \"functions/**\", \"_worker.js.map\", \"_headers\"]\n");
        reload(&server);
        assert_published(&server, &["vercel.json", "functions/api/x.js"]);
        assert_not_published(&server, &["_headers", "_worker.js.map"]);
        let (_, said) = desk.check();
        for name in ["_headers", "_worker.js.map"] {
            let expected = format!("{name}` cannot be published: it is for the server of a hosting provider");
            assert!(said.contains(&expected), "{expected} is not in {said}");
        }
    }
}

#[test]
fn rules_of_a_build_apply_under_any_mode() {
    let desk = Desk::build();
    desk.plant("_headers", "/*\n  X-Robots-Tag: noarchive\n");
    desk.plant("_redirects", "/from /a.txt 301\n");
    desk.plant("a.txt", "x");
    for mode in [0o600, 0o640, 0o644] {
        desk.set_mode("_headers", mode);
        desk.set_mode("_redirects", mode);
        let server = desk.start();
        assert_eq!(server.get("/from", &[]).status, 301, "{mode:o}");
        assert_eq!(server.get("/a.txt", &[]).header("x-robots-tag"), Some("noarchive"), "{mode:o}");
        assert_not_published(&server, &["_headers", "_redirects"]);
    }
    // Rules that cannot be read may protect pages.
    let headers = desk.served.join("_headers");
    fs::remove_file(&headers).expect("ours");
    write(&desk.place.path().join("outside"), "/*\n  X-Robots-Tag: noarchive\n");
    for (target, message) in [
        ("../outside", "_headers: the symbolic link points outside the build"),
        ("none", "_headers: the symbolic link is broken"),
    ] {
        symlink(target, &headers).expect("a link");
        let (code, said) = desk.check();
        assert!(code == Some(1) && said.contains(message), "{said}");
        assert!(said.contains("the build is not served without them"), "{said}");
        fs::remove_file(&headers).expect("ours");
    }
    desk.plant("rules", "/*\n  X-Robots-Tag: none\n");
    symlink("rules", &headers).expect("a link");
    let server = desk.start();
    assert_eq!(server.get("/a.txt", &[]).header("x-robots-tag"), Some("none"));
    // A page that the rules protect is not served without them.
    desk.plant("rules", "/a.txt\n  Basic-Auth: ada:secret\n");
    desk.set_mode("rules", 0o600);
    let (code, said) = desk.check();
    assert!(code == Some(1) && said.contains("`Basic-Auth` restricts access"), "{said}");
}

#[test]
fn a_folder_is_served_under_each_of_its_names() {
    for desk in Desk::all() {
        desk.plant("v1/index.html", HTML);
        desk.plant("v2/index.html", HTML);
        desk.plant("v2/style.css", "p {}");
        for (target, link) in [("v1", "old"), ("v2", "latest"), ("v2", "stable"), ("..", "v2/above")] {
            symlink(target, desk.served.join(link)).expect("a link");
        }
        let server = desk.start();
        let names =
            ["old/index.html", "v1/index.html", "v2/style.css", "latest/style.css", "stable/style.css"];
        for name in names {
            let status = server.get(&url(name), &[]).status;
            assert!([200, 308].contains(&status), "{name}: {status}");
        }
        assert_not_published(&server, &["v2/above/v1/index.html", "stable/above/v2/style.css"]);
        let (_, said) = desk.check();
        let expected =
            "v2/above/: the symbolic link points to a folder that contains it, and is not followed";
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn copies_of_private_files_and_old_data_are_not_published() {
    for desk in Desk::all() {
        let domains = desk.place.path().join("domains");
        write(&domains, "bad.example.com\n");
        let screening = format!("[screening]\nblocked_domains = {domains:?}\n");
        desk.configure(&screening);
        // The index of a log begins with its version, and repeats its header.
        let index = [&3_007_000_u32.to_le_bytes()[..], &[1; 44]].concat().repeat(2);
        let index = index.as_slice();
        let never = [
            ("log.bin", b"\x37\x7f\x06\x82\0\x2d\xe2\x18" as &[u8]),
            ("journal.bin", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7\0"),
            ("index.bin", index),
            ("domains.txt", b"bad.example.com\n"),
            ("data/acme/account-1.json", b"{}"),
            ("data/notes.txt", b"x"),
        ];
        for (name, content) in never {
            desk.plant(name, content);
        }
        let configuration = desk.site.join("frontdesk.toml");
        let copy = |to: &str| desk.plant(to, fs::read(&configuration).expect("it is there"));
        copy("copy.txt");
        desk.plant(
            "old.txt",
            "[operator]\nname = \"Acme\"\n[[channel]]\nkind = \"smtp\"\npassword = \"x\"\n",
        );
        for part in ["cur", "new", "tmp"] {
            desk.plant(&format!("mail/{part}/1.txt"), "x");
        }
        desk.plant("a\nnote: b.bak", "x");
        let server = desk.start();
        let names = never.map(|(name, _)| name);
        assert_not_published(&server, &names);
        assert_not_published(&server, &["copy.txt", "old.txt", "mail/new/1.txt"]);
        let (code, said) = desk.check();
        assert_eq!(code, Some(0), "{said}");
        for expected in [
            "copy.txt is not published: it is a configuration of frontdesk",
            "domains.txt is not published: it is a copy of a private file: `screening.blocked_domains` names it",
            "old.txt is not published: it is a configuration of frontdesk",
            "data/ is not published: it is a data folder of frontdesk",
            "mail/ is not published: it is a Maildir",
            "log.bin is not published: it is the log of a SQLite database",
            "a⏎note: b.bak is not published",
        ] {
            assert!(said.contains(expected), "{expected} is not in {said}");
        }
        desk.configure(&format!("publish = [\"**\"]\n{screening}"));
        copy("copy.txt");
        reload(&server);
        assert_not_published(&server, &names);
        assert_not_published(&server, &["copy.txt"]);
        assert_published(&server, &["old.txt", "mail/new/1.txt"]);
        symlink("none", desk.served.join("x\nnote: y")).expect("a link");
        let (code, said) = desk.check();
        assert!(code == Some(1) && said.contains("x⏎note: y: the symbolic link is broken"), "{said}");
        let copied =
            "copy.txt is not published: it is a copy of a private file: it is the configuration of this site";
        assert!(said.contains(copied), "{said}");
    }
}
