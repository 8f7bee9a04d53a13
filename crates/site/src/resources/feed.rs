//! `/blog/rss.xml`: an RSS 2.0 feed with the full text of the posts.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::text::{escape_xml, has_page};
use crate::{FEED_LENGTH, Language, PageSummary, start_of_day};

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
    let changes = posts.iter().flat_map(|post| [start_of_day(post.updated), publication_time(post)]);
    if let Some(latest) = changes.flatten().max() {
        let _ = writeln!(text, "<lastBuildDate>{}</lastBuildDate>", format_rfc_822(latest));
    }
    for post in posts {
        let address = escape_xml(&format!("{base}{}", post.path));
        let _ = write!(
            text,
            "<item>\n<title>{}</title>\n<link>{address}</link>\n<guid isPermaLink=\"true\">{address}</guid>\n",
            escape_xml(&post.title),
        );
        if let Some(time) = publication_time(post) {
            let _ = writeln!(text, "<pubDate>{}</pubDate>", format_rfc_822(time));
        }
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

/// When a post was published: midnight in UTC if only its day is known.
fn publication_time(post: &PageSummary) -> Option<Timestamp> {
    post.dated_at.or_else(|| start_of_day(post.date.unwrap_or(post.updated)))
}

/// Formats a time in UTC for RSS (RFC 822 with a four-digit year).
fn format_rfc_822(time: Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_have_the_time_at_which_they_were_published() {
        let post = |path: &str, time: Option<&str>| PageSummary {
            path: path.to_owned(),
            is_post: true,
            date: Some(jiff::civil::date(2026, 11, 20)),
            dated_at: time.map(|time| time.parse().expect("a time")),
            updated: jiff::civil::date(2026, 11, 20),
            ..PageSummary::default()
        };
        let language = Language {
            tag: "en".into(),
            prefix: String::new(),
            words: std::sync::Arc::new(crate::WordList::english()),
            title: String::new(),
            tagline: String::new(),
            description: String::new(),
        };
        let posts = [post("/a/", Some("2026-11-20T14:30:05+02:00")), post("/b/", None)];
        let feed = build_rss(&posts, "https://www.example.com", 0, &language);
        let dates: Vec<&str> = feed.lines().filter(|line| line.contains("Date>")).collect();
        let latest = "Fri, 20 Nov 2026 12:30:05 +0000";
        let expected = [
            format!("<lastBuildDate>{latest}</lastBuildDate>"),
            format!("<pubDate>{latest}</pubDate>"),
            "<pubDate>Fri, 20 Nov 2026 00:00:00 +0000</pubDate>".to_owned(),
        ];
        assert_eq!(dates, expected);
    }
}
