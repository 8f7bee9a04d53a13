//! Tells text that changes with each request from text that differs in the Markdown.

use std::cell::OnceCell;

use frontdesk_convert::{Options, convert};

use super::comparison::Comparison;
use crate::exchange::Representation;
use crate::markdown::MarkdownPage;
use crate::survey::Survey;

/// Other responses for the compared page or its Markdown. They show which text changes between requests.
pub(super) struct OtherResponses<'a> {
    survey: &'a Survey,
    comparison: &'a Comparison<'a>,
    /// The texts of the other HTML responses, and of the other Markdown responses. Read on first use.
    texts: OnceCell<[Vec<String>; 2]>,
}

impl<'a> OtherResponses<'a> {
    pub fn new(survey: &'a Survey, comparison: &'a Comparison<'a>) -> OtherResponses<'a> {
        OtherResponses { survey, comparison, texts: OnceCell::new() }
    }

    /// Whether the HTML has `in_html` and another HTML response of the page lacks it, or the Markdown has
    /// `in_markdown` and another Markdown response lacks it. The amount of white space does not count.
    pub fn differ(&self, in_html: &str, in_markdown: &str) -> bool {
        let [html, markdown] = self.texts.get_or_init(|| self.read());
        let differs = |own: &str, others: &[String], text: &str| {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            own.contains(&text) && others.iter().any(|other| !other.contains(&text))
        };
        differs(&self.comparison.page.reference.text, html, in_html)
            || differs(&self.comparison.markdown.text, markdown, in_markdown)
    }

    /// Reads the complete 200 responses at the URLs of the page and its Markdown, and that of the twin, whose
    /// bodies differ from the compared ones. Returns the texts of the HTML, then those of the Markdown.
    fn read(&self) -> [Vec<String>; 2] {
        let page = self.comparison.page;
        let own = [&page.html, self.comparison.exchange];
        let exchanges = self.survey.exchanges.iter();
        let exchanges = exchanges.filter(|other| own.iter().any(|own| own.url() == other.url()));
        let mut texts = [Vec::new(), Vec::new()];
        for response in exchanges.chain(&page.twin).filter_map(|exchange| exchange.success()) {
            let is_own = own.iter().filter_map(|own| own.response()).any(|own| own.body == response.body);
            if is_own || response.body.is_empty() || !response.is_whole {
                continue;
            }
            let text = response.text();
            match response.representation() {
                Representation::Html => {
                    let converted =
                        convert(&text, &Options { url: Some(page.url.clone()), ..Options::default() });
                    texts[0].push(MarkdownPage::parse(&converted.markdown).text);
                }
                Representation::Markdown => texts[1].push(MarkdownPage::parse(&text).text),
                Representation::Other => {}
            }
        }
        texts
    }
}
