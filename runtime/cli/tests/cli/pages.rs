//! The pages of the built-in adapters: fields as their schemas have them, samples that load. A
//! missing page and the tables of fields are written by `UPDATE_GOLDEN=1 cargo test -p trunkline
//! --test cli pages`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use trunkline_host::config::{Config, Profile};

use super::{Home, Ran};

/// Between these lines a page has its table of fields.
const BEGIN: &str = "<!-- fields: written by the test of pages -->\n";
const END: &str = "<!-- end of fields -->\n";

/// Between these lines the page of `acp` has its table of agents.
const BEGIN_AGENTS: &str = "<!-- agents: written by the test of pages -->\n";
const END_AGENTS: &str = "<!-- end of agents -->\n";

/// The fields that many profiles have come first, in this order.
const FIRST: [&str; 6] = ["command", "base_url", "args", "work_dir", "env", "model"];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The description of each built-in adapter.
pub(crate) fn described() -> Vec<Value> {
    let ran = Home::new().run(["agents", "profiles", "--json"]);
    serde_json::from_str(&ran.must_end_with(0).stdout).unwrap()
}

/// The report of an adapter about a configuration at its start.
fn start(name: &str, config: &Value) -> Ran {
    let home = Home::new();
    let file = home.file("adapter.json", &config.to_string());
    Ran::from_output(
        home.command(["adapter", name])
            .env("ADAPTER_CONFIG", file)
            .output()
            .unwrap(),
    )
}

#[track_caller]
fn is_taken(config: &Config, whose: &str) {
    for agent in &config.agents {
        if let Some(own) = agent
            .config
            .as_ref()
            .filter(|_| agent.command.command.is_empty())
        {
            let ran = start(agent.profile.name(), own);
            assert_eq!(
                ran.code,
                Some(0),
                "{whose}: {} says: {}",
                agent.profile,
                ran.stderr
            );
        }
    }
}

#[test]
fn every_built_in_adapter_says_when_to_use_it() {
    for profile in described() {
        let name = profile["name"].as_str().unwrap();
        for text in ["description", "version", "use_when", "dont_use_when"] {
            let said = profile[text].as_str();
            assert!(
                said.is_some_and(|said| said.len() > 3),
                "{name} has no {text}: {said:?}"
            );
        }
        assert!(
            profile["capabilities"].is_object() && profile["config_schema"].is_object_or_null(),
            "{name}"
        );
    }
}

#[test]
fn every_built_in_adapter_has_its_page() {
    let described = described();
    let described: Vec<_> = described.into_iter().filter(has_page).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        described.iter().for_each(write);
    }
    for profile in described {
        let name = profile["name"].as_str().unwrap();
        let page = fs::read_to_string(page_of(name)).unwrap_or_default();
        assert!(
            !page.is_empty(),
            "{name} has no page; UPDATE_GOLDEN=1 begins one"
        );
        assert!(
            page.starts_with(&format!("# `{name}`\n")),
            "the heading of {name}.md"
        );
        for part in [
            "## Use when\n",
            "## Don't use when\n",
            "## Fields\n",
            "## Sample\n",
        ] {
            assert!(
                text_of(&page, part).is_some_and(|text| text.trim().len() > 10),
                "{name}.md has no {part:?}"
            );
        }
        let (before, after) = halves(&page, name);
        let table = &page[before.len() + BEGIN.len()..page.len() - after.len() - END.len()];
        let fields = fields(&profile["config_schema"]);
        assert_eq!(
            table, fields,
            "the fields of {name}.md; UPDATE_GOLDEN=1 writes them"
        );

        let sample = text_of(&page, "## Sample\n")
            .and_then(|text| fenced(text))
            .unwrap_or_default();
        let config = Config::parse(sample.as_bytes(), Path::new("/conf"))
            .unwrap_or_else(|error| panic!("the sample of {name}.md: {error}"));
        assert_eq!(
            config.agents[0].profile.name(),
            name,
            "the sample of {name}.md"
        );
        assert!(config.notices.is_empty(), "{name}.md: {:?}", config.notices);
        is_taken(&config, name);
    }
}

#[test]
fn every_page_is_of_a_built_in_adapter() {
    let names: Vec<_> = Profile::built_in()
        .map(|(name, _)| format!("{name}.md"))
        .collect();
    for page in fs::read_dir(docs().join("profiles")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "{name} is of no built-in adapter");
    }
}

