//! Claude's input files, which live as long as a session. They are in private folders, never in the
//! user's.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use trunkline_sdk::{Error, skill, template};

use super::agent_file;
use super::command_line::Files;
use super::config::ClaudeCode;
use super::project_mcp;
use crate::agent::mcp;
use crate::agent::options::Options;
use crate::agent::private_file;
use crate::agent::skills::{self, Skill, SkillsFolder};
use crate::agent::system_prompt::Carrier;
use crate::agents::McpVariables;

/// The most command files.
const MOST_COMMANDS: usize = 256;

/// The files of a session. Dropping it removes them.
#[derive(Debug, Default)]
pub(super) struct SessionFiles {
    mcp: Option<NamedTempFile>,
    prompt: Option<Carrier>,
    folder: Option<SkillsFolder>,
    settings: Option<NamedTempFile>,
    agent: Option<String>,
}

impl SessionFiles {
    /// Writes what the configuration and a session ask for; what cannot be used is reported.
    ///
    /// # Errors
    /// When a file cannot be written, or the configured `settings` cannot be read together with `sandbox`.
    pub(super) fn new(
        settings: &ClaudeCode,
        options: &Options,
        session: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let said = match options.work_dir().filter(|_| settings.project_mcp) {
            Some(from) => &project_mcp::joined(&from, &options.mcp_servers, warnings),
            None => &options.mcp_servers,
        };
        let (servers, wrong) = mcp::parse_values(said, &options.env, McpVariables::LeftToAgent);
        warnings.extend(wrong);
        let mcp = if servers.is_empty() {
            None
        } else {
            Some(mcp::private_file(&mcp::claude_config(&servers))?)
        };
        let (skills, wrong) = skills::parse(&options.skills);
        warnings.extend(wrong);
        let commands = commands(&settings.commands_dir, &skills, warnings);
        let folder = if skills.is_empty() && commands.is_empty() && settings.agent.is_none() {
            None
        } else {
            Some(SkillsFolder::new(&skills)?)
        };
        let mut agent = None;
        if let Some(folder) = &folder {
            for (name, file) in &commands {
                add_command(folder, name, file)?;
            }
            if let Some(own) = &settings.agent {
                let fill = |text: &str| template::fill(text, "", session, &options.variables);
                let text = agent_file::compose(own, settings, options, fill, warnings)?;
                let agents = folder.path().join(".claude/agents");
                fs::create_dir_all(&agents)?;
                fs::write(agents.join(format!("{}.md", own.name())), text)?;
                agent = Some(own.name().to_owned());
            }
        }
        let prompt = options
            .system_prompt
            .as_deref()
            .map(Carrier::for_prompt)
            .transpose()?;
        let settings = if settings.sandbox {
            let sandboxed = sandboxed(settings, options)?.to_string();
            Some(private_file::write("settings-", ".json", &sandboxed)?)
        } else {
            None
        };
        Ok(Self {
            mcp,
            prompt,
            folder,
            settings,
            agent,
        })
    }

    /// Returns their paths.
    pub(super) fn files(&self) -> Files<'_> {
        Files {
            mcp: self.mcp.as_ref().map(NamedTempFile::path),
            prompt: self.prompt.as_ref(),
            folder: self.folder.as_ref().map(SkillsFolder::path),
            settings: self.settings.as_ref().map(NamedTempFile::path),
            agent: self.agent.as_deref(),
        }
    }
}

/// Returns the command files of a folder, by the names of their commands, in order. A skill of the
/// same name has precedence.
fn commands(folder: &str, skills: &[Skill], warnings: &mut Vec<String>) -> Vec<(String, PathBuf)> {
    if folder.is_empty() {
        return Vec::new();
    }
    if !Path::new(folder).is_absolute() {
        warnings.push(format!(
            "`commands_dir` {folder}: an absolute path is needed; it is left out"
        ));
        return Vec::new();
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            warnings.push(format!(
                "`commands_dir` {folder} cannot be read: {error}; it is left out"
            ));
            return Vec::new();
        }
    };
    let file = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".md")?.to_owned();
        (skill::is_name(&name) && path.is_file()).then_some((name, path))
    };
    let found: BTreeSet<_> = entries
        .filter_map(|entry| file(entry.ok()?.path()))
        .collect();
    let found = found
        .into_iter()
        .filter(|(name, _)| skills.iter().all(|skill| skill.name() != name));
    let mut commands: Vec<_> = found.collect();
    if commands.len() > MOST_COMMANDS {
        warnings.push(format!(
            "`commands_dir` {folder}: more than {MOST_COMMANDS} files: the rest is left out"
        ));
        commands.truncate(MOST_COMMANDS);
    }
    commands
}

/// Claude reads no `.claude/commands` in an added folder, and takes a skill's name as a command of
/// the same effect.
fn add_command(folder: &SkillsFolder, name: &str, file: &Path) -> io::Result<()> {
    let skill = folder.skills().join(name);
    fs::create_dir_all(&skill)?;
    symlink(file, skill.join("SKILL.md"))
}

