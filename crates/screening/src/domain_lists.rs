//! Lists of domains: the built-in list of disposable e-mail domains, and the operator's lists.

use std::cmp::Ordering;
use std::sync::LazyLock;

/// The built-in list: a few comment lines, followed by the domains, one per line and sorted by byte.
const BUILT_IN: &str = include_str!("disposable.txt");

/// Whether a domain offers disposable addresses: the domain or a parent domain is on the built-in list or
/// among the operator's additions, and neither is one of the operator's exceptions.
pub(super) fn is_disposable(domain: &str, own: &Domains) -> bool {
    let is_built_in = |name: &str| SIEVE.may_contain(name) && sorted_lines_contain(BUILT_IN, name);
    !own.is_excepted(domain) && (own.lists(domain) || domain_and_parents(domain).any(is_built_in))
}

static SIEVE: LazyLock<Sieve> = LazyLock::new(|| Sieve::from_lines(BUILT_IN));

/// A 16 KiB Bloom filter that rules out most names without a search.
struct Sieve(Vec<u64>);

impl Sieve {
    /// Binary logarithm of the number of bits. With about twelve bits per line of the built-in list, one in
    /// twelve unlisted names needs a search.
    const BITS: u32 = 17;

    /// Builds a filter that contains all lines, comments included.
    fn from_lines(text: &str) -> Sieve {
        let mut sieve = Sieve(vec![0; 1 << (Sieve::BITS - u64::BITS.ilog2())]);
        for line in text.lines() {
            let (word, bit) = Sieve::bit_position(line);
            sieve.0[word] |= bit;
        }
        sieve
    }

    /// Whether the list may contain a name, ignoring case.
    fn may_contain(&self, name: &str) -> bool {
        let (word, bit) = Sieve::bit_position(name);
        self.0[word] & bit > 0
    }

    /// The position of a name's bit in the filter: the index of its 64-bit word, and a mask of the bit.
    fn bit_position(name: &str) -> (usize, u64) {
        let mix = |hash: u64, byte: u8| {
            (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        let hash = name.bytes().map(|byte| byte.to_ascii_lowercase()).fold(0, mix);
        let at = hash % (1 << Sieve::BITS);
        (usize::try_from(at / 64).unwrap_or_default(), 1 << (at % 64))
    }
}

/// The domain without trailing dots, followed by its parent domains that have at least two labels.
fn domain_and_parents<'a>(domain: &'a str) -> impl Iterator<Item = &'a str> {
    std::iter::successors(Some(domain.trim_end_matches('.')), |name: &&'a str| {
        let (_, parent) = name.split_once('.')?;
        parent.contains('.').then_some(parent)
    })
}

/// Whether the sorted lines, which are in lower case, contain the name, ignoring case. A binary search.
pub(super) fn sorted_lines_contain(text: &str, name: &str) -> bool {
    let bytes = text.as_bytes();
    let (mut low, mut high) = (0, bytes.len());
    // If the name is listed, its line begins between `low` and `high`, both of which are starts of lines or
    // the end of the text.
    while low < high {
        let middle = low + (high - low) / 2;
        let start = bytes[low..middle].iter().rposition(|b| *b == b'\n').map_or(low, |at| low + at + 1);
        let end = bytes[start..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| start + at);
        match compare_ignoring_case(&bytes[start..end], name.as_bytes()) {
            Ordering::Equal => return true,
            Ordering::Less => low = end + 1,
            Ordering::Greater => high = start,
        }
    }
    false
}

/// Compares a line in lower case with a name in any case, byte by byte.
fn compare_ignoring_case(line: &[u8], name: &[u8]) -> Ordering {
    line.iter().copied().cmp(name.iter().map(u8::to_ascii_lowercase))
}

/// A list of domains from the operator, and exceptions to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    listed: Vec<String>,
    excepted: Vec<String>,
}

/// The error for an invalid line: its number, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0} is not a domain such as \"example.com\"")]
pub struct NotADomain(pub usize);

