//! The digest of a file's bytes.

use std::{fmt, io};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::field::{Value, Why};

/// A SHA-256 digest; on the wire 64 hexadecimal digits, written in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// The digest of these bytes.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> Self {
        Self(hmac_sha256::Hash::hash(bytes))
    }

    /// The digest that is written so. `None` for what is not 64 hexadecimal digits.
    #[must_use]
    pub fn parse(digits: &str) -> Option<Self> {
        let digits: &[u8; 64] = digits.as_bytes().try_into().ok()?;
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            *byte = u8::try_from(high? << 4 | low?).ok()?;
        }
        Some(Self(digest))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Value for Sha256 {
    fn from_json(raw: &RawValue) -> Result<Self, Why> {
        <String as Value>::from_json(raw)
            .and_then(|digits| Self::parse(&digits).ok_or(Why::WrongType))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Sha256 {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sha256".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 64, "maxLength": 64 })
    }
}

/// Counts and digests what is read through it.
pub struct Hasher<R> {
    inner: R,
    hash: hmac_sha256::Hash,
    bytes: u64,
}

impl<R> Hasher<R> {
    /// Reads from `inner`.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            hash: hmac_sha256::Hash::new(),
            bytes: 0,
        }
    }

    /// Returns the number of bytes read, and their digest.
    pub fn finish(self) -> (u64, Sha256) {
        (self.bytes, Sha256(self.hash.finalize()))
    }
}

impl<R> fmt::Debug for Hasher<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl<R: io::Read> io::Read for Hasher<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(into)?;
        self.hash.update(&into[..bytes]);
        self.bytes += bytes as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_written_in_lower_case_and_read_in_either() {
        assert_eq!(Sha256::digest(b"abc").to_string(), OF_ABC);
        assert_eq!(
            Sha256::parse(&OF_ABC.to_uppercase()),
            Some(Sha256::digest(b"abc"))
        );
        for odd in [
            "",
            "ba78",
            &OF_ABC[1..],
            &OF_ABC.replace('b', "g"),
            &OF_ABC.replace("ba", "\u{e9}"),
        ] {
            assert_eq!(Sha256::parse(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn what_is_read_is_counted_and_digested() {
        let mut hasher = Hasher::new(&b"abc"[..]);
        let mut read = String::new();
        hasher.read_to_string(&mut read).expect("it is text");
        assert_eq!(hasher.finish(), (3, Sha256::digest(b"abc")));
    }
}
