//! `/blog/rss.xml`: the posts as an RSS 2.0 feed with their whole content.

use std::fmt::Write as _;

use super::{Options, has, xml};
use crate::pages::{FEED_LENGTH, Summary};

/// The feed, newest post first.
pub(super) fn build(pages: &[Summary], options: &Options) -> String {
    let base = &options.base_url;
    let posts: Vec<&Summary> = pages.iter().filter(|page| page.is_post).take(FEED_LENGTH).collect();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <rss version=\"2.0\" xmlns:atom=\"http://www.w3.org/2005/Atom\" xmlns:content=\"http://purl.org/rss/1.0/modules/content/\" \
         xmlns:dc=\"http://purl.org/dc/elements/1.1/\">\n<channel>\n<title>{}</title>\n<link>{}</link>\n\
         <description>{}</description>\n<language>{}</language>\n\
         <atom:link href=\"{}\" rel=\"self\" type=\"application/rss+xml\"/>\n",
        xml(&options.title),
        xml(&format!("{base}{}", if has(pages, "/blog/") { "/blog/" } else { "/" })),
        xml(&options.description),
        xml(&options.language),
        xml(&format!("{base}/blog/rss.xml")),
    );
    if let Some(latest) = posts.iter().map(|post| post.updated).max() {
        let _ = writeln!(text, "<lastBuildDate>{}</lastBuildDate>", rfc_822(latest));
    }
    for post in posts {
        let address = xml(&format!("{base}{}", post.path));
        let _ = write!(
            text,
            "<item>\n<title>{}</title>\n<link>{address}</link>\n<guid isPermaLink=\"true\">{address}</guid>\n<pubDate>{}</pubDate>\n",
            xml(&post.title),
            rfc_822(post.date.unwrap_or(post.updated)),
        );
        if let Some(author) = &post.author {
            let _ = writeln!(text, "<dc:creator>{}</dc:creator>", xml(author));
        }
        for tag in &post.tags {
            let _ = writeln!(text, "<category>{}</category>", xml(tag));
        }
        if let Some(description) = &post.description {
            let _ = writeln!(text, "<description>{}</description>", xml(description));
        }
        let _ = write!(text, "<content:encoded>{}</content:encoded>\n</item>\n", xml(&post.feed_html));
    }
    text.push_str("</channel>\n</rss>\n");
    text
}

/// Midnight in UTC of a day, as RSS writes it (RFC 822 with four digits of the year).
fn rfc_822(date: jiff::civil::Date) -> String {
    date.strftime("%a, %d %b %Y 00:00:00 +0000").to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_written_as_feeds_want_them() {
        assert_eq!(super::rfc_822(jiff::civil::date(2026, 11, 20)), "Fri, 20 Nov 2026 00:00:00 +0000");
    }
}
