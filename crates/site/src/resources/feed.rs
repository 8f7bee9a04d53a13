//! `/blog/rss.xml`: an RSS 2.0 feed with the full text of the posts.

use jiff::Timestamp;
use minijinja::context;

use super::formatting::{has_page, render_xml};
use crate::{FEED_LENGTH, Language, PageSummary, start_of_day};

/// Builds the RSS feed of the first [`FEED_LENGTH`] posts in a language, in the order of `pages`. `index` is
/// the language's index. Links to the blog, or to the home page if no page lists the posts.
pub(super) fn build_rss(pages: &[PageSummary], base: &str, index: usize, language: &Language) -> String {
    let is_post = |page: &&PageSummary| page.is_post && page.language == index;
    let posts: Vec<&PageSummary> = pages.iter().filter(is_post).take(FEED_LENGTH).collect();
    let blog = format!("{}/blog/", language.prefix);
    let home = if has_page(pages, &blog) { blog } else { language.home() };
    let changes = posts.iter().flat_map(|post| [start_of_day(post.updated), publication_time(post)]);
    let last_change = changes.flatten().max().map(format_rfc_822);
    let post = |post: &&PageSummary| {
        context! {
            title => post.title.as_str(),
            link => format!("{base}{}", post.path),
            published => publication_time(post).map(format_rfc_822),
            author => post.author.as_deref(),
            tags => &post.tags,
            description => post.description.as_deref(),
            html => post.feed_html.as_str(),
        }
    };
    let values = context! {
        title => language.name.as_str(),
        link => format!("{base}{home}"),
        description => language.description.as_str(),
        language => language.tag.as_str(),
        feed => format!("{base}{}/blog/rss.xml", language.prefix),
        last_change,
        posts => posts.iter().map(post).collect::<Vec<_>>(),
    };
    render_xml(include_str!("rss.xml"), values)
}

/// The time at which a post was published: midnight in UTC if only its day is known. Without a date, the day
/// of its last update.
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
            name: String::new(),
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
