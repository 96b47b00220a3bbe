//! Embeds the agents' files: each `src/agents/NAME.json` is an agent.

use std::path::Path;
use std::{env, fs};

fn main() {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("src/agents");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    paths.sort();
    let mut list = String::from("&[\n");
    for path in paths {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        list += &format!(
            "    ({name:?}, include_str!({:?})),\n",
            path.display().to_string()
        );
    }
    list += "]\n";
    let target = Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("agents.rs");
    #[expect(clippy::expect_used, reason = "the build needs it")]
    fs::write(target, list).expect("the list of agents can be written");
}
