use tokio::io::{AsyncWriteExt, BufReader};
use trunkline_process::{ChildSpec, Exit};

use super::watch::{contained, eventually, exists, line, sh, start, within};

#[tokio::test]
async fn a_child_echoes_and_ends_at_the_end_of_its_input() {
    let mut child = start(ChildSpec::new("cat")).await;
    let mut stdin = child.take_stdin().unwrap();
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    assert!(child.take_stdin().is_none() && child.take_stdout().is_none());

    stdin.write_all(b"hello\n").await.unwrap();
    assert_eq!(line(&mut stdout).await, "hello");
    drop(stdin);
    let exit = within("the end", child.wait()).await;
    assert_eq!(
        exit,
        Exit {
            code: Some(0),
            signal: None
        }
    );
    assert_eq!(within("the same end", child.wait()).await, exit);
    assert_eq!(child.exit(), Some(exit));
    assert!(
        !exists(child.pid()),
        "a child that was waited for is reaped"
    );
    within("the folder to go", child.finish()).await;
}

#[tokio::test]
async fn an_exit_code_and_a_signal_are_told_apart() {
    let exit = within("the end", start(sh("exit 3")).await.finish()).await;
    assert_eq!(exit.to_string(), "exit status 3");
    let exit = within("the end", start(sh("kill -9 $$")).await.finish()).await;
    assert_eq!(exit.to_string(), "signal 9 (SIGKILL)");
}

#[tokio::test]
async fn a_wait_that_was_given_up_loses_nothing() {
    let mut child = start(ChildSpec::new("cat")).await;
    for _ in 0..3 {
        tokio::select! {
            biased;
            exit = child.wait() => panic!("ended with {exit}"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(child.take_stdin());
    assert!(within("the end", child.finish()).await.success());
}

#[tokio::test]
async fn a_start_that_was_given_up_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mark = root.path().join("pid");
    let spec = sh(&format!(
        "echo $$ > {}.new; mv {0}.new {0}; exec sleep 600",
        mark.display()
    ));
    let private = root.path().join("private");
    std::fs::create_dir(&private).unwrap();
    for polls in 0..40 {
        let starting = trunkline_process::spawn(contained(spec.clone().private_root(&private)));
        tokio::select! {
            biased;
            started = starting => { started.unwrap(); }
            () = async { for _ in 0..polls { tokio::task::yield_now().await } } => {}
        }
    }
    // One more, so that everything abandoned before has passed the spawner thread.
    within("the end", start(sh("true")).await.finish()).await;
    eventually("no folder is left", || {
        std::fs::read_dir(&private).unwrap().count() == 0
    })
    .await;
    if let Ok(pid) = std::fs::read_to_string(&mark) {
        let pid = pid.trim().parse().unwrap();
        eventually("no process is left", || !exists(pid)).await;
    }
}

#[tokio::test]
async fn a_hundred_children_start_at_once() {
    let mut starting = tokio::task::JoinSet::new();
    for code in 0..100 {
        starting.spawn(async move {
            (
                code,
                within("the end", start(sh(&format!("exit {code}"))).await.finish()).await,
            )
        });
    }
    while let Some(ended) = starting.join_next().await {
        let (code, exit) = ended.unwrap();
        assert_eq!(exit.code, Some(code));
    }
}
