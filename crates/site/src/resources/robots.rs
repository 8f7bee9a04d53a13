//! `/robots.txt` (RFC 9309) with the operator's content signals and rules for AI crawlers.

use super::options::ContentSignals;

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

/// Builds `robots.txt`. Crawlers may fetch everything except the forms' endpoints, but AI crawlers that the
/// operator's signals exclude may fetch nothing.
pub(super) fn build_robots_txt(base_url: &str, signals: ContentSignals) -> String {
    let said: Vec<String> =
        [("search", signals.search), ("ai-input", signals.ai_input), ("ai-train", signals.ai_train)]
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", if value? { "yes" } else { "no" })))
            .collect();
    let signal =
        if said.is_empty() { String::new() } else { format!("Content-Signal: {}\n", said.join(", ")) };
    let group = |agents: &[&str], open: bool| {
        let names: String = agents.iter().map(|agent| format!("User-agent: {agent}\n")).collect();
        // A crawler that has its own group ignores the group `*`, so each group repeats the general rules.
        let rule = if open { "Allow: /\nDisallow: /api/\n" } else { "Disallow: /\n" };
        format!("{names}{signal}{rule}\n")
    };
    let mut text = group(&["*"], true);
    text.push_str("# Assistants and search\n");
    text.push_str(&group(&ASSISTANTS, signals.ai_input != Some(false)));
    text.push_str("# Training\n");
    text.push_str(&group(&TRAINERS, signals.ai_train != Some(false)));
    text.push_str(&format!("Sitemap: {base_url}/sitemap-index.xml\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://www.example.com";

    #[test]
    fn the_operators_signals_decide() {
        let silent = build_robots_txt(BASE, ContentSignals::default());
        assert!(!silent.contains("Content-Signal") && !silent.contains("Disallow: /\n"), "{silent}");
        let signals = ContentSignals { search: Some(true), ai_input: Some(true), ai_train: Some(false) };
        let text = build_robots_txt(BASE, signals);
        assert!(
            text.starts_with(
                "User-agent: *\nContent-Signal: search=yes, ai-input=yes, ai-train=no\nAllow: /\n"
            ),
            "{text}"
        );
        let trainers = text.split("# Training\n").nth(1).expect("a training group");
        assert!(
            trainers.starts_with("User-agent: GPTBot\n") && trainers.contains("Disallow: /\n"),
            "{trainers}"
        );
        assert!(text.ends_with("Sitemap: https://www.example.com/sitemap-index.xml\n"));
    }
}
