//! Byte ranges of files (RFC 9110 §14).

use std::ops::Range;

/// A byte range that a client requests. A `Range` header with several ranges is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteRange {
    /// Positions from the first to the last one, inclusive.
    Between(u64, u64),
    /// All positions from this one to the end of the file.
    From(u64),
    /// This many bytes at the end of the file.
    Last(u64),
}

impl ByteRange {
    /// Parses the value of `Range`. `None` if the header is to be ignored: it is malformed, has a unit other
    /// than bytes, or has several ranges, which would need a response of several parts (§14.2 permits the
    /// whole file). Numbers beyond 64 bits become [`u64::MAX`].
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let (unit, ranges) = std::str::from_utf8(value).ok()?.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        // Ignore empty list members, which are permitted (§5.6.1.2).
        let mut ranges = ranges.split(',').map(str::trim).filter(|range| !range.is_empty());
        let (first, last) = ranges.next()?.split_once('-')?;
        if ranges.next().is_some() {
            return None;
        }
        match (first, last) {
            ("", length) => position(length).map(Self::Last),
            (first, "") => position(first).map(Self::From),
            (first, last) => {
                let (first, last) = (position(first)?, position(last)?);
                (first <= last).then_some(Self::Between(first, last))
            }
        }
    }

    /// The bytes of a body of `length` bytes, at least one. `None` if the body has none of the range's
    /// positions.
    pub(super) fn of(self, length: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::Between(first, last) => first..last.saturating_add(1).min(length),
            Self::From(first) => first..length,
            // `bytes=-0` is unsatisfiable: `length..length` is empty.
            Self::Last(count) => length.saturating_sub(count)..length,
        };
        (range.start < length).then_some(range)
    }
}

/// Parses a decimal number without a sign; [`u64::MAX`] if it is larger. `None` for other text.
fn position(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes of a body with ten bytes that a header selects. `None` if the header is ignored, and an
    /// empty range if it cannot be satisfied.
    fn check(value: &str, expected: impl Into<Option<Range<u64>>>) {
        let found = ByteRange::parse(value.as_bytes()).map(|range| range.of(10).unwrap_or(0..0));
        assert_eq!(found, expected.into(), "{value}");
    }

    #[test]
    fn a_single_range_selects_bytes() {
        check("bytes=0-1", 0..2);
        check("bytes=0-", 0..10);
        check("bytes=9-9", 9..10);
        check("bytes=3-99", 3..10);
        check("bytes=-3", 7..10);
        check("bytes=-99", 0..10);
        check("Bytes=, 2-3 ,", 2..4);
        check("bytes=0-99999999999999999999999999", 0..10);
        check("bytes=0-18446744073709551615", 0..10);
        check("bytes=-99999999999999999999999999", 0..10);
    }

    #[test]
    fn a_range_beyond_the_body_is_unsatisfiable() {
        check("bytes=10-", 0..0);
        check("bytes=10-12", 0..0);
        check("bytes=-0", 0..0);
        check("bytes=99999999999999999999999999-", 0..0);
        let of_nothing = |value: &[u8]| ByteRange::parse(value).expect("one range").of(0);
        assert_eq!(of_nothing(b"bytes=0-"), None);
        assert_eq!(of_nothing(b"bytes=-5"), None);
    }

    #[test]
    fn other_headers_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=,",
            "bytes=5-2",
            "bytes=0-1,3-4",
            "bytes=0-1,x",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=0x1-2",
            "bytes=1 - 2",
            "lines=0-1",
            "bytes:0-1",
            "bytes=1-2-3",
            "bytes=\u{661}-",
        ] {
            check(value, None);
        }
        assert_eq!(ByteRange::parse(b"bytes=\xff-"), None);
    }

    proptest! {
        #[test]
        fn a_range_selects_the_positions_that_it_names(
            first in 0..40_u64, count in 0..40_u64, length in 0..40_u64,
        ) {
            let positions = |is_named: &dyn Fn(u64) -> bool| -> Vec<u64> {
                (0..length).filter(|position| is_named(*position)).collect()
            };
            let last = first + count;
            for (value, expected) in [
                (format!("bytes={first}-{last}"), positions(&|position| (first..=last).contains(&position))),
                (format!("bytes={first}-"), positions(&|position| position >= first)),
                (format!("bytes=-{count}"), positions(&|position| position + count >= length)),
            ] {
                let range = ByteRange::parse(value.as_bytes()).expect("a range").of(length);
                prop_assert_eq!(range.map_or_else(Vec::new, Iterator::collect), expected, "{} of {}", value, length);
            }
        }

        #[test]
        fn any_header_selects_bytes_of_the_body(value in "(bytes=)?[0-9, =-]{0,24}", length in 0..1000_u64) {
            if let Some(range) = ByteRange::parse(value.as_bytes()).and_then(|range| range.of(length)) {
                prop_assert!(range.start < range.end && range.end <= length);
            }
        }
    }
}
