//! Differences between two schemas of one direction that break a peer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

/// The upgraded side, and so the order in which two peers were upgraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Newer {
    /// An old writer is read by today's reader.
    Reader,
    /// Today's writer is read by an old reader.
    Writer,
}

/// A value that a peer of the frozen version sends or needs, and that no longer arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Breach {
    pub(super) newer: Newer,
    /// The type of the message, and the member within it.
    pub(super) at: String,
    pub(super) what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.newer {
            Newer::Reader => "an older writer, today's reader",
            Newer::Writer => "today's writer, an older reader",
        };
        write!(f, "{order}: {} {}", self.at, self.what)
    }
}

/// All breaches between a frozen schema and today's.
pub(super) fn breaches(then: &Value, now: &Value) -> Vec<Breach> {
    let mut comparison = Comparison {
        then,
        now,
        breaches: Vec::new(),
    };
    let now_by_type = messages(now);
    for (kind, message) in messages(then) {
        match now_by_type.get(kind) {
            Some(now) => comparison.compare(kind, message, now, Need::Required),
            None => comparison.add(Newer::Reader, kind, "is no longer read"),
        }
    }
    comparison.breaches
}

fn messages(document: &Value) -> BTreeMap<&str, &Value> {
    let all = document["oneOf"].as_array().into_iter().flatten();
    all.filter_map(|schema| Some((schema["properties"]["type"]["const"].as_str()?, schema)))
        .collect()
}

/// Effect of a value that is not understood: the message is lost, or only the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

#[derive(Debug)]
struct Comparison<'a> {
    then: &'a Value,
    now: &'a Value,
    breaches: Vec<Breach>,
}

impl<'a> Comparison<'a> {
    fn add(&mut self, newer: Newer, at: &str, what: impl Into<String>) {
        self.breaches.push(Breach {
            newer,
            at: at.to_owned(),
            what: what.into(),
        });
    }

    fn compare(&mut self, at: &str, then: &'a Value, now: &'a Value, need: Need) {
        assert!(
            at.len() < 512,
            "the schema holds itself at {at}, which this gate cannot compare"
        );
        let then = Shape::new(self.then, then);
        let now = Shape::new(self.now, now);
        self.compare_types(at, &then, &now);
        self.compare_values(at, &then, &now, need);
        self.compare_bounds(at, &then, &now);
        for (name, member) in &then.members {
            let at = format!("{at}.{name}");
            let required = then.required.contains(name);
            let Some(now_member) = now.members.get(name) else {
                self.add(Newer::Reader, &at, "is no longer read");
                if required {
                    self.add(
                        Newer::Writer,
                        &at,
                        "is required by an older reader, and no longer written",
                    );
                }
                continue;
            };
            match (required, now.required.contains(name)) {
                (true, false) => self.add(
                    Newer::Writer,
                    &at,
                    "is required by an older reader, and may be left out",
                ),
                (false, true) => self.add(Newer::Reader, &at, "has become required"),
                _ => {}
            }
            let need = if required {
                Need::Required
            } else {
                Need::Optional
            };
            self.compare(&at, member, now_member, need);
        }
        for name in now
            .required
            .iter()
            .filter(|name| !then.members.contains_key(*name))
        {
            self.add(
                Newer::Reader,
                &format!("{at}.{name}"),
                "is new and required",
            );
        }
        for (end, then, now) in [
            ("[]", then.items, now.items),
            (".*", then.others, now.others),
        ] {
            let at = format!("{at}{end}");
            match (then, now) {
                (Some(then), Some(now)) => self.compare(&at, then, now, Need::Required),
                (None, Some(_)) => {
                    self.add(Newer::Reader, &at, "was anything, and is not any more")
                }
                (Some(_), None) => self.add(Newer::Writer, &at, "may be anything"),
                (None, None) => {}
            }
        }
    }

