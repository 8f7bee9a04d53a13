//! Says what would be answered at every URL, without being asked: for those who serve the site elsewhere.
//!
//! It asks as a client would and writes down what comes, so that nothing here knows a header of its own.

use bytes::Bytes;

use super::answer::{Answer, bad_request, secure};
use super::get_page::{API, Asked, choose};
use crate::forms::FORMS;
use crate::pages::file::Body;
use crate::pages::negotiate::{Codings, Encoding, Media};
use crate::pages::{Entry, File, Site, path};

/// One answer to GET, without what depends on the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// 200, 308, 404 and so on.
    pub status: u16,
    /// Names in lower case, in the order in which they are sent. `content-length` is left out: it is that of the body.
    pub headers: Vec<(String, String)>,
    /// All of it.
    pub body: Bytes,
}

impl Reply {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A representation in each encoding in which it is prepared, identity first and then in the order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representation(pub Vec<(Encoding, Reply)>);

impl Representation {
    /// The answer to who asks for no encoding.
    pub fn identity(&self) -> &Reply {
        &self.0[0].1
    }
}

/// What is answered to a request, once its method is GET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answers {
    /// What `Accept` allows.
    Negotiated {
        /// `text/html`
        html: Representation,
        /// `text/markdown`
        markdown: Representation,
        /// Where it allows neither.
        neither: Reply,
    },
    /// Whatever `Accept` says.
    Single(Representation),
    /// It has another address.
    Moved(Reply),
}

/// All that a site answers.
#[derive(Debug)]
pub struct Description {
    /// Every URL of the site by its decoded path, in the order of these.
    pub urls: Vec<(String, Answers)>,
    /// What is answered at all others, except below `/api/`.
    pub missing: Answers,
    /// The answer at all others below `/api/`, whatever the method and `Accept`.
    pub unknown_endpoint: Reply,
    /// Where the site answers nothing but GET and HEAD, the answer to another method.
    pub read_only: Reply,
    /// The answer to a path that servers understand differently.
    pub ambiguous: Reply,
    /// Where forms are sent, which is for the desk itself.
    pub endpoints: Vec<&'static str>,
}

/// Describes `site` with the encodings that are prepared.
pub fn describe(site: &Site) -> Description {
    let mut urls: Vec<(String, Answers)> =
        site.entries().map(|(path, entry)| (path.to_owned(), answers(site, path, Some(entry)))).collect();
    urls.sort_by(|(a, _), (b, _)| a.cmp(b));
    // No path has an empty segment.
    let nowhere = "//";
    let no_endpoint = format!("{API}/");
    let some = urls.first().map_or("/", |(path, _)| path);
    let ambiguous = path::PathError::Ambiguous.to_string();
    Description {
        read_only: reply(choose(site, some, false, &FirstOf::default()).0.into_answer(site, None)),
        missing: answers(site, nowhere, None),
        unknown_endpoint: reply(
            choose(site, &no_endpoint, true, &FirstOf::default()).0.into_answer(site, None),
        ),
        ambiguous: reply(bad_request(&ambiguous)),
        endpoints: FORMS.iter().map(|form| form.path).collect(),
        urls,
    }
}

fn answers(site: &Site, path: &str, entry: Option<&Entry>) -> Answers {
    let ask = |media, encoding| {
        reply(choose(site, path, true, &FirstOf { media, encoding }).0.into_answer(site, None))
    };
    let representation = |media, file: &File| {
        let encodings = [Encoding::Identity].into_iter().chain(Encoding::PREFERENCE);
        let prepared = encodings.filter(|encoding| file.has(*encoding));
        Representation(prepared.map(|encoding| (encoding, ask(media, encoding))).collect())
    };
    let negotiated = |html, markdown| Answers::Negotiated {
        html: representation(Some(Media::Html), html),
        markdown: representation(Some(Media::Markdown), markdown),
        neither: ask(None, Encoding::Identity),
    };
    match entry {
        Some(Entry::Page(page)) => negotiated(&page.html, &page.markdown),
        Some(Entry::File(file, _)) => Answers::Single(representation(None, file)),
        Some(Entry::Redirect(_)) => Answers::Moved(ask(None, Encoding::Identity)),
        None => negotiated(&site.not_found().html, &site.not_found().markdown),
    }
}

fn reply(answer: Answer) -> Reply {
    let (head, body) = secure(answer).into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
    Reply {
        status: head.status.as_u16(),
        headers: headers.collect(),
        body: body.into_inner().unwrap_or_default(),
    }
}

/// A client that takes one representation in one encoding.
struct FirstOf {
    media: Option<Media>,
    encoding: Encoding,
}

impl Default for FirstOf {
    fn default() -> Self {
        Self { media: None, encoding: Encoding::Identity }
    }
}

impl Asked for FirstOf {
    fn media(&self) -> Option<Media> {
        self.media
    }

    fn codings(&self) -> Codings {
        Codings::read(self.encoding.token().map(str::as_bytes))
    }

    fn fails_if_match(&self, _: &Body) -> bool {
        false
    }

    fn has(&self, _: &Body) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pages::Page;
    use crate::pages::file::Cache;

    fn file(media_type: &'static str) -> Arc<File> {
        let file = File::new(media_type, Cache::Revalidate, "A line that repeats itself.\n".repeat(50));
        file.compress();
        Arc::new(file)
    }

    #[test]
    fn a_page_is_described_in_each_representation_and_encoding() {
        let page = Page {
            html: file("text/html; charset=utf-8"),
            markdown: file("text/markdown; charset=utf-8"),
            path: "/".into(),
            twin: "/index.md".into(),
        };
        let mut site = Site::new("https://www.example.com", page.clone());
        site.insert_page("/", page, None);
        let description = describe(&site);
        let paths: Vec<&str> = description.urls.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["/", "/index.html", "/index.html.md", "/index.md"]);
        let Answers::Negotiated { html, markdown, neither } = &description.urls[0].1 else {
            panic!("{:?}", description.urls[0]);
        };
        let etags = |of: &Representation| -> Vec<String> {
            of.0.iter().map(|(_, reply)| reply.header("etag").expect("a validator").to_owned()).collect()
        };
        assert_eq!((html.0.len(), etags(html).len(), markdown.0.len()), (4, 4, 4));
        assert_eq!(neither.status, 406);
        assert!(
            matches!(&description.urls[1].1, Answers::Moved(reply) if reply.header("location") == Some("/"))
        );
        let Answers::Negotiated { html, .. } = &description.missing else { panic!("{description:?}") };
        assert_eq!((html.identity().status, html.identity().header("etag")), (404, None));
        assert_eq!((description.read_only.status, description.ambiguous.status), (405, 400));
        let unknown = &description.unknown_endpoint;
        assert_eq!((unknown.status, unknown.header("content-type")), (404, Some("application/json")));
        assert!(html.identity().header("content-security-policy").is_some());
    }
}
