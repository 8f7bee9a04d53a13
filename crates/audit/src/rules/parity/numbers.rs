//! Finds paragraphs and rows of tables that have the same words but other numbers.

use std::collections::{BTreeMap, HashMap, HashSet};

use regex_lite::Regex;

use crate::markdown::{BlockKind, MarkdownPage};
use crate::words::words;

/// Minimum number of words in a compared paragraph, without numbers: fewer words do not identify it.
const MIN_WORDS: usize = 4;

/// Maximum number of variants of a text to compare.
const MAX_VARIANTS: usize = 50;

/// Maximum number of differences to return.
const MAX_DIFFERENCES: usize = 100;

/// A number, which may contain separators. A space is a separator only before exactly three digits.
const NUMBER: &str = r"[0-9]+(?:[.,'’][0-9]+|[ \x{a0}\x{202f}][0-9]{3}\b)*";

/// The English names of the numbers from two to twenty.
const NAMES: [&str; 19] = [
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];

/// A time of day or a relative time. Texts with one are skipped: it may change between responses.
const CHANGES: &str = r"(?i)[0-9]:[0-9][0-9]|\b(?:ago|(?:vor|il y a|hace) [0-9]+)\b";

/// A paragraph, or the cells of a table row, with its numbers in order.
#[derive(Clone, Debug)]
pub(super) struct NumberedText {
    pub text: String,
    /// The number of words of the text that are not numbers.
    pub words: usize,
    numbers: Vec<Number>,
    /// The position among the texts of the document; rows of tables follow all paragraphs.
    order: usize,
}

/// A number in a text.
#[derive(Clone, Debug)]
pub(super) struct Number {
    /// The digits without separators, but with a point before a fraction. Zeros at the end of a fraction are
    /// left out.
    digits: String,
    pub written: String,
    /// Whether the number is a price, a percentage, a temperature, a version or a fraction: such numbers are
    /// not counters, which change between responses.
    pub is_exact: bool,
}

/// A text in the HTML and its counterpart in the Markdown, with the numbers that differ.
pub(super) struct Difference {
    pub html: NumberedText,
    pub markdown: NumberedText,
    /// Numbers that only the HTML has, each with the number that the Markdown has instead; never empty.
    pub numbers: Vec<(Number, Number)>,
}

/// Texts with the same words and different numbers. The keys are the sorted numbers of each text.
type Variants = BTreeMap<Vec<String>, NumberedText>;

/// Compares texts that have the same words, in the order of the HTML. The order of numbers does not count,
/// because dates have several forms. Skips a text if HTML and Markdown have a different number of variants
/// that the other lacks, if the two texts have a different number of numbers, or if they have one word and
/// share no number. Reads at most [`MAX_VARIANTS`] variants. Returns at most [`MAX_DIFFERENCES`].
pub(super) fn differences(html: &MarkdownPage, markdown: &MarkdownPage) -> Vec<Difference> {
    let (html, markdown) = (numbered_texts(html), numbered_texts(markdown));
    let mut found = Vec::new();
    for (key, variants) in &html {
        let Some(others) = markdown.get(key) else { continue };
        // The variants that the other document lacks.
        let only = |own: &Variants, other: &Variants| -> Vec<NumberedText> {
            let own = own.iter().filter(|(digits, _)| !other.contains_key(*digits));
            own.map(|(_, text)| text.clone()).take(MAX_VARIANTS).collect()
        };
        let (own, mut other) = (only(variants, others), only(others, variants));
        if own.len() != other.len() {
            continue;
        }
        for text in own {
            let nearest = (0..other.len()).min_by_key(|index| differing(&text, &other[*index]).len());
            let Some(markdown) = nearest.map(|index| other.swap_remove(index)) else { break };
            let numbers = differing(&text, &markdown);
            let common = text.numbers.len() - numbers.len();
            if text.numbers.len() == markdown.numbers.len() && !numbers.is_empty() && text.words + common >= 2
            {
                found.push(Difference { html: text, markdown, numbers });
            }
        }
    }
    found.sort_by_key(|difference| difference.html.order);
    found.truncate(MAX_DIFFERENCES);
    found
}

/// The numbers that only `text` has, each paired with one that only `other` has. Drops surplus numbers.
fn differing(text: &NumberedText, other: &NumberedText) -> Vec<(Number, Number)> {
    let only = |own: &[Number], other: &[Number]| -> Vec<Number> {
        let mut left: HashMap<String, usize> = HashMap::new();
        for number in other {
            *left.entry(number.digits.clone()).or_default() += 1;
        }
        let is_new = |number: &&Number| match left.get_mut(&number.digits) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        };
        own.iter().filter(is_new).cloned().collect()
    };
    only(&text.numbers, &other.numbers).into_iter().zip(only(&other.numbers, &text.numbers)).collect()
}

