//! `/blog/rss.xml`: an RSS 2.0 feed with the full text of the posts.

use std::fmt::Write as _;

use super::text::{escape_xml, has_page};
use crate::pages::{FEED_LENGTH, Language, PageSummary};

/// Builds the RSS feed in a language, newest post first. `index` is the language's index.
pub(super) fn build_rss(pages: &[PageSummary], base: &str, index: usize, language: &Language) -> String {
    let is_post = |page: &&PageSummary| page.is_post && page.language == index;
    let posts: Vec<&PageSummary> = pages.iter().filter(is_post).take(FEED_LENGTH).collect();
    let Language { prefix, .. } = language;
    let blog = format!("{prefix}/blog/");
    let home = if has_page(pages, &blog) { blog } else { language.home() };
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <rss version=\"2.0\" xmlns:atom=\"http://www.w3.org/2005/Atom\" xmlns:content=\"http://purl.org/rss/1.0/modules/content/\" \
         xmlns:dc=\"http://purl.org/dc/elements/1.1/\">\n<channel>\n<title>{}</title>\n<link>{}</link>\n\
         <description>{}</description>\n<language>{}</language>\n\
         <atom:link href=\"{}\" rel=\"self\" type=\"application/rss+xml\"/>\n",
        escape_xml(&language.title),
        escape_xml(&format!("{base}{home}")),
        escape_xml(&language.description),
        escape_xml(&language.tag),
        escape_xml(&format!("{base}{prefix}/blog/rss.xml")),
    );
    if let Some(latest) = posts.iter().map(|post| post.updated).max() {
        let _ = writeln!(text, "<lastBuildDate>{}</lastBuildDate>", format_rfc_822(latest));
    }
    for post in posts {
        let address = escape_xml(&format!("{base}{}", post.path));
        let _ = write!(
            text,
            "<item>\n<title>{}</title>\n<link>{address}</link>\n<guid isPermaLink=\"true\">{address}</guid>\n<pubDate>{}</pubDate>\n",
            escape_xml(&post.title),
            format_rfc_822(post.date.unwrap_or(post.updated)),
        );
        let author = post.author.iter().map(|author| ("dc:creator", author));
        let tags = post.tags.iter().map(|tag| ("category", tag));
        let description = post.description.iter().map(|description| ("description", description));
        for (element, value) in author.chain(tags).chain(description) {
            let _ = writeln!(text, "<{element}>{}</{element}>", escape_xml(value));
        }
        let _ = write!(text, "<content:encoded>{}</content:encoded>\n</item>\n", escape_xml(&post.feed_html));
    }
    text.push_str("</channel>\n</rss>\n");
    text
}

/// Formats a date as midnight UTC for RSS (RFC 822 with a four-digit year).
fn format_rfc_822(date: jiff::civil::Date) -> String {
    date.strftime("%a, %d %b %Y 00:00:00 +0000").to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_written_as_feeds_want_them() {
        assert_eq!(super::format_rfc_822(jiff::civil::date(2026, 11, 20)), "Fri, 20 Nov 2026 00:00:00 +0000");
    }
}