/// Claude's settings with its sandbox on, over those that are configured.
fn sandboxed(settings: &ClaudeCode, options: &Options) -> Result<Value, Error> {
    let unread = |why: String| {
        Error::other(format!(
            "`settings` must be read to join `sandbox` to it: {why}"
        ))
    };
    let configured = settings.settings.trim();
    let text = match configured {
        "" => "{}".to_owned(),
        text if text.starts_with('{') => text.to_owned(),
        file => fs::read_to_string(file).map_err(|error| unread(error.to_string()))?,
    };
    let mut all: Value = serde_json::from_str(&text).map_err(|error| unread(error.to_string()))?;
    let Some(members) = all.as_object_mut() else {
        return Err(unread("it is not an object".to_owned()));
    };
    // A session has no more than is configured.
    let has = |domain: &&String| {
        options
            .allowed_domains
            .as_ref()
            .is_none_or(|asked| asked.contains(domain))
    };
    let domains: Vec<_> = settings.allowed_domains.iter().filter(has).collect();
    let ours = json!({
        "enabled": true,
        // Without it Claude runs commands outside where the sandbox cannot start.
        "failIfUnavailable": true,
        "autoAllowBashIfSandboxed": true,
        "allowUnsandboxedCommands": false,
        "network": { "allowedDomains": domains },
    });
    let sandbox = members.entry("sandbox").or_insert_with(|| json!({}));
    if !sandbox.is_object() {
        *sandbox = json!({});
    }
    merge(sandbox, ours);
    Ok(all)
}

/// Sets the members of an object, and those in nested objects one by one.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

#[cfg(test)]
mod tests {
    use trunkline_sdk::SessionStart;

    use super::*;

    fn settings(text: Value) -> ClaudeCode {
        serde_json::from_value(text).unwrap()
    }

    fn given(configured: Value, start: SessionStart) -> (Result<SessionFiles, Error>, Vec<String>) {
        let settings = settings(configured);
        let options = Options::new(&settings.common(), start).unwrap();
        let mut warnings = Vec::new();
        let given = SessionFiles::new(&settings, &options, "s1", &mut warnings);
        (given, warnings)
    }

    fn written(configured: Value, start: SessionStart) -> Value {
        let given = given(configured, start).0.unwrap();
        serde_json::from_slice(&fs::read(given.files().settings.unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn the_settings_of_a_sandbox_are_written_where_it_is_on_and_nowhere_else() {
        let none = SessionStart::default;
        let (off, _) = given(
            json!({"settings": "/no/such/file", "allowed_domains": ["a.org"]}),
            none(),
        );
        assert!(off.unwrap().files().settings.is_none());
        let sandbox = |domains: Value| {
            json!({"enabled": true, "failIfUnavailable": true, "autoAllowBashIfSandboxed": true,
                "allowUnsandboxedCommands": false, "network": {"allowedDomains": domains}})
        };
        assert_eq!(
            written(json!({"sandbox": true}), none()),
            json!({"sandbox": sandbox(json!([]))})
        );
        let configured = json!({"sandbox": true, "allowed_domains": ["a.org", "b.org"]});
        assert_eq!(
            written(configured.clone(), none())["sandbox"],
            sandbox(json!(["a.org", "b.org"]))
        );
        let asked = ["b.org", "c.org"].map(str::to_owned).to_vec();
        let start = SessionStart {
            allowed_domains: Some(asked),
            ..none()
        };
        assert_eq!(
            written(configured, start)["sandbox"],
            sandbox(json!(["b.org"]))
        );
    }

    #[test]
    fn the_operator_s_settings_stay_beside_the_sandbox() {
        let file = NamedTempFile::new().unwrap();
        let own = json!({"env": {"A": "b"}, "sandbox": {"enabled": false, "network": {"allowLocalBinding": true}}});
        fs::write(file.path(), own.to_string()).unwrap();
        for settings in [json!(file.path()), json!(own.to_string())] {
            let all = written(
                json!({"sandbox": true, "settings": settings}),
                SessionStart::default(),
            );
            assert_eq!(
                (&all["env"]["A"], &all["sandbox"]["enabled"]),
                (&json!("b"), &json!(true))
            );
            assert_eq!(
                all["sandbox"]["network"],
                json!({"allowLocalBinding": true, "allowedDomains": []})
            );
        }
        for bad in ["/no/such/settings.json", "{"] {
            let (refused, _) = given(
                json!({"sandbox": true, "settings": bad}),
                SessionStart::default(),
            );
            assert!(
                refused
                    .err()
                    .unwrap()
                    .to_string()
                    .starts_with("`settings` must be read"),
                "{bad}"
            );
        }
    }

    #[test]
    fn command_files_are_commands_and_nothing_else_of_their_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["deploy.md", "b.md", "notes.txt", ".hidden.md"] {
            fs::write(folder.path().join(name), "Do it: $ARGUMENTS").unwrap();
        }
        fs::create_dir(folder.path().join("nested.md")).unwrap();
        let skill = folder.path().join("nested.md/b");
        fs::create_dir(&skill).unwrap();
        fs::write(skill.join("SKILL.md"), "The skill.").unwrap();
        let configured = json!({"commands_dir": folder.path(), "skills": [skill]});
        let (given, warnings) = given(configured, SessionStart::default());
        let given = given.unwrap();
        assert_eq!(warnings, [""; 0]);
        let inner = given.files().folder.unwrap().join(".claude/skills");
        let mut names: Vec<_> = fs::read_dir(&inner)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["b", "deploy"]);
        assert_eq!(
            fs::read_to_string(inner.join("deploy/SKILL.md")).unwrap(),
            "Do it: $ARGUMENTS"
        );
        assert_eq!(
            fs::read_to_string(inner.join("b/SKILL.md")).unwrap(),
            "The skill."
        );
        drop(given);
        assert!(!inner.exists() && folder.path().join("deploy.md").exists());
    }

    #[test]
    fn a_folder_of_commands_that_cannot_be_read_is_reported() {
        for folder in ["relative", "/no/such/folder"] {
            let (given, warnings) = given(json!({"commands_dir": folder}), SessionStart::default());
            assert!(given.unwrap().files().folder.is_none());
            assert!(
                warnings.len() == 1 && warnings[0].contains(folder),
                "{warnings:?}"
            );
        }
    }
}
