//! A count-min sketch: keeps the debts of any number of senders in a fixed amount of memory.
//!
//! Each key has one cell in each of [`ROWS`] rows, chosen by a hash with a random secret, and shares it with
//! other keys. A cell holds arrival times. A key's debt is the minimum over its cells, and counting a request
//! raises each of them to at least the new debt, so a cell holds at least the debt of every key that uses it:
//!
//! - The sketch never allows a request that an exact table would refuse. It has no entries to evict.
//! - It refuses a key wrongly only if all four of its cells hold the debts of other keys: a fraction `p⁴` of
//!   new keys if a fraction `p` of the cells is exhausted. Because the hash is secret, an attacker cannot
//!   choose which keys.
//!
//! A cell packs two 32-bit arrival times, one per window. Because these wrap around, each cell is visited
//! regularly and cleared once its debts have expired. Zero means no debt, so a new sketch is all zeros, and
//! the operating system allocates only the pages that have been written to.

use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Range;
use std::time::Duration;

use super::gcra::{self, WindowQuota};
use super::limiter_state::Debts;
use super::quota::QuotaStatus;

/// The number of rows, which is also the number of cells per key.
pub(super) const ROWS: usize = 4;

/// Every cell is visited once within this time, to clear expired debts: the longest window, after which no
/// debt remains.
const ROUND: Duration = Duration::from_hours(1);

/// The cells of a count-min sketch: [`ROWS`] rows of 64-bit values. Each key has one cell in each row.
pub(super) struct CellTable {
    hasher: RandomState,
    /// Base-2 logarithm of the number of cells in a row.
    bits: u32,
    /// The cells of the first row, then those of the second row, and so on.
    pub(super) cells: Vec<u64>,
    /// The time from the limiter's first request to the latest use of this table.
    used: Duration,
    /// The time without requests after which no debt remains.
    lifetime: Duration,
}

impl CellTable {
    /// Uses `4 · 8 · 2^bits` bytes once every cell has been written to.
    pub(super) fn new(bits: u32, lifetime: Duration) -> CellTable {
        let cells = vec![0; ROWS << bits];
        CellTable { hasher: RandomState::new(), bits, cells, used: Duration::ZERO, lifetime }
    }

    /// Sets the time since the limiter's first request. `elapsed` must never decrease. If all debts have
    /// expired since the last use, clears the cells and returns true.
    pub(super) fn advance_to(&mut self, elapsed: Duration) -> bool {
        let expired = elapsed.saturating_sub(self.used) >= self.lifetime;
        if expired {
            // Allocate new cells: writing zeros would keep the memory that a busy period has used.
            self.cells = vec![0; ROWS << self.bits];
        }
        self.used = elapsed;
        expired
    }

    /// The indices of a key's cells, one in each row.
    pub(super) fn places(&self, key: impl Hash) -> [usize; ROWS] {
        places(self.hasher.hash_one(key), self.bits)
    }
}

/// The debts of all sources, or of all networks: how much each has used of its quotas for two windows.
pub(super) struct Sketch {
    windows: [WindowQuota; 2],
    table: CellTable,
    /// The number of cells that the sweep has visited since the limiter's first request, over all rounds.
    swept: u64,
}

/// The cells of one source or network in the sketch, and the debts at the time of the lookup.
#[derive(Clone, Copy)]
pub(super) struct SketchEntry {
    places: [usize; ROWS],
    now: [u64; 2],
    debts: [u32; 2],
}

impl Debts for Sketch {
    /// Sets the time. Clears expired debts in the cells that the hourly sweep must have visited by then.
    fn advance_to(&mut self, elapsed: Duration) {
        let count = self.table.cells.len() as u64;
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let target = millis.saturating_mul(count) / (ROUND.as_secs() * 1000);
        if !self.table.advance_to(elapsed) {
            let now = self.ticks_at_last_advance();
            for at in self.swept..target {
                let cell = &mut self.table.cells[usize::try_from(at % count).unwrap_or_default()];
                if *cell != 0 {
                    *cell = pack(unpack(*cell, &self.windows, now), now);
                }
            }
        }
        self.swept = target;
    }
}

