//! Agents whose adapters know no `cwd`: a process for each folder that their sessions name.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use std::path::Path;

use support::soon;
use trunkline_host::{
    EventKind, Host, OpenError, Session, SessionOptions,
    config::{AgentConfig, Command},
    protocol::SessionStart,
};

/// Answers each input with its process's number and folder, and knows nothing but the core.
const WHERE: &str = r#"while read -r line; do case "$line" in *'"user.input"'*)
id=${line#*'"session_id":"'}; id=${id%%'"'*}
printf '{"type":"output","session_id":"%s","content":"%s %s"}\n' "$id" "$$" "$(pwd -P)"
printf '{"type":"turn.complete","session_id":"%s"}\n' "$id" ;; esac; done"#;

fn host() -> Host {
    let mut agent = AgentConfig::external("where", Command::new("sh").args(["-c", WHERE]));
    agent.process_per_folder = true;
    agent.session_may =
        trunkline_host::config::SessionMay::listed([trunkline_host::config::SessionOption::Cwd]);
    Host::builder().agent(agent).build().unwrap()
}

fn open(host: &Host, folder: &Path) -> Result<Session, OpenError> {
    let cwd = Some(folder.to_str().unwrap().to_owned());
    let start = SessionStart {
        cwd,
        ..SessionStart::default()
    };
    host.open(
        "where",
        SessionOptions {
            start,
            ..SessionOptions::default()
        },
    )
}

/// The number of a session's process, and its folder.
async fn place(session: &Session) -> (String, String) {
    let mut turn = session.send("where").unwrap();
    let mut text = String::new();
    while let Some(event) = soon(turn.next()).await {
        if let EventKind::Output(output) = event.kind {
            text.push_str(&output.content);
        }
    }
    let (pid, folder) = text
        .split_once(' ')
        .unwrap_or_else(|| panic!("it said {text:?}"));
    (pid.to_owned(), folder.to_owned())
}

#[tokio::test]
async fn a_session_works_in_its_folder_though_its_adapter_does_not_know_it() {
    let top = tempfile::tempdir().unwrap();
    let host = host();
    let mut pids = Vec::new();
    for name in ["one", "two", "one"] {
        let folder = top.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let session = open(&host, &folder).unwrap();
        let (pid, said) = place(&session).await;
        assert_eq!(Path::new(&said), folder);
        pids.push((pid, session));
    }
    assert_eq!(pids[0].0, pids[2].0, "a folder has one process");
    assert_ne!(pids[0].0, pids[1].0);
    // One that names none is served as ever.
    let session = host.open("where", SessionOptions::default()).unwrap();
    let (pid, said) = place(&session).await;
    assert_eq!(
        Path::new(&said),
        std::env::current_dir().unwrap().canonicalize().unwrap()
    );
    assert!(pids.iter().all(|(known, _)| *known != pid));
    // A restart is one of all processes of the agent.
    soon(host.restart_agent("where")).await.unwrap();
    for (before, session) in &pids {
        assert_ne!(place(session).await.0, *before);
    }
    soon(host.shutdown()).await;
}

#[tokio::test]
async fn processes_run_in_so_many_folders_and_idle_ones_make_room() {
    let top = tempfile::tempdir().unwrap();
    let host = host();
    let folder = |at: usize| {
        let folder = top.path().join(at.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        folder
    };
    let mut sessions: Vec<_> = (0..32)
        .map(|at| open(&host, &folder(at)).unwrap())
        .collect();
    let full = open(&host, &folder(32)).unwrap_err();
    assert!(
        matches!(&full, OpenError::TooManyFolders { limit: 32, .. }),
        "{full}"
    );
    open(&host, &folder(7)).expect("a folder that has one needs no room");

    let idle = sessions.remove(3);
    let (pid, _) = place(&idle).await;
    soon(idle.close()).await;
    let opened = async {
        loop {
            match open(&host, &folder(32)) {
                Ok(session) => break session,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let session = soon(opened).await;
    assert_eq!(
        place(&session).await.1,
        folder(32).canonicalize().unwrap().to_str().unwrap()
    );
    // The process that made room ends.
    let proc = Path::new("/proc").join(pid);
    soon(async {
        while proc.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon(host.shutdown()).await;
}
