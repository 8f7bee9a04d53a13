//! `/robots.txt` (RFC 9309) with the operator's preferences and rules for AI crawlers.

use crate::fault::Fault;
use crate::{ContentSignals, Site, SiteEntry};

/// Crawlers that build search indexes, or fetch pages to answer a user.
#[rustfmt::skip]
const ASSISTANTS: [&str; 9] = [
    "OAI-SearchBot", "ChatGPT-User", "Claude-SearchBot", "Claude-User", "PerplexityBot", "Perplexity-User",
    "MistralAI-User", "DuckAssistBot", "Applebot",
];

/// Crawlers that collect training data, and tokens that control whether pages fetched by other crawlers may
/// be used for training.
#[rustfmt::skip]
const TRAINERS: [&str; 8] = [
    "GPTBot", "ClaudeBot", "Google-Extended", "Applebot-Extended", "CCBot", "meta-externalagent",
    "Amazonbot", "Bytespider",
];

/// Builds `robots.txt`. Crawlers may fetch everything except the forms' endpoints, with two exceptions:
/// `ai-input=no` excludes [`ASSISTANTS`], and `ai-train=no` [`TRAINERS`]. `search=no` is only stated, as are
/// all preferences, in each group. Ends with the sitemap's URL.
pub(super) fn build_robots_txt(base_url: &str, signals: ContentSignals) -> String {
    let line = |name, value: String| match &*value {
        "" => String::new(),
        value => format!("{name}: {value}\n"),
    };
    let preferences =
        line("Content-Signal", signals.content_signal()) + &line("Content-Usage", signals.content_usage());
    let group = |agents: &[&str], open: bool| {
        let names: String = agents.iter().map(|agent| format!("User-agent: {agent}\n")).collect();
        // A crawler with a group of its own ignores the group `*`, so each group repeats the general rules.
        let rule = if open { "Allow: /\nDisallow: /api/\n" } else { "Disallow: /\n" };
        format!("{names}{preferences}{rule}\n")
    };
    let mut text = group(&["*"], true);
    text.push_str("# Assistants and search\n");
    text.push_str(&group(&ASSISTANTS, signals.ai_input != Some(false)));
    text.push_str("# Training\n");
    text.push_str(&group(&TRAINERS, signals.ai_train != Some(false)));
    text.push_str(&format!("Sitemap: {base_url}/sitemap-index.xml\n"));
    text
}

/// A warning if content signals are configured, but no line of the site's `robots.txt` states any. `None` if
/// the site has no `robots.txt`: the generated one, which is inserted later, states them.
pub fn check_robots_txt(site: &Site, signals: ContentSignals) -> Option<Fault> {
    let usage = Some(signals.content_usage()).filter(|usage| !usage.is_empty())?;
    let SiteEntry::File(file, _) = site.get("/robots.txt")? else { return None };
    let text = String::from_utf8_lossy(&file.unencoded().bytes).to_ascii_lowercase();
    let states = |line: &str| {
        let label = line.split_once(':').map_or("", |(label, _)| label.trim());
        matches!(label, "content-usage" | "content-signal")
    };
    let fault = Fault::warning("robots.txt", None, "does not state the preferences in `content_signals`");
    let hint =
        format!("add `Content-Usage: {usage}` to each group, or remove the file, so that one is generated");
    (!text.lines().any(states)).then(|| fault.hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://www.example.com";

    #[test]
    fn the_operators_signals_decide() {
        let silent = build_robots_txt(BASE, ContentSignals::default());
        assert!(!silent.contains("Content-") && !silent.contains("Disallow: /\n"), "{silent}");
        let signals = ContentSignals { search: Some(true), ai_input: Some(true), ai_train: Some(false) };
        let text = build_robots_txt(BASE, signals);
        assert!(
            text.starts_with(
                "User-agent: *\nContent-Signal: search=yes, ai-input=yes, ai-train=no\n\
                 Content-Usage: search=y, ai-use=y, train-ai=n\nAllow: /\n"
            ),
            "{text}"
        );
        let trainers = text.split("# Training\n").nth(1).expect("a training group");
        assert!(
            trainers.starts_with("User-agent: GPTBot\n") && trainers.contains("Disallow: /\n"),
            "{trainers}"
        );
        let groups = text.matches("User-agent: *\n").count() + text.matches("# ").count();
        assert_eq!(text.matches("Content-Usage: ").count(), groups, "each group states the preferences");
        assert!(text.ends_with("Sitemap: https://www.example.com/sitemap-index.xml\n"));
    }
}