impl Sketch {
    pub(super) fn new(windows: [WindowQuota; 2], bits: u32) -> Sketch {
        Sketch { windows, table: CellTable::new(bits, ROUND), swept: 0 }
    }

    /// Finds the cells of a key, and its debts: for each window, the lowest debt in these cells.
    pub(super) fn look_up(&self, key: impl Hash) -> SketchEntry {
        let places = self.table.places(key);
        let now = self.ticks_at_last_advance();
        let debts = places.map(|place| unpack(self.table.cells[place], &self.windows, now));
        let debts = debts.into_iter().fold([u32::MAX; 2], |[a, b], [c, d]| [a.min(c), b.min(d)]);
        SketchEntry { places, now, debts }
    }

    /// The time until this key is allowed one more request; zero if it is allowed now.
    pub(super) fn wait(&self, entry: &SketchEntry) -> Duration {
        gcra::time_until_allowed(&self.windows, entry.debts)
    }

    /// Adds one request to the debts. [`Sketch::wait`] must have returned zero for this entry.
    pub(super) fn charge(&mut self, entry: &mut SketchEntry) {
        entry.debts = self.map_windows(entry, WindowQuota::debt_after_request);
        for place in entry.places {
            let cell = &mut self.table.cells[place];
            let [a, b] = unpack(*cell, &self.windows, entry.now);
            *cell = pack([a.max(entry.debts[0]), b.max(entry.debts[1])], entry.now);
        }
    }

    /// Adds one request to the key's debts, unless a quota is exhausted.
    pub(super) fn charge_if_free(&mut self, key: impl Hash) {
        let mut entry = self.look_up(key);
        if self.wait(&entry).is_zero() {
            self.charge(&mut entry);
        }
    }

    pub(super) fn statuses(&self, entry: &SketchEntry) -> [QuotaStatus; 2] {
        self.map_windows(entry, WindowQuota::status_for_debt)
    }

    pub(super) fn row_length(&self) -> usize {
        1 << self.table.bits
    }

    /// Counts the cells in this range that hold a debt. Debts are as of the last `advance_to`.
    pub(super) fn count_cells_with_debt(&self, cells: Range<usize>) -> usize {
        let now = self.ticks_at_last_advance();
        self.table.cells[cells].iter().filter(|cell| unpack(**cell, &self.windows, now) != [0; 2]).count()
    }

    /// Calls `f` for each window, with its quota and the debt of the entry in it, in ticks.
    fn map_windows<T>(&self, entry: &SketchEntry, f: impl Fn(&WindowQuota, u32) -> T) -> [T; 2] {
        [f(&self.windows[0], entry.debts[0]), f(&self.windows[1], entry.debts[1])]
    }

    /// The time of the last `advance_to`, in ticks of each window since the limiter's first request.
    fn ticks_at_last_advance(&self) -> [u64; 2] {
        self.windows.map(|window| window.ticks_in(self.table.used))
    }
}