/// The headings, paragraphs and table rows that contain numbers, grouped by their other words. Skips texts
/// with too few other words or with a time; of texts with the same numbers, keeps the first.
fn numbered_texts(page: &MarkdownPage) -> HashMap<Vec<String>, Variants> {
    let cells: HashSet<&str> =
        page.tables.iter().flat_map(|table| table.rows.iter().flatten()).map(String::as_str).collect();
    let blocks = page.blocks.iter().filter(|block| {
        matches!(block.kind, BlockKind::Heading(_) | BlockKind::Prose) && !cells.contains(&*block.text)
    });
    let texts = blocks.map(|block| (block.text.clone(), MIN_WORDS));
    let rows = page.tables.iter().flat_map(|table| &table.rows).map(|row| (row.join(" "), 1));
    let pattern = Regex::new(&format!(r"{NUMBER}|(?i:\b(?:{})\b)", NAMES.join("|")));
    let (Ok(pattern), Ok(changes)) = (pattern, Regex::new(CHANGES)) else { return HashMap::new() };
    let mut found: HashMap<Vec<String>, Variants> = HashMap::new();
    for (order, (text, least)) in texts.chain(rows).enumerate() {
        let key = words(&pattern.replace_all(&text, " "));
        let numbers: Vec<_> =
            pattern.find_iter(&text).map(|found| read_number(&text, found.start(), found.end())).collect();
        if key.len() < least || numbers.is_empty() || changes.is_match(&text) {
            continue;
        }
        let mut digits: Vec<_> = numbers.iter().map(|number| number.digits.clone()).collect();
        digits.sort();
        let text = NumberedText { text, words: key.len(), numbers, order };
        found.entry(key).or_default().entry(digits).or_insert(text);
    }
    found
}

/// Reads the number in `text[start..end]`: digits, with or without separators, or an English word such as
/// `twelve`. Words, and numbers before `k` or `m` as in `1.5k`, are never exact.
fn read_number(text: &str, start: usize, end: usize) -> Number {
    let written = text[start..end].to_owned();
    let name = NAMES.iter().position(|name| written.eq_ignore_ascii_case(name));
    if let Some(position) = name {
        return Number { digits: (position + 2).to_string(), written, is_exact: false };
    }
    let is_digit = |c: char| c.is_ascii_digit();
    // After the last separator, one or two digits are a fraction, three are thousands, and four are a year.
    let point = written.rfind(|c| !is_digit(c)).filter(|at| written[*at..].chars().count() < 4);
    let has_fraction = point.is_some();
    let (whole, fraction) = written.split_at(point.unwrap_or(written.len()));
    let mut digits: String = whole.chars().filter(|c| is_digit(*c)).collect();
    let fraction = fraction.trim_start_matches(|c| !is_digit(c)).trim_end_matches('0');
    if !fraction.is_empty() {
        digits.extend([".", fraction]);
    }
    let (before, after) = (text[..start].trim_end(), text[end..].trim_start());
    let currency = ['$', '€', '£', '¥', '₹'];
    let has_unit = before.ends_with(currency) || after.starts_with(currency) || after.starts_with(['%', '°']);
    let is_rounded = text[end..].starts_with(['k', 'K', 'm', 'M']);
    Number { digits, written, is_exact: (has_unit || has_fraction) && !is_rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that differ between two documents.
    fn compare(html: &str, markdown: &str) -> Vec<(String, String)> {
        let found = differences(&MarkdownPage::parse(html), &MarkdownPage::parse(markdown));
        let numbers = found.into_iter().flat_map(|difference| difference.numbers);
        numbers.map(|(html, markdown)| (html.written, markdown.written)).collect()
    }

    #[test]
    fn other_forms_of_the_same_numbers_are_equal() {
        for (html, markdown) in [
            ("The large oven costs 1,000 euros", "The large oven costs 1 000 euros"),
            ("The large oven costs 1.000,50 euros", "The large oven costs 1000.5 euros"),
            ("The price of this drops by 10 %", "The price of this drops by 10%"),
            ("The large oven costs €20.00", "The large oven costs € 20"),
            ("The release came out on 11/28/2026", "The release came out on 28/11/2026"),
            ("The oven was sold 5 minutes ago", "The oven was sold 7 minutes ago"),
            ("The oven has twelve programmes", "The oven has 12 programmes"),
            ("Ovens: 20 [1] of all kinds sold", "Ovens: 30 of all kinds sold"),
            ("|a|b|\n|-|-|\n|x|1|\n|x|2|", "|a|b|\n|-|-|\n|x|2|\n|x|1|"),
        ] {
            assert_eq!(compare(html, markdown), [], "{html}");
        }
    }

    #[test]
    fn other_numbers_are_found() {
        for (html, markdown, expected) in [
            ("The large oven costs € 1,190", "The large oven costs € 1,290", ("1,190", "1,290")),
            ("The oven has twelve programmes", "The oven has twenty programmes", ("twelve", "twenty")),
            ("The large oven costs $10.50", "The large oven costs $105", ("10.50", "105")),
            (
                "The large oven costs 1.000,50 euros",
                "The large oven costs 100.050 euros",
                ("1.000,50", "100.050"),
            ),
            (
                "|oven|price|\n|-|-|\n|L 2|30|\n|L 1|20|",
                "|oven|price|\n|-|-|\n|L 1|25|\n|L 2|30|",
                ("20", "25"),
            ),
        ] {
            assert_eq!(compare(html, markdown), [(expected.0.to_owned(), expected.1.to_owned())]);
        }
    }
}
