//! Caches parsed header values, because most clients send one of a few dozen values.

/// Maximum length of a cached value in bytes.
const MAX_LENGTH: usize = 512;

const SLOTS: usize = 64;

/// Parsed header values. A new value replaces the one in its slot, so the cache never grows.
pub(super) struct ParseCache<T> {
    slots: [Option<(Box<[u8]>, T)>; SLOTS],
}

impl<T> Default for ParseCache<T> {
    fn default() -> Self {
        Self { slots: [const { None }; SLOTS] }
    }
}

impl<T: Copy> ParseCache<T> {
    /// The result of `parse(value)`, from the cache if possible. Does not cache values beyond [`MAX_LENGTH`].
    pub(super) fn get(&mut self, value: &[u8], parse: impl FnOnce(&[u8]) -> T) -> T {
        if value.len() > MAX_LENGTH {
            return parse(value);
        }
        let slot = &mut self.slots[slot(value)];
        match slot {
            Some((key, parsed)) if **key == *value => *parsed,
            _ => {
                let parsed = parse(value);
                *slot = Some((value.into(), parsed));
                parsed
            }
        }
    }
}

/// The slot for `value`, chosen by a cheap hash of its length, first bytes and last bytes: the values that
/// clients send differ in at least one of these.
fn slot(value: &[u8]) -> usize {
    let (first, last) = (value.first_chunk::<8>(), value.last_chunk::<8>());
    let word = |chunk: Option<&[u8; 8]>| chunk.map_or(0, |chunk| u64::from_le_bytes(*chunk));
    let mixed = (word(first).rotate_left(32) ^ word(last)).wrapping_add(value.len() as u64);
    usize::try_from(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap_or_default() % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_parsed_once() {
        let mut cache = ParseCache::default();
        let mut reads = 0;
        let mut get = |value: &[u8]| {
            cache.get(value, |value| {
                reads += 1;
                value.len()
            })
        };
        let long = [b'x'; MAX_LENGTH + 1];
        for _ in 0..3 {
            assert_eq!(get(b""), 0);
            assert_eq!(get(b"text/html, */*"), 14);
            assert_eq!(get(&long), MAX_LENGTH + 1);
        }
        assert_eq!(reads, 2 + 3);
    }

    #[test]
    fn values_in_the_same_slot_do_not_mix() {
        let mut cache = ParseCache::default();
        for round in 0..2 {
            for n in 0..10 * SLOTS {
                let value = n.to_string();
                assert_eq!(cache.get(value.as_bytes(), |_| n), n, "round {round}");
            }
        }
    }
}
