//! Skills that an input to Codex may call: the session's, and those in Codex's own folder.

use std::path::PathBuf;

use trunkline_sdk::Session;

use crate::acp::variable;
use crate::agent::options::Options;
use crate::agent::skills::Roster;

/// Reads the skills. Reports those that cannot be used.
pub(super) fn read_skills(options: &Options, warnings: &mut Vec<String>) -> Roster {
    let own_skills = own_skills(|name| variable(options, name));
    Roster::from_skills(&options.skills, warnings).and_in(own_skills)
}

/// Returns the text for an input: by the template, with the skill that it calls.
pub(super) fn input_text(
    skills: &Roster,
    content: &str,
    session: &Session,
    options: &Options,
    warnings: &mut Vec<String>,
) -> String {
    let inline = skills.resolve(content);
    warnings.extend(inline.note);
    options.words(&inline.text, session)
}

/// The folder of Codex's own skills.
fn own_skills(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| {
        let folder = variable(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    let home = || set("CODEX_HOME").or_else(|| Some(set("HOME")?.join(".codex")));
    set("CODEX_SKILLS_DIR").or_else(|| Some(home()?.join("skills")))
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
                let mut warnings = Vec::new();
                let skills = read_skills(&options, &mut warnings);
                let session = turn.session();
                let text = input_text(&skills, &input.content, session, &options, &mut warnings);
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
