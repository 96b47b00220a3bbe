use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use trunkline_process::{ChildSpec, SpawnError, spawn};

use super::watch::{contained, within};

/// Starts what must not start, and checks that nothing is left of it.
async fn refused(spec: ChildSpec) -> SpawnError {
    let root = tempfile::tempdir().unwrap();
    let started = within(
        "the refusal",
        spawn(contained(spec.config("{}").private_root(root.path()))),
    )
    .await;
    assert_eq!(
        fs::read_dir(root.path()).unwrap().count(),
        0,
        "a folder is left"
    );
    started.expect_err("refused")
}

#[tokio::test]
async fn a_missing_program_is_told_with_the_path_that_was_searched() {
    let error = refused(ChildSpec::new("no-such-adapter").env("PATH", "/opt/one:/opt/two")).await;
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("no-such-adapter") && text.contains("/opt/one:/opt/two"),
        "{text}"
    );

    let long = ["/opt/one"; 20].join(":");
    let text = refused(ChildSpec::new("no-such-adapter").env("PATH", &long))
        .await
        .to_string();
    assert!(
        text.contains("in the 20 folders of PATH") && !text.contains("/opt/one"),
        "{text}"
    );

    for program in ["/no/such/adapter", "./adapter", ""] {
        let error = refused(ChildSpec::new(program)).await;
        assert!(
            matches!(error, SpawnError::NotFound { .. }),
            "{program}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_missing_working_directory_is_an_error_and_never_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for asked in [dir.path().join("missing"), file, Path::new("").to_owned()] {
        let error = refused(ChildSpec::new("true").work_dir(&asked)).await;
        assert!(
            matches!(&error, SpawnError::WorkDir { path, .. } if *path == asked),
            "{error:?}"
        );
        assert!(
            error.to_string().contains(asked.to_str().unwrap()),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_folder_is_no_program() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(ChildSpec::new(dir.path())).await;
    assert!(
        matches!(&error, SpawnError::Folder { program } if program == dir.path()),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .ends_with("it is a folder; name the program in it"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_may_not_run_and_one_without_interpreter_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("adapter");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    for spec in [
        ChildSpec::new(&script),
        ChildSpec::new("adapter").env("PATH", dir.path()),
    ] {
        fs::set_permissions(&script, Permissions::from_mode(0o644)).unwrap();
        let error = refused(spec.clone()).await;
        assert!(
            matches!(&error, SpawnError::PermissionDenied { program, .. } if *program == script),
            "{error:?}"
        );

        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        let error = refused(spec).await;
        assert!(
            matches!(&error, SpawnError::Interpreter { program } if *program == script),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_variable_that_cannot_be_set_is_refused_by_name() {
    for (name, value) in [
        ("A=B", "x"),
        ("", "x"),
        ("A", "x\0y"),
        ("ADAPTER_CONFIG", "/elsewhere"),
    ] {
        let error = refused(ChildSpec::new("true").env(name, value)).await;
        assert!(
            matches!(&error, SpawnError::Environment { name: told, .. } if told == name),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn an_argument_with_a_zero_byte_and_a_missing_private_root_are_errors() {
    let error = refused(ChildSpec::new("true").arg("a\0b")).await;
    assert!(matches!(error, SpawnError::Other { .. }), "{error:?}");
    let error = within(
        "the refusal",
        spawn(ChildSpec::new("true").private_root("/no/such/root")),
    )
    .await;
    assert!(
        matches!(error, Err(SpawnError::PrivateDir { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn debug_text_of_a_spec_shows_no_secret() {
    let spec = ChildSpec::new("agent")
        .arg("--key=hush")
        .env("KEY", "hush")
        .config("hush");
    assert!(!format!("{spec:?}").contains("hush"));
}
