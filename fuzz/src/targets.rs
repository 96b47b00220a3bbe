//! The targets.

mod config;
mod lines;
mod messages;
mod policy;
mod proxy;
mod redact;

/// A target: a function of bytes that panics if a promise is broken.
#[derive(Debug)]
pub struct Target {
    /// Name of the target and of its folder of seeds.
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

/// Splits the input into portions whose sizes it contains: the first byte is their number, the next
/// ones are their sizes.
fn portions(input: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let Some((count, rest)) = input.split_first() else {
        return (Vec::new(), input);
    };
    let (sizes, whole) = rest.split_at(rest.len().min(usize::from(count % 16)));
    let mut parts = Vec::new();
    let mut left = whole;
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
