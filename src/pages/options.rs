//! Options for the site as a whole, and the form data that pages need.

use std::path::PathBuf;

use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Value};

use super::brand::BrandOptions;
use super::redirects::RedirectOption;
use super::rules::RulesDialect;
use crate::forms::Field;

/// The operator's settings for the site as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PagesOptions {
    pub title: String,
    /// A few words about the site's subject.
    pub tagline: String,
    /// One or two sentences about the site, for guides and feeds.
    pub description: String,
    /// A language tag (BCP 47), `en` by default.
    pub language: String,
    /// Scheme and authority of the site's public address, without a trailing slash.
    pub base_url: String,
    pub operator: Operator,
    pub brand: BrandOptions,
    pub footer: Vec<FooterGroup>,
    /// Links for the home page's `Link` header in RFC 8288 syntax, in addition to the link to the Markdown
    /// twin.
    pub home_links: Vec<String>,
    /// The date on which the site was loaded, in UTC.
    pub today: Date,
    /// The paths of generated resources and endpoints, which pages must not use.
    pub reserved: Vec<&'static str>,
    /// The site generator's output to publish, if there is any.
    pub build: Option<BuildOptions>,
    pub redirects: Vec<RedirectOption>,
    /// Whether the site has a search. `None` decides by the number of pages.
    pub search: Option<bool>,
    /// The number of posts on each page of the blog and of a tag; 0 means that all posts are on one page.
    pub posts_per_page: usize,
    /// The operator's own values, for templates.
    pub extra: Map<String, Value>,
}

/// The location of a build, and how it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    pub folder: PathBuf,
    /// The path under which the build is published, with a slash at both ends.
    pub mount: String,
    pub rules: RulesDialect,
    /// A CSS selector for the main content. If it is empty, the main content is detected.
    pub main: String,
    /// A CSS selector for elements to leave out of the Markdown. May be empty.
    pub exclude: String,
    /// Whether a link to the Markdown is added to the head of each HTML page.
    pub adds_link_element: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Operator {
    pub name: String,
    /// The team's e-mail address.
    pub email: String,
    /// The URL of the sign-in page for provisioned organizations. May be empty.
    pub console_url: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FooterGroup {
    pub title: String,
    pub links: Vec<FooterLink>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FooterLink {
    /// The link's text. With `None`, the link shows the short title of the page at `href`.
    pub title: Option<String>,
    /// A path on this site, or a URL.
    #[serde(rename = "path")]
    pub href: String,
}

/// A form as shown on pages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageForm {
    /// The form's name, such as `contact`.
    pub name: &'static str,
    /// The path of the form's endpoint, such as `/api/contact`.
    pub action: &'static str,
    /// The name of the form's tool for agents in the browser (WebMCP).
    pub tool: &'static str,
    /// One or two sentences that explain what the form does.
    pub description: &'static str,
    pub fields: &'static [Field],
    /// Instructions for sending the form, as a section of the page's Markdown.
    #[serde(skip)]
    pub markdown: String,
}
