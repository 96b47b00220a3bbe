//! Identity of a session in the core.

/// A session's place in the core, distinct from those that had the place before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// The key of a place and of how many had it before.
    #[must_use]
    #[inline]
    pub fn new(index: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    /// The key of the bits that [`Key::to_bits`] gave.
    #[must_use]
    #[inline]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The key as a number.
    #[must_use]
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The place, from 0: small, and used again by later sessions.
    #[must_use]
    #[inline]
    pub fn index(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
