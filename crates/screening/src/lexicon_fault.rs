//! Faults in a file of the lexicon.

/// A file of the lexicon that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {message}")]
pub struct LexiconFault {
    pub file: String,
    /// The number of the line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The fault, and how to fix it.
    pub message: String,
}

impl LexiconFault {
    /// A fault at a byte offset of a text. The caller adds the file's name.
    pub(super) fn at(text: &str, offset: Option<usize>, message: String) -> LexiconFault {
        let line =
            offset.and_then(|offset| text.get(..offset)).map(|before| before.matches('\n').count() + 1);
        LexiconFault { file: String::new(), line, message }
    }

    /// Converts a TOML error: a fault in the syntax, or an unknown key.
    pub(super) fn in_toml(text: &str, error: &toml::de::Error) -> LexiconFault {
        LexiconFault::at(text, error.span().map(|span| span.start), error.message().to_owned())
    }
}
