//! The variables of a session as the environment of its agent (census row E06).

use std::collections::BTreeMap;

use trunkline_sdk::{SessionStart, template};

/// The value of a variable for an agent with this environment of its own, over this process's.
pub(crate) fn value(env: &BTreeMap<String, String>, name: &str) -> Option<String> {
    env.get(name).cloned().or_else(|| std::env::var(name).ok())
}

/// The prefix whose eleven names are fixed.
pub(crate) const GALYARDER: &str = "GALYARDER_";

/// The eleven: name after the prefix, and the variables that give it, the first that is set first.
const ELEVEN: &[(&str, &[&str])] = &[
    ("AGENT_ID", &["agentId"]),
    ("COMPANY_ID", &["companyId"]),
    ("API_URL", &["apiUrl"]),
    ("RUN_ID", &["runId"]),
    ("TASK_ID", &["taskId", "issueId"]),
    ("WAKE_REASON", &["wakeReason"]),
    ("WAKE_COMMENT_ID", &["wakeCommentId", "commentId"]),
    ("APPROVAL_ID", &["approvalId"]),
    ("APPROVAL_STATUS", &["approvalStatus"]),
    ("LINKED_ISSUE_IDS", &["linkedIssueIds", "issueIds"]),
    (API_KEY, &["authToken", "apiKey"]),
];

/// The one name that the configuration may set instead.
const API_KEY: &str = "API_KEY";

/// The longest value.
const LONGEST: usize = 64 * 1024;

/// Returns `session.start.variables` as environment under a prefix: `taskId` under `HUB_` is
/// `HUB_TASK_ID`. Under `GALYARDER_` exactly the eleven known names result. Empty without a prefix:
/// variables must not replace `PATH`.
///
/// `configured` returns true if the configuration sets this name: a configured API key has
/// precedence.
pub(crate) fn environment(
    prefix: &str,
    start: &SessionStart,
    configured: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let prefix = prefix.trim();
    if !is_name(prefix) {
        return BTreeMap::new();
    }
    let known = known(start);
    let mut environment = BTreeMap::new();
    if prefix == GALYARDER {
        for (name, sources) in ELEVEN {
            let wanted: Vec<String> = sources.iter().copied().map(shouted).collect();
            let Some(value) = wanted.iter().find_map(|source| known.get(source)) else {
                continue;
            };
            let full = format!("{prefix}{name}");
            if *name == API_KEY && configured(&full) {
                continue;
            }
            let value = if *name == "LINKED_ISSUE_IDS" {
                comma_list(value)
            } else {
                value.clone()
            };
            environment.insert(full, value);
        }
    } else {
        environment.extend(
            known
                .into_iter()
                .map(|(name, value)| (format!("{prefix}{name}"), value)),
        );
    }
    environment
}

/// The variables by their shouted names, with the ids of the start where no variable gives them.
fn known(start: &SessionStart) -> BTreeMap<String, String> {
    let ids = template::ids(start).map(|(name, id)| (shouted(name), id));
    let variables = start
        .variables
        .iter()
        .flatten()
        .map(|(name, value)| (shouted(name), value.clone()));
    ids.chain(variables)
        .filter(|(name, value)| is_name(name) && is_value(value))
        .collect()
}

/// `taskId`, `task-id` and `task.id` as `TASK_ID`.
fn shouted(name: &str) -> String {
    let mut shouted = String::with_capacity(name.len() + 4);
    let mut before = None::<char>;
    for char in name.chars().take(256) {
        let begins = char.is_ascii_uppercase()
            && before.is_some_and(|before| before.is_ascii_lowercase() || before.is_ascii_digit());
        if begins {
            shouted.push('_');
        }
        shouted.push(if char.is_ascii_alphanumeric() {
            char.to_ascii_uppercase()
        } else {
            '_'
        });
        before = Some(char);
    }
    shouted
}

