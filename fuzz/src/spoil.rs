//! Inputs: seeds, and what edits make of them.

use proptest::prelude::*;
use proptest::sample::Index;

/// The longest input, in bytes.
const LONGEST: usize = 256 * 1024;

/// A change of an input.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    /// A word of the language.
    Word(Index, Index),
    /// Any bytes.
    Bytes(Index, Vec<u8>),
    /// Another value for one byte.
    Byte(Index, u8),
    /// Less.
    Cut(Index, u16),
    /// A part of it again, so many times.
    Again(Index, u8, u8),
    /// A part of another seed.
    Other(Index, Index, Index, u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => (any::<Index>(), any::<Index>()).prop_map(|(at, word)| Edit::Word(at, word)),
        2 => (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..5)).prop_map(|(at, bytes)| Edit::Bytes(at, bytes)),
        3 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Byte(at, byte)),
        3 => (any::<Index>(), 1..40_u16).prop_map(|(at, length)| Edit::Cut(at, length)),
        2 => (any::<Index>(), any::<u8>(), any::<u8>()).prop_map(|(at, length, times)| Edit::Again(at, length, times)),
        2 => (any::<Index>(), any::<Index>(), any::<Index>(), any::<u8>())
            .prop_map(|(at, seed, from, length)| Edit::Other(at, seed, from, length)),
    ]
}

/// Any input: one of the seeds, with up to a dozen edits.
pub(crate) fn inputs(
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static str],
) -> impl Strategy<Value = Vec<u8>> {
    (any::<Index>(), proptest::collection::vec(edit(), 0..12)).prop_map(move |(seed, edits)| {
        let mut input = seeds[seed.index(seeds.len())].clone();
        edits
            .iter()
            .for_each(|edit| apply(edit, &mut input, &seeds, words));
        input.truncate(LONGEST);
        input
    })
}

fn apply(edit: &Edit, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    let place = |at: &Index, input: &[u8]| at.index(input.len() + 1);
    match edit {
        Edit::Word(at, word) => {
            let at = place(at, input);
            input.splice(at..at, words[word.index(words.len())].bytes());
        }
        Edit::Bytes(at, bytes) => {
            let at = place(at, input);
            input.splice(at..at, bytes.iter().copied());
        }
        Edit::Byte(at, byte) => {
            let at = place(at, input);
            if let Some(old) = input.get_mut(at) {
                *old = *byte;
            }
        }
        Edit::Cut(at, length) => {
            let at = place(at, input);
            drop(input.drain(at..input.len().min(at + usize::from(*length))));
        }
        Edit::Again(at, length, times) => {
            let at = place(at, input);
            let part =
                input[at..input.len().min(at + usize::from(*length))].repeat(usize::from(*times));
            if input.len() + part.len() <= LONGEST {
                input.splice(at..at, part);
            }
        }
        Edit::Other(at, seed, from, length) => {
            let at = place(at, input);
            let seed = &seeds[seed.index(seeds.len())];
            let from = from.index(seed.len() + 1);
            let part = &seed[from..seed.len().min(from + usize::from(*length))];
            input.splice(at..at, part.iter().copied());
        }
    }
}
