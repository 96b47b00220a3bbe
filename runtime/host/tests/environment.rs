//! Values of variables that the configuration names elsewhere, with real processes.

use std::{fs, time::Duration};

use trunkline_host::{
    Cause, Host, SessionOptions,
    config::{AgentConfig, Command, EnvValue},
    protocol::AgentState,
};

/// An agent that answers one input with the value of `KEY`, then ends.
fn teller(key: EnvValue) -> AgentConfig {
    let script = r#"read start; read input; id=${start#*session_id\":\"}; id=${id%%\"*}
        printf '{"type":"output","session_id":"%s","content":"%s"}\n' "$id" "$KEY"
        printf '{"type":"turn.complete","session_id":"%s"}\n' "$id""#;
    let mut agent = AgentConfig::external(
        "teller",
        Command::new("sh").args(["-c", script]).env("KEY", key),
    );
    agent.extensions = Some(Vec::new());
    agent
}

#[tokio::test]
async fn a_value_is_read_from_its_file_whenever_the_process_starts() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let host = Host::builder()
        .agent(teller(EnvValue::FromFile(key.clone())))
        .build()
        .unwrap();
    let session = host.open("teller", SessionOptions::default()).unwrap();
    for value in ["first", "rotated"] {
        fs::write(&key, format!("{value}\n")).unwrap();
        let (text, end) = session.send("tell").unwrap().text().await;
        assert_eq!(
            (text.as_str(), end.cause),
            (value, Cause::Complete),
            "{end:?}"
        );
        // The process ends by itself; the next input starts it again.
        let ended = async {
            while host.agent("teller").unwrap().state == AgentState::Running {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ended)
            .await
            .expect("the process ends");
    }
    host.shutdown().await;
}

#[tokio::test]
async fn a_value_that_is_not_there_fails_the_start_and_says_where_it_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (key, place) in [
        (EnvValue::FromFile(folder.path().join("nothing")), "nothing"),
        (
            EnvValue::FromEnv("TRUNKLINE_TEST_UNSET".into()),
            "TRUNKLINE_TEST_UNSET",
        ),
    ] {
        let host = Host::builder().agent(teller(key)).build().unwrap();
        let session = host.open("teller", SessionOptions::default()).unwrap();
        let end = session.send("tell").unwrap().end().await;
        assert_eq!(end.cause, Cause::StartFailed, "{end:?}");
        let message = end.error.unwrap().message.unwrap();
        assert!(
            message.contains("failed to set the variable KEY from ") && message.contains(place),
            "{message}"
        );
        host.shutdown().await;
    }
}

#[tokio::test]
async fn each_agent_has_a_folder_of_its_own_for_files() {
    let [one, two] = ["one", "two"].map(|id| AgentConfig::external(id, "cat"));
    let host = Host::builder().agent(one).agent(two).build().unwrap();
    let specs = ["one", "two"].map(|id| host.child_spec(id).unwrap().unwrap());
    let folders = specs.map(|spec| spec.exchange.unwrap());
    assert!(folders.iter().all(|folder| folder.is_dir()));
    assert!(
        !folders[0].starts_with(&folders[1]) && !folders[1].starts_with(&folders[0]),
        "{folders:?}"
    );
    assert!(host.child_spec("three").is_none());
}
