//! `frontdesk init`: writes a small, complete site, or the configuration of a site that a generator builds.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};

use super::diagnostics::{GOOD, with_hint};
use frontdesk_config::{Config, FILE_NAME, toml_string};
use frontdesk_site::{find_containing_folder, has_home_page, resolve_path};

/// The files of the starter site, except the configuration, with their paths in the site's folder.
const FILES: &[(&str, &str)] = &[
    ("pages/index.md", include_str!("../../starter/pages/index.md")),
    ("pages/developers.md", include_str!("../../starter/pages/developers.md")),
    ("pages/blog.md", include_str!("../../starter/pages/blog.md")),
    ("pages/contact.md", include_str!("../../starter/pages/contact.md")),
    ("pages/waitlist.md", include_str!("../../starter/pages/waitlist.md")),
    ("posts/2026-01-15-hello.md", include_str!("../../starter/posts/2026-01-15-hello.md")),
    GIT_IGNORE,
];

const GIT_IGNORE: (&str, &str) =
    (".gitignore", "# Submissions are personal data: back them up, but not here.\n/data/\n");

/// The configuration of a site that a generator builds. `BUILD` is a placeholder for the path of the build.
const PREBUILT: &str = r#"# The settings of this site. `frontdesk config --all` prints every key with its default.

# The public address of the site.
# base_url = "https://www.example.com"

[site]
# The output of the site generator.
prebuilt = BUILD

[operator]
# The company, and the e-mail address of its team. Without a name, the title of the home page is used.
# name = "Example"
# email = "hello@example.com"

[inbox]
# The inbox's web interface. `frontdesk inbox open` prints a link that logs you in.
listen = "127.0.0.1:8082"

# Submissions are stored. Channels also deliver them: docs/pages/deliveries.md.
"#;

/// The default name of the folder with the configuration, which is created beside the build.
const BESIDE_BUILD: &str = "desk";

