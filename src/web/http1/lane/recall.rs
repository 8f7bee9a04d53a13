//! Remembers what headers come to that are seen again and again.

/// Values that are longer are read each time, in bytes.
const LONGEST: usize = 512;

/// How many values are remembered. Browsers and agents of all kinds send a few dozen.
const PLACES: usize = 64;

/// What some header values come to. One that comes newly takes the place of another; whoever sends ever new ones only has them read
/// each time.
#[derive(Debug)]
pub(super) struct Recall<T> {
    places: [Option<(Box<[u8]>, T)>; PLACES],
}

impl<T> Default for Recall<T> {
    fn default() -> Self {
        Self { places: [const { None }; PLACES] }
    }
}

impl<T: Copy> Recall<T> {
    /// What `value` comes to; `read` finds out.
    pub(super) fn of(&mut self, value: &[u8], read: impl FnOnce(&[u8]) -> T) -> T {
        if value.len() > LONGEST {
            return read(value);
        }
        let place = &mut self.places[place(value)];
        match place {
            Some((known, meaning)) if **known == *value => *meaning,
            _ => {
                let meaning = read(value);
                *place = Some((value.into(), meaning));
                meaning
            }
        }
    }
}

/// Any place will do, as long as it is the same each time.
fn place(value: &[u8]) -> usize {
    let mut mixed = value.len() as u64;
    for chunk in value.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mixed = (mixed.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    usize::try_from(mixed >> 58).unwrap_or_default() % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_once() {
        let mut recall = Recall::default();
        let mut reads = 0;
        let mut ask = |value: &[u8]| {
            recall.of(value, |value| {
                reads += 1;
                value.len()
            })
        };
        let long = [b'x'; LONGEST + 1];
        for _ in 0..3 {
            assert_eq!(ask(b""), 0);
            assert_eq!(ask(b"text/html, */*"), 14);
            assert_eq!(ask(&long), LONGEST + 1);
        }
        assert_eq!(reads, 2 + 3);
    }

    #[test]
    fn values_that_share_a_place_are_told_apart() {
        let mut recall = Recall::default();
        for round in 0..2 {
            for n in 0..10 * PLACES {
                let value = n.to_string();
                assert_eq!(recall.of(value.as_bytes(), |_| n), n, "round {round}");
            }
        }
    }
}
