//! Which answer is in which file: names that a static server finds by itself, as far as there are such.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use super::public;
use crate::pages::file::fingerprint;
use crate::pages::negotiate::Encoding;
use crate::pages::path;
use crate::web::describe::{Answers, Description, Reply, Representation};

/// The longest name of a file or folder, in bytes, that every file system takes.
const LONGEST_NAME: usize = 255;

/// Where files are put whose URL cannot be a file's name.
const ASIDE: &str = "frontdesk-files";

/// Names that mean something to hosts.
const OURS: [&str; 2] = ["_headers", "_redirects"];

/// A representation and the files with its bodies, identity first.
#[derive(Debug, Clone)]
pub(super) struct Stored(pub Vec<Coded>);

/// One body.
#[derive(Debug, Clone)]
pub(super) struct Coded {
    pub encoding: Encoding,
    /// Below `public/`.
    pub name: String,
    pub reply: Reply,
}

impl Stored {
    pub fn identity(&self) -> &Coded {
        &self.0[0]
    }
}

/// What is at a URL.
#[derive(Debug)]
pub(super) enum Place {
    Page { html: Stored, markdown: Stored, neither: Reply },
    File(Stored),
    Moved(Reply),
}

impl Place {
    /// What is sent from files.
    pub fn stored(&self) -> impl Iterator<Item = &Stored> {
        let of = match self {
            Self::Page { html, markdown, .. } => [Some(html), Some(markdown)],
            Self::File(stored) => [Some(stored), None],
            Self::Moved(_) => [None, None],
        };
        of.into_iter().flatten()
    }
}

/// Everything that is exported of the site itself.
#[derive(Debug)]
pub(super) struct Layout {
    /// By decoded path, in the order of these.
    pub urls: Vec<(String, Place)>,
    pub missing: Place,
    pub unknown_endpoint: Reply,
    pub read_only: Reply,
    pub ambiguous: Reply,
    pub endpoints: Vec<&'static str>,
    /// What every answer says.
    pub common: Vec<(String, String)>,
}

impl Layout {
    pub fn of(description: Description) -> Self {
        let Description { urls, missing, unknown_endpoint, read_only, ambiguous, endpoints } = description;
        let mut names = Names::default();
        // What has a name of its own gets that, before pages and encodings look for theirs.
        let mut own: BTreeMap<String, String> = BTreeMap::new();
        for (path, answers) in &urls {
            if let Answers::Single(of) = answers {
                own.insert(path.clone(), names.claim(&path[1..], &of.identity().body));
            }
        }
        let mut found = Vec::new();
        for (path, answers) in &urls {
            let identities = match answers {
                Answers::Negotiated { html, .. } => {
                    let html = names.claim(&format!("{}index.html", &path[1..]), &html.identity().body);
                    // The page's Markdown is what is at its twin.
                    vec![html, own.get(&path::twin(path)).cloned().unwrap_or_default()]
                }
                Answers::Single(_) => vec![own.get(path).cloned().unwrap_or_default()],
                Answers::Moved(_) => Vec::new(),
            };
            found.push(identities);
        }
        let of_missing = match &missing {
            Answers::Negotiated { html, markdown, .. } => vec![
                names.claim("404.html", &html.identity().body),
                names.claim("404.md", &markdown.identity().body),
            ],
            Answers::Single(_) | Answers::Moved(_) => Vec::new(),
        };
        let missing = names.place(missing, of_missing);
        let urls: Vec<(String, Place)> = urls
            .into_iter()
            .zip(found)
            .map(|((path, answers), identities)| (path, names.place(answers, identities)))
            .collect();
        let mut layout =
            Self { urls, missing, unknown_endpoint, read_only, ambiguous, endpoints, common: Vec::new() };
        layout.common = layout.common_headers();
        layout
    }

