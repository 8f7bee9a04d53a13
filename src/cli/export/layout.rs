//! Assigns file names to response bodies. Prefers names that static servers find without extra rules.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use frontdesk_app::responses_for_export::{Description, EncodedResponses, RecordedResponse, UrlResponses};
use frontdesk_negotiate::Encoding;
use frontdesk_site::file::fingerprint;
use frontdesk_site::path;

/// Maximum length, in bytes, of a file or folder name on common file systems.
const MAX_NAME: usize = 255;
/// The folder for bodies whose URL cannot serve as a file name.
const ASIDE: &str = "frontdesk-files";
/// Names that have a special meaning for static hosts.
const RESERVED: [&str; 2] = ["_headers", "_redirects"];

/// The files of a representation. The first one is unencoded (identity).
#[derive(Debug, Clone)]
pub(super) struct StoredRepresentation(pub Vec<EncodedFile>);

/// A response body in one encoding, and its file.
#[derive(Debug, Clone)]
pub(super) struct EncodedFile {
    pub encoding: Encoding,
    /// The file's path below `public/`.
    pub name: String,
    pub reply: RecordedResponse,
}

impl StoredRepresentation {
    pub fn identity(&self) -> &EncodedFile {
        &self.0[0]
    }
}

/// The responses at a URL.
#[derive(Debug)]
pub(super) enum UrlContent {
    /// `Accept` selects the representation; `neither` is for requests that accept neither HTML nor Markdown.
    Page { html: StoredRepresentation, markdown: StoredRepresentation, neither: RecordedResponse },
    /// A file, which is the same for every `Accept`.
    File(StoredRepresentation),
    /// A redirect to another path or URL.
    Moved(RecordedResponse),
    /// An endpoint that was removed for good (410).
    RemovedEndpoint(RecordedResponse),
}

impl UrlContent {
    /// Whether this is a page that was removed for good (410). False for [`Self::RemovedEndpoint`].
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Page { html, .. } if html.identity().reply.status == 410)
    }

    /// The representations at this URL that are stored as files.
    pub fn stored(&self) -> impl Iterator<Item = &StoredRepresentation> {
        let of = match self {
            Self::Page { html, markdown, .. } => [Some(html), Some(markdown)],
            Self::File(stored) => [Some(stored), None],
            Self::Moved(_) | Self::RemovedEndpoint(_) => [None, None],
        };
        of.into_iter().flatten()
    }
}

/// Converts the name of a file below `public/` to its path in the export.
pub(super) fn public_path(name: &str) -> String {
    format!("public/{name}")
}

/// All responses of a site, and the files that contain their bodies.
#[derive(Debug)]
pub(super) struct ExportLayout {
    /// The decoded path and the responses of each URL, sorted by path.
    pub urls: Vec<(String, UrlContent)>,
    /// The responses for missing pages.
    pub missing: UrlContent,
    /// The responses for missing pages in folders with a 404 page of their own, by folder; see
    /// [`Description::missing_in`].
    pub missing_in: Vec<(String, UrlContent)>,
    /// The response for unknown paths below `/api/`.
    pub unknown_endpoint: RecordedResponse,
    /// The response to methods other than GET and HEAD.
    pub read_only: RecordedResponse,
    /// The response to a path that servers may interpret differently.
    pub ambiguous: RecordedResponse,
    /// The paths that only frontdesk can serve, such as the endpoints of the forms.
    pub endpoints: Vec<&'static str>,
    /// Headers that all responses have in common.
    pub common: Vec<(String, String)>,
}

impl ExportLayout {
    /// Assigns a file to each representation in each encoding, and finds the headers that all responses have
    /// in common. Redirects and errors without a page have no file. The responses for removed pages get the
    /// files of the 404 page of their folder.
    pub fn of(description: Description) -> Self {
        let Description { urls, missing, missing_in, unknown_endpoint, read_only, ambiguous, endpoints } =
            description;
        let mut names = FileNames::default();
        // Reserve the names of files first, so that no page or encoding takes them.
        for (path, answers) in &urls {
            if let UrlResponses::Single(of) = answers {
                names.claim(&path[1..], &of.identity().body);
            }
        }
        let missing = names.place_missing("", missing);
        let place = |(folder, responses): (String, UrlResponses)| {
            let content = names.place_missing(&folder, responses);
            (folder, content)
        };
        let missing_in: Vec<(String, UrlContent)> = missing_in.into_iter().map(place).collect();
        let place = |(path, answers): (String, UrlResponses)| {
            // A page's Markdown is stored under the path of its own URL: `about.md` for `/about/`.
            let (name, twin) = (&path[1..], path::twin_path(&path));
            let content = if answers.is_gone() {
                let folder = missing_in.iter().find(|(folder, _)| path::is_in_folder(&path, folder));
                names.place_missing(folder.map_or("", |(folder, _)| folder), answers)
            } else {
                names.place(answers, name, [&format!("{name}index.html"), &twin[1..]])
            };
            (path, content)
        };
        let urls = urls.into_iter().map(place).collect();
        let common = Vec::new();
        let mut layout =
            Self { urls, missing, missing_in, unknown_endpoint, read_only, ambiguous, endpoints, common };
        layout.common = layout.common_headers();
        layout
    }

    /// The content of all URLs, and the responses for missing pages.
    pub fn contents(&self) -> impl Iterator<Item = &UrlContent> {
        self.urls.iter().chain(&self.missing_in).map(|(_, content)| content).chain([&self.missing])
    }

