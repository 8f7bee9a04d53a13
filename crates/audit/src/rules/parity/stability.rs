//! Tells text that changes with each request from text that differs in the Markdown.

use std::sync::Arc;

use super::comparison::Comparison;
use crate::exchange::{Exchange, Representation};
use crate::survey::Survey;

/// The other responses for a page, in both representations.
pub(super) struct OtherResponses<'a> {
    html: &'a Exchange,
    markdown: &'a Exchange,
    others: Vec<&'a Arc<Exchange>>,
}

impl<'a> OtherResponses<'a> {
    pub fn new(survey: &'a Survey, comparison: &Comparison<'a>) -> OtherResponses<'a> {
        let urls = [comparison.page.html.url(), comparison.exchange.url()];
        let others = survey.exchanges.iter().filter(|exchange| urls.contains(&exchange.url()));
        let others = others.chain(&comparison.page.twin);
        let others = others.filter(|other| {
            other.success().is_some_and(|response| response.is_whole && !response.body.is_empty())
        });
        OtherResponses {
            html: &comparison.page.html,
            markdown: comparison.exchange,
            others: others.collect(),
        }
    }

    /// Whether another response of the page lacks the text of the HTML, or another Markdown lacks the text of
    /// the Markdown. Texts that markup divides in the response itself are not compared.
    pub fn differ(&self, in_html: &str, in_markdown: &str) -> bool {
        let differs = |own: &Exchange, text: &str, is_html: bool| {
            let has = |exchange: &Exchange| exchange.success().is_some_and(|own| own.text().contains(text));
            let is_html_exchange = |other: &Exchange| {
                other.response().is_some_and(|own| own.representation() == Representation::Html)
            };
            let mut others = self.others.iter().filter(|other| is_html_exchange(other) == is_html);
            has(own) && others.any(|other| !has(other))
        };
        differs(self.html, in_html, true) || differs(self.markdown, in_markdown, false)
    }
}
