//! A histogram of latencies with a relative error of 1/32, which does not allocate while it records.

/// Buckets for each power of two.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// A latency histogram: 32 buckets for each of 60 powers of two, 15 KiB.
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
    pub fn record(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// Number of recorded latencies.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The nanoseconds that `share` of the latencies (0.99) do not exceed, rounded up by at most 1/32.
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

/// The largest value of a bucket.
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
    fn a_bucket_is_at_most_a_thirty_second_wide() {
        for nanoseconds in (0..200_000_u64).chain([1 << 33, 3_600_000_000_000]) {
            let bound = upper(bucket(nanoseconds));
            assert!(bound >= nanoseconds && bound - nanoseconds <= nanoseconds / 32, "{nanoseconds} {bound}");
        }
    }

    #[test]
    fn percentiles_cover_merged_histograms() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        (1..=15).for_each(|value| one.record(value));
        (16..=30).for_each(|value| other.record(value));
        one.merge(&other);
        assert_eq!((one.total(), one.percentile(0.5), one.percentile(0.99)), (30, 15, 30));
    }
}
