//! Shortens a failing list: delta debugging, bounded by time.

use std::time::{Duration, Instant};

/// The shortest list found, within the time, of which no chunk can be left out without the failure
/// going away.
///
/// `fails` is asked of candidates only, never of the whole list, which is known to fail. Chunks are
/// halves first, then smaller and smaller ones down to single items.
pub(crate) fn shortest<T: Clone>(
    items: &[T],
    within: Duration,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let deadline = Instant::now() + within;
    let mut kept = items.to_vec();
    let mut chunks = 2;
    while kept.len() > 1 {
        let size = kept.len().div_ceil(chunks);
        let mut from = 0;
        let mut shorter = false;
        while from < kept.len() && Instant::now() < deadline {
            let to = (from + size).min(kept.len());
            let candidate: Vec<T> = kept[..from].iter().chain(&kept[to..]).cloned().collect();
            if !candidate.is_empty() && fails(&candidate) {
                kept = candidate;
                shorter = true;
            } else {
                from = to;
            }
        }
        if Instant::now() >= deadline || (!shorter && size == 1) {
            break;
        }
        chunks = if shorter { chunks.max(2) } else { chunks * 2 }.min(kept.len().max(2));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(5);

    #[test]
    fn what_is_not_needed_is_left_out() {
        let items: Vec<u32> = (0..500).collect();
        let needed = [3, 250, 251, 499];
        let kept = shortest(&items, LONG, |list| {
            needed.iter().all(|item| list.contains(item))
        });
        assert_eq!(kept, needed);
    }

    #[test]
    fn a_single_cause_is_found_in_few_tries() {
        let items: Vec<u32> = (0..1024).collect();
        let mut tries = 0;
        let kept = shortest(&items, LONG, |list| {
            tries += 1;
            list.contains(&700)
        });
        assert_eq!(kept, [700]);
        assert!(tries < 60, "{tries}");
    }

    #[test]
    fn without_time_the_list_stays_as_it_is() {
        assert_eq!(shortest(&[1, 2, 3], Duration::ZERO, |_| true), [1, 2, 3]);
    }

    #[test]
    fn order_is_kept_when_it_matters() {
        let items = ["a", "x", "b", "y", "a"];
        let ab = |list: &[&str]| {
            let first = list.iter().position(|item| *item == "b");
            first.is_some_and(|at| list[at..].contains(&"a"))
        };
        assert_eq!(shortest(&items, LONG, ab), ["b", "a"]);
    }
}
