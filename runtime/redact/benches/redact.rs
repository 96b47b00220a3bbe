//! Cost of redaction: clean lines, lines with secrets, a stream.

#![allow(clippy::print_stdout, reason = "a benchmark")]

use std::hint::black_box;
use std::sync::Arc;

use trunkline_redact::{Redactor, Stream};

#[path = "../../../testing/benches/timing.rs"]
mod timing;

use timing::measure;

/// A kilobyte of what logs are made of: prose, paths, numbers, ids, fields; nothing secret.
fn clean_line() -> String {
    let parts = [
        "2026-03-01T12:00:00.123Z  INFO trunkline_host::link: the adapter answered in 12 ms, ",
        "session=5f3c1a9e-0c1d-4f5e-9a7b-2d6c8e4f1a0b turn=17 bytes=4096 path=/usr/lib/node_modules/agent/dist/main.js ",
        "{\"type\":\"tool.end\",\"tool\":\"bash\",\"status\":\"completed\",\"exit\":0,\"duration_ms\":812} ",
        "reading src/parser/mod.rs:214, 38 of 57 files are done; compiling took longer than usual. ",
        "GET https://registry.example.org/packages/list?page=3&size=50 200 OK, 18231 bytes; retrying in 250 ms. ",
    ];
    parts
        .concat()
        .chars()
        .cycle()
        .take(1023)
        .chain(['\n'])
        .collect()
}

fn redactor(count: usize) -> Redactor {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut secret = || -> String {
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        (0..40)
            .map(|_| letters[(next() % 64) as usize] as char)
            .collect()
    };
    Redactor::new((0..count).map(|n| (format!("SECRET_{n}"), secret())))
}

fn lines() {
    let clean = clean_line();
    for count in [0, 10, 200] {
        let redactor = redactor(count);
        assert_eq!(redactor.text(&clean), clean);
        let name = format!("line of 1 KiB: clean, {count} values");
        measure(&name, Some(clean.len()), || {
            redactor.text(black_box(&clean)).len()
        });
    }
    let redactor = Redactor::new([("KNOWN_TOKEN", "correct-horse-battery-staple")]);
    for (name, dirt) in [
        ("dirty, value", "correct-horse-battery-staple"),
        ("dirty, token", "ghp_0123456789abcdefghij0123456789"),
        ("dirty, field", "{\"password\":\"hunter2 and more\"}"),
        (
            "clean, words",
            "input_tokens: 1200, the author of the key is not authenticated",
        ),
    ] {
        let mut line = clean.clone();
        line.replace_range(500..500 + dirt.len(), dirt);
        measure(&format!("line of 1 KiB: {name}"), Some(line.len()), || {
            redactor.text(black_box(&line)).len()
        });
    }
}

fn streams() {
    let text = clean_line().repeat(1024);
    for count in [0, 200] {
        let redactor = Arc::new(redactor(count));
        let name = format!("stream of 1 MiB: clean, {count} values");
        measure(&name, Some(text.len()), || {
            let mut stream = Stream::with(redactor.clone());
            let mut shown = 0;
            for chunk in text.as_bytes().chunks(16 * 1024) {
                stream.push(black_box(chunk), |bytes| shown += bytes.len());
            }
            stream.finish(|bytes| shown += bytes.len());
            shown
        });
    }
}

fn main() {
    lines();
    streams();
    measure("make a redactor of 200 values", None, || {
        redactor(black_box(200))
    });
}