    /// What is at each URL, and what stands in for everything else.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.urls.iter().map(|(_, place)| place).chain([&self.missing])
    }

    /// All bodies, by their names below the export's folder.
    pub fn files(&self) -> BTreeMap<String, Bytes> {
        let coded = self.places().flat_map(Place::stored).flat_map(|stored| &stored.0);
        coded.map(|coded| (public(&coded.name), coded.reply.body.clone())).collect()
    }

    fn replies(&self) -> impl Iterator<Item = &Reply> {
        let spoken = self.places().filter_map(|place| match place {
            Place::Page { neither: reply, .. } | Place::Moved(reply) => Some(reply),
            Place::File(_) => None,
        });
        let coded = self.places().flat_map(Place::stored).flat_map(|stored| &stored.0);
        let fixed = [&self.unknown_endpoint, &self.read_only, &self.ambiguous];
        spoken.chain(coded.map(|coded| &coded.reply)).chain(fixed)
    }

    /// The headers that all answers have alike.
    fn common_headers(&self) -> Vec<(String, String)> {
        let mut common = self.read_only.headers.clone();
        for reply in self.replies() {
            common.retain(|(name, value)| reply.header(name) == Some(value));
        }
        common
    }
}

/// The names that are given out.
#[derive(Debug, Default)]
struct Names {
    files: BTreeMap<String, String>,
    folders: HashSet<String>,
}

impl Names {
    /// `wanted`, or a name that follows from the content where a file system cannot have that, or somebody else does.
    fn claim(&mut self, wanted: &str, body: &[u8]) -> String {
        let content = fingerprint(body, 32);
        if self.is_free(wanted, &content) {
            self.take(wanted, content);
            return wanted.to_owned();
        }
        let aside = format!("{ASIDE}/{content}");
        self.take(&aside, content);
        aside
    }

    fn take(&mut self, name: &str, content: String) {
        self.folders.extend(name.match_indices('/').map(|(at, _)| name[..at].to_owned()));
        self.files.insert(name.to_owned(), content);
    }

    /// Whether a file can have this name: nobody has it, unless with the same content, it is no folder, and no file is above it.
    fn is_free(&self, name: &str, content: &str) -> bool {
        let is_writable = |segment: &str| !segment.is_empty() && segment.len() <= LONGEST_NAME;
        let mut above = name.match_indices('/').map(|(at, _)| &name[..at]);
        self.files.get(name).is_none_or(|known| known == content)
            && !OURS.contains(&name)
            && !name.starts_with(ASIDE)
            && name.split('/').all(is_writable)
            && !self.folders.contains(name)
            && above.all(|folder| !self.files.contains_key(folder) && !OURS.contains(&folder))
    }

    /// Gives the encodings their names as well: that of the body itself with an ending.
    fn store(&mut self, of: Representation, identity: &str) -> Stored {
        let coded = of.0.into_iter().map(|(encoding, reply)| {
            let name = match ending(encoding) {
                None => identity.to_owned(),
                Some(ending) => self.claim(&format!("{identity}.{ending}"), &reply.body),
            };
            Coded { encoding, name, reply }
        });
        Stored(coded.collect())
    }

    fn place(&mut self, answers: Answers, identities: Vec<String>) -> Place {
        let mut identities = identities.into_iter();
        let mut next = || identities.next().unwrap_or_default();
        match answers {
            Answers::Negotiated { html, markdown, neither } => {
                let html = self.store(html, &next());
                Place::Page { html, markdown: self.store(markdown, &next()), neither }
            }
            Answers::Single(of) => Place::File(self.store(of, &next())),
            Answers::Moved(reply) => Place::Moved(reply),
        }
    }
}

/// What static servers append to a name when they look for an encoding.
fn ending(encoding: Encoding) -> Option<&'static str> {
    match encoding {
        Encoding::Identity => None,
        Encoding::Gzip => Some("gz"),
        Encoding::Brotli => Some("br"),
        Encoding::Zstd => Some("zst"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_content() {
        let mut names = Names::default();
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
        check(&"x".repeat(LONGEST_NAME), "6", true);
        check(&"y".repeat(LONGEST_NAME + 1), "7", false);
        check("a/", "8", false);
    }
}
