//! Messages of a sandboxed program and its servers to the proxy.

use trunkline_sandbox::network::fuzz;

use super::{Target, portions};

pub(super) const HEADS: Target = Target {
    name: "heads",
    seeds: &[
        b"\x02\x09\x04GET http://example.com:80/a?b HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\nConnection: close, x\r\nX: y\r\n\r\nabc",
        b"\x00CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n\x16\x03\x01",
        b"\x00POST http://[::1]/ HTTP/1.0\r\nhost: [::1]\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x01\x20HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: x\r\n\r\n",
        b"\x00HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nUpgrade: h2c\r\n\r\n",
    ],
    words: &[
        "\r\n", "\n", "\r", "\r\n\r\n", " ", "\t", ":", "Host: a\r\n", "Content-Length: 1\r\n", "Content-Length: 2, 2\r\n",
        "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Connection: host\r\n", "Connection: close\r\n", "HTTP/1.1",
        "HTTP/1.0", "HTTP/2", "http://", "https://", "@", "#", "\\", "%00", "..", "a.b", "127.0.0.1", "[::]", "\0", "\x7f", "é", "+", "0x1",
        "Proxy-Authorization: x\r\n", " folded\r\n",
    ],
    run: heads,
};

pub(super) const CHUNKED: Target = Target {
    name: "chunked",
    seeds: &[
        b"\x03\x02\x05\x01" as &[u8],
        b"\x02\x03\x065\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nTrailer: x\r\n\r\nnext",
        b"\x00ffffffffffffffff\r\nx",
        b"\x00a\r\n0123456789\r\n0\r\n\r\n",
    ],
    words: &[
        "\r\n",
        "\n",
        "\r",
        "0\r\n\r\n",
        "1\r\na\r\n",
        ";",
        "=",
        "\"",
        "f",
        "0",
        "00000000000000000",
        "-",
        "+",
        " ",
        "\t",
        "x: y\r\n",
        "\0",
    ],
    run: chunked,
};

pub(super) const CLIENT_HELLO: Target = Target {
    name: "client_hello",
    seeds: &[
        // Two records, one name.
        b"\x02\x07\x09\x16\x03\x01\x00\x20\x01\x00\x00\x40\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaa\x16\x03\x01\x00\x24aaaaaa\x00\x00\x02\x13\x01\x01\x00\x00\x15\x00\x00\x00\x0d\x00\x0b\x00\x00\x08a.b.com.\xfe\x0d\x00\x00",
        b"\x00\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"\x00GET / HTTP/1.1\r\n\r\n",
    ],
    words: &["\x16\x03\x01", "\0\0", "\0\0\0", "\x01\0", "a.example", "\0\x0d\0\x0b", "\x14\x03\x03\0\x01\x01", "\x15\x03\x03\0\x02", "\0\x08", "\x7f"],
    run: client_hello,
};

fn heads(input: &[u8]) {
    let (parts, whole) = portions(input);
    let read = fuzz::read_head(&[whole]);
    assert_eq!(
        fuzz::read_head(&parts),
        read,
        "a head does not depend on reads"
    );
    let Ok(Some((whole, _))) = &read else { return };
    if let Some(rewritten) = fuzz::rewrite_request(whole) {
        one_reading(&rewritten, whole);
        assert!(
            rewritten
                .windows(8)
                .filter(|part| part.eq_ignore_ascii_case(b"\r\nhost: "))
                .count()
                == 1
        );
    }
    for to_head in [false, true] {
        if let Some(rewritten) = fuzz::rewrite_response(whole, to_head) {
            one_reading(&rewritten, whole);
            assert_eq!(
                fuzz::rewrite_response(&rewritten, to_head).as_ref(),
                Some(&rewritten),
                "it is passed on as it is"
            );
        }
    }
}

/// Asserts that the forwarded bytes can be read in only one way.
fn one_reading(rewritten: &[u8], whole: &[u8]) {
    let text = String::from_utf8_lossy(rewritten).to_ascii_lowercase();
    let lines: Vec<&str> = text
        .strip_suffix("\r\n\r\n")
        .expect("it ends as a head")
        .split("\r\n")
        .collect();
    let of = |name: &str| {
        lines
            .iter()
            .skip(1)
            .filter(|line| line.split(':').next() == Some(name))
            .count()
    };
    let shown = String::from_utf8_lossy(whole);
    assert!(
        lines
            .iter()
            .all(|line| !line.is_empty() && !line.contains(['\n', '\r', '\0'])),
        "{text:?} of {shown:?}"
    );
    assert!(
        of("content-length") + of("transfer-encoding") <= 1,
        "two ends: {text:?} of {shown:?}"
    );
    for own in [
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "upgrade",
        "http2-settings",
    ] {
        assert_eq!(of(own), 0, "{own} passed: {text:?} of {shown:?}");
    }
    assert!(of("connection") <= 1, "{text:?} of {shown:?}");
}

fn chunked(input: &[u8]) {
    let (parts, whole) = portions(input);
    let split = fuzz::rewrite_chunked(&parts);
    let at_once = fuzz::rewrite_chunked(&[whole]);
    let said =
        |read: &Option<(bool, Vec<u8>)>| read.as_ref().map(|(done, out)| (*done, data(out, *done)));
    assert_eq!(
        said(&split),
        said(&at_once),
        "a body does not depend on reads"
    );
}

/// The data in what was written anew, by a reader that takes nothing else: sizes in hexadecimal, no
/// extension, no trailer.
fn data(mut written: &[u8], done: bool) -> Vec<u8> {
    let mut data = Vec::new();
    while !written.is_empty() {
        let end = written
            .windows(2)
            .position(|end| end == b"\r\n")
            .expect("a size has its line");
        let size = std::str::from_utf8(&written[..end])
            .ok()
            .and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.expect("a size is a number");
        let (chunk, rest) = written[end + 2..].split_at(size);
        data.extend_from_slice(chunk);
        written = rest.strip_prefix(b"\r\n").expect("a chunk has its end");
        if size == 0 {
            assert!(done && written.is_empty(), "the last chunk is the last");
            return data;
        }
    }
    assert!(!done, "a whole body has a last chunk");
    data
}

fn client_hello(input: &[u8]) {
    let (parts, whole) = portions(input);
    let split = fuzz::read_client_hello(&parts);
    let at_once = fuzz::read_client_hello(&[whole]);
    assert_eq!(split, at_once, "a hello does not depend on reads");
    if let Some((Some(name), ..)) = at_once {
        assert!(
            whole
                .windows(name.len())
                .any(|part| part == name.as_bytes())
                || parts.len() > 1
                || !name.is_empty()
        );
    }
}
