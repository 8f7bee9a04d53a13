//! `frontdesk export`: the files, the manifest, and whether nginx serves the files as frontdesk does.

mod nginx;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::prebuilt::write_build;
use crate::support::{Answer, PATIENCE, TestServer, example_site, frontdesk};

/// Settings for both the export and the server: no limits, and the site's URL.
const ENVIRONMENT: [(&str, &str); 2] =
    [("FRONTDESK_BASE_URL", "https://www.example.com"), ("FRONTDESK_LIMITS__ENABLED", "false")];

/// An export of a site in a temporary folder.
struct Export {
    folder: tempfile::TempDir,
    manifest: Value,
}

impl Export {
    fn of(site: &Path) -> Self {
        Self::with(site, &[], &[])
    }

    fn with(site: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (code, said) = export(site, &folder.path().join("out"), arguments, environment);
        assert_eq!(code, Some(0), "{said}");
        let text = std::fs::read_to_string(folder.path().join("out/manifest.json")).expect("a manifest");
        Self { folder, manifest: serde_json::from_str(&text).expect("JSON") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// The manifest's percent-encoded paths, each with its entry.
    fn urls(&self) -> impl Iterator<Item = (&str, &Value)> {
        let urls = self.manifest["urls"].as_object().expect("an object");
        urls.iter().map(|(path, url)| (path.as_str(), url))
    }

    /// The content of the file that a manifest entry names. Its length must match the entry.
    fn body(&self, of: &Value) -> Vec<u8> {
        let body = std::fs::read(self.path().join(of["file"].as_str().expect("a name"))).expect("a file");
        assert_eq!(body.len() as u64, of["bytes"], "{of}");
        body
    }
}

fn export(
    site: &Path,
    output: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> (Option<i32>, String) {
    let mut command = frontdesk();
    command.args(["export", "--site"]).arg(site).arg("-o").arg(output).args(arguments);
    // The data folder of the example site may have encodings of a release build, which are stronger.
    let data = tempfile::tempdir().expect("a folder");
    command.env("FRONTDESK_STORE__DATA_DIR", data.path());
    let output = command.envs(ENVIRONMENT).envs(environment.iter().copied()).output().expect("it runs");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

/// Serves the exported site, and returns once the server has its strongest encodings.
fn serve(site: &Path, export: &Export) -> TestServer {
    let server = TestServer::with(site, &ENVIRONMENT);
    // The server compresses at the lowest priority, which takes minutes on a busy machine. Meanwhile, it may
    // already serve some of the strongest encodings.
    let began = Instant::now();
    for (path, url) in export.urls() {
        for representation in url["representations"].as_array().into_iter().flatten() {
            let Some(strongest) = representation["encodings"].get(0) else { continue };
            let [media, encoding] = [&representation["media_type"], &strongest["encoding"]]
                .map(|name| name.as_str().expect("text"));
            let headers = [("Accept", media), ("Accept-Encoding", encoding)];
            while server.get(path, &headers).header("etag") != strongest["etag"].as_str() {
                assert!(began.elapsed() < PATIENCE, "{path} still lacks its strongest encoding");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
    server
}

/// A small site with awkward names: some differ only in case, some have a special meaning for web servers,
/// and some cannot be file names.
fn awkward_site() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let written = frontdesk().arg("init").arg(folder.path()).output().expect("it runs");
    assert!(written.status.success());
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be created");
        std::fs::write(file, text).expect("it can be written");
    };
    let long = "A line that repeats itself.\n".repeat(40);
    for (name, text) in [
        ("static/README", "upper case"),
        ("static/readme", "lower case"),
        ("static/Only-Upper.TXT", "one of its kind"),
        ("static/cost$1.txt", "a dollar"),
        ("static/$uri", "a variable's name"),
        ("static/a b\"c'd;{}.txt", "quotes"),
        ("static/star*.txt", "a star"),
        ("static/~tilde", "a tilde"),
        ("static/größe.txt", &long),
        ("static/data.csv", &long),
        ("static/data.csv.gz", "not the encoding of data.csv"),
        ("static/404.html", "not what stands in for what is missing"),
        ("static/short.txt", "short"),
        ("static/empty.txt", ""),
        ("static/folder/index.html", "<!doctype html><title>Prebuilt</title>"),
        (
            "pages/$price.md",
            "---\ntitle: Price\ndescription: P.\naliases: [\"/old price\", \"/Former/\", \"/:a*\"]\n---\n\nA text.\n",
        ),
        ("pages/de/index.md", "---\ntitle: Start\ndescription: S.\n---\n\nEin Text.\n"),
        ("pages/UPPER.md", "---\ntitle: Upper\ndescription: U.\n---\n\nA text.\n"),
    ] {
        write(name, text);
    }
    let path = folder.path().join("frontdesk.toml");
    let config = std::fs::read_to_string(&path).expect("a configuration");
    let config = config.replace("\n[site]\n", "\n[site]\nlanguages = [\"en\", \"de\"]\n");
    let redirects = "\n[redirects]\n\"/offer\" = 410\n\"/de/angebot\" = 410\n\"/api/v0\" = 410\n";
    std::fs::write(path, config + redirects).expect("it can be written");
    folder
}

/// Writes the output of a site generator to a new folder in `parent`.
fn build(parent: &Path) -> PathBuf {
    let folder = parent.join("dist");
    write_build(&folder, "A state.");
    // Replace the rules of `write_build`: rules with placeholders are not exported.
    let rules = "/moved https://www.example.org/ 302\n/late /about/ 200\n";
    std::fs::write(folder.join("_redirects"), rules).expect("it can be written");
    let missing = "<!doctype html><html lang=de><title>Nichts</title><body><main><h1>Nichts</h1></main>";
    std::fs::create_dir_all(folder.join("de")).expect("it can be created");
    std::fs::write(folder.join("de/404.html"), missing).expect("it can be written");
    folder
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(folder).expect("it is below").to_owned();
                found.insert(name, std::fs::read(entry.path()).expect("it can be read"));
            }
        }
    }
    found
}

/// A response's headers without connection headers, `Date` and `Accept-Ranges`, which depends on the server.
fn said(answer: &Answer) -> Vec<(&str, &str)> {
    let of_the_answer =
        |name: &str| !["accept-ranges", "date", "server", "connection", "content-length"].contains(&name);
    let mut said: Vec<(&str, &str)> = answer
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .filter(|(name, _)| of_the_answer(name))
        .collect();
    said.sort_unstable();
    said
}

#[test]
fn the_manifest_matches_the_server() {
    manifest_agrees_with_server(awkward_site().path());
    let folder = tempfile::tempdir().expect("a folder");
    manifest_agrees_with_server(&build(folder.path()));
}

#[test]
#[ignore = "compressing the example site takes half a minute beside other tests: scripts/test door"]
fn the_example_sites_manifest_matches_the_server() {
    manifest_agrees_with_server(&example_site());
}

/// Exports `site`, requests each URL in the export's manifest from a server that serves the site, and
/// compares the responses with the manifest.
fn manifest_agrees_with_server(site: &Path) {
    let export = Export::of(site);
    let server = serve(site, &export);
    let mut connection = server.connect();
    let mut ask = |path: &str, media: &str, encoding: &str| {
        let headers = [("Accept", media), ("Accept-Encoding", encoding)];
        connection.request("GET", path, &headers, b"").expect("an answer")
    };
    let common = export.manifest["headers"].as_object().expect("an object");
    let check =
        |path: &str, answer: &Answer, url: &Value, spoken: &Value, etag: &Value, encoding: Option<&str>| {
            assert_eq!(u64::from(answer.status), url["status"], "{path}");
            let own = spoken["headers"].as_object().expect("an object");
            let mut expected: Vec<(&str, &str)> = common
                .iter()
                .chain(own)
                .map(|(name, value)| (name.as_str(), value.as_str().expect("text")))
                .collect();
            expected.extend(etag.as_str().map(|etag| ("etag", etag)));
            expected.extend(encoding.map(|encoding| ("content-encoding", encoding)));
            expected.extend(url["location"].as_str().map(|to| ("location", to)));
            expected.sort_unstable();
            assert_eq!(said(answer), expected, "{path} {encoding:?}");
        };
    let missing_in = export.manifest["missing_in"].as_object().expect("an object").iter();
    let missing_in: Vec<(String, &Value)> =
        missing_in.map(|(folder, url)| (format!("{folder}nowhere"), url)).collect();
    let missing_in = missing_in.iter().map(|(path, url)| (path.as_str(), *url));
    let missing = missing_in.chain([("/nowhere/", &export.manifest["missing"])]);
    let mut count = 0;
    for (path, url) in export.urls().chain(missing) {
        for representation in url["representations"].as_array().into_iter().flatten() {
            let media = representation["media_type"].as_str().expect("text");
            let answer = ask(path, media, "identity");
            check(path, &answer, url, representation, &representation["etag"], None);
            assert_eq!(answer.body, export.body(representation), "{path}");
            for encoded in representation["encodings"].as_array().expect("a list") {
                let encoding = encoded["encoding"].as_str().expect("text");
                let answer = ask(path, media, encoding);
                check(path, &answer, url, representation, &encoded["etag"], Some(encoding));
                assert_eq!(answer.body, export.body(encoded), "{path} {encoding}");
                count += 1;
            }
        }
        let spoken = if url["negotiated"] == true { &url["not_acceptable"] } else { url };
        if let Some(body) = spoken["body"].as_str() {
            let answer = ask(path, "image/png", "identity");
            check(path, &answer, spoken, spoken, &Value::Null, None);
            assert_eq!(answer.text(), body, "{path}");
        }
    }
    assert!(count > 40, "{count} encodings");
    let unknown = &export.manifest["unknown_endpoint"];
    for (method, path) in [("GET", "/api/nothing"), ("DELETE", "/api/"), ("POST", "/api/contact/")] {
        let answer = server.request(method, path, &[("Accept", "text/html")], b"");
        check(path, &answer, unknown, unknown, &Value::Null, None);
        assert_eq!(unknown["body"], answer.text(), "{method} {path}");
    }
    let answer = server.request("DELETE", "/", &[], b"");
    let other = &export.manifest["other_methods"];
    check("DELETE", &answer, other, other, &Value::Null, None);
}

#[test]
fn the_same_site_gives_the_same_bytes_and_replaces_what_was_there() {
    let site = awkward_site();
    let one = Export::of(site.path());
    let before = files(&one.path());
    let (code, said) = export(site.path(), &one.path(), &[], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("replaced: "), "{said}");
    let after = files(&one.path());
    assert!(before.len() > 100 && before == after, "two exports of the same site are equal");
    let listed = one.manifest["files"].as_object().expect("an object");
    assert_eq!(listed.len() + 1, before.len(), "the manifest lists all files except itself");
    assert!(listed.keys().all(|name| before.contains_key(Path::new(name))));

    std::fs::remove_file(site.path().join("static/short.txt")).expect("it can be removed");
    let (code, said) = export(site.path(), &one.path(), &[], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!one.path().join("public/short.txt").exists(), "a removed file is not exported again");
    let beside = std::fs::read_dir(one.folder.path()).expect("a folder").count();
    assert_eq!(beside, 1, "nothing else remains beside the export");

    std::fs::write(one.path().join("public/mine.txt"), "mine").expect("it can be written");
    let (code, said) = export(site.path(), &one.path(), &[], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("`public/mine.txt`") && said.contains("hint: "), "{said}");
    assert!(one.path().join("public/mine.txt").exists());
    let (code, said) = export(site.path(), &site.path().join("static/out"), &[], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("static/"), "{said}");
}

#[test]
fn each_language_has_its_own_404_page_and_search_index() {
    let site = awkward_site();
    let config = std::fs::read_to_string(site.path().join("frontdesk.toml")).expect("a configuration");
    let config = config.replace("\n[site]\n", "\n[site]\nsearch = true\n");
    std::fs::write(site.path().join("frontdesk.toml"), config).expect("it can be written");
    let export = Export::of(site.path());
    let read = |name: &str| std::fs::read_to_string(export.path().join("public").join(name)).expect(name);
    assert!(read("de/404.html").contains("lang=\"de\"") && read("de/404.md").contains("# Hier ist nichts"));
    let german = export.manifest["missing_in"]["/de/"]["representations"][0]["file"].clone();
    assert_eq!(german, "public/de/404.html");
    let removed = &export.manifest["urls"]["/de/angebot"];
    assert_eq!((&removed["status"], &removed["representations"][0]["file"]), (&410.into(), &german));
    let paths = |index: &str| -> Vec<String> {
        let pages: Vec<Value> = serde_json::from_str(&read(index)).expect("JSON");
        pages.iter().map(|page| page[0].as_str().expect("a path").to_owned()).collect()
    };
    assert_eq!(paths("_frontdesk/search.de.json"), ["/de/"]);
    let english = paths("_frontdesk/search.json");
    assert!(english.len() > 1 && !english.contains(&"/de/".to_owned()), "{english:?}");
}

#[test]
fn an_export_without_a_base_url_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = frontdesk()
        .args(["export", "--site"])
        .arg(example_site())
        .arg("--output")
        .arg(folder.path())
        .output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains("`base_url` is not set") && said.contains("hint: "), "{said}");
}

