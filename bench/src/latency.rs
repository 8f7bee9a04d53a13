//! Counts latencies in buckets that are at most 1/32 wide, without allocating: any number of them in 16 KiB.

/// Buckets to each power of two.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// How often each latency was seen.
#[derive(Debug, Clone)]
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; STEPS * 60], total: 0 }
    }
}

impl Latencies {
    /// Counts one, of so many nanoseconds.
    pub fn note(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The nanoseconds that `share` of them (0.99) did not exceed, rounded up by at most 1/32.
    pub fn percentile(&self, share: f64) -> u64 {
        let rank = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (number, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(number);
            }
        }
        0
    }
}

fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < STEPS as u64 {
        return nanoseconds as usize;
    }
    let power = nanoseconds.ilog2() - STEP_BITS;
    let step = (nanoseconds >> power) as usize - STEPS;
    (STEPS * (power as usize + 1) + step).min(STEPS * 60 - 1)
}

/// The largest value that belongs to a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (power, step) = (bucket / STEPS - 1, bucket % STEPS);
    (((STEPS + step + 1) as u64) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_its_upper_bound_and_within_a_thirty_second() {
        for nanoseconds in (0..200_000_u64).chain([1 << 33, 3_600_000_000_000]) {
            let bound = upper(bucket(nanoseconds));
            assert!(bound >= nanoseconds && bound - nanoseconds <= nanoseconds / 32, "{nanoseconds} {bound}");
        }
    }

    #[test]
    fn percentiles_are_those_of_all_that_was_counted() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        (1..=15).for_each(|value| one.note(value));
        (16..=30).for_each(|value| other.note(value));
        one.add(&other);
        assert_eq!((one.total(), one.percentile(0.5), one.percentile(0.99)), (30, 15, 30));
    }
}
