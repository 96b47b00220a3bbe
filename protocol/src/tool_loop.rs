//! Finds an agent that calls the same tools over and over. Pure: calls in, verdicts out. Hosts use
//! it for any adapter, adapters for their agents.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hasher},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Action on a tool loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ToolLoopAction {
    /// None: calls are not watched.
    #[default]
    Off,
    /// A warning on `system`.
    Warn,
    /// A warning first, and the turn ends as failed (`tool_loop`) if it continues.
    End,
}

/// From how many calls on a loop is seen.
#[derive(Debug, Clone, Copy)]
struct ToolLoopLimits {
    /// Number of calls before the current one that are compared.
    window: usize,
    /// Below so many calls nothing is a loop.
    least: usize,
    /// The same call so often is warned of.
    repeat_warn: usize,
    /// The same call so often is blocked.
    repeat_block: usize,
    /// As `repeat_block`, for calls with a vague input.
    repeat_block_vague: usize,
    /// So many calls that are two in turn are warned of.
    alternate_warn: usize,
    /// So many calls that are two in turn are blocked.
    alternate_block: usize,
    /// As `alternate_warn`, if one of the two is vague.
    alternate_warn_vague: usize,
    /// As `alternate_block`, if one of the two is vague.
    alternate_block_vague: usize,
}

impl Default for ToolLoopLimits {
    fn default() -> Self {
        Self {
            window: 40,
            least: 8,
            repeat_warn: 8,
            repeat_block: 15,
            repeat_block_vague: 24,
            alternate_warn: 8,
            alternate_block: 12,
            alternate_warn_vague: 12,
            alternate_block_vague: 24,
        }
    }
}

/// Verdict on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Fine,
    /// Probable loop, for this reason.
    Warn(String),
    /// Certain loop, for this reason.
    Block(String),
}

/// The calls of one session, as far as they are remembered.
#[derive(Debug, Default)]
pub struct ToolLoop {
    limits: ToolLoopLimits,
    calls: VecDeque<Call>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    key: u64,
    tool: String,
    vague: bool,
}

impl ToolLoop {
    /// Takes the next call. A blocked repeat wins; a warned repeat yields to a blocked alternation.
    pub fn saw(&mut self, tool: &str, input: &Value) -> Verdict {
        while self.calls.len() > self.limits.window {
            self.calls.pop_front();
        }
        let call = Call {
            key: key(tool, input),
            tool: named(tool),
            vague: is_vague(input),
        };
        self.calls.push_back(call);
        if self.calls.len() < self.limits.least {
            return Verdict::Fine;
        }
        let repeat = self.repeat();
        let alternation = self.alternation();
        match (repeat, alternation) {
            (block @ Verdict::Block(_), _) | (_, block @ Verdict::Block(_)) => block,
            (Verdict::Fine, alternation) => alternation,
            (repeat, _) => repeat,
        }
    }

    fn repeat(&self) -> Verdict {
        let Some(last) = self.calls.back() else {
            return Verdict::Fine;
        };
        let times = self
            .calls
            .iter()
            .filter(|call| call.key == last.key)
            .count();
        let limits = &self.limits;
        let block = if last.vague {
            limits.repeat_block_vague
        } else {
            limits.repeat_block
        };
        let tool = &last.tool;
        let why = || format!("`{tool}` was called {times} times with the same input");
        match times {
            _ if times >= block => Verdict::Block(why()),
            _ if times >= limits.repeat_warn => Verdict::Warn(why()),
            _ => Verdict::Fine,
        }
    }

    /// Counts the last calls that strictly alternate between two.
    fn alternation(&self) -> Verdict {
        let mut back = self.calls.iter().rev();
        let (Some(last), Some(other)) = (back.next(), back.next()) else {
            return Verdict::Fine;
        };
        if last.key == other.key {
            return Verdict::Fine;
        }
        let pair = [last, other];
        let times = self
            .calls
            .iter()
            .rev()
            .enumerate()
            .take_while(|(at, call)| call.key == pair[at % 2].key)
            .count();
        let limits = &self.limits;
        let (warn, block) = if last.vague || other.vague {
            (limits.alternate_warn_vague, limits.alternate_block_vague)
        } else {
            (limits.alternate_warn, limits.alternate_block)
        };
        let why = || {
            format!(
                "the last {times} calls are `{}` and `{}` in turn",
                other.tool, last.tool
            )
        };
        match times {
            _ if times >= block => Verdict::Block(why()),
            _ if times >= warn => Verdict::Warn(why()),
            _ => Verdict::Fine,
        }
    }
}

/// Kept length of a tool's name, in bytes.
const MOST_NAME: usize = 64;

/// A tool's name, bounded: the agent may call it anything.
fn named(tool: &str) -> String {
    tool[..tool.floor_char_boundary(MOST_NAME)].to_owned()
}

