//! `[content_signals]`: whether crawlers may use the content for search, for answers and for training.

use super::reader::{Reader, requests};
use super::value_parsers;
use frontdesk_site::ContentSignals;

/// Reads `[content_signals]`. A key that is not set is `None`.
pub(super) fn read(r: &mut Reader<'_>) -> ContentSignals {
    let mut signal = |name, example, documentation| {
        let key = requests(name).with_example(example);
        r.get(key, "", documentation, value_parsers::optional(value_parsers::parse_bool))
    };
    ContentSignals {
        search: signal(
            "content_signals.search",
            "true",
            "Your preferences for automated use of the content, which robots.txt (Content-Signal, Content-Usage) \
             and the pages (the header Content-Usage) state: building a search index, using pages as input for \
             an answer, and training models. An unset key states none. `ai_input = false` and \
             `ai_train = false` also ask the crawlers of these uses to stay away.",
        ),
        ai_input: signal("content_signals.ai_input", "true", ""),
        ai_train: signal("content_signals.ai_train", "false", ""),
    }
}