/// Writes the starter site into a new or empty folder, which may have what [`find_obstacle`] permits. If
/// `prebuilt` names a build, writes only a configuration for that build and a `.gitignore`; the default
/// folder is then `desk` beside the build. Refuses a folder that holds a site, or that is in that build or in
/// another site, and a build without a home page.
pub(super) fn run(folder: Option<&Path>, prebuilt: Option<&Path>) -> anyhow::Result<ExitCode> {
    let default = prebuilt.map(|build| beside_build(build, Path::new(BESIDE_BUILD)));
    let folder = folder.or(default.as_deref()).unwrap_or(Path::new("."));
    let shown = folder.display();
    if let Some(build) = prebuilt
        && find_containing_folder(folder, &[build.to_owned()]).is_some()
    {
        let name = folder.file_name().map_or(Path::new(BESIDE_BUILD), Path::new);
        let (beside, build) = (beside_build(build, name), build.display());
        let message = format!("{shown} is inside the build {build}, whose files are published");
        let hint = format!(
            "name a folder beside the build: `frontdesk init {} --prebuilt {build}`",
            beside.display()
        );
        return Err(with_hint(anyhow!(message), hint));
    }
    if folder.join(FILE_NAME).exists() {
        let hint = format!("`frontdesk serve {shown}` serves it");
        return Err(with_hint(anyhow!("{shown} already holds a site"), hint));
    }
    if let Some(site) = resolve_path(folder).ancestors().skip(1).find(|above| above.join(FILE_NAME).exists())
    {
        let site = site.display();
        let message =
            format!("{shown} would be inside {site}, which is the folder of another site ({FILE_NAME})");
        let hint = format!(
            "name a folder outside of that site, or serve that site with `frontdesk serve \"{site}\"`"
        );
        return Err(with_hint(anyhow!(message), hint));
    }
    if let Some(name) = find_obstacle(folder) {
        bail!("{shown} is not empty (it contains `{name}`); name an empty folder, or a new one");
    }
    let (configuration, others) = match prebuilt {
        Some(build) => (prebuilt_configuration(folder, build)?, &[GIT_IGNORE][..]),
        None => (Config::starter_file(), FILES),
    };
    let ignored = with_lines_of(&folder.join(GIT_IGNORE.0), GIT_IGNORE.1)?;
    for (name, text) in [(FILE_NAME, configuration.as_str())].iter().chain(others) {
        let file = folder.join(name);
        let parent = file.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let text = if *name == GIT_IGNORE.0 { &*ignored } else { text.as_bytes() };
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if prebuilt.is_none() {
        let assets = folder.join("assets");
        std::fs::create_dir_all(&assets).with_context(|| format!("cannot create {}", assets.display()))?;
    }
    let mut stderr = anstream::stderr().lock();
    let files = others.len() + 1;
    writeln!(stderr, "{GOOD}written:{GOOD:#} a site with {files} files in {shown}")?;
    writeln!(
        stderr,
        "\nNext:\n  frontdesk serve {shown}    serves it\n  frontdesk check {shown}    checks it"
    )?;
    if prebuilt.is_none() {
        writeln!(stderr, "\nBegin with frontdesk.toml (name, e-mail) and pages/index.md.")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The content of the `.gitignore` at `file`, if there is one, followed by `text` unless it ignores the data
/// folder already. Fails if the file cannot be read, so that its lines are not lost.
fn with_lines_of(file: &Path, text: &str) -> anyhow::Result<Vec<u8>> {
    let mut content = match std::fs::read(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        read => read.with_context(|| format!("cannot read {}", file.display()))?,
    };
    if content.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == b"/data/") {
        return Ok(content);
    }
    if content.last().is_some_and(|last| *last != b'\n') {
        content.push(b'\n');
    }
    content.extend(text.bytes());
    Ok(content)
}

/// Names the lines of the site in `folder` that are still those of the starter site although they describe
/// the company: names, descriptions, and texts that ask to be replaced. `None` if there are none.
pub(super) fn describe_starter_texts(folder: &Path) -> Option<String> {
    let configuration = Config::starter_file();
    let mut found = Vec::new();
    for (name, starter) in [(FILE_NAME, configuration.as_str())].iter().chain(FILES) {
        let is_text = |line: &&str| match *name {
            FILE_NAME => line.contains(" = \"") && !line.starts_with('#'),
            _ => line.contains("this text") || line.starts_with("title: Welcome"),
        };
        // Stop at the first array of tables (`[[`): most sites leave the settings below it unchanged.
        let texts: Vec<&str> =
            starter.lines().take_while(|line| !line.starts_with("[[")).filter(is_text).collect();
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let lines = text.lines().enumerate().filter(|(_, line)| texts.contains(line));
        found.extend(lines.map(|(index, _)| format!("{name}:{}", index + 1)));
    }
    (!found.is_empty()).then(|| format!("replace the texts of the starter site: {}", found.join(", ")))
}

/// The error for a `build` that does not exist, cannot be read, is a file, or has no home page.
fn not_a_build(build: &Path) -> anyhow::Error {
    let shown = build.display();
    match build.try_exists() {
        Ok(true) if build.is_file() => {
            let folder = build.parent().filter(|parent| !parent.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).display();
            return with_hint(
                anyhow!("{shown} is a file"),
                format!("name its folder: `--prebuilt {folder}`"),
            );
        }
        Ok(true) => {}
        Ok(false) => {
            return with_hint(anyhow!("{shown} does not exist"), "build the site first, or correct the path");
        }
        Err(error) => return anyhow!("cannot read {shown}: {error}"),
    }
    with_hint(
        anyhow!("{shown} is not the output of a site generator: it has no index.html or index.htm"),
        "name the folder into which the site generator writes the pages",
    )
}

/// The path of the folder `name` beside `build`.
fn beside_build(build: &Path, name: &Path) -> PathBuf {
    match (build.file_name(), build.parent()) {
        (Some(_), Some(parent)) => parent.join(name),
        // `.` has no name, so its neighbor is `../NAME`. The last case is `/`, or a path that ends with `..`.
        _ if build == Path::new(".") => Path::new("..").join(name),
        _ => build.join("..").join(name),
    }
}

/// Renders the configuration in `folder` for a build, whose path in it is relative if the build is below
/// `folder` or below its parent, and otherwise absolute. Fails if `build` has no home page, or if the
/// configuration cannot contain this path.
fn prebuilt_configuration(folder: &Path, build: &Path) -> anyhow::Result<String> {
    if !has_home_page(build) {
        return Err(not_a_build(build));
    }
    let build = build.canonicalize().with_context(|| format!("cannot resolve {}", build.display()))?;
    let folder = resolve_path(folder);
    // The site and its build often move together, so a build below the parent of `folder` gets a relative
    // path.
    let beside = || Some(Path::new("..").join(build.strip_prefix(folder.parent()?).ok()?));
    let path = build.strip_prefix(&folder).map(Path::to_owned).ok().or_else(beside).unwrap_or(build.clone());
    let can_be_named = |path: &&str| !path.chars().any(char::is_control) && path.trim() == *path;
    let Some(path) = path.to_str().filter(can_be_named) else {
        let error = anyhow!("the configuration cannot contain the path of the build, {}", path.display());
        let hint = "rename the folder or the one that contains it: the path must be UTF-8, without control characters and without spaces at its ends";
        return Err(with_hint(error, hint));
    };
    Ok(PREBUILT.replace("BUILD", &toml_string(path)))
}

/// The name of a file or folder that prevents writing a site to `folder`. Those of a new repository or file
/// system do not: hidden ones such as `.git`, names that begin with `README` or `LICENSE`, and `lost+found`.
/// `None` also if `folder` is missing or cannot be read.
fn find_obstacle(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_permitted = |name: &String| {
        name == "lost+found" || [".", "README", "LICENSE"].iter().any(|begin| name.starts_with(begin))
    };
    names.find(|name| !is_permitted(name))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::cli::config_and_site_loading::{self, SiteCache};

    #[test]
    fn the_new_site_has_no_faults() {
        let folder = tempfile::tempdir().expect("a folder");
        run(Some(folder.path()), None).expect("it can be written");
        let (config, mut faults) = Config::load(folder.path(), [], &[], None);
        let (site, mut found) = config_and_site_loading::load_site(
            folder.path(),
            &config.with_base_url(None),
            &mut SiteCache::default(),
        );
        faults.append(&mut found);
        assert_eq!(faults, []);
        assert!(site.is_some_and(|site| site.page_count >= 6));
        let error = run(Some(folder.path()), None).expect_err("nothing is overwritten");
        assert!(error.to_string().ends_with("already holds a site"), "{error}");
        for inside in ["pages-2", "pages/blog"] {
            let error = run(Some(&folder.path().join(inside)), None).expect_err("no site in a site");
            assert!(
                error.to_string().ends_with("which is the folder of another site (frontdesk.toml)"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_fresh_repository_or_volume_gets_a_site() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["README.md", "LICENSE", ".gitattributes", ".editorconfig"] {
            std::fs::write(folder.path().join(name), "ours").expect("it can be written");
        }
        for name in [".git", ".github", "lost+found"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let ignored = folder.path().join(".gitignore");
        let ours = "/data/\n";
        for (before, expected) in [
            (Some("node_modules"), format!("node_modules\n{}", GIT_IGNORE.1)),
            (Some("/data/\n"), ours.to_owned()),
            (None, GIT_IGNORE.1.to_owned()),
        ] {
            let _ = std::fs::remove_file(&ignored);
            if let Some(before) = before {
                std::fs::write(&ignored, before).expect("it can be written");
            }
            run(Some(folder.path()), None).expect("it can be written");
            assert_eq!(std::fs::read_to_string(&ignored).expect("it is there"), expected);
            assert_eq!(std::fs::read(folder.path().join("README.md")).expect("it is there"), b"ours");
            for written in ["frontdesk.toml", "pages", "posts", "assets"].map(|name| folder.path().join(name))
            {
                let _ = std::fs::remove_dir_all(&written).or_else(|_| std::fs::remove_file(&written));
            }
        }
        std::fs::remove_file(&ignored).expect("it can be removed");
        std::fs::create_dir(&ignored).expect("a folder");
        let error = run(Some(folder.path()), None).expect_err("its lines would be lost");
        assert!(error.to_string().starts_with("cannot read "), "{error}");
        assert!(!folder.path().join(FILE_NAME).exists(), "nothing is written");
        std::fs::write(folder.path().join("index.html"), "ours").expect("it can be written");
        let error = run(Some(folder.path()), None).expect_err("it is not empty");
        assert!(error.to_string().contains("it contains `index.html`"), "{error}");
    }

    #[test]
    fn an_error_tells_a_missing_build_from_a_wrong_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let site = folder.path().join("site");
        std::fs::create_dir(folder.path().join("sources")).expect("a folder");
        std::fs::write(folder.path().join("index.html"), "a page").expect("it can be written");
        for (build, expected) in [
            ("index.html", "index.html is a file"),
            ("dist", "does not exist"),
            ("sources", "is not the output of a site generator: it has no index.html or index.htm"),
        ] {
            let error = run(Some(&site), Some(&folder.path().join(build)))
                .map(drop)
                .expect_err("there is no home page");
            assert!(error.to_string().ends_with(expected), "{error}");
        }
    }

    #[test]
    fn unchanged_texts_of_the_starter_site_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(describe_starter_texts(folder.path()), None);
        run(Some(folder.path()), None).expect("it can be written");
        let replace = |name: &str, texts: &[(&str, &str)]| {
            let file = folder.path().join(name);
            let text = std::fs::read_to_string(&file).expect("it is there");
            let text = texts.iter().fold(text, |text, (from, to)| text.replace(from, to));
            std::fs::write(&file, text).expect("it can be written");
        };
        let line = |text: &str| {
            let starter = Config::starter_file();
            starter.lines().position(|line| line == text).map_or(0, |index| index + 1)
        };
        let files = "pages/index.md:2, pages/index.md:3, pages/blog.md:3, pages/contact.md:3, pages/waitlist.md:3, \
                     posts/2026-01-15-hello.md:3";
        let said = describe_starter_texts(folder.path()).expect("nothing is changed");
        let name = line("name = \"Example\"");
        assert!(said.contains(&format!(": frontdesk.toml:{name}, frontdesk.toml:")), "{said}");
        for part in files.split(", ") {
            assert!(said.contains(part), "{part}: {said}");
        }
        replace("frontdesk.toml", &[("\"Example", "\"Kelp"), ("hello@example", "hello@kelp")]);
        for name in ["pages/index.md", "pages/blog.md", "pages/waitlist.md", "posts/2026-01-15-hello.md"] {
            replace(name, &[("this text", "that text"), ("title: Welcome", "title: Kelp")]);
        }
        let tagline = line("tagline = \"A small site to begin with\"");
        let expected =
            format!("replace the texts of the starter site: frontdesk.toml:{tagline}, pages/contact.md:3");
        assert_eq!(describe_starter_texts(folder.path()), Some(expected));
    }

    #[test]
    fn the_site_of_a_build_is_beside_the_build() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("dist")).expect("a folder");
        std::fs::write(at("dist/index.html"), "<!doctype html><title>Home</title>").expect("it is written");
        std::os::unix::fs::symlink(at("dist"), at("link")).expect("a link");
        for (site, build) in [
            ("dist/desk", "dist"),
            ("dist", "dist"),
            ("dist/desk/deeper", "dist/."),
            ("link/desk", "dist"),
            ("dist/desk", "link"),
            ("dist/../dist/desk", "dist"),
        ] {
            let error = run(Some(&at(site)), Some(&at(build))).expect_err("it would be published");
            assert!(error.to_string().contains(" is inside the build "), "{site} {build}: {error}");
            assert!(!at("dist/desk").exists());
        }
        let hint = |site: &str, build: &str| {
            let error = run(Some(&at(site)), Some(&at(build))).expect_err("it would be published");
            crate::cli::diagnostics::hint(&error).expect("it has a hint")
        };
        let (desk, help) = (at("desk"), at("help"));
        let expected = format!("`frontdesk init {} --prebuilt {}`", help.display(), at("dist").display());
        assert!(hint("dist/help", "dist").ends_with(&expected), "{}", hint("dist/help", "dist"));
        run(None, Some(&at("dist"))).expect("it can be written");
        let text = std::fs::read_to_string(desk.join(FILE_NAME)).expect("it is there");
        assert!(text.contains("prebuilt = \"../dist\""), "{text}");
        assert_eq!(beside_build(Path::new("."), Path::new("desk")), Path::new("../desk"));
        assert_eq!(beside_build(Path::new("dist"), Path::new("desk")), Path::new("desk"));
        assert_eq!(beside_build(Path::new("../a/dist/"), Path::new("desk")), Path::new("../a/desk"));
    }

    #[test]
    fn the_configuration_of_a_build_has_no_faults() {
        let folder = tempfile::tempdir().expect("a folder");
        let site = folder.path().join("site");
        for name in ["dist", "a \"b\" \\c \u{e9}", "\u{202e}\u{ad}\u{e0041}"] {
            let build = folder.path().join(name);
            std::fs::create_dir(&build).expect("a folder");
            assert!(run(Some(&site), Some(&build)).is_err(), "there is no home page");
            std::fs::write(build.join("index.html"), "<!doctype html><title>Home</title><h1>Home</h1>")
                .expect("the file is written");
            run(Some(&site), Some(&build)).expect("it can be written");
            let (config, mut faults) = Config::load(&site, [], &[], None);
            let (loaded, mut found) = config_and_site_loading::load_site(
                &site,
                &config.with_base_url(None),
                &mut SiteCache::default(),
            );
            faults.append(&mut found);
            assert_eq!(faults, [], "{name:?}");
            assert_eq!(loaded.map(|site| site.page_count), Some(1), "{name:?}");
            std::fs::remove_dir_all(&site).expect("it exists");
        }
    }

    #[test]
    fn a_build_that_the_configuration_cannot_name_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
        let names: [&[u8]; 4] = [b"dist ", b"d\x7fst", b"d\nst", b"d\xffst"];
        for name in names {
            let build = at(name);
            std::fs::create_dir(&build).expect("a folder");
            std::fs::write(build.join("index.html"), "<!doctype html><title>Home</title>").expect("a file");
            let error = run(Some(&at(b"site")), Some(&build)).expect_err("it has no valid path");
            let expected = "the configuration cannot contain the path of the build, ";
            assert!(error.to_string().starts_with(expected), "{error}");
            assert!(!at(b"site").exists());
        }
        // A relative path does not contain the folder above.
        let build = at(b"d\xffst");
        std::fs::create_dir(build.join("dist")).expect("a folder");
        std::fs::rename(build.join("index.html"), build.join("dist/index.html")).expect("it is moved");
        run(None, Some(&build.join("dist"))).expect("it can be written");
        let text = std::fs::read_to_string(build.join("desk").join(FILE_NAME)).expect("it is there");
        assert!(text.contains("prebuilt = \"../dist\""), "{text}");
    }
}
