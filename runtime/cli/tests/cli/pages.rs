//! What the built-in adapters say of themselves, and that they take the samples.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use trunkline_host::config::Config;

use super::{Home, Ran};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// What every built-in adapter says of itself.
pub(crate) fn described() -> Vec<Value> {
    let ran = Home::new().run(["profiles", "--json"]);
    serde_json::from_str(&ran.must_end_with(0).stdout).unwrap()
}

/// What an adapter says of a configuration when it starts.
fn start(name: &str, config: &Value) -> Ran {
    let home = Home::new();
    let file = home.file("adapter.json", &config.to_string());
    Ran::of(home.command(["adapter", name]).env("ADAPTER_CONFIG", file).output().unwrap())
}

#[track_caller]
fn is_taken(config: &Config, whose: &str) {
    for agent in &config.agents {
        if let Some(own) = agent.config.as_ref().filter(|_| agent.command.command.is_empty()) {
            let ran = start(agent.profile.name(), own);
            assert_eq!(ran.code, Some(0), "{whose}: {} says: {}", agent.profile, ran.stderr);
        }
    }
}

#[test]
fn every_published_sample_is_taken_by_its_adapter() {
    let built: Vec<_> = trunkline_profiles::PROFILES.iter().map(|profile| profile.name).collect();
    for sample in fs::read_dir(docs().join("samples")).unwrap() {
        let path = sample.unwrap().path();
        let mut config = Config::read(&path).unwrap();
        config.agents.retain(|agent| built.contains(&agent.profile.name()));
        is_taken(&config, &path.display().to_string());
    }
}