#[test]
fn exported_configurations_set_each_header_once_and_each_redirect() {
    let site = awkward_site();
    let export = Export::of(site.path());
    let read = |name: &str| std::fs::read_to_string(export.path().join("public").join(name)).expect("a file");
    let (headers, redirects) = (read("_headers"), read("_redirects"));
    let rules: Vec<&str> = headers.split("\n\n").collect();
    let (common, own) = rules.split_first().expect("a rule");
    let names = |rule: &str| -> Vec<String> {
        rule.lines()
            .filter_map(|line| line.strip_prefix("  ")?.split_once(": "))
            .map(|(name, _)| name.to_owned())
            .collect()
    };
    let common = names(common);
    assert!(common.contains(&"x-content-type-options".to_owned()), "{common:?}");
    // The icon has styles, and so a policy of its own.
    let policy = "content-security-policy".to_owned();
    assert!(!common.contains(&policy), "{common:?}");
    let count = |status: u16| export.urls().filter(|(_, url)| url["status"] == status).count();
    let (moved, gone) = (count(308), count(410));
    assert_eq!(gone, 6, "all removed paths, with and without a slash");
    assert_eq!((own.len() + moved + gone, moved > 5), (export.urls().count(), true));
    for rule in own {
        let names = names(rule);
        assert!(names.contains(&"content-type".to_owned()) && !names.contains(&"etag".to_owned()), "{rule}");
        assert!(names.iter().all(|name| !common.contains(name)), "{rule}");
        assert!(names.contains(&policy) || !names.contains(&"cache-control".to_owned()), "{rule}");
    }
    assert!(headers.contains("\n/star%2A.txt\n"), "a star would match anything");
    let lines: Vec<&str> = redirects.lines().skip(1).collect();
    assert_eq!(lines.len(), moved);
    for line in ["/old%20price /$price/ 308", "/%3Aa%2A /$price/ 308"] {
        assert!(lines.contains(&line), "{line}: {lines:?}");
    }
}
