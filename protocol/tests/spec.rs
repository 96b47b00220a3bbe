//! `SPEC.md` is executed: its examples are read and written, its clauses counted, the citations of
//! them looked up.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use trunkline_protocol::{
    AdapterBody, AdapterKind, AdapterMessage, HostBody, HostKind, HostMessage, HubKind, HubMessage,
    PermissionResponse, RelayKind, RelayMessage, Unread, schema,
};

/// The families of clauses and how many each has.
const FAMILIES: [(&str, usize); 12] = [
    ("frame", 11),
    ("msg", 7),
    ("session", 8),
    ("turn", 11),
    ("permission", 6),
    ("file", 7),
    ("process", 7),
    ("ext", 9),
    ("flow", 3),
    ("large", 3),
    ("relay", 10),
    ("journal", 14),
];

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn spec() -> String {
    fs::read_to_string(crate_folder().join("SPEC.md")).unwrap()
}

/// A line of an example.
#[derive(Debug, Clone)]
struct Spoken {
    number: usize,
    from_host: bool,
    text: String,
    /// The comment below it, in a `bad` block.
    why: String,
}

impl Spoken {
    fn rewritten(&self) -> Result<Vec<u8>, Unread> {
        if self.from_host {
            HostMessage::parse(&self.text).map(|message| message.to_line())
        } else {
            AdapterMessage::parse(&self.text).map(|message| message.to_line())
        }
    }
}

/// The lines of all blocks of this kind, block by block.
fn blocks(kind: &str) -> Vec<Vec<Spoken>> {
    let mut blocks = Vec::new();
    let mut fence: Option<String> = None;
    for (at, line) in spec().lines().enumerate() {
        let number = at + 1;
        if let Some(name) = line.strip_prefix("```") {
            fence = if fence.is_some() {
                None
            } else {
                Some(name.to_owned())
            };
            if fence.as_deref() == Some(kind) {
                blocks.push(Vec::new());
            }
            continue;
        }
        if fence.as_deref() != Some(kind) {
            continue;
        }
        let block = blocks.last_mut().unwrap();
        let spoken = |from_host, text: &str| Spoken {
            number,
            from_host,
            text: text.to_owned(),
            why: String::new(),
        };
        match line.split_at_checked(2) {
            Some(("> ", text)) => block.push(spoken(true, text)),
            Some(("< ", text)) => block.push(spoken(false, text)),
            Some(("# ", why)) => {
                if let Some(last) = block.last_mut() {
                    why.clone_into(&mut last.why);
                }
            }
            _ => assert!(
                line.is_empty(),
                "SPEC.md:{number} is not a line of an example: {line}"
            ),
        }
    }
    blocks
}

#[test]
fn each_line_of_an_exchange_is_read_and_written_as_it_stands() {
    let lines: Vec<Spoken> = blocks("exchange").concat();
    assert!(lines.len() > 80, "{} lines were found", lines.len());
    for line in lines {
        let written = line
            .rewritten()
            .unwrap_or_else(|why| panic!("SPEC.md:{}: {why}", line.number));
        let written: Value = serde_json::from_slice(&written).unwrap();
        let wanted: Value = serde_json::from_str(&line.text).unwrap();
        assert_eq!(written, wanted, "SPEC.md:{}", line.number);
    }
}

#[test]
fn each_line_of_an_exchange_is_valid_by_the_schema() {
    let host = jsonschema::validator_for(&schema::host_to_adapter()).unwrap();
    let adapter = jsonschema::validator_for(&schema::adapter_to_host()).unwrap();
    for line in blocks("exchange").concat() {
        let value: Value = serde_json::from_str(&line.text).unwrap();
        let validator = if line.from_host { &host } else { &adapter };
        validator
            .validate(&value)
            .unwrap_or_else(|why| panic!("SPEC.md:{}: {why}", line.number));
    }
}

#[test]
fn each_message_type_has_an_example() {
    let mut shown = BTreeSet::new();
    for line in blocks("exchange").concat() {
        let value: Value = serde_json::from_str(&line.text).unwrap();
        shown.insert((line.from_host, value["type"].as_str().unwrap().to_owned()));
    }
    let host = HostKind::ALL
        .iter()
        .map(|kind| (true, kind.as_str().to_owned()));
    let adapter = AdapterKind::ALL
        .iter()
        .map(|kind| (false, kind.as_str().to_owned()));
    assert_eq!(shown, host.chain(adapter).collect());
}

/// The number, epoch and time of an entry, taken out of it.
fn without_number(entry: &mut Value) -> bool {
    let members = entry.as_object_mut().unwrap();
    // The end that goes out before it is an entry ([journal.11]).
    members.remove("provisional");
    let is_entry = members.contains_key("epoch") && members.contains_key("time");
    if is_entry {
        for name in ["seq", "epoch", "time"] {
            assert!(
                members.remove(name).is_some(),
                "an entry has {name}: {members:?}"
            );
        }
    }
    is_entry
}

