//! Interleaved rounds: each peer in turn, again and again, so that a machine that is slow for a while is slow for all of them.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// The middle of what several rounds showed, and how far they were apart.
///
/// Stored as an array of the three, to six significant digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 3]", into = "[f64; 3]")]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Of these, which must not be none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first().copied(), values.last().copied()) else {
            return Self::exactly(0.0);
        };
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Self { median, least, most }
    }

    /// What was seen once, or does not differ.
    pub fn exactly(value: f64) -> Self {
        Self { median: value, least: value, most: value }
    }

    /// Of the ratios of two series, round by round: what both have in common, a machine that is slow for a while, is not in them.
    pub fn of_ratios(above: &[f64], below: &[f64]) -> Self {
        Self::of(above.iter().zip(below).map(|(above, below)| above / below))
    }
}

impl From<[f64; 3]> for Spread {
    fn from([median, least, most]: [f64; 3]) -> Self {
        Self { median, least, most }
    }
}

impl From<Spread> for [f64; 3] {
    fn from(Spread { median, least, most }: Spread) -> Self {
        [median, least, most].map(|value| format!("{value:.5e}").parse().unwrap_or(value))
    }
}

/// Measures each of `peers` in turn, `rounds` times. What each of them has shown is in the order of the rounds.
pub fn interleave<P, T>(
    rounds: usize,
    peers: &[P],
    name: impl Fn(&P) -> String,
    mut measure: impl FnMut(&P) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut seen: Vec<Vec<T>> = peers.iter().map(|_| Vec::with_capacity(rounds)).collect();
    for round in 1..=rounds {
        for (peer, seen) in peers.iter().zip(&mut seen) {
            let sample = measure(peer).with_context(|| format!("round {round}, {}", name(peer)))?;
            seen.push(sample);
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, least: 1.0, most: 4.0 });
    }

    #[test]
    fn a_spread_is_stored_with_six_digits() {
        let spread = Spread { median: 123_456.789, least: 0.0, most: 1.5e9 };
        let stored = Spread::from(<[f64; 3]>::from(spread));
        assert_eq!(stored, Spread { median: 123_457.0, ..spread });
    }

    #[test]
    fn a_slow_while_is_not_in_a_ratio() {
        assert_eq!(Spread::of_ratios(&[20.0, 2.0], &[10.0, 1.0]), Spread::exactly(2.0));
    }

    #[test]
    fn each_round_sees_every_peer() {
        let mut order = Vec::new();
        let seen = interleave(2, &["a", "b"], ToString::to_string, |peer| {
            order.push(*peer);
            Ok(order.len())
        });
        assert_eq!(seen.expect("nothing fails"), [[1, 3], [2, 4]]);
        assert_eq!(order, ["a", "b", "a", "b"]);
    }
}