impl Domains {
    /// Parses one domain per line, which stands for its subdomains too. `#` begins a comment. `-example.com`
    /// excludes the domain and its subdomains from the list. Fails at the first invalid line, such as a
    /// domain without a dot or not in ASCII.
    pub fn parse(text: &str) -> Result<Domains, NotADomain> {
        let mut domains = Domains::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let (list, name) = match line.strip_prefix('-') {
                Some(name) => (&mut domains.excepted, name.trim()),
                None => (&mut domains.listed, line),
            };
            if line.is_empty() {
                continue;
            }
            let is_label = |label: &str| {
                !label.is_empty()
                    && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            };
            if !name.contains('.') || !name.split('.').all(is_label) {
                return Err(NotADomain(at + 1));
            }
            list.push(name.to_ascii_lowercase());
        }
        domains.listed.sort_unstable();
        domains.excepted.sort_unstable();
        Ok(domains)
    }

    /// Whether the domain or a parent domain is listed, and neither is an exception.
    pub fn lists(&self, domain: &str) -> bool {
        contains_domain(&self.listed, domain) && !self.is_excepted(domain)
    }

    /// Whether the domain or a parent domain is an exception.
    fn is_excepted(&self, domain: &str) -> bool {
        contains_domain(&self.excepted, domain)
    }
}

/// Whether a sorted list contains the domain or a parent domain, ignoring case.
fn contains_domain(sorted: &[String], domain: &str) -> bool {
    let has = |name: &str| {
        sorted.binary_search_by(|line| compare_ignoring_case(line.as_bytes(), name.as_bytes())).is_ok()
    };
    !sorted.is_empty() && domain_and_parents(domain).any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_sorted_and_every_line_of_it_is_found() {
        let names: Vec<&str> = BUILT_IN.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(names.len() > 5000, "{}", names.len());
        assert!(names.is_sorted() && BUILT_IN.ends_with('\n'));
        assert!(names.iter().all(|name| sorted_lines_contain(BUILT_IN, name)));
        assert!(
            names
                .iter()
                .all(|name| !sorted_lines_contain(BUILT_IN, &name[1..]) || names.contains(&&name[1..]))
        );
        let said = BUILT_IN.lines().filter(|line| line.starts_with('#')).any(|line| line.contains("CC0"));
        assert!(said, "the comments of the list name its license");
    }

    #[test]
    fn the_sieve_holds_every_line_and_few_other_names() {
        let sieve = Sieve::from_lines(BUILT_IN);
        assert!(
            BUILT_IN
                .lines()
                .all(|line| sieve.may_contain(line) && sieve.may_contain(&line.to_ascii_uppercase()))
        );
        let others = (0..10_000).filter(|n| sieve.may_contain(&format!("host-{n}.example.com"))).count();
        assert!(others < 1200, "{others}");
    }

    #[test]
    fn subdomains_of_a_listed_domain_match_in_any_case() {
        let none = Domains::default();
        for (domain, expected) in [
            ("mailinator.com", true),
            ("MAILINATOR.com", true),
            ("a.b.mailinator.com", true),
            ("mailinator.com.", true),
            ("nomailinator.example", false),
            ("mailinator.com.example.com", false),
            ("ailinator.com", false),
            ("com", false),
            ("", false),
            ("[192.0.2.1]", false),
            ("zzzz.zzzz", false),
            ("0.0", false),
        ] {
            assert_eq!(is_disposable(domain, &none), expected, "{domain}");
        }
    }

    #[test]
    fn free_mail_for_keeps_is_not_disposable() {
        for domain in
            ["gmail.com", "outlook.com", "yahoo.co.jp", "gmx.de", "web.de", "proton.me", "icloud.com"]
        {
            assert!(!is_disposable(domain, &Domains::default()), "{domain}");
        }
    }

    #[test]
    fn the_operator_adds_and_takes_out() {
        let own = Domains::parse("# ours\n\n throwaway.example # comment\n-Mailinator.com\n").unwrap();
        for (domain, expected) in [
            ("throwaway.example", true),
            ("x.Throwaway.Example", true),
            ("mailinator.com", false),
            ("x.mailinator.com", false),
            ("yopmail.com", true),
            ("example.com", false),
        ] {
            assert_eq!(is_disposable(domain, &own), expected, "{domain}");
        }
        let own = Domains::parse("example.com\n-good.example.com").unwrap();
        assert!(own.lists("example.com") && own.lists("bad.example.com"));
        assert!(!own.lists("good.example.com") && !own.lists("x.good.example.com"));
    }

    #[test]
    fn an_invalid_domain_is_reported_with_its_line() {
        for (text, line) in
            [("example", 1), ("a.b\n\na b.c", 3), ("-", 1), ("a..b", 1), ("@a.b", 1), ("a.b\n.c", 2)]
        {
            assert_eq!(Domains::parse(text), Err(NotADomain(line)), "{text:?}");
        }
        assert_eq!(NotADomain(7).to_string(), "line 7 is not a domain such as \"example.com\"");
    }
}
