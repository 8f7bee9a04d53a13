//! Renders headings as HTML, each with its ID and a link to itself.

use std::fmt;
use std::sync::Mutex;

use comrak::adapters::{HeadingAdapter, HeadingMeta};
use comrak::nodes::Sourcepos;
use frontdesk_forms::text::escape_html;

/// Renders headings with a link to themselves. Each heading gets the next id in the list.
pub struct AnchoredHeadings(Mutex<std::vec::IntoIter<String>>);

impl AnchoredHeadings {
    /// `ids` are the ids of the headings, in document order.
    pub fn new(ids: impl Iterator<Item = String>) -> Self {
        Self(Mutex::new(ids.collect::<Vec<_>>().into_iter()))
    }
}

impl HeadingAdapter for AnchoredHeadings {
    /// Writes the start tag and the link. The id is empty if there are more headings than ids.
    fn enter(&self, output: &mut dyn fmt::Write, heading: &HeadingMeta, _: Option<Sourcepos>) -> fmt::Result {
        let next = self.0.lock().ok().and_then(|mut ids| ids.next());
        let id = escape_html(&next.unwrap_or_default());
        let level = heading.level;
        write!(
            output,
            "<h{level} id=\"{id}\"><a class=\"anchor\" href=\"#{id}\" aria-hidden=\"true\" tabindex=\"-1\"></a>"
        )
    }

    fn exit(&self, output: &mut dyn fmt::Write, heading: &HeadingMeta) -> fmt::Result {
        writeln!(output, "</h{}>", heading.level)
    }
}
