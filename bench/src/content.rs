//! The measured content: a frontdesk site with pages of about 1 to 256 KB of HTML and pictures of these
//! lengths, and the same bodies as files for the other servers.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::http::{AGENT, BROWSER, IDENTITY, Response, get, send};
use crate::peer::Identity;
use crate::peer::file_server::FileServer;
use crate::peer::{FRONTDESK, Peer, create_folder, frontdesk};
use crate::settings::{Bench, Cores};

/// The site without the measured pages. The built-in theme's head and navigation alone are longer than 1 KB.
const SITE: [(&str, &str); 4] = [
    ("frontdesk.toml", include_str!("content/frontdesk.toml")),
    ("theme/base.html", include_str!("content/base.html")),
    ("theme/page.html", include_str!("content/page.html")),
    ("pages/index.md", include_str!("content/index.md")),
];
const WORDS: [&str; 12] = [
    "agent", "policy", "call", "session", "sandbox", "approval", "digest", "ledger", "boundary", "host",
    "of", "the",
];

/// A page to measure. Its address depends on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub label: &'static str,
    name: &'static str,
    /// Approximate length of the HTML in bytes.
    size: usize,
}

pub const SMALL: Page = Page { label: "1 KB", name: "small", size: 1024 };
pub const LARGE: Page = Page { label: "12 KB", name: "large", size: 12 * 1024 };
/// A page of the size of a long article. Measured over HTTP/1.1 only, as the following ones.
pub const ARTICLE: Page = Page { label: "28 KB", name: "article", size: 28 * 1024 };
pub const CHAPTER: Page = Page { label: "64 KB", name: "chapter", size: 64 * 1024 };
pub const BOOK: Page = Page { label: "256 KB", name: "book", size: 256 * 1024 };
const PAGES: [Page; 5] = [SMALL, LARGE, ARTICLE, CHAPTER, BOOK];

impl Page {
    /// The address at which frontdesk selects HTML or Markdown by content negotiation.
    fn path(self) -> String {
        format!("/{}/", self.name)
    }

    fn twin(self) -> String {
        format!("/{}.md", self.name)
    }

    fn picture(self) -> String {
        format!("/{}.png", self.name)
    }

    pub fn file(self) -> String {
        format!("/{}.html", self.name)
    }
}

/// A request for a page, sent by a browser, or by an agent if Markdown is negotiated.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest {
    pub page: Page,
    pub representation: Representation,
    /// The value of `Accept-Encoding`.
    pub encodings: &'static str,
    /// Whether the client already has the page and sends a conditional request.
    pub is_cached: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Representation {
    Html,
    Markdown,
    /// A file of the length of the page, which is not compressible.
    Picture,
    /// Markdown by content negotiation at the page's address. Only frontdesk supports it.
    NegotiatedMarkdown,
}

impl PageRequest {
    /// A request for the uncompressed HTML of `page`.
    pub const fn html(page: Page) -> Self {
        Self { page, representation: Representation::Html, encodings: IDENTITY, is_cached: false }
    }

    /// The path to request from `peer`.
    pub fn path_on(&self, peer: &Peer) -> String {
        match self.representation {
            Representation::Html if !peer.is_frontdesk() => self.page.file(),
            Representation::Markdown => self.page.twin(),
            Representation::Picture => self.page.picture(),
            Representation::Html | Representation::NegotiatedMarkdown => self.page.path(),
        }
    }
}

/// Generates paragraphs of about 300 characters. The rendered page is about `page.size` bytes long.
fn generate_markdown(page: Page) -> String {
    let mut text =
        format!("---\ntitle: A page of {}\ndescription: A page to be measured.\n---\n", page.label);
    let mut random = fastrand::Rng::with_seed(7);
    let mut length = 190;
    while length + 20 < page.size {
        let mut words = Vec::new();
        while words.join(" ").len() < 300.min(page.size - length - 10) {
            words.extend(random.choice(WORDS));
        }
        let paragraph = words.join(" ");
        length += paragraph.len() + "<p>.</p>\n".len();
        text += &format!("\n{paragraph}.\n");
    }
    text
}

/// Random bytes with the signature of a PNG.
fn generate_picture(page: Page) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    let signature = *b"\x89PNG\r\n\x1a\n";
    signature.into_iter().chain(std::iter::repeat_with(|| random.u8(..))).take(page.size).collect()
}

/// Headers that each server sets itself. They are not copied from frontdesk's responses.
const SERVER_HEADERS: &str =
    "content-length content-type content-encoding date etag last-modified accept-ranges connection";

const ENCODINGS: [&str; 4] = [IDENTITY, "gzip", "br", "zstd"];

/// The site that frontdesk serves, and the same content as files.
#[derive(Debug)]
pub struct Content {
    site: TempDir,
    root: TempDir,
    /// Headers that the other servers add, so that their responses are about as long as frontdesk's.
    headers: Vec<(String, String)>,
}

