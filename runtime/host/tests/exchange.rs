//! Exchange folders of a host's sessions: their place and their removal ([file.6]).

mod support;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use support::soon;
use trunkline_host::{
    Host, SessionOptions,
    config::{AgentConfig, Command},
};

fn host(agent: AgentConfig) -> (Host, PathBuf) {
    let id = agent.id.clone();
    let host = Host::builder().agent(agent).build().expect("a host");
    let spec = host.child_spec(&id).expect("an agent").expect("its start");
    (host, spec.exchange.expect("a folder"))
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_session_of_the_core_alone_has_no_folder() {
    let mut agent = AgentConfig::external("a", Command::new("cat"));
    agent.extensions = Some(Vec::new());
    let (host, folder) = host(agent);
    let sessions: Vec<_> = (0..10)
        .map(|_| host.open("a", SessionOptions::default()).unwrap())
        .collect();
    assert_eq!(count(&folder), 0);
    // One that is given a file has one.
    let source = tempfile::NamedTempFile::new().unwrap();
    soon(sessions[0].deliver_file(source.path(), None, None))
        .await
        .unwrap();
    assert_eq!(count(&folder), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn a_folder_is_there_with_its_session_and_gone_after_it() {
    let (host, folder) = host(AgentConfig::external("a", Command::new("cat")));
    let sessions: Vec<_> = (0..10)
        .map(|_| host.open("a", SessionOptions::default()).unwrap())
        .collect();
    assert_eq!(count(&folder), 10);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o700
        );
        fs::create_dir_all(path.join("full/of/things")).unwrap();
    }
    drop(sessions);
    soon(async {
        while count(&folder) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_host_that_ends_leaves_no_folder_of_many_sessions() {
    let (host, folder) = host(AgentConfig::external("a", Command::new("cat")));
    let mut sessions = Vec::new();
    for number in 0..1000 {
        sessions.push(host.open("a", SessionOptions::default()).unwrap());
        if number % 100 == 0 {
            fs::write(
                folder.join(number.to_string()).join("file"),
                "left by an adapter",
            )
            .unwrap();
        }
    }
    assert_eq!(count(&folder), 1000);
    soon(host.shutdown()).await;
    drop((host, sessions));
    let own = folder.ancestors().nth(2).unwrap();
    assert!(!own.exists(), "{own:?}");
}