#[test]
fn each_line_of_the_journal_is_read_and_written_as_it_stands() {
    let schemas = [
        schema::host_to_adapter(),
        schema::hub_to_relay(),
        schema::adapter_to_host(),
        schema::relay_to_hub(),
    ];
    let [host, hub, adapter, relay] =
        schemas.map(|schema| jsonschema::validator_for(&schema).unwrap());
    let mut shown = BTreeSet::new();
    let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in blocks("journal").concat() {
        let mut wanted: Value = serde_json::from_str(&line.text).unwrap();
        let kind = wanted["type"].as_str().unwrap().to_owned();
        let seq = wanted["seq"].as_u64();
        if !line.from_host && kind != "session.attached" && without_number(&mut wanted) {
            let session = wanted["session_id"].as_str().unwrap().to_owned();
            numbers.entry(session).or_default().extend(seq);
        }
        let own = if line.from_host {
            HubMessage::parse(&line.text).map(|message| message.to_line())
        } else {
            RelayMessage::parse(&line.text).map(|message| message.to_line())
        };
        let (written, validator) = match own {
            Ok(written) => {
                shown.insert(kind);
                (written, if line.from_host { &hub } else { &relay })
            }
            Err(_) => (
                line.rewritten()
                    .unwrap_or_else(|why| panic!("SPEC.md:{}: {why}", line.number)),
                if line.from_host { &host } else { &adapter },
            ),
        };
        let written: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(written, wanted, "SPEC.md:{}", line.number);
        validator
            .validate(&wanted)
            .unwrap_or_else(|why| panic!("SPEC.md:{}: {why}", line.number));
    }
    let hub = HubKind::ALL.iter().map(|kind| kind.as_str().to_owned());
    let relay = RelayKind::ALL.iter().map(|kind| kind.as_str().to_owned());
    assert_eq!(shown, hub.chain(relay).collect());
    // The second is a copy of the first, whose entries it has up to the tenth.
    let wanted = [
        ("h-1".to_owned(), (1..=11).collect()),
        ("h-2".to_owned(), vec![11]),
    ];
    assert_eq!(numbers, BTreeMap::from(wanted));
}

/// The options of reject kinds that the exchanges offer.
fn rejecting_options() -> BTreeSet<String> {
    let lines = blocks("exchange").concat();
    let requests = lines
        .iter()
        .filter(|line| !line.from_host)
        .filter_map(|line| match AdapterMessage::parse(&line.text).ok()?.body {
            AdapterBody::PermissionRequest(request) => request.options,
            _ => None,
        });
    let rejecting = requests
        .flatten()
        .filter(|option| option.kind.is_some_and(|kind| !kind.allows()));
    rejecting.map(|option| option.id).collect()
}

fn answer(line: &Spoken) -> (String, PermissionResponse) {
    let message = HostMessage::parse(&line.text)
        .unwrap_or_else(|why| panic!("SPEC.md:{}: {why}", line.number));
    let HostBody::PermissionResponse(answer) = message.body else {
        panic!("SPEC.md:{}", line.number)
    };
    (message.session_id.to_string(), answer)
}

#[test]
fn each_bad_line_is_bad_in_the_way_that_its_comment_says() {
    let mut seen = BTreeMap::new();
    for block in blocks("bad") {
        for line in &block {
            let at = format!("SPEC.md:{}: {}", line.number, line.why);
            let (wanted, holds) = match &*line.why {
                "" => panic!("{at}: nothing says why it is bad"),
                why if why.contains("noise") => ("noise", line.rewritten() == Err(Unread::Noise)),
                why if why.contains("another session") => {
                    ("elsewhere", answer(line).0 != answer(&block[0]).0)
                }
                why if why.contains("reject option") => {
                    let (_, answer) = answer(line);
                    (
                        "rejects",
                        answer
                            .option_id
                            .is_some_and(|id| rejecting_options().contains(&id)),
                    )
                }
                why if why.contains("denied") => ("denied", !answer(line).1.approved),
                why if why.contains("bad") => {
                    ("bad", matches!(line.rewritten(), Err(Unread::Bad { .. })))
                }
                why if why.contains("no session_id") => {
                    ("bad", matches!(line.rewritten(), Err(Unread::Bad { .. })))
                }
                _ => panic!("{at}: no known reason"),
            };
            assert!(holds, "{at}: not {wanted}");
            *seen.entry(wanted).or_insert(0) += 1;
        }
    }
    let wanted = [
        ("bad", 6),
        ("denied", 1),
        ("elsewhere", 1),
        ("noise", 4),
        ("rejects", 1),
    ];
    assert_eq!(seen, BTreeMap::from(wanted));
}

/// The ids of clauses that a text cites as `[turn.4]`.
fn cited(text: &str) -> impl Iterator<Item = String> {
    text.match_indices('[').filter_map(|(at, _)| {
        let (id, _) = text[at + 1..].split_once(']')?;
        let (family, number) = id.split_once('.')?;
        let known = FAMILIES.iter().any(|(name, _)| *name == family);
        (known && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| id.to_owned())
    })
}

