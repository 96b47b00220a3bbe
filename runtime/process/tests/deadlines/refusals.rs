//! Children that cannot have a deadline.

use trunkline_process::{BootInstant, ChildSpec, Containment, Deadline, SpawnError, spawn};

use std::time::Duration;

#[tokio::test]
async fn a_child_without_an_init_cannot_have_a_deadline() {
    let deadline = Deadline::new(BootInstant::now() + Duration::from_secs(60));
    let spec = ChildSpec::new("true")
        .containment(Containment::Group)
        .deadline(deadline);
    let error = spawn(spec).await.unwrap_err();
    assert!(matches!(error, SpawnError::Containment { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("`group` has none") && text.contains("`reaper`"),
        "{text}"
    );
}

#[tokio::test]
async fn nothing_starts_before_the_first_deadline() {
    trunkline_process::init::use_program(super::INIT);
    let deadline = Deadline::default();
    let spec = ChildSpec::new("true")
        .containment(Containment::Reaper)
        .deadline(deadline.clone());
    let error = spawn(spec.clone()).await.unwrap_err();
    assert!(matches!(error, SpawnError::Late { .. }), "{error:?}");
    deadline.extend(BootInstant::now() + Duration::from_secs(60));
    assert!(spawn(spec).await.unwrap().finish().await.success());
}
