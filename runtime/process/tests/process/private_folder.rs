use std::fs;
use std::path::Path;

use trunkline_process::ChildSpec;

use super::watch::{eventually, exists, output, sh, start, within};

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

#[tokio::test]
async fn the_configuration_is_a_private_file_until_the_end() {
    let root = tempfile::tempdir().unwrap();
    let script =
        r#"stat -c %a "$ADAPTER_CONFIG" "${ADAPTER_CONFIG%/*}" "$TMPDIR"; cat "$ADAPTER_CONFIG""#;
    let told = output(
        sh(script)
            .config(r#"{"key":"value"}"#)
            .private_root(root.path()),
    )
    .await;
    assert_eq!(told, "600\n700\n700\n{\"key\":\"value\"}");
    assert_eq!(entries(root.path()), 0);
}

#[tokio::test]
async fn without_a_configuration_no_file_is_named() {
    assert_eq!(output(sh("echo ${ADAPTER_CONFIG-unset}")).await, "unset\n");
}

#[tokio::test]
async fn what_was_left_in_tmpdir_stays_for_the_host_and_goes_with_the_child() {
    let root = tempfile::tempdir().unwrap();
    let spec = sh("echo result > $TMPDIR/answer")
        .config("{}")
        .private_root(root.path());
    let mut child = start(spec).await;
    assert!(within("the end", child.wait()).await.success());

    assert_eq!(
        fs::read(child.temp_dir().join("answer")).unwrap(),
        b"result\n"
    );
    assert_eq!(
        entries(child.private_dir()),
        1,
        "the configuration goes with the process"
    );
    within("the end", child.finish()).await;
    assert_eq!(entries(root.path()), 0);
}

#[tokio::test]
async fn a_dropped_child_is_killed_reaped_and_its_folder_removed() {
    let root = tempfile::tempdir().unwrap();
    let child = start(
        ChildSpec::new("sleep")
            .arg("600")
            .config("{}")
            .private_root(root.path()),
    )
    .await;
    let pid = child.pid();
    drop(child);
    eventually("it is reaped", || !exists(pid)).await;
    eventually("its folder is removed", || entries(root.path()) == 0).await;
}

#[test]
fn a_child_may_be_dropped_after_its_runtime() {
    let root = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let child = runtime.block_on(start(
        ChildSpec::new("sleep").arg("600").private_root(root.path()),
    ));
    let pid = child.pid();
    drop(runtime);
    drop(child);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(eventually("nothing is left", || {
        !exists(pid) && entries(root.path()) == 0
    }));
}