/// A JSON list of texts as `a,b`; everything else as it is.
fn comma_list(value: &str) -> String {
    match serde_json::from_str::<Vec<String>>(value) {
        Ok(ids) => ids.join(","),
        Err(_) => value.to_owned(),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.len() <= 256
        && name
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || char == '_')
        && name.chars().any(|char| char.is_ascii_alphanumeric())
}

fn is_value(value: &str) -> bool {
    !value.is_empty() && value.len() <= LONGEST && !value.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(variables: &[(&str, &str)]) -> SessionStart {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        SessionStart {
            variables: Some(variables),
            ..SessionStart::default()
        }
    }

    fn lines(prefix: &str, start: &SessionStart) -> Vec<String> {
        environment(prefix, start, |_| false)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn the_eleven_names_of_the_framework() {
        let all = start(&[
            ("agentId", "a"),
            ("companyId", "c"),
            ("apiUrl", "http://u"),
            ("runId", "r"),
            ("taskId", "t"),
            ("wakeReason", "w"),
            ("wakeCommentId", "wc"),
            ("approvalId", "ap"),
            ("approvalStatus", "ok"),
            ("linkedIssueIds", r#"["i1","i2"]"#),
            ("authToken", "k"),
            ("somethingElse", "no"),
        ]);
        assert_eq!(
            lines(GALYARDER, &all),
            [
                "GALYARDER_AGENT_ID=a",
                "GALYARDER_API_KEY=k",
                "GALYARDER_API_URL=http://u",
                "GALYARDER_APPROVAL_ID=ap",
                "GALYARDER_APPROVAL_STATUS=ok",
                "GALYARDER_COMPANY_ID=c",
                "GALYARDER_LINKED_ISSUE_IDS=i1,i2",
                "GALYARDER_RUN_ID=r",
                "GALYARDER_TASK_ID=t",
                "GALYARDER_WAKE_COMMENT_ID=wc",
                "GALYARDER_WAKE_REASON=w",
            ]
        );
    }

    #[test]
    fn second_sources_stand_in() {
        let other = start(&[
            ("issueId", "i"),
            ("commentId", "c"),
            ("linkedIssueIds", "x,y"),
        ]);
        let expected = [
            "GALYARDER_LINKED_ISSUE_IDS=x,y",
            "GALYARDER_TASK_ID=i",
            "GALYARDER_WAKE_COMMENT_ID=c",
        ];
        assert_eq!(lines(GALYARDER, &other), expected);
        let both = start(&[("issueId", "i"), ("taskId", "t")]);
        assert_eq!(lines(GALYARDER, &both), ["GALYARDER_TASK_ID=t"]);
        let ids = SessionStart {
            task_id: Some("T".into()),
            run_id: Some("R".into()),
            ..start(&[("runId", "v")])
        };
        assert_eq!(
            lines(GALYARDER, &ids),
            ["GALYARDER_RUN_ID=v", "GALYARDER_TASK_ID=T"]
        );
    }

    #[test]
    fn a_configured_key_stands() {
        let token = start(&[("authToken", "run"), ("runId", "r")]);
        let names: Vec<_> = environment(GALYARDER, &token, |_| true)
            .into_keys()
            .collect();
        assert_eq!(names, ["GALYARDER_RUN_ID"]);
    }

    #[test]
    fn any_other_prefix_takes_every_variable() {
        let variables = start(&[
            ("taskId", "t"),
            ("user.name", "u"),
            ("HTTPPort2", "p"),
            ("", "x"),
            ("é", "x"),
            ("bad", "a\0b"),
            ("empty", ""),
        ]);
        assert_eq!(
            lines("HUB_", &variables),
            ["HUB_HTTPPORT2=p", "HUB_TASK_ID=t", "HUB_USER_NAME=u"]
        );
        for prefix in ["", " ", "A=B", "1X", "_", "é"] {
            assert_eq!(lines(prefix, &variables), [""; 0], "{prefix:?}");
        }
    }
}
