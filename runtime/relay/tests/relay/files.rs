//! Files and the order of messages ([file.*], [turn.11]).

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_file_reaches_the_agent_before_the_input_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.bin");
    std::fs::write(&path, vec![7; 4 << 20]).unwrap();
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    for round in 0..5 {
        let turn = format!("t{round}");
        world
            .hub
            .say(json!({"type": "file.input", "session_id": "s", "file_path": path}))
            .await;
        world.hub.input("s", &turn, "look").await;
        let file = adapter.expect("file.input").await;
        assert_eq!(file["file_name"], "large.bin");
        assert_eq!(
            std::fs::metadata(file["file_path"].as_str().unwrap())
                .unwrap()
                .len(),
            4 << 20
        );
        let own = adapter.turn().await;
        adapter.complete("s", &own).await;
        assert_eq!(
            world.hub.expect("turn.complete").await["turn_id"],
            turn.as_str()
        );
    }
}

#[tokio::test]
async fn a_stop_overtakes_a_file_and_ends_the_input_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .unwrap();
    assert!(made.success());
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world
        .hub
        .say(json!({"type": "file.input", "session_id": "s", "file_path": path}))
        .await;
    world.hub.input("s", "t", "look").await;
    world
        .hub
        .say(json!({"type": "stop", "session_id": "s", "turn_id": "t", "reason": "timeout"}))
        .await;
    let mut heard = [world.hub.hear().await, world.hub.hear().await];
    heard.sort_by_key(|message| message["type"].to_string());
    let [error, end] = heard;
    assert_eq!(
        (&error["type"], &error["category"]),
        (&json!("error"), &json!("file_refused"))
    );
    assert_eq!(
        (&end["type"], &end["status"]),
        (&json!("turn.complete"), &json!("stopped"))
    );
    // Stopped while it waited: delivered `no`. If the file's refusal came first, it was stopped
    // while it ran or waited.
    if end["delivered"] == "no" {
        assert_eq!(end["stop_reason"], "timeout");
        world.hub.input("s", "u", "still here").await;
        adapter.turn().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_not_there_is_told_and_the_input_goes_on() {
    for extensions in [true, false] {
        let mut world = World::new();
        let mut adapter = if extensions {
            world.open("s").await
        } else {
            world.open_core("s").await
        };
        world
            .hub
            .say(json!({"type": "file.input", "session_id": "s", "file_path": "/nowhere/at/all"}))
            .await;
        world.hub.input("s", "t", "look").await;
        let told = world.hub.hear().await;
        if extensions {
            assert_eq!(
                (&told["type"], &told["category"]),
                (&json!("error"), &json!("file_refused"))
            );
            assert_eq!(told["fatal"], false);
        } else {
            assert_eq!(
                (&told["type"], &told["channel"]),
                (&json!("output"), &json!("system"))
            );
        }
        adapter.turn().await;
    }
}

#[tokio::test]
async fn the_files_of_a_session_that_has_just_ended_can_still_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.txt");
    std::fs::write(&path, "done").unwrap();
    let root = folder.path().to_owned();
    let mut world = World::with(|mut agent| {
        agent.file_roots.push(root);
        agent
    });
    let mut adapter = world.open("s").await;
    adapter
        .say(json!({"type": "file.output", "session_id": "s", "file_path": path}))
        .await;
    adapter
        .say(json!({"type": "session.closed", "session_id": "s", "reason": "finished"}))
        .await;
    let file = world.hub.expect("file.output").await;
    assert_eq!(
        (&file["file_name"], &file["file_mime_type"]),
        (&json!("result.txt"), &json!("application/octet-stream"))
    );
    world.hub.expect("session.closed").await;
    // The relay has seen the end by the time it answers.
    world
        .hub
        .say(json!({"type": "ping", "session_id": ""}))
        .await;
    world.hub.expect("pong").await;
    assert_eq!(
        std::fs::read_to_string(file["file_path"].as_str().unwrap()).unwrap(),
        "done"
    );
}

#[tokio::test(start_paused = true)]
async fn a_relative_path_is_refused_wherever_the_relay_runs() {
    for extensions in [true, false] {
        let mut world = World::new();
        let mut adapter = if extensions {
            world.open("s").await
        } else {
            world.open_core("s").await
        };
        // The file exists, in the directory of this process.
        world
            .hub
            .say(json!({"type": "file.input", "session_id": "s", "file_path": "Cargo.toml"}))
            .await;
        world.hub.input("s", "t", "look").await;
        let told = world.hub.hear().await;
        let words = if extensions {
            &told["message"]
        } else {
            &told["content"]
        };
        assert!(words.as_str().unwrap().contains("absolute path"), "{told}");
        adapter.expect("user.input").await;
    }
}

#[tokio::test]
async fn the_copy_of_a_file_is_confirmed_to_a_hub_with_notes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "abc").unwrap();
    for extensions in [json!(["turns", "notes"]), json!(["turns"])] {
        let mut world = World::new();
        world
            .hub
            .say(json!({"type": "session.start", "session_id": "s", "protocol": 1, "extensions": extensions}))
            .await;
        assert_eq!(
            world.hub.expect("session.ready").await["extensions"],
            extensions
        );
        let mut adapter = world.adapters.next().await;
        adapter.ready().await;
        world
            .hub
            .say(json!({"type": "file.input", "session_id": "s", "file_path": path}))
            .await;
        world.hub.input("s", "t", "look").await;
        adapter.expect("file.input").await;
        let own = adapter.turn().await;
        adapter.complete("s", &own).await;
        let mut delivered = Vec::new();
        loop {
            let message = world.hub.hear().await;
            match message["type"].as_str() {
                Some("turn.complete") => break,
                Some("file.delivered") => delivered.push(message),
                _ => {}
            }
        }
        let has_notes = extensions.as_array().unwrap().len() == 2;
        assert_eq!(delivered.len(), usize::from(has_notes), "{delivered:?}");
        assert!(delivered.iter().all(|file| file["by"].is_null()));
    }
}
