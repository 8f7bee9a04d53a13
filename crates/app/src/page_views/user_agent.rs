//! Classifies clients by the product names in their `User-Agent` (RFC 9110 §10.1.5), to count page views.
//!
//! Clients choose their names freely, so a class is a claim. It never changes a response.

/// Classes of clients in statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentClass {
    Browser,
    /// A client that reads pages for a language model: for training, for search, or at a user's request.
    Ai,
    /// The crawler of a search engine.
    Search,
    /// Any other robot, such as a link preview or a monitor.
    Bot,
    /// An HTTP client or library, such as curl.
    Tool,
    Unknown,
}

impl AgentClass {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Browser => "browser",
            Self::Ai => "ai",
            Self::Search => "search",
            Self::Bot => "bot",
            Self::Tool => "tool",
            Self::Unknown => "unknown",
        }
    }
}

/// A client, or a group of clients, that is counted separately. Stored counts contain its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedAgent {
    pub name: &'static str,
    pub class: AgentClass,
}

const fn counted(class: AgentClass, name: &'static str) -> CountedAgent {
    CountedAgent { name, class }
}

use AgentClass::{Ai, Search};

/// All counted agents: the groups first, then clients. The name of a client is its product name in
/// `User-Agent`, where upper and lower case are the same.
const AGENTS: [CountedAgent; GROUPS + 35] = [
    counted(AgentClass::Unknown, "unknown"),
    counted(AgentClass::Browser, "browser"),
    counted(AgentClass::Bot, "other bot"),
    counted(AgentClass::Tool, "tool"),
    counted(Ai, "GPTBot"),
    counted(Ai, "ChatGPT-User"),
    counted(Ai, "OAI-SearchBot"),
    counted(Ai, "ClaudeBot"),
    counted(Ai, "Claude-User"),
    counted(Ai, "Claude-SearchBot"),
    counted(Ai, "PerplexityBot"),
    counted(Ai, "Perplexity-User"),
    counted(Ai, "Google-CloudVertexBot"),
    counted(Ai, "Google-NotebookLM"),
    counted(Ai, "Gemini-Deep-Research"),
    counted(Ai, "meta-externalagent"),
    counted(Ai, "meta-externalfetcher"),
    counted(Ai, "MistralAI-User"),
    counted(Ai, "DuckAssistBot"),
    counted(Ai, "Amazonbot"),
    counted(Ai, "Bytespider"),
    counted(Ai, "CCBot"),
    counted(Ai, "cohere-ai"),
    counted(Ai, "YouBot"),
    counted(Ai, "AI2Bot"),
    counted(Ai, "Diffbot"),
    counted(Search, "Googlebot"),
    counted(Search, "bingbot"),
    counted(Search, "DuckDuckBot"),
    counted(Search, "Applebot"),
    counted(Search, "YandexBot"),
    counted(Search, "Baiduspider"),
    counted(Search, "Slurp"),
    counted(Search, "PetalBot"),
    counted(Search, "SeznamBot"),
    counted(Search, "Qwantbot"),
    counted(Search, "Kagibot"),
    counted(Search, "MojeekBot"),
    counted(Search, "Yeti"),
];

/// The number of groups at the beginning of [`AGENTS`].
const GROUPS: usize = 4;

/// The index of an entry in [`AGENTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct AgentIndex(pub(super) u8);

impl AgentIndex {
    pub(super) const UNKNOWN: Self = Self(0);
    /// The canary of this site, whose views are not counted. Not an index of [`AGENTS`].
    pub(super) const UNCOUNTED: Self = Self(u8::MAX);
    const BROWSER: Self = Self(1);
    const OTHER_BOT: Self = Self(2);
    const TOOL: Self = Self(3);

    /// The entry with this index. Panics for [`Self::UNCOUNTED`].
    pub(super) fn agent(self) -> CountedAgent {
        AGENTS[usize::from(self.0)]
    }
}

/// The class of the client with this name in stored counts. A name that only a newer version knows is
/// [`AgentClass::Unknown`].
pub fn class_of(name: &str) -> AgentClass {
    AGENTS.iter().find(|agent| agent.name == name).map_or(AgentClass::Unknown, |agent| agent.class)
}

/// The names of all clients and groups of a class.
pub fn names_of(class: AgentClass) -> Vec<&'static str> {
    AGENTS.iter().filter(|agent| agent.class == class).map(|agent| agent.name).collect()
}

/// Product names of robots that [`is_bot`] does not recognize.
const OTHER_BOTS: [&str; 6] = [
    "facebookexternalhit",
    "GoogleOther",
    "Google-InspectionTool",
    "WhatsApp",
    "Mediapartners-Google",
    "ia_archiver",
];

/// Product names of HTTP clients and libraries.
const TOOLS: [&str; 22] = [
    "curl",
    "Wget",
    "python-requests",
    "Python-urllib",
    "python-httpx",
    "aiohttp",
    "Go-http-client",
    "okhttp",
    "axios",
    "node-fetch",
    "undici",
    "node",
    "Deno",
    "Bun",
    "Java",
    "Apache-HttpClient",
    "libwww-perl",
    "PostmanRuntime",
    "HTTPie",
    "Ruby",
    "GuzzleHttp",
    "HeadlessChrome",
];

/// The product name of the canary, which fetches the pages that show a form (`frontdesk-canary`).
const CANARY: &str = "frontdesk-canary";