#[test]
fn every_published_sample_is_taken_by_its_adapter() {
    let built: Vec<_> = trunkline_profiles::PROFILES
        .iter()
        .map(|profile| profile.name)
        .collect();
    for sample in fs::read_dir(docs().join("samples")).unwrap() {
        let path = sample.unwrap().path();
        let mut config = Config::read(&path).unwrap();
        config
            .agents
            .retain(|agent| built.contains(&agent.profile.name()));
        is_taken(&config, &path.display().to_string());
    }
}

/// The page of agents that are known by name, written by the same run as the tables of fields.
#[test]
fn every_agent_by_name_is_in_the_table() {
    let described = described();
    let path = page_of("acp");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN_AGENTS).unwrap();
    let (table, after) = rest.split_once(END_AGENTS).unwrap();
    let agents = agents(&described);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(
            &path,
            format!("{before}{BEGIN_AGENTS}{agents}{END_AGENTS}{after}"),
        )
        .unwrap();
        return;
    }
    assert_eq!(
        table, agents,
        "the agents of acp.md; UPDATE_GOLDEN=1 writes them"
    );
}

/// The table of agents that speak ACP.
fn agents(described: &[Value]) -> String {
    let mut table = String::from(
        "| profile | agent | program | installed by | tested |\n|---|---|---|---|---|\n",
    );
    let is_listed = |profile: &&Value| {
        !has_page(profile)
            || matches!(
                profile["key"].as_str(),
                Some("gemini" | "copilot" | "kilo" | "opencode")
            )
    };
    for profile in described.iter().filter(is_listed) {
        let name = &profile["name"];
        let agent = &profile["agent"];
        let text = |value: &Value| value.as_str().unwrap_or_default().replace('|', "\\|");
        let name = if has_page(profile) {
            format!("[`{0}`]({0}.md)", text(name))
        } else {
            format!("`{}`", text(name))
        };
        let tested = agent["tested"].as_str().unwrap_or("no");
        table += &format!(
            "| {name} | [{}]({}) | `{}` | `{}` | {tested} |\n",
            text(&agent["title"]),
            text(&agent["documentation"]),
            text(&agent["program"]),
            text(&agent["install"]),
        );
    }
    table
}

/// Agents by name without options of their own are on the page of `acp`.
fn has_page(profile: &Value) -> bool {
    profile["key"] != "acp" || profile["name"] == "acp"
}

trait Shape {
    fn is_object_or_null(&self) -> bool;
}

impl Shape for Value {
    fn is_object_or_null(&self) -> bool {
        self.is_object() || self.is_null()
    }
}

fn page_of(name: &str) -> PathBuf {
    docs().join(format!("profiles/{name}.md"))
}

/// Writes the fields of a page, which is begun where it is not there.
fn write(profile: &Value) {
    let name = profile["name"].as_str().unwrap();
    let path = page_of(name);
    let page = fs::read_to_string(&path).unwrap_or_else(|_| template(profile));
    let (before, after) = halves(&page, name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(
        &path,
        format!(
            "{before}{BEGIN}{}{END}{after}",
            fields(&profile["config_schema"])
        ),
    )
    .unwrap();
}

/// Text before and after the fields.
fn halves<'p>(page: &'p str, name: &str) -> (&'p str, &'p str) {
    let before = page.split_once(BEGIN).map(|(before, _)| before);
    let after = page.split_once(END).map(|(_, after)| after);
    before
        .zip(after)
        .unwrap_or_else(|| panic!("{name}.md has no place for its fields"))
}

/// The text below a heading, up to the next one of its rank.
fn text_of<'p>(page: &'p str, heading: &str) -> Option<&'p str> {
    let (_, rest) = page.split_once(&format!("\n{heading}"))?;
    Some(rest.split("\n## ").next().unwrap_or(rest))
}

/// The first block of JSON.
fn fenced(text: &str) -> Option<&str> {
    text.split_once("```json\n")?
        .1
        .split_once("\n```")
        .map(|(block, _)| block)
}

