use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;
use trunkline_host::config::Profile;
use trunkline_profiles::PROFILES;

use super::{Home, pages::described};

#[test]
fn the_host_knows_every_built_in_adapter() {
    let known: BTreeSet<_> = Profile::built_in().map(|(name, _)| name).collect();
    let built: BTreeSet<_> = PROFILES.iter().map(|profile| profile.name).collect();
    assert_eq!(built.len(), PROFILES.len(), "a name is there twice");
    assert_eq!(built, known);
}

#[test]
fn each_key_belongs_to_one_built_in_adapter() {
    let own: Vec<_> = Profile::built_in()
        .map(|(_, key)| key)
        .filter(|key| *key != "acp")
        .collect();
    let keys: BTreeSet<_> = own.iter().collect();
    assert_eq!(keys.len(), own.len());
    for (name, key) in Profile::built_in() {
        assert_eq!(
            Profile::of_name(name).and_then(|profile| profile.key()),
            Some(key)
        );
    }
}

#[test]
fn what_an_import_writes_is_known_to_its_adapter() {
    let described = described();
    let home = Home::new();
    home.file("prompt.md", "Be short.");
    for profile in described
        .iter()
        .filter(|profile| profile["config_schema"]["properties"]["model"].is_object())
    {
        let name = profile["name"].as_str().unwrap();
        home.file(
            "wave.yaml",
            &format!(
                "adapters: {{ {name}: {{ binary: /opt/agent, default_permissions: {{ allowed_tools: [A], deny: [B] }} }} }}\n\
                 personas: {{ p: {{ adapter: {name}, model: m, system_prompt_file: prompt.md }} }}\n"
            ),
        );
        let ran = home.run(["config", "import", "wave.yaml"]);
        let config: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
        let agent = &config["agents"][0];
        if agent["profile"] == "generic-job" {
            continue;
        }
        assert_eq!(agent["profile"], name);
        let own = agent[profile["key"].as_str().unwrap()].as_object().unwrap();
        assert!(
            own.contains_key("model") && own.contains_key("system_prompt"),
            "{own:?}"
        );
        let known = profile["config_schema"]["properties"].as_object().unwrap();
        for key in own.keys() {
            assert!(known.contains_key(key), "{name} knows no {key}");
        }
    }
}

#[test]
fn the_checklist_of_the_guide_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_to_string(root.join("docs/adapter-guide.md")).unwrap();
    let (_, checklist) = guide
        .split_once("the checklist\n\nEvery place")
        .expect("the guide has its checklist");
    let mut named = 0;
    for line in checklist
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains(".rs`: `"))
    {
        let test = line.rsplit('|').nth(1).unwrap();
        let (file, function) = test
            .trim()
            .trim_matches('`')
            .split_once("`: `")
            .expect(line);
        let source =
            fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(
            source.contains(&format!("fn {function}()")),
            "{file} has no {function}"
        );
        named += 1;
    }
    assert!(named >= 7, "{named}");
}
