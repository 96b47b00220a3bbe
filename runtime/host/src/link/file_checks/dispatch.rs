//! Order of file checks: sessions take turns, and none takes all places ([session.3]).

use std::collections::{HashMap, VecDeque};

use trunkline_core::{Key, share::may_take};

/// Limit of simultaneous file checks of one link: each has a thread and some descriptors.
const AT_WORK: usize = 32;
/// Limit of these for one session, whose file system may hang.
const AT_WORK_OF_ONE: usize = 8;
/// Limit of memory for waiting files, in bytes.
const WAITING_BYTES: u64 = 64 * 1024 * 1024;
/// Limit of this for one session, beyond its first file.
const WAITING_BYTES_OF_ONE: u64 = 4 * 1024 * 1024;

/// Waiting files, by session.
#[derive(Debug)]
pub(super) struct Dispatch<T> {
    lines: HashMap<Key, Line<T>>,
    /// The sessions of which a file may be begun, in turn.
    turns: VecDeque<Key>,
    workers: usize,
    weight: u64,
}

#[derive(Debug)]
struct Line<T> {
    waiting: VecDeque<T>,
    at_work: usize,
    weight: u64,
    /// True if it is among the turns.
    has_turn: bool,
}

impl<T> Default for Dispatch<T> {
    fn default() -> Self {
        Self {
            lines: HashMap::new(),
            turns: VecDeque::new(),
            workers: 0,
            weight: 0,
        }
    }
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            at_work: 0,
            weight: 0,
            has_turn: false,
        }
    }
}

impl<T> Dispatch<T> {
    /// Adds an item with its bytes; returns true if a worker must be started. Returns the item if
    /// there is no room.
    pub(super) fn put(&mut self, key: Key, weight: u64, item: T) -> Result<bool, T> {
        let own = self.lines.get(&key).map_or(0, |line| line.weight);
        let is_much = own > 0 && own + weight > WAITING_BYTES_OF_ONE;
        if is_much || !may_take(own, weight, WAITING_BYTES - self.weight) {
            return Err(item);
        }
        self.weight += weight;
        let line = self.lines.entry(key).or_default();
        line.weight += weight;
        line.waiting.push_back(item);
        line.queue(key, &mut self.turns);
        let starts = !self.turns.is_empty() && self.workers < AT_WORK;
        self.workers += usize::from(starts);
        Ok(starts)
    }

    /// Returns the next item for a worker; `None` if the worker must end.
    pub(super) fn take(&mut self) -> Option<T> {
        while let Some(key) = self.turns.pop_front() {
            let Some(line) = self.lines.get_mut(&key) else {
                continue;
            };
            line.has_turn = false;
            let Some(item) = line.waiting.pop_front() else {
                continue;
            };
            line.at_work += 1;
            line.queue(key, &mut self.turns);
            return Some(item);
        }
        self.workers = self.workers.saturating_sub(1);
        None
    }

    /// A worker is done with one.
    pub(super) fn done(&mut self, key: Key, weight: u64) {
        let Some(line) = self.lines.get_mut(&key) else {
            return;
        };
        self.weight -= weight;
        line.weight -= weight;
        line.at_work -= 1;
        line.queue(key, &mut self.turns);
        if line.at_work == 0 && line.waiting.is_empty() {
            self.lines.remove(&key);
        }
    }

    /// Takes away all that waits.
    pub(super) fn clear(&mut self) -> impl Sized + use<T> {
        (self.weight, self.turns) = (0, VecDeque::new());
        std::mem::take(&mut self.lines)
    }
}

impl<T> Line<T> {
    /// Puts the session at the end of the turns, if it may have one.
    fn queue(&mut self, key: Key, turns: &mut VecDeque<Key>) {
        if !self.waiting.is_empty() && self.at_work < AT_WORK_OF_ONE && !self.has_turn {
            self.has_turn = true;
            turns.push_back(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> Key {
        Key::new(index, 0)
    }

    #[test]
    fn a_session_waits_for_its_own_files_and_for_one_of_each_other() {
        let mut dispatch = Dispatch::default();
        for at in 0..1000 {
            dispatch.put(key(0), 1, (0, at)).unwrap();
        }
        dispatch.put(key(1), 1, (1, 0)).unwrap();
        dispatch.put(key(2), 1, (2, 0)).unwrap();
        let begun: Vec<_> = std::iter::from_fn(|| dispatch.take()).collect();
        let of_one = (0..8).map(|at| (0, at));
        assert_eq!(begun[..3], [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(
            begun
                .iter()
                .filter(|(session, _)| *session == 0)
                .copied()
                .collect::<Vec<_>>(),
            of_one.collect::<Vec<_>>()
        );
        dispatch.done(key(0), 1);
        assert_eq!((dispatch.take(), dispatch.take()), (Some((0, 8)), None));
    }

    #[test]
    fn workers_are_as_many_as_there_is_work_and_never_more_than_may_be() {
        let mut dispatch = Dispatch::default();
        let mut put = |session, count| {
            (0..count)
                .filter(|at| dispatch.put(key(session), 1, *at).unwrap())
                .count()
        };
        assert_eq!(put(0, 100), AT_WORK);
        assert_eq!(put(1, 100), 0);
        // Each takes its first; those that find nothing end, and what comes then starts others.
        let begun = (0..AT_WORK).filter(|_| dispatch.take().is_some()).count();
        assert_eq!(
            (begun, dispatch.workers),
            (2 * AT_WORK_OF_ONE, 2 * AT_WORK_OF_ONE)
        );
        assert!(dispatch.put(key(2), 1, 0).unwrap());
        for _ in 0..AT_WORK_OF_ONE {
            dispatch.done(key(0), 1);
        }
        assert!(dispatch.take().is_some());
    }

    #[test]
    fn a_flood_of_one_session_or_of_many_leaves_room_for_the_next() {
        let mut dispatch = Dispatch::default();
        let weight = 64 * 1024;
        for session in 0..10 {
            while dispatch.put(key(session), weight, ()).is_ok() {}
        }
        assert!(dispatch.put(key(99), weight, ()).is_ok());
        for session in 0..10 {
            assert!(dispatch.put(key(session), weight, ()).is_err());
        }
        while dispatch.take().is_some() {}
        drop(dispatch.clear());
        // Those that were at work are done later.
        dispatch.done(key(0), weight);
        assert_eq!((dispatch.weight, dispatch.lines.len()), (0, 0));
    }
}