/// A page to begin with.
fn template(profile: &Value) -> String {
    let text = |key: &str| {
        profile[key]
            .as_str()
            .unwrap_or_default()
            .trim_end_matches('.')
            .to_owned()
    };
    let name = text("name");
    let key = text("key");
    let bare = format!(
        "{{\n  \"agents\": [\n    {{\n      \"id\": \"{name}\",\n      \"profile\": \"{name}\",\n      \"{key}\": {{}}\n    }}\n  ]\n}}\n"
    );
    let sample = fs::read_to_string(docs().join(format!("samples/{name}.json"))).unwrap_or(bare);
    format!(
        "# `{name}`\n\n{}.\n\n## Use when\n\n{}.\n\n## Don't use when\n\n{}.\n\n## Fields\n\n\
         In the agent's object `{key}`.\n\n{BEGIN}{END}\n## Sample\n\n\
         ```json\n{sample}```\n",
        text("description"),
        capital(&text("use_when")),
        capital(&text("dont_use_when")),
    )
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + characters.as_str())
        .unwrap_or_default()
}

/// The table of fields of a schema.
fn fields(schema: &Value) -> String {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    if properties.is_empty() {
        return "It has none.\n".to_owned();
    }
    let required: Vec<_> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut names: Vec<_> = properties.keys().map(String::as_str).collect();
    let rank = |name: &str| {
        FIRST
            .iter()
            .position(|first| *first == name)
            .unwrap_or(FIRST.len())
    };
    names.sort_by_key(|name| (!required.contains(name), rank(name), (*name).to_owned()));
    let mut table = "| field | type | default | meaning |\n|---|---|---|---|\n".to_owned();
    for name in names {
        let property = &properties[name];
        let default = property
            .get("default")
            .or_else(|| resolved(property, schema).get("default"));
        let default = match default {
            _ if required.contains(&name) => "required".to_owned(),
            Some(Value::Null) => "none".to_owned(),
            Some(default) => format!("`{default}`"),
            None if may_be_null(property) => "none".to_owned(),
            None => String::new(),
        };
        let meaning = property["description"]
            .as_str()
            .or(resolved(property, schema)["description"].as_str());
        let cells = [
            format!("`{name}`"),
            kind(property, schema, 0),
            default,
            meaning.unwrap_or("").to_owned(),
        ];
        let cells = cells.map(|cell| cell.replace('\n', " ").replace('|', "\\|"));
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

fn resolved<'s>(property: &'s Value, schema: &'s Value) -> &'s Value {
    let name = property["$ref"]
        .as_str()
        .and_then(|at| at.strip_prefix("#/$defs/"));
    name.map_or(property, |name| &schema["$defs"][name])
}

fn may_be_null(property: &Value) -> bool {
    let is_null = |value: &Value| value == "null" || value["type"] == "null";
    let of = |key: &str| {
        property[key]
            .as_array()
            .is_some_and(|items| items.iter().any(is_null))
    };
    of("type") || of("anyOf")
}

/// Valid values, in words.
fn kind(property: &Value, schema: &Value, depth: usize) -> String {
    let property = resolved(property, schema);
    if depth > 4 {
        return "any".to_owned();
    }
    let list = |values: &[Value]| {
        values
            .iter()
            .map(|value| format!("`{value}`"))
            .collect::<Vec<_>>()
    };
    if let Some(only) = property.get("const") {
        return format!("`{only}`");
    }
    if let Some(values) = property["enum"].as_array() {
        return list(values).join(", ");
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(choices) = property[choice].as_array() {
            let mut kinds: Vec<_> = choices
                .iter()
                .map(|choice| kind(choice, schema, depth + 1))
                .collect();
            kinds.retain(|kind| kind != "null");
            kinds.dedup();
            return kinds.join(", ");
        }
    }
    let named = |name: &str| match name {
        "array" => match kind(&property["items"], schema, depth + 1).as_str() {
            "any" => "list".to_owned(),
            item => format!("list of {item}"),
        },
        "object" if property["additionalProperties"].is_object() => {
            format!(
                "object of {}",
                kind(&property["additionalProperties"], schema, depth + 1)
            )
        }
        other => other.to_owned(),
    };
    match &property["type"] {
        Value::String(name) => named(name),
        Value::Array(names) => {
            let names = names
                .iter()
                .filter_map(Value::as_str)
                .filter(|name| *name != "null");
            names.map(named).collect::<Vec<_>>().join(", ")
        }
        _ => "any".to_owned(),
    }
}