/// Maximum number of bytes of a `User-Agent` to examine.
const MAX_EXAMINED: usize = 512;

/// Finds the client that a `User-Agent` names in any of its words, including those in comments and URLs. The
/// first client of [`AGENTS`] takes precedence over other robots, these over tools, and tools over browsers.
/// [`AgentIndex::UNCOUNTED`] for the canary, unless a client of [`AGENTS`] comes first. Examines only the
/// first [`MAX_EXAMINED`] bytes.
pub(super) fn classify(user_agent: &[u8]) -> AgentIndex {
    let text = &user_agent[..user_agent.len().min(MAX_EXAMINED)];
    let is_browser = text.starts_with(b"Mozilla/") || text.starts_with(b"Opera/");
    let mut found = if is_browser { AgentIndex::BROWSER } else { AgentIndex::UNKNOWN };
    let is_in_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    for word in text.split(|byte| !is_in_name(byte)).filter(|word| word.len() > 2) {
        let equals = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if equals(CANARY) {
            return AgentIndex::UNCOUNTED;
        }
        if let Some(index) = AGENTS[GROUPS..].iter().position(|agent| equals(agent.name)) {
            return AgentIndex(u8::try_from(GROUPS + index).unwrap_or_default());
        }
        if is_bot(word) || OTHER_BOTS.into_iter().any(equals) {
            found = AgentIndex::OTHER_BOT;
        } else if found != AgentIndex::OTHER_BOT && TOOLS.into_iter().any(equals) {
            found = AgentIndex::TOOL;
        }
    }
    found
}

/// Whether a product name contains `crawl` or `spider`, or a part between hyphens ends in `bot`. Except for
/// `CUBOT`, a brand of phones.
fn is_bot(word: &[u8]) -> bool {
    let contains = |part: &[u8]| word.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part));
    let ends_in_bot =
        |part: &[u8]| part.last_chunk::<3>().is_some_and(|end| end.eq_ignore_ascii_case(b"bot"));
    let is_named_bot = word.split(|byte| *byte == b'-').any(ends_in_bot);
    (is_named_bot && !word.eq_ignore_ascii_case(b"cubot")) || contains(b"crawl") || contains(b"spider")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";

    #[test]
    fn clients_are_found_by_their_product_names() {
        for (user_agent, name) in [
            ("", "unknown"),
            ("Ada", "unknown"),
            (CHROME, "browser"),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:143.0) Gecko/20100101 Firefox/143.0",
                "browser",
            ),
            (
                "Mozilla/5.0 (Linux; Android 7.0; CUBOT NOTE S) AppleWebKit/537.36 Mobile Safari/537.36",
                "browser",
            ),
            (
                "Mozilla/5.0 (Linux; Android 9; CUBOT_X18_Plus) AppleWebKit/537.36 Mobile Safari/537.36",
                "browser",
            ),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
                "GPTBot",
            ),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
                "ChatGPT-User",
            ),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; OAI-SearchBot/1.0; +https://openai.com/searchbot",
                "OAI-SearchBot",
            ),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
                "ClaudeBot",
            ),
            ("Claude-User (claude-code/2.0.14; +https://support.anthropic.com/)", "Claude-User"),
            (
                "meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
                "meta-externalagent",
            ),
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot"),
            ("GOOGLEBOT/2.1", "Googlebot"),
            (
                "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 Version/17.4 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)",
                "Applebot",
            ),
            ("Mozilla/5.0 (compatible; Applebot-Extended/0.1)", "other bot"),
            ("Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "other bot"),
            ("Slackbot 1.0 (+https://api.slack.com/robots)", "other bot"),
            ("facebookexternalhit/1.1", "other bot"),
            ("Mozilla/5.0 (compatible; SomeCrawler/1.0)", "other bot"),
            ("python-requests/2.32 ExampleBot/1.0", "other bot"),
            ("ExampleBot/1.0 python-requests/2.32", "other bot"),
            ("curl/8.14.1", "tool"),
            ("Go-http-client/2.0", "tool"),
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0 Safari/537.36",
                "tool",
            ),
            ("curl/8 GPTBot/1.2", "GPTBot"),
        ] {
            assert_eq!(classify(user_agent.as_bytes()).agent().name, name, "{user_agent}");
        }
    }

    #[test]
    fn only_the_beginning_of_a_long_name_is_examined() {
        let long = format!("{}GPTBot", " ".repeat(MAX_EXAMINED));
        assert_eq!(classify(long.as_bytes()), AgentIndex::UNKNOWN);
        assert_eq!(classify(&[0xff; 100]), AgentIndex::UNKNOWN);
    }

    #[test]
    fn each_name_is_found_by_itself_and_has_one_class() {
        for (index, agent) in AGENTS.iter().enumerate() {
            assert_eq!(class_of(agent.name), agent.class, "{}", agent.name);
            if index >= GROUPS {
                assert_eq!(classify(agent.name.as_bytes()).agent(), *agent);
            }
        }
        assert_eq!(class_of("a name of a newer version"), AgentClass::Unknown);
        let groups = [AgentIndex::UNKNOWN, AgentIndex::BROWSER, AgentIndex::OTHER_BOT, AgentIndex::TOOL];
        assert_eq!(groups.map(|group| group.agent().name), ["unknown", "browser", "other bot", "tool"]);
        assert!(names_of(AgentClass::Ai).contains(&"GPTBot") && !names_of(AgentClass::Ai).contains(&"tool"));
    }
}
