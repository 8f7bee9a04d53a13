//! What is served: a site of two pages, about 1 KB and 12 KB of HTML, and the same bytes as files for the other servers.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::http::{Answer, Asker, ask, get};

/// A short theme, so that a page of 1 KB is possible: the built-in one's head and navigation alone are longer.
const BASE: &str = "<!doctype html>
<html lang=\"{{ site.language }}\">
<head>
<meta charset=\"utf-8\">
<title>{{ page.head_title }}</title>
</head>
<body>
{% block main %}{% endblock %}
</body>
</html>
";
const PAGE: &str = "{% extends \"base.html\" %}
{% block main %}<h1>{{ page.title }}</h1>
{{ page.html }}{% endblock %}
";
const WORDS: [&str; 12] = [
    "agent", "policy", "call", "session", "sandbox", "approval", "digest", "ledger", "boundary", "host",
    "of", "the",
];

/// A page as both kinds of servers have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// As it is called in the report.
    pub label: &'static str,
    /// frontdesk's negotiated address.
    pub path: &'static str,
    /// Its Markdown's own address, which other servers have too.
    pub twin: &'static str,
    /// The HTML's address where a file has to have a name.
    pub file: &'static str,
    /// How long the HTML should be, in bytes.
    size: usize,
}

/// About 1 KB of HTML.
pub const SMALL: Page =
    Page { label: "1 KB", path: "/small/", twin: "/small.md", file: "/small.html", size: 1024 };
/// About 12 KB of HTML.
pub const LARGE: Page =
    Page { label: "12 KB", path: "/large/", twin: "/large.md", file: "/large.html", size: 12 * 1024 };

/// Writes the site's folder.
pub fn write_site(folder: &Path) -> Result<()> {
    for part in ["pages", "theme"] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::write(
        folder.join("frontdesk.toml"),
        "base_url = \"https://www.example.com\"\n[operator]\nname = \"Example\"\nemail = \"hello@example.com\"\n\
         [site]\ntitle = \"Example\"\ntagline = \"Measured\"\ndescription = \"A site to be measured.\"\n",
    )?;
    fs::write(folder.join("theme/base.html"), BASE)?;
    fs::write(folder.join("theme/page.html"), PAGE)?;
    fs::write(
        folder.join("pages/index.md"),
        "---\ntitle: Home\ndescription: A site to be measured.\n---\n\nHome.\n",
    )?;
    for page in [SMALL, LARGE] {
        let name = page.twin.trim_start_matches('/');
        fs::write(folder.join("pages").join(name), markdown(page))?;
    }
    Ok(())
}

/// Prose in paragraphs of about 300 letters, which make a page of the right length.
fn markdown(page: Page) -> String {
    let mut text =
        format!("---\ntitle: A page of {}\ndescription: A page to be measured.\n---\n", page.label);
    let mut state: usize = 7;
    let mut length = 190;
    while length + 20 < page.size {
        let mut paragraph = String::new();
        while paragraph.len() < 300.min(page.size - length - 10) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            paragraph += WORDS[(state >> 33) % WORDS.len()];
            paragraph.push(' ');
        }
        let paragraph = paragraph.trim_end();
        length += paragraph.len() + "<p>.</p>\n".len();
        text += &format!("\n{paragraph}.\n");
    }
    text
}

/// What frontdesk serves, as files.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    /// Headers that other servers add, so that their answers are of like size.
    pub headers: Vec<(String, String)>,
}

/// Headers that each server writes itself.
const OWN: [&str; 8] = [
    "content-length",
    "content-type",
    "content-encoding",
    "date",
    "etag",
    "last-modified",
    "accept-ranges",
    "connection",
];

impl Files {
    /// Asks the frontdesk at `address` for everything, in each encoding, and writes it to `root`.
    pub fn fetch(address: SocketAddr, root: &Path) -> Result<Self> {
        let mut headers = Vec::new();
        for page in [SMALL, LARGE] {
            for (path, file) in [(page.path, page.file), (page.twin, page.twin)] {
                for (encoding, suffix) in [("identity", ""), ("gzip", ".gz"), ("br", ".br"), ("zstd", ".zst")]
                {
                    let answer = settled(address, path, encoding)?;
                    fs::write(root.join(format!("{}{suffix}", file.trim_start_matches('/'))), &answer.body)?;
                    if path == page.path && encoding == "identity" {
                        let near = page.size * 9 / 10..page.size * 11 / 10;
                        ensure!(near.contains(&answer.body.len()), "{path} has {} bytes", answer.body.len());
                        headers = answer
                            .headers
                            .into_iter()
                            .filter(|(name, _)| !OWN.contains(&name.as_str()))
                            .collect();
                    }
                }
            }
        }
        Ok(Self { root: root.to_owned(), headers })
    }

    /// What the right body is of an answer for this file.
    pub fn body(&self, file: &str, encoding: Option<&str>) -> Result<Vec<u8>> {
        let suffix = match encoding {
            None => "",
            Some("gzip") => ".gz",
            Some("br") => ".br",
            Some("zstd") => ".zst",
            Some(other) => anyhow::bail!("nobody asked for the encoding {other}"),
        };
        let path = self.root.join(format!("{}{suffix}", file.trim_start_matches('/')));
        fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))
    }
}

/// The answer in this encoding. In the first moments identity may stand in for it.
fn settled(address: SocketAddr, path: &str, encoding: &str) -> Result<Answer> {
    for _ in 0..100 {
        let answer = ask(address, &get(Asker::Browser, path, encoding, None))?;
        ensure!(answer.status == 200, "{path} is answered with {}", answer.status);
        if answer.header("content-encoding").unwrap_or("identity") == encoding {
            return Ok(answer);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    anyhow::bail!("{path} is not answered in {encoding}")
}

/// That an answer of frontdesk's has what the others are not asked for: validator, policies, and `Vary` where it was negotiated.
pub fn check_headers(answer: &Answer, negotiated: bool) -> Result<()> {
    for name in
        ["etag", "content-security-policy", "x-content-type-options", "referrer-policy", "permissions-policy"]
    {
        ensure!(answer.header(name).is_some(), "an answer of frontdesk's has no {name}");
    }
    let vary = answer.header("vary").unwrap_or_default().to_ascii_lowercase();
    let names = |wanted: &str| vary.split(',').any(|name| name.trim() == wanted);
    ensure!(names("accept-encoding"), "an answer of frontdesk's does not vary by Accept-Encoding");
    ensure!(!negotiated || names("accept"), "a negotiated answer does not vary by Accept");
    Ok(())
}