impl Content {
    /// Writes the site, starts frontdesk, and writes the bodies of its responses to files.
    pub fn start(bench: &Bench, tls: Option<&Identity>) -> Result<(Self, Peer)> {
        let mut content = Self { site: create_folder()?, root: create_folder()?, headers: Vec::new() };
        let site = content.site.path();
        for part in ["pages", "static", "theme"] {
            fs::create_dir_all(site.join(part))?;
        }
        for (name, text) in SITE {
            fs::write(site.join(name), text)?;
        }
        for page in PAGES {
            fs::write(site.join(format!("pages{}", page.twin())), generate_markdown(page))?;
            fs::write(site.join(format!("static{}", page.picture())), generate_picture(page))?;
        }
        let peer = frontdesk::start(bench, frontdesk::Options { tls, ..content.options(FRONTDESK) })?;
        content.write_files(peer.address)?;
        Ok((content, peer))
    }

    pub fn options<'a>(&'a self, name: &'a str) -> frontdesk::Options<'a> {
        frontdesk::Options::new(name, self.site.path())
    }

    pub fn start_general_path(&self, bench: &Bench) -> Result<Peer> {
        frontdesk::start(bench, self.options("frontdesk, general path").set("SERVER__FAST_LANE", "false"))
    }

    pub fn file_server<'a>(&'a self, tls: Option<&'a Identity>) -> FileServer<'a> {
        FileServer { root: self.root.path(), cores: Cores::Servers, headers: &self.headers, tls }
    }

    /// Fetches the pages in each encoding from frontdesk at `address`, and writes them to files. Sets the
    /// headers that the other servers add. Fails if frontdesk sends another encoding, or a page of an
    /// unexpected length.
    fn write_files(&mut self, address: SocketAddr) -> Result<()> {
        for page in PAGES {
            fs::write(self.root.path().join(&page.picture()[1..]), generate_picture(page))?;
            for (path, file) in [(page.twin(), page.twin()), (page.path(), page.file())] {
                for encoding in ENCODINGS {
                    let response = send(address, &get(BROWSER, &path, encoding, None))?;
                    let (status, sent) = (response.status, response.encoding());
                    let is_expected = status == 200 && sent == encoding;
                    ensure!(is_expected, "{path} has status {status} and encoding {sent}, not {encoding}");
                    fs::write(self.encoded_file(&file, encoding), response.body)?;
                    self.headers = response.headers;
                }
            }
            let length = fs::metadata(self.encoded_file(&page.file(), IDENTITY))?.len() as usize;
            let near = page.size * 9 / 10..page.size * 11 / 10;
            ensure!(near.contains(&length), "{} has an unexpected length of {length} bytes", page.path());
        }
        self.headers.retain(|(name, _)| SERVER_HEADERS.split(' ').all(|header| header != name));
        Ok(())
    }

    /// The file that servers send for `file` in `encoding`: for example, `/small.html.gz`.
    fn encoded_file(&self, file: &str, encoding: &str) -> PathBuf {
        let suffix = match encoding {
            IDENTITY => "",
            "gzip" => ".gz",
            "zstd" => ".zst",
            _ => ".br",
        };
        self.root.path().join(format!("{}{suffix}", &file[1..]))
    }

    /// The expected body of a response for `file` in `encoding`.
    pub fn body(&self, file: &str, encoding: &str) -> Result<Vec<u8>> {
        let path = self.encoded_file(file, encoding);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Sends a request to `peer`, and fails unless the response equals the files. If the client has the page,
    /// then also sends the conditional request, and fails unless the response is a 304. Returns the bytes of
    /// the last request and its response.
    pub fn exchange(&self, peer: &Peer, request: PageRequest) -> Result<(Vec<u8>, Response)> {
        self.exchange_over(peer, request, |bytes| send(peer.address, bytes))
    }

    /// Like [`Self::exchange`], but sends the request with `send`, for connections other than plain HTTP.
    pub fn exchange_over(
        &self,
        peer: &Peer,
        request: PageRequest,
        send: impl Fn(&[u8]) -> Result<Response>,
    ) -> Result<(Vec<u8>, Response)> {
        let PageRequest { page, representation, encodings, is_cached } = request;
        let (name, address) = (&peer.name, request.path_on(peer));
        let (client, file) = match representation {
            Representation::Html => (BROWSER, page.file()),
            Representation::Markdown => (BROWSER, page.twin()),
            Representation::Picture => (BROWSER, page.picture()),
            Representation::NegotiatedMarkdown => (AGENT, page.twin()),
        };
        let bytes = get(client, &address, encodings, None);
        let response = send(&bytes).with_context(|| name.clone())?;
        let (status, encoding) = (response.status, response.encoding());
        let is_expected = status == 200 && (encoding == IDENTITY) == (encodings == IDENTITY);
        ensure!(is_expected, "{name} sent {address} with status {status} and encoding {encoding}");
        ensure!(response.body == self.body(&file, encoding)?, "{name} sent the wrong body for {address}");
        if !is_cached {
            return Ok((bytes, response));
        }
        let by_etag = response.header("etag").map(|etag| ("If-None-Match", etag));
        let by_date = || Some(("If-Modified-Since", response.header("last-modified")?));
        let condition = by_etag.or_else(by_date);
        ensure!(condition.is_some(), "{name} sent neither ETag nor Last-Modified");
        let bytes = get(client, &address, encodings, condition);
        let response = send(&bytes)?;
        let (status, is_empty) = (response.status, response.body.is_empty());
        ensure!(status == 304 && is_empty, "{name} sent status {status} instead of an empty 304");
        Ok((bytes, response))
    }
}
