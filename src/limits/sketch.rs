//! The debts of any number of senders in a fixed amount of memory: a count-min sketch whose cells hold arrival times.
//!
//! Each key owns one cell in each of [`ROWS`] rows, chosen by a hash with a random secret, and shares it with whomever the hash sends
//! there as well. A key's debt is the least of its cells', and charging it raises each of them to the new debt, never beyond. So
//! a cell holds at least what each of its keys owes:
//!
//! - Nobody is let through who would be refused if each key had an entry of its own. There is no entry to push out.
//! - Somebody is refused wrongly only where all of his cells owe for others. With a share `p` of the cells exhausted that is `p⁴`
//!   of all strangers, and since the hash is secret nobody can choose whom it hits.
//!
//! A cell is two counts of 32 bits, one for each window. They wrap round, so each cell is looked at in time and set to zero if
//! its debts are over. Zero stands for no debt, whatever the time: memory that was never written is never asked for either.

use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Range;
use std::time::Duration;

use super::Standing;
use super::gcra::{self, Pace};

/// How many cells each key has.
pub(super) const ROWS: usize = 4;

/// In this time every cell is looked at once. It is the longest window as well: after so long a silence nobody owes anything.
const ROUND: Duration = Duration::from_hours(1);

/// The debts of all keys of one kind.
pub(super) struct Sketch {
    paces: [Pace; 2],
    hasher: RandomState,
    /// A row has two to the power of this many cells.
    bits: u32,
    /// The rows, one after the other.
    cells: Vec<u64>,
    /// When it was last used, since the limiter's start.
    used: Duration,
    /// How many cells have been looked at since the limiter's start, over all rounds.
    swept: u64,
}

/// Where one key stands at one moment.
#[derive(Clone, Copy)]
pub(super) struct Account {
    places: [usize; ROWS],
    now: [u64; 2],
    debts: [u32; 2],
}

impl Sketch {
    /// Takes `4 · 8 · 2^bits` bytes once all of it is in use.
    pub(super) fn new(paces: [Pace; 2], bits: u32) -> Sketch {
        Sketch {
            paces,
            hasher: RandomState::new(),
            bits,
            cells: vec![0; ROWS << bits],
            used: Duration::ZERO,
            swept: 0,
        }
    }

    /// Takes note of the time, since the limiter's start, which never runs backwards. To be called before anything else is asked.
    pub(super) fn advance(&mut self, elapsed: Duration) {
        let silence = elapsed.saturating_sub(self.used);
        self.used = elapsed;
        let count = self.cells.len() as u64;
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let target = millis.saturating_mul(count) / (ROUND.as_secs() * 1000);
        if silence >= ROUND {
            // Fresh memory rather than zeros: what a busy hour has taken is given back.
            self.cells = vec![0; ROWS << self.bits];
        } else {
            let now = self.ticks();
            for at in self.swept..target {
                let cell = &mut self.cells[usize::try_from(at % count).unwrap_or_default()];
                if *cell != 0 {
                    *cell = pack(unpack(*cell, &self.paces, now), now);
                }
            }
        }
        self.swept = target;
    }

    /// Where a key stands.
    pub(super) fn account(&self, key: impl Hash) -> Account {
        let places = places(self.hasher.hash_one(key), self.bits);
        let now = self.ticks();
        let debts = places.map(|place| unpack(self.cells[place], &self.paces, now));
        let debts = debts.into_iter().fold([u32::MAX; 2], |[a, b], [c, d]| [a.min(c), b.min(d)]);
        Account { places, now, debts }
    }

    /// How long it is until this key may send again; zero if it may now.
    pub(super) fn wait(&self, account: &Account) -> Duration {
        gcra::wait(&self.paces, account.debts)
    }

    /// Adds one request, which must not have to wait.
    pub(super) fn charge(&mut self, account: &mut Account) {
        account.debts = self.each(account, Pace::charged);
        for place in account.places {
            let cell = &mut self.cells[place];
            let [a, b] = unpack(*cell, &self.paces, account.now);
            *cell = pack([a.max(account.debts[0]), b.max(account.debts[1])], account.now);
        }
    }

    /// What is said of this key.
    pub(super) fn standings(&self, account: &Account) -> [Standing; 2] {
        self.each(account, Pace::standing)
    }

    /// How many cells a row has.
    pub(super) fn row(&self) -> usize {
        1 << self.bits
    }

    /// How many of these cells of the first row owe something.
    pub(super) fn owing(&self, cells: Range<usize>) -> usize {
        let now = self.ticks();
        self.cells[cells].iter().filter(|cell| unpack(**cell, &self.paces, now) != [0; 2]).count()
    }

    fn each<T>(&self, account: &Account, f: impl Fn(&Pace, u32) -> T) -> [T; 2] {
        [f(&self.paces[0], account.debts[0]), f(&self.paces[1], account.debts[1])]
    }

    fn ticks(&self) -> [u64; 2] {
        self.paces.map(|pace| pace.tick(self.used))
    }
}

