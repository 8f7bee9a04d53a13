//! The served content: a site with two pages of about 1 KB and 12 KB of HTML, and the same bytes as files for
//! other servers.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::http::{ClientKind, Response, get, send};

/// A short theme: with the built-in one, head and navigation alone are longer than 1 KB.
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

/// A page, and its addresses on frontdesk and on file servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub label: &'static str,
    /// Address with content negotiation on frontdesk.
    pub path: &'static str,
    /// Address of the Markdown.
    pub twin: &'static str,
    /// Address of the HTML on file servers.
    pub file: &'static str,
    /// Approximate length of the HTML in bytes.
    size: usize,
}

pub const SMALL: Page =
    Page { label: "1 KB", path: "/small/", twin: "/small.md", file: "/small.html", size: 1024 };
pub const LARGE: Page =
    Page { label: "12 KB", path: "/large/", twin: "/large.md", file: "/large.html", size: 12 * 1024 };

/// Writes the site of frontdesk.
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

/// Paragraphs of about 300 letters, for a page of the right length.
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

/// The content that frontdesk serves, as files.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    /// Headers that other servers add, so that responses have a similar size.
    pub headers: Vec<(String, String)>,
}

/// Headers that each server writes itself.
const SERVER_HEADERS: [&str; 8] = [
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
    /// Fetches both pages in each encoding from the frontdesk at `address`, and writes them to `root`.
    pub fn fetch(address: SocketAddr, root: &Path) -> Result<Self> {
        let mut headers = Vec::new();
        for page in [SMALL, LARGE] {
            for (path, file) in [(page.path, page.file), (page.twin, page.twin)] {
                for (encoding, suffix) in [("identity", ""), ("gzip", ".gz"), ("br", ".br"), ("zstd", ".zst")]
                {
                    let response = fetch_encoded(address, path, encoding)?;
                    fs::write(
                        root.join(format!("{}{suffix}", file.trim_start_matches('/'))),
                        &response.body,
                    )?;
                    if path == page.path && encoding == "identity" {
                        let near = page.size * 9 / 10..page.size * 11 / 10;
                        ensure!(
                            near.contains(&response.body.len()),
                            "{path} has {} bytes",
                            response.body.len()
                        );
                        headers = response
                            .headers
                            .into_iter()
                            .filter(|(name, _)| !SERVER_HEADERS.contains(&name.as_str()))
                            .collect();
                    }
                }
            }
        }
        Ok(Self { root: root.to_owned(), headers })
    }

    /// The expected body of a response for this file.
    pub fn body(&self, file: &str, encoding: Option<&str>) -> Result<Vec<u8>> {
        let suffix = match encoding {
            None => "",
            Some("gzip") => ".gz",
            Some("br") => ".br",
            Some("zstd") => ".zst",
            Some(other) => anyhow::bail!("unexpected encoding {other}"),
        };
        let path = self.root.join(format!("{}{suffix}", file.trim_start_matches('/')));
        fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))
    }
}

/// Fetches a page in this encoding, once it is ready. Directly after the start, frontdesk can send identity
/// instead.
fn fetch_encoded(address: SocketAddr, path: &str, encoding: &str) -> Result<Response> {
    for _ in 0..100 {
        let response = send(address, &get(ClientKind::Browser, path, encoding, None))?;
        ensure!(response.status == 200, "{path} gets {}", response.status);
        if response.header("content-encoding").unwrap_or("identity") == encoding {
            return Ok(response);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    anyhow::bail!("{path} is not available in {encoding}")
}

/// Fails if a response of frontdesk lacks its ETag, its policies, or `Vary`.
pub fn check_headers(response: &Response, negotiated: bool) -> Result<()> {
    for name in
        ["etag", "content-security-policy", "x-content-type-options", "referrer-policy", "permissions-policy"]
    {
        ensure!(response.header(name).is_some(), "a response of frontdesk has no {name}");
    }
    let vary = response.header("vary").unwrap_or_default().to_ascii_lowercase();
    let names = |wanted: &str| vary.split(',').any(|name| name.trim() == wanted);
    ensure!(names("accept-encoding"), "a response of frontdesk does not vary by Accept-Encoding");
    ensure!(!negotiated || names("accept"), "a negotiated response does not vary by Accept");
    Ok(())
}
