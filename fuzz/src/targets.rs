//! The targets.

mod config;
mod lines;
mod messages;
mod policy;
mod proxy;
mod redact;

/// What is fuzzed: a function of bytes that panics where a promise breaks.
#[derive(Debug)]
pub struct Target {
    /// Its name, and that of its folder of seeds.
    pub name: &'static str,
    pub(crate) seeds: &'static [&'static [u8]],
    /// Words of its language, which edits put in.
    pub(crate) words: &'static [&'static str],
    pub(crate) run: fn(&[u8]),
}

/// Every target.
pub const ALL: [Target; 9] = [
    lines::LINES,
    messages::HEAD,
    messages::MESSAGES,
    config::CONFIG,
    policy::POLICY,
    proxy::HEADS,
    proxy::CHUNKED,
    proxy::CLIENT_HELLO,
    redact::REDACT,
];

/// The input in portions of sizes that it says itself: the first byte counts them, the next are their sizes.
fn portions(input: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let Some((count, rest)) = input.split_first() else {
        return (Vec::new(), input);
    };
    let (sizes, whole) = rest.split_at(rest.len().min(usize::from(count % 16)));
    let (mut parts, mut left) = (Vec::new(), whole);
    for size in sizes {
        let (part, after) = left.split_at(
            left.len()
                .min(usize::from(*size) * usize::from(*size) / 16 + 1),
        );
        parts.push(part);
        left = after;
    }
    parts.push(left);
    (parts, whole)
}
