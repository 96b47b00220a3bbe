//! Permission rules of opencode and kilo. By default they ask next to nothing.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Decision for a tool without an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unallowed {
    /// The host is asked.
    Asked,
    /// The tool does not run: no person can answer.
    Denied,
}

/// Tools that only look, at what the agent works on.
const LOOKING: [&str; 8] = [
    "glob",
    "grep",
    "list",
    "lsp",
    "question",
    "skill",
    "todoread",
    "todowrite",
];

/// Tools that act. The rule for all would do, but for a file of the user that names one of them:
/// the last rule wins, and the order is that in which they are first named.
const ACTING: [&str; 7] = [
    "bash",
    "codesearch",
    "doom_loop",
    "edit",
    "external_directory",
    "webfetch",
    "websearch",
];

impl Unallowed {
    /// Returns the rules as JSON: ours, followed by the configuration's own. If these have a rule
    /// for all, only they are used.
    pub(crate) fn rules(self, own: Option<&RawValue>) -> String {
        let own = match own
            .map(|own| (own.get(), serde_json::from_str::<OrderedMembers>(own.get())))
        {
            None => Vec::new(),
            Some((_, Ok(OrderedMembers(own)))) if own.iter().all(|(tool, _)| tool != "*") => own,
            Some((text, _)) => return text.to_owned(),
        };
        let ours = self
            .ours()
            .into_iter()
            .filter(|(tool, _)| own.iter().all(|(named, _)| named != tool));
        let rules = ours.map(|(tool, rule)| format!("{}:{rule}", Value::from(tool)));
        let rules = rules.chain(
            own.iter()
                .map(|(tool, rule)| format!("{}:{rule}", Value::from(tool.as_str()))),
        );
        format!("{{{}}}", rules.collect::<Vec<_>>().join(","))
    }

    fn ours(self) -> Vec<(&'static str, Value)> {
        let word = match self {
            Self::Asked => "ask",
            Self::Denied => "deny",
        };
        let secrets =
            json!({"*": "allow", "*.env": word, "*.env.*": word, "*.env.example": "allow"});
        let mut rules = vec![("*", Value::from(word)), ("read", secrets)];
        rules.extend(ACTING.map(|tool| (tool, Value::from(word))));
        rules.extend(LOOKING.map(|tool| (tool, Value::from("allow"))));
        rules
    }
}

/// The members of an object in their order.
struct OrderedMembers(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for OrderedMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = OrderedMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<OrderedMembers, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(OrderedMembers(members))
            }
        }
        deserializer.deserialize_map(Reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_acts_is_asked_or_denied() {
        for (unallowed, word) in [(Unallowed::Asked, "ask"), (Unallowed::Denied, "deny")] {
            let text = unallowed.rules(None);
            assert!(
                text.starts_with(&format!(r#"{{"*":"{word}","#)),
                "what is not named comes first: {text}"
            );
            let rules: Value = serde_json::from_str(&text).unwrap();
            for tool in [
                "*",
                "edit",
                "bash",
                "webfetch",
                "websearch",
                "external_directory",
            ] {
                assert_eq!(rules[tool], word, "{tool}");
            }
            assert_eq!(
                (&rules["read"]["*.env"], &rules["read"]["*"]),
                (&json!(word), &json!("allow"))
            );
        }
    }
}
