//! Parser of the first message of a TLS server, which may request another ClientHello.

use super::record::{HANDSHAKE, RecordReader};

const SERVER_HELLO: u8 = 2;

/// Random value of a ServerHello that is a HelloRetryRequest (RFC 8446, section 4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Meaning of the first message of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerAnswer {
    /// The client must send a changed ClientHello, which may name another server.
    Retry,
    /// Any other message. The client sends no further name in the clear.
    Other,
}

/// Reads the first message of a server up to the random value of its ServerHello.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    record: RecordReader,
    message: Vec<u8>,
}

impl AnswerReader {
    /// Reads the next bytes. Returns their meaning as soon as it is certain. Must not be called
    /// again after that.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Option<ServerAnswer> {
        const RANDOM: std::ops::Range<usize> = 1 + 3 + 2..1 + 3 + 2 + 32;
        loop {
            match self.record.next(&mut bytes) {
                Ok(Some(part)) if part.kind == HANDSHAKE => {
                    self.message.extend_from_slice(part.content)
                }
                Ok(Some(_)) | Err(_) => return Some(ServerAnswer::Other),
                Ok(None) => return None,
            }
            if self
                .message
                .first()
                .is_some_and(|kind| *kind != SERVER_HELLO)
            {
                return Some(ServerAnswer::Other);
            }
            if let Some(random) = self.message.get(RANDOM) {
                return Some(if random == RETRY_RANDOM {
                    ServerAnswer::Retry
                } else {
                    ServerAnswer::Other
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(random: [u8; 32], size: usize) -> Vec<u8> {
        let message = [&[SERVER_HELLO, 0, 0, 70, 3, 3][..], &random, &[0; 40]].concat();
        message
            .chunks(size)
            .flat_map(|part| {
                [
                    &[HANDSHAKE, 3, 3, 0, u8::try_from(part.len()).unwrap()],
                    part,
                ]
                .concat()
            })
            .collect()
    }

    #[test]
    fn a_retry_is_distinguished_in_any_portions() {
        let alert = vec![21, 3, 3, 0, 2, 2, 40];
        for (bytes, answer) in [
            (hello(RETRY_RANDOM, 99), ServerAnswer::Retry),
            (hello(RETRY_RANDOM, 3), ServerAnswer::Retry),
            (hello([7; 32], 99), ServerAnswer::Other),
            (alert, ServerAnswer::Other),
            (b"HTTP/1.1".to_vec(), ServerAnswer::Other),
        ] {
            assert_eq!(AnswerReader::default().push(&bytes), Some(answer));
            let mut reader = AnswerReader::default();
            assert_eq!(
                bytes.iter().find_map(|byte| reader.push(&[*byte])),
                Some(answer)
            );
        }
        assert_eq!(
            AnswerReader::default().push(&hello(RETRY_RANDOM, 99)[..42]),
            None
        );
    }
}
