//! Makes the switches of `broken-adapter` and `broken-host` from the lists of broken and odd
//! programs, so that each is named and described once.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

use toml::{Table, Value};

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    for side in ["adapters", "hosts"] {
        let list = format!("{side}.toml");
        println!("cargo::rerun-if-changed={list}");
        let list: Table = fs::read_to_string(list)?.parse()?;
        let mut code = String::new();
        for (kind, about) in [("mutant", "bug"), ("variant", "about")] {
            write_enum(&mut code, kind, about, entries(&list, kind))?;
        }
        fs::write(Path::new(&out).join(format!("{side}.rs")), code)?;
    }
    Ok(())
}

/// Returns the entries that are not programs of their own.
fn entries<'a>(list: &'a Table, kind: &str) -> impl Iterator<Item = &'a Value> + Clone {
    list[kind]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("command").is_none())
}

fn write_enum<'a>(
    code: &mut String,
    kind: &str,
    about: &str,
    entries: impl Iterator<Item = &'a Value> + Clone,
) -> Result<(), Box<dyn Error>> {
    let text = |entry: &'a Value, key| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .ok_or(format!("a {kind} lacks {key}"))
    };
    let named = pascal(kind);
    let mut variants = String::new();
    let mut rows = String::new();
    for entry in entries {
        let name = text(entry, "name")?;
        let about = text(entry, about)?;
        let variant = pascal(text(entry, "switch").unwrap_or(name));
        writeln!(variants, "#[doc = {about:?}] {variant},")?;
        writeln!(rows, "({named}::{variant}, {name:?}, {about:?}),")?;
    }
    writeln!(code, "/// What `--{kind}` may choose.")?;
    writeln!(
        code,
        "#[derive(Debug, Clone, Copy, PartialEq, Eq)] pub enum {named} {{ {variants} }}"
    )?;
    writeln!(
        code,
        "const {}S: &[({named}, &str, &str)] = &[{rows}];",
        kind.to_uppercase()
    )?;
    Ok(())
}

/// `chunk-decoded` as `ChunkDecoded`.
fn pascal(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + &rest.to_lowercase()
    });
    words.collect()
}
