//! Dialogues: cases as text, one step on a line, which [`play`] carries out.
//!
//! ```text
//! open s other                                    # a verb and its operands
//! turn = act s [["say", "a"], ["complete"]]       # its result has a name; JSON may span lines
//! says $turn "a"                                  # `$name.member` stands for a value, also within JSON
//! reached 1 s stop {"reason": "user"} | one stop | $count of them
//!   hint | a stop reaches the adapter             # indented: what belongs to the step above
//! each id in ["a", "b"]
//!   send s permission.response {"request_id": "$id", "approved": true}
//! ```
//!
//! Behind ` | ` are the texts of a failure: what was expected, then what came instead. [`player`]
//! lists the verbs.

use serde_json::{Deserializer, Value};

use self::player::{Perform, VERBS};

mod player;

pub(crate) use player::play;

/// One line of a dialogue, with the lines indented below it.
#[derive(Debug)]
struct Step {
    /// The name of its result.
    name: Option<&'static str>,
    verb: &'static str,
    perform: Perform,
    operands: Vec<Operand>,
    /// The texts behind ` | `.
    texts: Vec<&'static str>,
    body: Vec<Step>,
}

#[derive(Debug)]
enum Operand {
    Word(&'static str),
    /// JSON, in which `$name` is not yet replaced.
    Value(Value),
}

/// Reads the steps of a dialogue. The error names the line.
fn read_steps(text: &'static str) -> Result<Vec<Step>, String> {
    let mut rest = text;
    read_block(&mut rest, 0).map_err(|error| {
        let line = text[..text.len() - rest.len()].lines().count() + 1;
        format!("line {line}: {error}")
    })
}

fn read_block(rest: &mut &'static str, indent: usize) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    while let Some(line) = rest.lines().next() {
        let content = line.trim_start();
        let depth = line.len() - content.len();
        if content.is_empty() || content.starts_with('#') {
            *rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else if depth < indent {
            break;
        } else if depth == indent {
            *rest = &rest[depth..];
            steps.push(read_step(rest)?);
        } else {
            let above = steps.last_mut().ok_or("it is indented below nothing")?;
            above.body = read_block(rest, depth)?;
        }
    }
    Ok(steps)
}

/// Reads a step, of one line unless its JSON or its texts span more.
fn read_step(rest: &mut &'static str) -> Result<Step, String> {
    let (mut operands, mut texts) = (Vec::new(), Vec::new());
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
            Ok(Step {
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

/// Checks that a dialogue can be read.
#[cfg(test)]
pub(super) fn check(text: &'static str) -> Result<(), String> {
    read_steps(text).map(drop)
}
