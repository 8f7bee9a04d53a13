//! The site's options, and the forms as pages show them.

use jiff::civil::Date;
use serde::Serialize;

use crate::forms::Field;

/// The operator's settings for the site as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PagesOptions {
    pub title: String,
    /// A few words on the site's subject.
    pub tagline: String,
    /// One or two sentences for guides and feeds.
    pub description: String,
    /// A language tag (BCP 47), `en` by default.
    pub language: String,
    /// Scheme and authority of the site's public address, without a trailing slash.
    pub base_url: String,
    pub operator: Operator,
    pub footer: Vec<FooterGroup>,
    /// Links in the home page's `Link` header besides its Markdown twin, in the syntax of RFC 8288.
    pub home_links: Vec<String>,
    /// The day on which the site is loaded, in UTC.
    pub today: Date,
    /// Paths of generated resources and endpoints. No page may have one of these.
    pub reserved: Vec<&'static str>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Operator {
    pub name: String,
    /// The team's e-mail address.
    pub email: String,
    /// The sign-in page for provisioned organizations; may be empty.
    pub console_url: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FooterGroup {
    pub title: String,
    pub links: Vec<FooterLink>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FooterLink {
    /// The link's text. `None` shows the short title of the page at `href`.
    pub title: Option<String>,
    /// A path on this site, or a URL.
    #[serde(rename = "path")]
    pub href: String,
}

/// A form as pages show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageForm {
    /// `contact`
    pub name: &'static str,
    /// `/api/contact`
    pub action: &'static str,
    pub fields: &'static [Field],
    /// Instructions for sending the form, as a section of the page's Markdown.
    #[serde(skip)]
    pub markdown: String,
}
