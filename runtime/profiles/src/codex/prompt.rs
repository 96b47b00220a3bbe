//! What Codex is given for an input: by the template, with the skill that it calls.

use std::path::PathBuf;

use trunkline_sdk::Session;
use trunkline_sdk::protocol::Command;

use crate::acp::variable;
use crate::agent::options::Options;
use crate::agent::skills::Roster;

/// A session's skills.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    skills: Roster,
}

impl Prompt {
    /// Reads the skills; what cannot be used is reported.
    pub(super) fn new(options: &Options, warnings: &mut Vec<String>) -> Self {
        Self {
            skills: Roster::of(&options.skills, warnings)
                .and_in(own_skills(|name| variable(options, name))),
        }
    }

    /// The skills as commands of the session.
    pub(super) fn commands(&self) -> Option<Vec<Command>> {
        self.skills.commands()
    }

    /// The skills by name and description.
    pub(super) fn listing(&self) -> Option<&str> {
        self.skills.listing()
    }

    /// Instructions with the skills after them.
    pub(super) fn instructions(
        &self,
        own: Option<&str>,
        warnings: &mut Vec<String>,
    ) -> Option<String> {
        self.skills.after(own, warnings)
    }

    /// The text for an input.
    pub(super) fn of(
        &self,
        content: &str,
        session: &Session,
        options: &Options,
        warnings: &mut Vec<String>,
    ) -> String {
        let inline = self.skills.resolve(content);
        warnings.extend(inline.note);
        options.words(&inline.text, session)
    }
}

/// Where Codex keeps skills of its own.
fn own_skills(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || {
        Some(
            set("CODEX_HOME")
                .or_else(|| Some(set("HOME")?.join(".codex")))?
                .join("skills"),
        )
    };
    set("CODEX_SKILLS_DIR").or_else(home)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use trunkline_sdk::protocol::Output;
    use trunkline_sdk::testing::Host;
    use trunkline_sdk::{Input, Turn, adapter};

    use super::*;
    use crate::agent::settings::Common;

    #[tokio::test]
    async fn an_input_calls_skills_of_the_session_and_of_codex() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("own/review", "Look closely."),
            ("session/plan", "Think first."),
        ] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("SKILL.md"), text).unwrap();
        }
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let common = Common {
            skills: vec![path("session/plan")],
            env: [("CODEX_SKILLS_DIR".to_owned(), path("own"))].into(),
            ..Common::for_test("codex")
        };
        let options = Options::configured(&common);
        let host = Host::start(adapter(move |turn: Turn, input: Input| {
            let options = options.clone();
            async move {
                let prompt = Prompt::new(&options, &mut Vec::new());
                let text = prompt.of(&input.content, turn.session(), &options, &mut Vec::new());
                turn.emit(Output::text(text)).await;
                Ok(())
            }
        }));
        let session = host.open();
        for (input, skill) in [
            ("/review the diff", "Look closely."),
            ("/plan the diff", "Think first."),
        ] {
            let text = session.send(input).await.text();
            assert!(text.contains(skill) && text.contains("the diff"), "{text}");
        }
    }

    #[test]
    fn codex_keeps_its_skills_where_its_variables_say() {
        for (variables, folder) in [
            (
                &["CODEX_SKILLS_DIR", "CODEX_HOME", "HOME"][..],
                Some("/CODEX_SKILLS_DIR"),
            ),
            (&["CODEX_HOME", "HOME"], Some("/CODEX_HOME/skills")),
            (&["HOME"], Some("/HOME/.codex/skills")),
            (&[], None),
        ] {
            let found = own_skills(|name| variables.contains(&name).then(|| format!("/{name}")));
            assert_eq!(found, folder.map(PathBuf::from));
        }
    }
}
