//! The operator's preferences for automated use of the content, in the forms of two specifications.

use http::{HeaderName, HeaderValue};

use super::file::File;

/// The operator's preferences for automated use of the content. `None` expresses no preference.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ContentSignals {
    pub search: Option<bool>,
    /// Whether pages may be used as input for AI answers.
    pub ai_input: Option<bool>,
    pub ai_train: Option<bool>,
}

impl ContentSignals {
    /// The value of `Content-Signal` in `robots.txt` (contentsignals.org), such as `search=yes, ai-train=no`.
    /// Empty without preferences.
    pub(super) fn content_signal(self) -> String {
        self.join(["search", "ai-input", "ai-train"], ["no", "yes"])
    }

    /// The value of `Content-Usage` in `robots.txt` and in responses (draft-ietf-aipref-attach-05), such as
    /// `search=y, train-ai=n`: a dictionary (RFC 9651) of the categories in draft-ietf-aipref-vocab-08 §6.
    /// Empty without preferences.
    pub(super) fn content_usage(self) -> String {
        self.join(["search", "ai-use", "train-ai"], ["n", "y"])
    }

    /// Adds the header `Content-Usage` to a file, unless it has one or there are no preferences.
    pub(super) fn add_to(self, file: &mut File) {
        const NAME: HeaderName = HeaderName::from_static("content-usage");
        let has_own = file.headers.iter().any(|(name, _)| *name == NAME);
        let usage = self.content_usage();
        if !has_own
            && !usage.is_empty()
            && let Ok(value) = HeaderValue::try_from(usage)
        {
            file.headers.push((NAME, value));
        }
    }

    /// Lists the stated preferences under these names, with these words for `false` and `true`.
    fn join(self, names: [&str; 3], words: [&str; 2]) -> String {
        let values = [self.search, self.ai_input, self.ai_train];
        let stated = names.into_iter().zip(values);
        let stated =
            stated.filter_map(|(name, value)| Some(format!("{name}={}", words[usize::from(value?)])));
        stated.collect::<Vec<_>>().join(", ")
    }
}
