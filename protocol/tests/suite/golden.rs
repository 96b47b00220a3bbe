//! The exact bytes that are written, for every message type and for the published exchange.

use std::fs;

use serde_json::Value;
use trunkline_protocol::{AdapterMessage, HostMessage, HubMessage, RelayMessage};

use crate::{
    checked_in::{check, file},
    examples::{EXAMPLES, Example, Way},
};

#[test]
fn each_type_is_written_as_its_golden_line() {
    for Example {
        way,
        kind,
        minimal,
        full,
    } in &*EXAMPLES
    {
        let [minimal, full] = [minimal, full].map(|line| {
            let written = way
                .rewrite(line)
                .unwrap_or_else(|why| panic!("{line}: {why}"));
            let values = [line, &written].map(|text| serde_json::from_str::<Value>(text).unwrap());
            assert_eq!(
                values[0], values[1],
                "{kind} changes its value when it is read and written"
            );
            written
        });
        check(&Example::path(*way, kind), &format!("{minimal}{full}"));
    }
}

#[test]
fn what_is_written_reads_back_as_the_same_message() {
    for Example {
        way, minimal, full, ..
    } in &*EXAMPLES
    {
        for line in [minimal, full] {
            match way {
                Way::HostToAdapter => {
                    let message = HostMessage::parse(line).unwrap();
                    let again = String::from_utf8(message.to_line()).unwrap();
                    assert_eq!(HostMessage::parse(again.trim_end()), Ok(message), "{line}");
                }
                Way::AdapterToHost => {
                    let message = AdapterMessage::parse(line).unwrap();
                    let again = String::from_utf8(message.to_line()).unwrap();
                    assert_eq!(
                        AdapterMessage::parse(again.trim_end()),
                        Ok(message),
                        "{line}"
                    );
                }
                Way::HubToRelay => {
                    let message = HubMessage::parse(line).unwrap();
                    let again = String::from_utf8(message.to_line()).unwrap();
                    assert_eq!(HubMessage::parse(again.trim_end()), Ok(message), "{line}");
                }
                Way::RelayToHub => {
                    let message = RelayMessage::parse(line).unwrap();
                    let again = String::from_utf8(message.to_line()).unwrap();
                    assert_eq!(RelayMessage::parse(again.trim_end()), Ok(message), "{line}");
                }
            }
        }
    }
}

#[test]
fn each_member_comes_back_alone() {
    for example in &*EXAMPLES {
        let minimal = example.minimal_members();
        for (name, value) in example.full_members() {
            let mut members = minimal.clone();
            members.insert(name, value);
            let line = Value::Object(members).to_string();
            let written = example
                .way
                .rewrite(&line)
                .unwrap_or_else(|why| panic!("{line}: {why}"));
            let values = [&line, &written].map(|text| serde_json::from_str::<Value>(text).unwrap());
            assert_eq!(values[0], values[1]);
        }
    }
}

#[test]
fn no_golden_file_is_left_over() {
    for way in Way::ALL {
        let folder = file(&format!("tests/golden/{}", way.name()));
        let mut found: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut wanted: Vec<String> = way
            .types()
            .iter()
            .map(|kind| format!("{kind}.jsonl"))
            .collect();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
    }
}

#[test]
fn the_published_exchange_is_read_and_written_byte_for_byte() {
    let path = "tests/golden/published.txt";
    let published = fs::read_to_string(file(path)).unwrap();
    let mut written = String::new();
    for line in published.lines() {
        let (mark, way, text) = match line.split_at(2) {
            ("> ", text) => ("> ", Way::HostToAdapter, text),
            ("< ", text) => ("< ", Way::AdapterToHost, text),
            _ => panic!("{line}"),
        };
        written.push_str(mark);
        written.push_str(
            &way.rewrite(text)
                .unwrap_or_else(|why| panic!("{line}: {why}")),
        );
    }
    assert_eq!(written, published);
    let spec = fs::read_to_string(file("SPEC.md")).unwrap();
    assert!(
        spec.contains(&format!("```exchange\n{published}```\n")),
        "the quick start is the published exchange"
    );
}