/// File changes without their content: two different edits look the same.
fn is_vague(input: &Value) -> bool {
    let Value::Object(members) = input else {
        return false;
    };
    let Some(Value::Array(changes)) = members.get("changes") else {
        return false;
    };
    members.len() == 1
        && changes.iter().all(|change| {
            change.as_object().is_some_and(|change| {
                change
                    .keys()
                    .all(|key| matches!(key.as_str(), "kind" | "path" | "type"))
            })
        })
}

/// Returns a hash of tool and input that ignores the order of an object's keys at every depth.
fn key(tool: &str, input: &Value) -> u64 {
    let mut hash = DefaultHasher::new();
    update_text(&mut hash, tool);
    update(&mut hash, input);
    hash.finish()
}

fn update(hash: &mut DefaultHasher, value: &Value) {
    match value {
        Value::Array(elements) => {
            hash.write(b"[");
            for element in elements {
                update(hash, element);
            }
            hash.write(b"]");
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            hash.write(b"{");
            for (key, value) in members {
                update_text(hash, key);
                update(hash, value);
            }
            hash.write(b"}");
        }
        Value::String(text) => update_text(hash, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            hash.write(value.to_string().as_bytes());
            hash.write(b",");
        }
    }
}

fn update_text(hash: &mut DefaultHasher, text: &str) {
    hash.write(b"\"");
    hash.write_usize(text.len());
    hash.write(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Plays a sequence of calls, one letter each, and returns a letter per verdict.
    fn verdicts(calls: &str) -> String {
        play(calls, |letter| json!({"command": letter.to_string()}))
    }

    fn play(calls: &str, input: impl Fn(char) -> Value) -> String {
        let mut tool_loop = ToolLoop::default();
        let verdict = |letter| match tool_loop.saw("Bash", &input(letter)) {
            Verdict::Fine => '.',
            Verdict::Warn(_) => 'w',
            Verdict::Block(_) => 'b',
        };
        calls.chars().map(verdict).collect()
    }

    #[test]
    fn sequences_have_their_verdicts() {
        for (calls, expected) in [
            ("", ""),
            ("aaaaaaa", "......."),
            ("aaaaaaaa", ".......w"),
            ("aaaaaaaaaaaaaaa", ".......wwwwwwwb"),
            ("abcdefghijklmnop", "................"),
            // Spread over the window, still the same call.
            (
                "axaxyaxzawavaqarx",
                "................w".replace('w', ".").as_str(),
            ),
            ("abababa", "......."),
            ("abababab", ".......w"),
            ("abababababab", ".......wwwwb"),
            // Frequent, but not in turn.
            ("aaaaaaaaaaab", ".......wwww."),
            ("aabbaabbaabb", "............"),
            ("abcabcabcabc", "............"),
            ("xyzabababab", "..........w"),
        ] {
            assert_eq!(verdicts(calls), expected, "{calls}");
        }
    }

    #[test]
    fn a_repeat_outside_the_window_is_forgotten() {
        let others: String = (0..41)
            .map(|n| char::from_u32(0x100 + n).unwrap())
            .collect();
        assert_eq!(
            verdicts(&format!("aaaaaaa{others}a")).chars().last(),
            Some('.')
        );
    }

    #[test]
    fn the_order_of_keys_is_no_difference_and_that_of_elements_is() {
        let input = |text: &str| key("t", &serde_json::from_str(text).unwrap());
        assert_eq!(
            input(r#"{"a":{"x":1,"y":[1,{"p":1,"q":2}]},"b":2}"#),
            input(r#"{"b":2,"a":{"y":[1,{"q":2,"p":1}],"x":1}}"#)
        );
        assert_ne!(input("[1,2]"), input("[2,1]"));
        assert_ne!(input("[1,2]"), input("[12]"));
        assert_ne!(input(r#"["a","b"]"#), input(r#"["ab"]"#));
        assert_ne!(input(r#"{"a":1}"#), input(r#"{"a":"1"}"#));
        assert_ne!(key("a", &json!("b")), key("b", &json!("a")));
    }

    #[test]
    fn inputs_that_tell_little_need_more() {
        let vague =
            |letter: char| json!({"changes": [{"kind": "update", "path": letter.to_string()}]});
        assert_eq!(
            play(&"a".repeat(24), vague),
            format!(".......{}b", "w".repeat(16))
        );
        assert_eq!(play(&"ab".repeat(6), vague), "...........w");
        let told = |letter: char| json!({"changes": [{"kind": "update", "path": letter.to_string(), "diff": "-"}]});
        assert_eq!(play(&"a".repeat(15), told).chars().last(), Some('b'));
    }

    #[test]
    fn actions_are_written_in_lower_case() {
        for (text, action) in [
            ("\"off\"", ToolLoopAction::Off),
            ("\"warn\"", ToolLoopAction::Warn),
            ("\"end\"", ToolLoopAction::End),
        ] {
            assert_eq!(
                serde_json::from_str::<ToolLoopAction>(text).unwrap(),
                action
            );
        }
    }
}