    fn compare_types(&mut self, at: &str, then: &Shape<'_>, now: &Shape<'_>) {
        // An empty set is every type.
        let takes = |reader: &Shape<'_>, writer: &Shape<'_>| {
            reader.types.is_empty()
                || !writer.types.is_empty() && writer.types.is_subset(&reader.types)
        };
        let change = || format!("was of type {:?}, and is of {:?}", then.types, now.types);
        if !takes(now, then) {
            self.add(Newer::Reader, at, change());
        }
        if !takes(then, now) {
            self.add(Newer::Writer, at, change());
        }
        if then.format != now.format {
            let change = format!(
                "was of format {:?}, and is of {:?}",
                then.format, now.format
            );
            self.add(Newer::Reader, at, change.as_str());
            self.add(Newer::Writer, at, change);
        }
        if then.default != now.default {
            let change = format!(
                "meant {:?} where it is left out, and means {:?}",
                then.default, now.default
            );
            self.add(Newer::Reader, at, change);
        }
    }

    fn compare_values(&mut self, at: &str, then: &Shape<'_>, now: &Shape<'_>, need: Need) {
        if !now.values.is_empty() {
            if then.values.is_empty() {
                self.add(
                    Newer::Reader,
                    at,
                    format!("was any text, and is one of {:?}", now.values),
                );
            }
            for value in then.values.difference(&now.values) {
                self.add(Newer::Reader, at, format!("no longer takes {value:?}"));
            }
        }
        // Elsewhere an unknown value makes its own field absent ([msg.2]).
        if need == Need::Required && !then.values.is_empty() && !now.values.is_subset(&then.values)
        {
            self.add(
                Newer::Writer,
                at,
                format!("may be other than {:?}", then.values),
            );
        }
    }

    fn compare_bounds(&mut self, at: &str, then: &Shape<'_>, now: &Shape<'_>) {
        for name in ["minLength", "maxLength", "minimum"] {
            let old = then.bounds.get(name);
            let new = now.bounds.get(name);
            if old == new {
                continue;
            }
            let tighter = match (old, new) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(old), Some(new)) if name == "maxLength" => new < old,
                (Some(old), Some(new)) => new > old,
            };
            let newer = if tighter {
                Newer::Reader
            } else {
                Newer::Writer
            };
            self.add(newer, at, format!("had {name} {old:?}, and has {new:?}"));
        }
    }
}

/// Schema of a value; `null` is left out, because it counts as absent ([msg.3]).
#[derive(Debug, Default)]
struct Shape<'a> {
    types: BTreeSet<&'a str>,
    values: BTreeSet<&'a str>,
    format: Option<&'a str>,
    default: Option<&'a Value>,
    bounds: BTreeMap<&'a str, i64>,
    members: BTreeMap<&'a str, &'a Value>,
    required: BTreeSet<&'a str>,
    items: Option<&'a Value>,
    others: Option<&'a Value>,
}

impl<'a> Shape<'a> {
    fn new(document: &'a Value, schema: &'a Value) -> Self {
        let mut shape = Self::default();
        shape.take(document, schema);
        shape
    }

    fn take(&mut self, document: &'a Value, schema: &'a Value) {
        // `true` is any value.
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            let strings = || {
                value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
            };
            match keyword.as_str() {
                "title" | "description" => {}
                "$ref" => {
                    let place = value.as_str().unwrap().trim_start_matches('#');
                    self.take(document, document.pointer(place).unwrap());
                }
                "anyOf" | "oneOf" => {
                    value
                        .as_array()
                        .into_iter()
                        .flatten()
                        .for_each(|schema| self.take(document, schema));
                }
                "type" => self.types.extend(
                    value
                        .as_str()
                        .into_iter()
                        .chain(strings())
                        .filter(|of| *of != "null"),
                ),
                "const" => self.values.extend(value.as_str()),
                "enum" => self.values.extend(strings()),
                "format" => self.format = value.as_str(),
                "default" => self.default = Some(value),
                "minLength" | "maxLength" | "minimum" => {
                    self.bounds.insert(keyword, value.as_i64().unwrap());
                }
                "properties" => {
                    self.members.extend(
                        value
                            .as_object()
                            .unwrap()
                            .iter()
                            .map(|(name, value)| (name.as_str(), value)),
                    );
                }
                "required" => self.required.extend(strings()),
                "items" => self.items = Some(value),
                "additionalProperties" => self.others = Some(value),
                other => panic!("the gate does not know the keyword {other}"),
            }
        }
    }
}