/// One cell in each row of `2^bits` cells, from one hash: the steps and the finalizer of SplitMix64, but for its last line, which leaves
/// the high bits as they are.
pub(super) fn places(hash: u64, bits: u32) -> [usize; ROWS] {
    std::array::from_fn(|row| {
        let z = hash.wrapping_add((row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let column = z >> (64 - bits);
        (row << bits) + usize::try_from(column).unwrap_or_default()
    })
}

/// The debts that a cell holds.
fn unpack(cell: u64, paces: &[Pace; 2], now: [u64; 2]) -> [u32; 2] {
    let debt = |arrival: u32, pace: &Pace, now: u64| {
        let debt = arrival.wrapping_sub(low(now));
        // Anything further ahead lies behind. (One tick more is what an arrival may have been put off by, below.)
        if arrival == 0 || debt > pace.most() + 1 { 0 } else { debt }
    };
    [debt(low(cell), &paces[0], now[0]), debt(low(cell >> 32), &paces[1], now[1])]
}

/// The cell that holds these debts. Zero is taken: an arrival in that very tick is one tick later.
fn pack(debts: [u32; 2], now: [u64; 2]) -> u64 {
    let arrival = |debt: u32, now: u64| match debt {
        0 => 0,
        debt => u64::from(low(now).wrapping_add(debt).max(1)),
    };
    arrival(debts[0], now[0]) | arrival(debts[1], now[1]) << 32
}

fn low(ticks: u64) -> u32 {
    u32::try_from(ticks & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Layer;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn a_keys_places_are_the_first_numbers_of_splitmix64() {
        // Of the seed 0: e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec.
        assert_eq!(places(0, 16), [0xe220, 0x1_6e78, 0x2_06c4, 0x3_f88b]);
        assert_eq!(places(0, 4), [0xe, 0x16, 0x20, 0x3f]);
    }

    #[test]
    fn every_cell_is_looked_at_once_an_hour_and_cleared_if_its_debts_are_over() {
        let mut sketch = sketch(6);
        for key in 0..1000 {
            charge(&mut sketch, key);
        }
        let half = sketch.cells.len() / 2;
        let owed = |cells: &[u64]| cells.iter().filter(|cell| **cell != 0).count();
        assert_eq!(owed(&sketch.cells), 2 * half);
        sketch.advance(30 * MINUTE);
        assert_eq!((owed(&sketch.cells[..half]), owed(&sketch.cells[half..])), (0, half));
        charge(&mut sketch, 7);
        let debts = sketch.account(7).debts;
        assert!(debts.iter().all(|debt| *debt > 0));
        // What is still owed stays as it is, whether it is looked at or not.
        sketch.advance(30 * MINUTE);
        assert_eq!(sketch.account(7).debts, debts);
        sketch.advance(60 * MINUTE);
        assert_eq!(owed(&sketch.cells), owed(&sketch.cells[..half]));
        sketch.advance(90 * MINUTE);
        assert_eq!(owed(&sketch.cells), 0);
    }

    #[test]
    fn what_is_looked_at_while_it_is_owed_is_owed_on() {
        let mut sketch = sketch(3);
        charge(&mut sketch, 7);
        let mut before = sketch.account(7).debts;
        for seconds in 1..50 {
            sketch.advance(Duration::from_millis(seconds * 100));
            let now = sketch.account(7).debts;
            assert!(now.iter().zip(before).all(|(now, before)| (1..before).contains(now)), "{seconds}");
            before = now;
        }
    }

    #[test]
    fn what_lies_further_ahead_than_a_window_lies_behind() {
        let paces = sketch(1).paces;
        for now in [[1, 1], [u64::from(u32::MAX) - 5, 1 << 40], [(1 << 33) - 1, 77]] {
            let most = paces.each_ref().map(Pace::most);
            for (beyond, is_owed) in [(0, true), (1, true), (2, false), (1 << 30, false)] {
                let debts = most.map(|debt| debt + beyond);
                let expected = if is_owed { debts } else { [0; 2] };
                assert_eq!(unpack(pack(debts, now), &paces, now), expected, "{now:?} {beyond}");
            }
            assert_eq!(unpack(pack([0, 5], now), &paces, now), [0, 5]);
            assert_eq!(unpack(pack([5, 0], now), &paces, now), [5, 0]);
        }
        // In the tick before the count wraps round, zero is taken.
        assert_eq!(unpack(pack([1, 1], [u32::MAX.into(); 2]), &paces, [u32::MAX.into(); 2]), [2, 2]);
    }

    fn charge(sketch: &mut Sketch, key: u32) {
        let mut account = sketch.account(key);
        sketch.charge(&mut account);
    }

    /// Ten a minute, and as many as an hour's quota for ten a minute.
    fn sketch(bits: u32) -> Sketch {
        let pace = |quota, window| Pace::new(Layer::Source, "x", quota, window);
        Sketch::new([pace(10, MINUTE), pace(600, 60 * MINUTE)], bits)
    }
}
