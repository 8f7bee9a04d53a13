//! Counts the words of a text.

/// The number of words: runs of characters other than whitespace.
pub fn count_words(text: &str) -> usize {
    if !text.is_ascii() {
        return text.split_whitespace().count();
    }
    let mut words = 0;
    let mut was_space = true;
    for byte in text.bytes() {
        let is_space = matches!(byte, b'\t'..=b'\r' | b' ');
        words += usize::from(was_space && !is_space);
        was_space = is_space;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_divided_by_all_whitespace() {
        for c in (0..=0x3001).filter_map(char::from_u32) {
            for text in [format!("a{c}b"), format!("{c}a b{c}{c}"), c.to_string()] {
                assert_eq!(count_words(&text), text.split_whitespace().count(), "{text:?}");
            }
        }
    }
}