fn clauses() -> Vec<String> {
    FAMILIES
        .iter()
        .flat_map(|(family, count)| (1..=*count).map(move |n| format!("{family}.{n}")))
        .collect()
}

#[test]
fn each_clause_stands_once_in_its_order_and_says_whom_it_binds() {
    let spec = spec();
    let mut found: Vec<(String, &str)> = Vec::new();
    let mut before = "";
    for line in spec.lines() {
        let anchor = std::mem::replace(&mut before, line);
        let Some((id, rest)) = line
            .strip_prefix("**[")
            .and_then(|line| line.split_once("]** *"))
        else {
            assert!(
                !line.contains("**["),
                "a clause stands at the beginning of a line: {line}"
            );
            continue;
        };
        let (binds, _) = rest
            .split_once(".*")
            .unwrap_or_else(|| panic!("{id} binds no side"));
        assert!(
            ["host", "adapter", "both", "relay"].contains(&binds),
            "{id} binds {binds}"
        );
        assert_eq!(anchor, format!("<a id=\"{id}\"></a>"), "before {id}");
        found.push((id.to_owned(), binds));
    }
    for (family, count) in FAMILIES {
        let ids = found
            .iter()
            .map(|(id, _)| &**id)
            .filter(|id| id.split_once('.').is_some_and(|(f, _)| f == family));
        let wanted: Vec<String> = (1..=count)
            .map(|number| format!("{family}.{number}"))
            .collect();
        assert_eq!(ids.collect::<Vec<_>>(), wanted);
    }
    assert_eq!(
        found.len(),
        clauses().len(),
        "every clause belongs to a known family"
    );
}

/// The files below a folder whose names end so. Skips what is built and hidden, and goes no deeper
/// than a workspace does.
fn files(folder: &Path, ending: &str, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let name = entry.file_name();
        let kind = entry.file_type().unwrap();
        let skipped =
            name == "target" || name == "node_modules" || name.to_string_lossy().starts_with('.');
        if kind.is_dir() && depth > 0 && !skipped {
            files(&path, ending, depth - 1, found);
        } else if kind.is_file()
            && path
                .extension()
                .is_some_and(|extension| extension == ending)
        {
            found.push(path);
        }
    }
}

/// The workspace. Outside of it, the crate has its own files only.
fn files_of_the_workspace(ending: &str) -> Vec<PathBuf> {
    let workspace = crate_folder().parent().unwrap();
    let whole = workspace.join("Cargo.lock").exists();
    let mut found = Vec::new();
    files(
        if whole { workspace } else { crate_folder() },
        ending,
        10,
        &mut found,
    );
    found
}

#[test]
fn each_citation_names_a_clause() {
    let clauses: BTreeSet<String> = clauses().into_iter().collect();
    let spec = spec();
    let unknown: Vec<String> = cited(&spec).filter(|id| !clauses.contains(id)).collect();
    assert_eq!(unknown, [""; 0], "SPEC.md cites what it does not have");

    let mut count = 0;
    for file in files_of_the_workspace("rs") {
        let text = fs::read_to_string(&file).unwrap();
        for (at, line) in text.lines().enumerate() {
            let Some((_, comment)) = line.split_once("//") else {
                continue;
            };
            for id in cited(comment) {
                count += 1;
                assert!(
                    clauses.contains(&id),
                    "{}:{} cites [{id}]",
                    file.display(),
                    at + 1
                );
            }
        }
    }
    assert!(count > 50, "{count} citations were found");
}

/// A page without its blocks and spans of code.
fn without_code(page: &str) -> String {
    let blocks = page.split("```").step_by(2);
    blocks
        .flat_map(|prose| prose.split('`').step_by(2))
        .collect()
}

#[test]
fn each_citation_of_a_page_is_a_link_to_its_clause() {
    let clauses: BTreeSet<String> = clauses().into_iter().collect();
    let mut count = 0;
    for file in files_of_the_workspace("md") {
        let page = fs::read_to_string(&file).unwrap();
        for id in cited(&without_code(&page)) {
            assert!(clauses.contains(&id), "{} cites [{id}]", file.display());
            let linked = page.lines().any(|line| {
                let target = line.strip_prefix(&format!("[{id}]: "));
                target.is_some_and(|target| {
                    let (path, anchor) = target.split_once('#').unwrap_or_default();
                    let same = file.ends_with("SPEC.md") && path.is_empty();
                    anchor == id && (same || path.ends_with("protocol/SPEC.md"))
                })
            });
            assert!(
                linked,
                "{} has no line `[{id}]: PATH/protocol/SPEC.md#{id}`",
                file.display()
            );
            count += 1;
        }
    }
    assert!(count > 100, "{count} citations were found");
}