/// Derives the indices of a key's cells, one in each row of `2^bits` cells, from one hash. Uses SplitMix64,
/// but omits the last step of its finalizer because that step does not change the high bits.
fn places(hash: u64, bits: u32) -> [usize; ROWS] {
    std::array::from_fn(|row| {
        let z = hash.wrapping_add((row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let column = z >> (64 - bits);
        (row << bits) + usize::try_from(column).unwrap_or_default()
    })
}

/// The two debts of a cell at `now`, in ticks; zero for an arrival time that has passed.
fn unpack(cell: u64, windows: &[WindowQuota; 2], now: [u64; 2]) -> [u32; 2] {
    let debt = |arrival: u32, window: &WindowQuota, now: u64| {
        let debt = arrival.wrapping_sub(low_32_bits(now));
        // If the arrival time seems to be further ahead than the largest debt, it has passed and the
        // difference has wrapped around. Allow for one more tick, which `pack` may have added.
        if arrival == 0 || debt > window.max_debt() + 1 { 0 } else { debt }
    };
    [debt(low_32_bits(cell), &windows[0], now[0]), debt(low_32_bits(cell >> 32), &windows[1], now[1])]
}

/// Packs two debts into a cell. Zero means no debt, so an arrival at tick zero is stored as tick one.
fn pack(debts: [u32; 2], now: [u64; 2]) -> u64 {
    let arrival = |debt: u32, now: u64| match debt {
        0 => 0,
        debt => u64::from(low_32_bits(now).wrapping_add(debt).max(1)),
    };
    arrival(debts[0], now[0]) | arrival(debts[1], now[1]) << 32
}

fn low_32_bits(ticks: u64) -> u32 {
    u32::try_from(ticks & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn a_keys_cells_are_the_first_outputs_of_splitmix64() {
        // The outputs for seed 0: e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec.
        assert_eq!(places(0, 16), [0xe220, 0x1_6e78, 0x2_06c4, 0x3_f88b]);
        assert_eq!(places(0, 4), [0xe, 0x16, 0x20, 0x3f]);
    }

    #[test]
    fn every_cell_is_visited_hourly_and_cleared_once_expired() {
        let mut sketch = sketch(6);
        for key in 0..1000 {
            charge(&mut sketch, key);
        }
        let half = sketch.table.cells.len() / 2;
        let owed = |cells: &[u64]| cells.iter().filter(|cell| **cell != 0).count();
        assert_eq!(owed(&sketch.table.cells), 2 * half);
        sketch.advance_to(30 * MINUTE);
        assert_eq!((owed(&sketch.table.cells[..half]), owed(&sketch.table.cells[half..])), (0, half));
        charge(&mut sketch, 7);
        let debts = sketch.look_up(7).debts;
        assert!(debts.iter().all(|debt| *debt > 0));
        // A visit leaves remaining debts unchanged.
        sketch.advance_to(30 * MINUTE);
        assert_eq!(sketch.look_up(7).debts, debts);
        sketch.advance_to(60 * MINUTE);
        assert_eq!(owed(&sketch.table.cells), owed(&sketch.table.cells[..half]));
        sketch.advance_to(90 * MINUTE);
        assert_eq!(owed(&sketch.table.cells), 0);
    }

    #[test]
    fn a_visit_keeps_remaining_debts() {
        let mut sketch = sketch(3);
        charge(&mut sketch, 7);
        let mut before = sketch.look_up(7).debts;
        for seconds in 1..50 {
            sketch.advance_to(Duration::from_millis(seconds * 100));
            let now = sketch.look_up(7).debts;
            assert!(now.iter().zip(before).all(|(now, before)| (1..before).contains(now)), "{seconds}");
            before = now;
        }
    }

    #[test]
    fn an_arrival_beyond_a_window_has_expired() {
        let windows = sketch(1).windows;
        for now in [[1, 1], [u64::from(u32::MAX) - 5, 1 << 40], [(1 << 33) - 1, 77]] {
            let most = windows.each_ref().map(WindowQuota::max_debt);
            for (beyond, is_owed) in [(0, true), (1, true), (2, false), (1 << 30, false)] {
                let debts = most.map(|debt| debt + beyond);
                let expected = if is_owed { debts } else { [0; 2] };
                assert_eq!(unpack(pack(debts, now), &windows, now), expected, "{now:?} {beyond}");
            }
            assert_eq!(unpack(pack([0, 5], now), &windows, now), [0, 5]);
            assert_eq!(unpack(pack([5, 0], now), &windows, now), [5, 0]);
        }
        // An arrival that would be stored as zero is stored one tick later.
        assert_eq!(unpack(pack([1, 1], [u32::MAX.into(); 2]), &windows, [u32::MAX.into(); 2]), [2, 2]);
    }

    fn charge(sketch: &mut Sketch, key: u32) {
        let mut entry = sketch.look_up(key);
        sketch.charge(&mut entry);
    }

    /// A sketch with quotas of ten requests per minute and 600 per hour.
    fn sketch(bits: u32) -> Sketch {
        let window = |quota, window| WindowQuota::new("x", quota, window);
        Sketch::new([window(10, MINUTE), window(600, 60 * MINUTE)], bits)
    }
}
