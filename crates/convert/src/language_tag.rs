//! Corrects the languages that pages declare.

/// The first language in a list, as a BCP 47 tag: with hyphens, as in `en-US` for the `en_US` of POSIX.
/// `None` if its first part is not two or three letters, if another part is not one to eight letters and
/// digits, or if it is longer than [`MAX_TAG`] bytes.
pub(super) fn language_tag(value: &str) -> Option<String> {
    let tag = value.split(',').next().unwrap_or_default().trim().replace('_', "-");
    let is_part =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let language = tag.split('-').next().unwrap_or_default();
    let is_language = matches!(language.len(), 2 | 3) && language.bytes().all(|b| b.is_ascii_alphabetic());
    (is_language && tag.len() <= MAX_TAG && tag.split('-').all(is_part)).then_some(tag)
}

/// Maximum length of a language tag, in bytes.
const MAX_TAG: usize = 35;

#[cfg(test)]
mod tests {
    use super::language_tag;

    #[test]
    fn declared_languages_become_tags() {
        for (value, expected) in [
            ("en", Some("en")),
            ("en_US", Some("en-US")),
            ("de, en", Some("de")),
            ("zh-Hant-TW", Some("zh-Hant-TW")),
            ("", None),
            ("English", None),
            ("{{ lang }}", None),
            ("en--US", None),
            ("en US", None),
        ] {
            assert_eq!(language_tag(value).as_deref(), expected, "{value}");
        }
    }
}
