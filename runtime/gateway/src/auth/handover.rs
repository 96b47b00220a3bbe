//! Codes that log a browser in from a terminal. Each is valid once, so no secret appears in a
//! command line or an address.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use subtle::ConstantTimeEq;

/// Path to which a page sends its code.
pub(crate) const PATH: &str = "/open";

/// Lifetime of a code.
const CODE_LIFETIME: Duration = Duration::from_secs(60);

/// Limit for the valid codes. A further one replaces the oldest.
const MAX_CODES: usize = 16;

/// Valid codes, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct HandoverCodes(Mutex<VecDeque<(Instant, String)>>);

impl HandoverCodes {
    /// Creates a code.
    pub(crate) fn create(&self) -> String {
        let random = || uuid::Uuid::new_v4().simple().to_string();
        let code = random() + &random();
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if codes.len() == MAX_CODES {
            codes.pop_front();
        }
        codes.push_back((Instant::now() + CODE_LIFETIME, code.clone()));
        code
    }

    /// Returns true if a code is valid, and invalidates it.
    pub(crate) fn redeem(&self, code: &str) -> bool {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|(until, _)| Instant::now() < *until);
        let at = codes
            .iter()
            .position(|(_, known)| known.as_bytes().ct_eq(code.as_bytes()).into());
        at.and_then(|at| codes.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once() {
        let codes = HandoverCodes::default();
        let one = codes.create();
        let two = codes.create();
        assert!(
            codes.redeem(&one) && !codes.redeem(&one) && !codes.redeem("") && codes.redeem(&two)
        );
        let first = codes.create();
        for _ in 0..MAX_CODES {
            codes.create();
        }
        assert!(!codes.redeem(&first), "a later one has its place");
    }
}