    /// The bodies of all stored representations, by path in the export.
    pub fn files(&self) -> BTreeMap<String, Bytes> {
        let coded = self.contents().flat_map(UrlContent::stored).flat_map(|stored| &stored.0);
        coded.map(|coded| (public_path(&coded.name), coded.reply.body.clone())).collect()
    }

    /// The headers of a response that are neither common to all responses nor among `others`.
    pub fn own_headers<'a>(
        &self,
        reply: &'a RecordedResponse,
        others: &[&str],
    ) -> impl Iterator<Item = &'a (String, String)> {
        reply.headers.iter().filter(|header| !self.common.contains(header) && !others.contains(&&*header.0))
    }

    /// The headers that have the same value in every response and every encoding of it.
    fn common_headers(&self) -> Vec<(String, String)> {
        let spoken = self.contents().filter_map(|content| match content {
            UrlContent::Page { neither: reply, .. }
            | UrlContent::Moved(reply)
            | UrlContent::RemovedEndpoint(reply) => Some(reply),
            UrlContent::File(_) => None,
        });
        let coded = self.contents().flat_map(UrlContent::stored).flat_map(|stored| &stored.0);
        let fixed = [&self.unknown_endpoint, &self.read_only, &self.ambiguous];
        let mut common = self.read_only.headers.clone();
        for reply in spoken.chain(coded.map(|coded| &coded.reply)).chain(fixed) {
            common.retain(|(name, value)| reply.header(name) == Some(value));
        }
        common
    }
}

/// The names that are taken below `public/`.
#[derive(Debug, Default)]
struct FileNames {
    /// The hash of each file's content, by name.
    files: BTreeMap<String, String>,
    folders: HashSet<String>,
}

impl FileNames {
    /// Claims and returns the name `wanted`, or one derived from the content's hash if `wanted` is taken or
    /// invalid. A name can be claimed again for the same content.
    fn claim(&mut self, wanted: &str, body: &[u8]) -> String {
        let content = fingerprint(body, 32);
        let aside = format!("{ASIDE}/{content}");
        let name = if self.is_free(wanted, &content) { wanted } else { &aside };
        self.folders.extend(name.match_indices('/').map(|(at, _)| name[..at].to_owned()));
        self.files.insert(name.to_owned(), content);
        name.to_owned()
    }

    /// Whether a file with this content can have this name: the name is valid and not reserved, and conflicts
    /// with no folder and no other file.
    fn is_free(&self, name: &str, content: &str) -> bool {
        let is_writable = |segment: &str| !segment.is_empty() && segment.len() <= MAX_NAME;
        let mut above = name.match_indices('/').map(|(at, _)| &name[..at]);
        self.files.get(name).is_none_or(|known| known == content)
            && !RESERVED.contains(&name)
            && !name.starts_with(ASIDE)
            && name.split('/').all(is_writable)
            && !self.folders.contains(name)
            && above.all(|folder| !self.files.contains_key(folder) && !RESERVED.contains(&folder))
    }

    /// Assigns file names to a representation: preferably `wanted`, with an extension for each encoded body.
    fn store(&mut self, of: EncodedResponses, wanted: &str) -> StoredRepresentation {
        let identity = self.claim(wanted, &of.identity().body);
        let coded = of.0.into_iter().map(|(encoding, reply)| {
            // The file extensions that static servers expect.
            let extension = match encoding {
                Encoding::Identity => return EncodedFile { encoding, name: identity.clone(), reply },
                Encoding::Gzip => "gz",
                Encoding::Brotli => "br",
                Encoding::Zstd => "zst",
            };
            let name = self.claim(&format!("{identity}.{extension}"), &reply.body);
            EncodedFile { encoding, name, reply }
        });
        StoredRepresentation(coded.collect())
    }

    /// Assigns files to the responses for missing or removed pages in a folder: `404.html` and `404.md`.
    fn place_missing(&mut self, folder: &str, responses: UrlResponses) -> UrlContent {
        let [html, markdown] = ["html", "md"].map(|extension| format!("{folder}/404.{extension}"));
        self.place(responses, &html[1..], [&html[1..], &markdown[1..]])
    }

    /// Assigns files to the responses at one URL. The preferred names are `single` for a single file, and
    /// those in `of_page` for a page's HTML and Markdown.
    fn place(&mut self, answers: UrlResponses, single: &str, of_page: [&str; 2]) -> UrlContent {
        match answers {
            UrlResponses::Negotiated { html, markdown, neither } => UrlContent::Page {
                html: self.store(html, of_page[0]),
                markdown: self.store(markdown, of_page[1]),
                neither,
            },
            UrlResponses::Single(of) => UrlContent::File(self.store(of, single)),
            UrlResponses::Moved(reply) => UrlContent::Moved(reply),
            UrlResponses::RemovedEndpoint(reply) => UrlContent::RemovedEndpoint(reply),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_content() {
        let mut names = FileNames::default();
        let mut check = |wanted: &str, body: &str, expected: bool| {
            assert_eq!(names.claim(wanted, body.as_bytes()) == wanted, expected, "{wanted} {body}");
        };
        check("a/b.txt", "1", true);
        check("a/b.txt", "1", true);
        check("a/b.txt", "2", false);
        check("a", "3", false);
        check("a/b.txt/c", "4", false);
        check("_headers", "5", false);
        check("_headers/x", "5", false);
        check("frontdesk-files/x", "5", false);
        check(&"x".repeat(MAX_NAME), "6", true);
        check(&"y".repeat(MAX_NAME + 1), "7", false);
        check("a/", "8", false);
    }
}
