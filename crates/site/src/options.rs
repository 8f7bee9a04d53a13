//! Options for the site as a whole, and the descriptions of forms that pages show.

use std::path::PathBuf;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Value};

use super::brand::BrandOptions;
use super::content_signals::ContentSignals;
use super::redirects::RedirectOption;
use super::rules::RulesDialect;
use super::words::WordOverride;
use frontdesk_forms::{Form, FormSet};
use frontdesk_publish::PublicationOptions;
use frontdesk_site_rules::content_origins::ContentOrigins;

/// The options of a site. Without a title or a description, a site with a build has those of the build's home
/// page.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate setting")]
pub struct PagesOptions {
    pub title: String,
    /// A few words about the site's subject.
    pub tagline: String,
    /// One or two sentences about the site, for `llms.txt` and feeds.
    pub description: String,
    /// A language tag (BCP 47).
    pub language: String,
    /// The tags of all languages, beginning with `language`. Empty if `language` is the only one.
    pub languages: Vec<String>,
    /// Words and phrases of the theme that the configuration replaces.
    pub words: Vec<WordOverride>,
    /// Scheme and authority of the site's public address, without a trailing slash.
    pub base_url: String,
    pub operator: Operator,
    pub brand: BrandOptions,
    pub footer: Vec<FooterGroup>,
    /// Further links for the home page's `Link` header, in RFC 8288 syntax.
    pub home_links: Vec<String>,
    /// The date on which the site was loaded, in UTC.
    pub today: Date,
    /// The time at which the site was loaded. Pages with a later date are not published yet. `None` publishes
    /// all pages except drafts and pages with an expiry date.
    pub now: Option<Timestamp>,
    /// Whether drafts, expired pages and pages with a future date are shown, for a preview.
    pub shows_unpublished: bool,
    /// Whether HTML pages contain the script that reloads them after changes.
    pub has_reload_script: bool,
    /// The other origins from which pages may load content.
    pub allowed: ContentOrigins,
    /// The operator's preferences for how crawlers use pages, for `robots.txt` and the headers of pages.
    pub signals: ContentSignals,
    /// The paths of generated resources and endpoints, which pages must not use.
    pub reserved: Vec<&'static str>,
    /// The site generator's output to publish, if any.
    pub build: Option<BuildOptions>,
    pub publication: PublicationOptions,
    pub redirects: Vec<RedirectOption>,
    /// Whether visitors can search the site. If `None`, the number of pages decides.
    pub search: Option<bool>,
    /// The number of posts on each page of the blog and of a tag; 0 means that all posts are on one page.
    pub posts_per_page: usize,
    /// Whether pages omit the link that copies their Markdown.
    pub hides_copy_link: bool,
    /// Whether forms work without JavaScript. This requires pages that show the errors of a form, and a
    /// thank-you page.
    pub html_posts: bool,
    /// The forms of the site that are not switched off.
    pub form_set: FormSet,
    /// The names of the forms that ask visitors to confirm their addresses.
    pub confirming: Vec<&'static str>,
    /// The operator's own values, for templates.
    pub extra: Map<String, Value>,
}

impl PagesOptions {
    /// Whether any form asks visitors to confirm their addresses, which requires confirmation pages.
    pub fn confirms_addresses(&self) -> bool {
        !self.confirming.is_empty()
    }

    /// The tags of all languages, the default language first.
    pub(super) fn language_tags(&self) -> Vec<&str> {
        let others = self.languages.iter().map(String::as_str).filter(|tag| *tag != self.language);
        std::iter::once(self.language.as_str()).chain(others).collect()
    }
}

/// The location of a build, and how it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    pub folder: PathBuf,
    /// The path under which the build is published, with a slash at both ends.
    pub mount: String,
    pub rules: RulesDialect,
    /// A CSS selector for the main content. If empty, the main content is detected.
    pub main: String,
    /// A CSS selector for elements to leave out of the Markdown. May be empty.
    pub exclude: String,
    /// Whether a link to the Markdown is added to the head of each HTML page.
    pub adds_link_element: bool,
}

/// The operator of the site. Empty texts are not shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Operator {
    pub name: String,
    /// The operator's e-mail address.
    pub email: String,
    /// The URL of the sign-in page for customers. May be empty.
    pub console_url: String,
}

/// A column of the footer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FooterGroup {
    pub title: String,
    /// The tag of the language whose pages show the group; `None` for all pages.
    #[serde(skip)]
    pub language: Option<String>,
    pub links: Vec<FooterLink>,
}

/// A link in the footer. On a translated page, it leads to the target's translation, if there is one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FooterLink {
    /// The link's text. With `None`, the link shows the short title of the page at `href`.
    pub title: Option<String>,
    /// A path on this site, or a URL.
    #[serde(rename = "path")]
    pub href: String,
}

/// The hint about an unknown name of a form. `names` are the names of the site's forms.
pub(super) fn no_such_form(names: &[&str]) -> String {
    match names {
        [] => "the site has no forms: each is a file in `forms/`".to_owned(),
        names => format!("the forms are {}", names.join(", ")),
    }
}

/// A form, with the data that pages need to show it.
#[derive(Debug, Clone, PartialEq)]
pub struct PageForm {
    pub definition: &'static Form,
    /// Whether visitors confirm their addresses by mail.
    pub confirms: bool,
    /// The section of the page's Markdown that explains how to submit the form.
    pub markdown: String,
}
