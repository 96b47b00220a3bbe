//! Dialogues: cases as text, one step per line, which [`play`] executes.
//!
//! ```text
//! open s other
//! # A result has a name. JSON may span lines.
//! instruct s [["say", "a"], ["wait", "stop"], ["complete"]]
//! turn = end s within 2
//!   hint | what is indented belongs to the step above
//! says turn "a"
//! each id in ["a", "b"]
//!   reached 1 s permission.response {"request_id": "$id"} | one answer to $id | $count of them
//! ```
//!
//! - A step is a verb and its operands: names, types of messages, JSON, and options such as `from
//!   $place`, `within 2`. `player::VERBS` lists the verbs.
//! - Behind ` | ` are the texts of a failure: first the expectation, then the observation.
//! - `$name` is replaced by a result, also within JSON and texts, and `$name.member` by a part of
//!   it. If it is several messages, `$name.0`, `$name.last` and `$name.all` select some, and
//!   `$name.member` belongs to the first. `#index` and `#at` are the place and the time of a
//!   message, `#at` also the time of what was sent at a place, `#count` is a length; of a list,
//!   `#distinct` counts the different elements, `#text` joins them, and `#sorted` shows them in
//!   order.
//! - The members of a message that is awaited or counted are patterns, as in `player::has_members`.

use serde_json::{Deserializer, Value};

use self::player::{Perform, VERBS};

mod player;

pub(crate) use player::play;

/// Line of a dialogue, with the lines indented below it.
#[derive(Debug)]
struct DialogueStep {
    /// The name of its result.
    name: Option<&'static str>,
    verb: &'static str,
    perform: Perform,
    operands: Vec<Operand>,
    /// The texts behind ` | `.
    texts: Vec<&'static str>,
    body: Vec<Self>,
}

#[derive(Debug)]
enum Operand {
    Word(&'static str),
    /// JSON, in which `$name` is not yet replaced.
    Value(Value),
}

/// Reads the steps of a dialogue. The error names the line.
fn read_steps(text: &'static str) -> Result<Vec<DialogueStep>, String> {
    let mut rest = text;
    read_block(&mut rest, 0).map_err(|error| {
        let before = &text[..text.len() - rest.len()];
        let line = before.matches('\n').count() + 1;
        format!("line {line}: {error}")
    })
}

fn read_block(rest: &mut &'static str, indent: usize) -> Result<Vec<DialogueStep>, String> {
    let mut steps: Vec<DialogueStep> = Vec::new();
    while let Some(line) = rest.lines().next() {
        let content = line.trim_start();
        let depth = line.len() - content.len();
        if content.is_empty() || content.starts_with('#') {
            *rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else if depth < indent {
            break;
        } else if depth == indent {
            *rest = &rest[depth..];
            let start = *rest;
            let step = read_step(rest);
            steps.push(step.inspect_err(|_| *rest = start)?);
        } else {
            let above = steps.last_mut().ok_or("it is indented below nothing")?;
            above.body = read_block(rest, depth)?;
        }
    }
    Ok(steps)
}

/// Reads a step, of one line unless its JSON or its texts span more.
fn read_step(rest: &mut &'static str) -> Result<DialogueStep, String> {
    let mut operands = Vec::new();
    let mut texts = Vec::new();
    loop {
        *rest = rest.trim_start_matches(' ');
        let line = rest.lines().next().unwrap_or_default();
        let length = match line.bytes().next() {
            // Texts may have a line of their own.
            None if rest.trim_start().starts_with('|') => rest.len() - rest.trim_start().len(),
            None => break,
            Some(b'|') => {
                texts.extend(line[1..].split(" | ").map(str::trim));
                line.len()
            }
            Some(b'{' | b'[' | b'"') => {
                let mut values = Deserializer::from_str(rest).into_iter();
                let value = values.next().ok_or("a value is missing")?;
                operands.push(Operand::Value(value.map_err(|error| error.to_string())?));
                values.byte_offset()
            }
            Some(_) => {
                let word = line.split(' ').next().unwrap_or_default();
                operands.push(match serde_json::from_str(word) {
                    Ok(value) => Operand::Value(value),
                    Err(_) if word.starts_with('$') => Operand::Value(word.into()),
                    Err(_) => Operand::Word(word),
                });
                word.len()
            }
        };
        *rest = &rest[length..];
    }
    *rest = rest.strip_prefix('\n').unwrap_or_default();
    let mut name = None;
    if let [Operand::Word(first), Operand::Word("="), ..] = operands[..] {
        name = Some(first);
        operands.drain(..2);
    }
    match operands.first() {
        Some(&Operand::Word(verb)) => {
            let known = VERBS.iter().find(|(known, _)| *known == verb);
            let (_, perform) = known.ok_or_else(|| format!("there is no verb `{verb}`"))?;
            operands.remove(0);
            Ok(DialogueStep {
                name,
                verb,
                perform: *perform,
                operands,
                texts,
                body: Vec::new(),
            })
        }
        _ => Err("the verb is missing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Names that are bound by the player itself.
    const GIVEN: [&str; 11] = [
        "quick",
        "folder",
        "extensions",
        "cwd",
        "max_line",
        "n",
        "count",
        "kinds",
        "found",
        "entries",
        "probe",
    ];

    fn collect_names(steps: &[DialogueStep], names: &mut BTreeSet<&'static str>) {
        for step in steps {
            names.extend(step.name);
            names.extend(step.operands.iter().filter_map(|operand| match operand {
                Operand::Word(word) => Some(*word),
                Operand::Value(_) => None,
            }));
            collect_names(&step.body, names);
        }
    }

    fn collect_references(steps: &[DialogueStep], references: &mut Vec<String>) {
        fn of_value(value: &Value, references: &mut Vec<String>) {
            match value {
                Value::String(text) => references.extend(
                    player::find_reference(text)
                        .filter(|reference| reference.len() == text.len())
                        .map(str::to_owned),
                ),
                Value::Array(values) => values.iter().for_each(|value| of_value(value, references)),
                Value::Object(members) => {
                    members
                        .values()
                        .for_each(|value| of_value(value, references));
                }
                _ => {}
            }
        }
        for step in steps {
            for operand in &step.operands {
                if let Operand::Value(value) = operand {
                    of_value(value, references);
                }
            }
            for text in &step.texts {
                let places = text.match_indices('$').map(|(place, _)| &text[place..]);
                references.extend(places.filter_map(player::find_reference).map(str::to_owned));
            }
            collect_references(&step.body, references);
        }
    }

    #[test]
    fn each_dialogue_can_be_read_and_names_what_it_uses() {
        for case in crate::cases::all() {
            let Some(text) = case.dialogue else {
                continue;
            };
            let steps = read_steps(text).unwrap_or_else(|error| panic!("{}: {error}", case.id));
            let mut names = BTreeSet::from(GIVEN);
            collect_names(&steps, &mut names);
            let mut references = Vec::new();
            collect_references(&steps, &mut references);
            for reference in references {
                let name = reference[1..].split(['.', '#']).next().unwrap_or_default();
                assert!(names.contains(name), "{}: {reference} is nothing", case.id);
            }
        }
    }

    #[test]
    fn an_error_names_the_line() {
        for (text, error) in [
            ("open s\nopne t\nopen u", "line 2: there is no verb `opne`"),
            ("\n\nact s [1, ", "line 3: EOF while parsing"),
            (
                "  open s\n    hint | x",
                "line 1: it is indented below nothing",
            ),
            ("s =", "line 1: the verb is missing"),
        ] {
            let got = read_steps(text).expect_err(text);
            assert!(got.starts_with(error), "{got}");
        }
    }
}
