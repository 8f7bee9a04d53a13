//! The `Accept` headers that real agents and browsers send, collected in November 2026, and the values of
//! `User-Agent` that the audit sends.

/// The representation that a client must get from a URL that offers both HTML and Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preferred {
    Html,
    Markdown,
}

/// An HTTP client that requests pages, such as a browser or an agent.
#[derive(Clone, Copy, Debug)]
pub struct WebClient {
    pub name: &'static str,
    pub accept: &'static str,
    pub preferred: Preferred,
}

pub const CHROME: WebClient = WebClient {
    name: "Chrome",
    accept: "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    preferred: Preferred::Html,
};
pub const FIREFOX: WebClient = WebClient {
    name: "Firefox and Safari",
    accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    preferred: Preferred::Html,
};
pub const OLD_JAVA: WebClient = WebClient {
    name: "Java before 21",
    accept: "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
    preferred: Preferred::Html,
};
pub const ANY: WebClient =
    WebClient { name: "curl and search engines", accept: "*/*", preferred: Preferred::Html };
pub const CODEX: WebClient =
    WebClient { name: "Codex CLI", accept: "text/html, */*", preferred: Preferred::Html };
pub const CLAUDE_CODE: WebClient = WebClient {
    name: "Claude Code",
    accept: "text/markdown, text/html, */*",
    preferred: Preferred::Markdown,
};
/// Used where Claude Code gets HTML: the media types that Claude Code accepts have equal weights, so the
/// site may still have Markdown.
pub const MARKDOWN_ONLY: WebClient = WebClient {
    name: "an agent that accepts only Markdown",
    accept: "text/markdown",
    preferred: Preferred::Markdown,
};
pub const CURSOR: WebClient = WebClient {
    name: "Cursor",
    accept: "text/markdown, text/plain;q=0.9, */*;q=0.8",
    preferred: Preferred::Markdown,
};
pub const OPENCODE: WebClient = WebClient {
    name: "opencode",
    accept: "text/markdown;q=1.0, text/x-markdown;q=0.9, text/plain;q=0.8, text/html;q=0.7, */*;q=0.1",
    preferred: Preferred::Markdown,
};
pub const GEMINI_CLI: WebClient = WebClient {
    name: "Gemini CLI",
    accept: "text/markdown, text/plain;q=0.9, application/json;q=0.9, text/html;q=0.8, application/pdf;q=0.7, video/*;q=0.7, */*;q=0.5",
    preferred: Preferred::Markdown,
};

/// The product token that addresses the audit in `robots.txt`.
pub const PRODUCT_TOKEN: &str = "frontdesk-audit";

/// The `User-Agent` of the audit, unless the operator sets another.
pub const USER_AGENT: &str =
    concat!("frontdesk-audit/", env!("CARGO_PKG_VERSION"), " (+https://frontdesk.example.com/audit/)");

/// A browser's `User-Agent` with the audit's name at the end, so that operators can recognize the audit.
pub const AS_BROWSER: &str = concat!(
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0 frontdesk-audit/",
    env!("CARGO_PKG_VERSION")
);

/// Product tokens of crawlers and agents, each with a `User-Agent` that ends with the audit's name.
pub const AS_CRAWLERS: [(&str, &str); 2] = [
    (
        "ClaudeBot",
        concat!(
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; \
             +claudebot@anthropic.com) frontdesk-audit/",
            env!("CARGO_PKG_VERSION")
        ),
    ),
    (
        "ChatGPT-User",
        concat!(
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-User/1.0; \
             +https://openai.com/bot) frontdesk-audit/",
            env!("CARGO_PKG_VERSION")
        ),
    ),
];
