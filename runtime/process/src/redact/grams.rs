//! Tells quickly that a text holds none of many values.

/// The least length of a value that can be looked for, in bytes.
pub(super) const SHORTEST: usize = 12;

/// The bytes that are looked at together.
const GRAM: usize = 8;

/// Every value has `STEP` grams among its first `SHORTEST` bytes, so one of them lies at a multiple of `STEP`
/// wherever it stands: the others need not be looked at.
const STEP: usize = SHORTEST - GRAM + 1;

/// The beginnings of values, as a table of bits before a sorted list.
#[derive(Debug, Clone)]
pub(super) struct Grams {
    bits: Box<[u64]>,
    shift: u32,
    sorted: Box<[u64]>,
}

impl Grams {
    /// Takes the beginnings of values of at least [`SHORTEST`] bytes.
    pub(super) fn new<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut sorted: Vec<u64> =
            values.flat_map(|value| value[..SHORTEST].windows(GRAM)).map(number).collect();
        sorted.sort_unstable();
        sorted.dedup();
        // 64 bits for each gram, up to 32 KiB: what stays in the nearest cache.
        let size = (sorted.len() * 64).next_power_of_two().clamp(1 << 12, 1 << 18);
        let shift = u64::BITS - size.ilog2();
        let mut bits = vec![0_u64; size / 64].into_boxed_slice();
        for gram in &sorted {
            let (word, bit) = place(*gram, shift);
            bits[word] |= bit;
        }
        Self { bits, shift, sorted: sorted.into() }
    }

    /// Whether one of the values may be in `text`.
    pub(super) fn may_be_in(&self, text: &[u8]) -> bool {
        if self.sorted.is_empty() {
            return false;
        }
        (0..text.len().saturating_sub(GRAM - 1)).step_by(STEP).any(|at| {
            let gram = number(&text[at..at + GRAM]);
            let (word, bit) = place(gram, self.shift);
            self.bits[word] & bit != 0 && self.sorted.binary_search(&gram).is_ok()
        })
    }
}

fn number(window: &[u8]) -> u64 {
    let mut bytes = [0; GRAM];
    bytes.copy_from_slice(window);
    u64::from_ne_bytes(bytes)
}

/// Multiplicative hashing: the upper bits of a product with an odd number of mixed bits.
fn place(gram: u64, shift: u32) -> (usize, u64) {
    let hash = gram.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift;
    ((hash / 64) as usize, 1 << (hash % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_seen_at_every_place() {
        let values: Vec<Vec<u8>> = (0..300).map(|n| format!("value-{n:06}").into_bytes()).collect();
        let grams = Grams::new(values.iter().map(Vec::as_slice));
        for value in &values {
            for before in 0..STEP * 2 {
                let mut text = vec![b'.'; before];
                text.extend_from_slice(value);
                assert!(grams.may_be_in(&text), "after {before} bytes");
                text.extend_from_slice(b".......");
                assert!(grams.may_be_in(&text), "after {before} bytes, and more behind");
            }
        }
        assert!(!grams.may_be_in(&[b'x'; 4096]));
        assert!(!grams.may_be_in(b"value-"), "a text shorter than a gram");
    }

    #[test]
    fn without_values_nothing_is_seen() {
        assert!(!Grams::new(std::iter::empty()).may_be_in(b"anything at all"));
    }
}
