//! Paths that a hostile adapter names, through the whole host: each refused with an event, nothing
//! opened, nothing hung, and the session continues. The check itself has its tests beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use tempfile::TempDir;
use trunkline_host::{
    Cause, EditRejected, EventKind, Host, Session, SessionOptions, Turn,
    config::{AgentConfig, Backend, Sandbox, StopSteps, Unenforced},
    policy::{Policy, Unmatched},
    protocol::{Category, Json, PermissionResponse, SessionId, SessionStart},
};

use support::{Peer, agent, played, soon};

const LIMIT: u64 = 1000;
const NONE: Duration = Duration::ZERO;

/// A folder that files may come from, and one with a secret beside it.
struct Place {
    _all: TempDir,
    root: PathBuf,
    outside: PathBuf,
}

impl Place {
    fn new() -> Self {
        let all = TempDir::new().unwrap();
        let base = all.path().canonicalize().unwrap();
        let root = base.join("root");
        let outside = base.join("outside");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "s3cret").unwrap();
        Self {
            _all: all,
            root,
            outside,
        }
    }

    fn agent(&self) -> AgentConfig {
        let mut agent = agent();
        agent.command.work_dir.clone_from(&self.root);
        agent.limits.max_file_bytes = LIMIT;
        agent.timeouts.shutdown = StopSteps {
            close: NONE,
            eof: NONE,
            term: NONE,
        };
        agent
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }
}

/// A session whose turn runs, and the adapter's end.
async fn session(config: AgentConfig, start: SessionStart) -> (Host, Session, Turn, Peer, Value) {
    let (host, mut peers) = played(config, 64 * 1024);
    let options = SessionOptions {
        id: Some(SessionId::new("s").unwrap()),
        start,
        ..SessionOptions::default()
    };
    let session = host.open("a", options).unwrap();
    let turn = session.send("x").unwrap();
    let mut peer = peers.recv().await.unwrap();
    let start = peer.read("session.start").await;
    (host, session, turn, peer, start)
}

async fn name_file(peer: &mut Peer, path: impl Into<Value>) {
    let line = json!({ "type": "file.output", "session_id": "s", "file_path": path.into() });
    peer.write(&format!("{line}\n")).await;
}

/// The next event, which must be a refusal: its text.
#[track_caller]
fn refusal(event: Option<trunkline_host::Event>) -> String {
    match event.expect("an event").kind {
        EventKind::Error(error) => {
            assert_eq!(error.category, Some(Category::FileRefused));
            error.message
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_hostile_path_is_refused_with_an_event() {
    let place = Place::new();
    let Place { root, outside, .. } = &place;
    symlink(outside.join("secret"), root.join("link")).unwrap();
    symlink(root.join("nowhere"), root.join("dangling")).unwrap();
    symlink(outside, root.join("folder-link")).unwrap();
    fs::hard_link(outside.join("secret"), root.join("hard")).unwrap();
    place.fifo("fifo");
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    fs::write(root.join("big"), vec![b'x'; LIMIT as usize + 1]).unwrap();
    fs::write(root.join("fits"), vec![b'x'; LIMIT as usize]).unwrap();
    let shown = root.display();
    let cases = [
        (format!("{shown}/../outside/secret"), "climbs with `..`"),
        ("relative".to_owned(), "not absolute"),
        (String::new(), "not absolute"),
        ("/etc/passwd".to_owned(), "outside every allowed folder"),
        (
            "/proc/self/environ".to_owned(),
            "outside every allowed folder",
        ),
        (format!("{shown}/link"), "symbolic link"),
        (format!("{shown}/folder-link/secret"), "symbolic link"),
        (format!("{shown}/dangling"), "symbolic link"),
        (format!("{shown}/hard"), "more than one hard link"),
        (format!("{shown}/fifo"), "not a regular file"),
        (format!("{shown}/socket"), "not a regular file"),
        (format!("{shown}/sub"), "not a regular file"),
        (shown.to_string(), "not a regular file"),
        ("/dev/zero".to_owned(), "outside every allowed folder"),
        (format!("{shown}/big"), "more than the 1000 allowed"),
        (format!("{shown}/a\0b"), "NUL byte"),
        (format!("{shown}/a\nb"), "control character"),
        (format!("{shown}/{}", "x".repeat(300)), "cannot be read"),
        (format!("{shown}/{}", "x/".repeat(3000)), "cannot be read"),
        (format!("{shown}/nothing"), "does not exist"),
    ];
    let (host, _session, mut turn, mut peer, _) =
        session(place.agent(), SessionStart::default()).await;
    for (path, why) in cases {
        name_file(&mut peer, path.as_str()).await;
        let message = refusal(soon(turn.next()).await);
        assert!(message.contains(why), "{path:?}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
    // Letters that are not UTF-8 do not make JSON, whichever session the line is for.
    let mut line =
        format!("{{\"type\":\"file.output\",\"session_id\":\"s\",\"file_path\":\"{shown}/")
            .into_bytes();
    line.extend(b"\xff\xfe\"}\n");
    tokio::io::AsyncWriteExt::write_all(&mut peer.output, &line)
        .await
        .unwrap();
    name_file(&mut peer, format!("{shown}/fits")).await;
    loop {
        match soon(turn.next()).await.unwrap().kind {
            EventKind::File(file) => break assert_eq!(file.size, LIMIT),
            EventKind::Error(_) => {}
            other => panic!("{other:?}"),
        }
    }
    peer.say("turn.complete", "s", "").await;
    assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    host.shutdown().await;
}

/// Turns a folder into a link to another.
fn swap(folder: &Path, other: &Path) {
    fs::rename(folder, folder.with_extension("kept")).unwrap();
    symlink(other, folder).unwrap();
}

#[tokio::test]
async fn a_root_that_becomes_a_link_leads_nowhere() {
    let place = Place::new();
    let mut config = place.agent();
    config.unenforced = Unenforced::Allow;
    fs::create_dir(place.root.join("out")).unwrap();
    config.file_roots = vec![place.root.join("out"), place.root.join("later")];
    let cwd = place.root.join("sub").to_string_lossy().into_owned();
    let start = SessionStart {
        cwd: Some(cwd),
        ..SessionStart::default()
    };
    let (host, session, mut turn, mut peer, start) = session(config, start).await;
    let exchange = PathBuf::from(start["exchange_dir"].as_str().unwrap());

    // Everything that a sandboxed adapter may write to: the content of its working directory, and
    // the exchange folder.
    for folder in [
        place.root.join("sub"),
        place.root.join("out"),
        exchange.clone(),
    ] {
        fs::write(folder.join("mine"), "mine").unwrap();
        name_file(&mut peer, folder.join("mine").to_str().unwrap()).await;
        assert!(
            matches!(soon(turn.next()).await.unwrap().kind, EventKind::File(_)),
            "{folder:?}"
        );
        swap(&folder, &place.outside);
    }
    symlink(&place.outside, place.root.join("later")).unwrap();
    for folder in ["sub", "out", "later"]
        .map(|name| place.root.join(name))
        .iter()
        .chain([&exchange])
    {
        for path in [folder.join("secret"), place.outside.join("secret")] {
            name_file(&mut peer, path.to_str().unwrap()).await;
            let message = refusal(soon(turn.next()).await);
            assert!(
                message.contains("link") || message.contains("outside"),
                "{path:?}: {message}"
            );
        }
    }
    // Nor does a file of the hub go where the link leads.
    let hubs = place.outside.join("hubs");
    fs::write(&hubs, "for the adapter").unwrap();
    let before = fs::read_dir(&place.outside).unwrap().count();
    soon(session.deliver_file(&hubs, None, None))
        .await
        .unwrap_err();
    assert_eq!(fs::read_dir(&place.outside).unwrap().count(), before);

    peer.say("turn.complete", "s", "").await;
    assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    session.close().await;
    drop(session);
    host.shutdown().await;
    drop((host, peer));
    assert!(place.outside.join("secret").exists());
}

#[tokio::test]
async fn a_folder_of_files_may_come_later() {
    let place = Place::new();
    let mut config = place.agent();
    let later = place.outside.join("a/b");
    config.file_roots = vec![later.clone()];
    let (host, _session, mut turn, mut peer, _) = session(config, SessionStart::default()).await;
    name_file(&mut peer, later.join("x").to_str().unwrap()).await;
    assert!(refusal(soon(turn.next()).await).contains("outside"));
    fs::create_dir_all(&later).unwrap();
    fs::write(later.join("x"), "x").unwrap();
    name_file(&mut peer, later.join("x").to_str().unwrap()).await;
    assert!(matches!(
        soon(turn.next()).await.unwrap().kind,
        EventKind::File(_)
    ));
    host.shutdown().await;
}

#[tokio::test]
async fn a_link_that_an_earlier_run_left_is_no_root_of_a_sandboxed_adapter() {
    let place = Place::new();
    symlink(&place.outside, place.root.join("out")).unwrap();
    let mut config = place.agent();
    config.file_roots = vec![place.root.join("out")];
    for sandbox in [None, Some(Sandbox::new(Backend::Bubblewrap))] {
        config.sandbox = sandbox.clone();
        let (host, _session, mut turn, mut peer, _) =
            session(config.clone(), SessionStart::default()).await;
        name_file(&mut peer, place.root.join("out/secret").to_str().unwrap()).await;
        let event = soon(turn.next()).await;
        match sandbox {
            // Without a sandbox the operator's word counts: the adapter can read it anyway.
            None => assert!(matches!(event.unwrap().kind, EventKind::File(_))),
            Some(_) => assert!(refusal(event).contains("symbolic link")),
        }
        host.shutdown().await;
    }
}

#[tokio::test]
async fn what_a_hub_hands_over_is_checked_and_nothing_hangs() {
    let place = Place::new();
    let fifo = place.fifo("fifo");
    let big = place.root.join("big");
    fs::write(&big, vec![b'x'; LIMIT as usize + 1]).unwrap();
    let (host, session, _turn, mut peer, _) = session(place.agent(), SessionStart::default()).await;
    let dev = PathBuf::from("/dev/zero");
    let with_line = place.root.join("a\nb");
    fs::write(&with_line, "x").unwrap();
    for path in [
        &fifo,
        &big,
        &dev,
        &place.root,
        &PathBuf::from("relative"),
        &place.root.join("no"),
        &with_line,
    ] {
        soon(session.deliver_file(path, None, None))
            .await
            .expect_err(&path.display().to_string());
    }
    // A name of the file system that is not text comes as a label that is.
    let odd = place
        .root
        .join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"odd\xff.txt"));
    fs::write(&odd, "odd").unwrap();
    soon(session.deliver_file(&odd, Some("../\u{202e}../x\0\n.txt".to_owned()), None))
        .await
        .unwrap();
    let announced = peer.read("file.input").await;
    let at = Path::new(announced["file_path"].as_str().unwrap());
    assert_eq!(announced["file_name"], "x.txt");
    assert_eq!(
        (
            fs::read_to_string(at).unwrap().as_str(),
            at.file_name().unwrap().to_str()
        ),
        ("odd", Some("x.txt"))
    );
    host.shutdown().await;
}

/// Answers of the host or of a person, by the file that a request names.
#[tokio::test]
async fn a_permission_is_for_where_the_links_of_its_path_lead() {
    let place = Place::new();
    let Place { root, outside, .. } = &place;
    for folder in ["specs", "secrets"] {
        fs::create_dir(root.join(folder)).unwrap();
    }
    fs::write(root.join(".env"), "").unwrap();
    for (link, to) in [
        ("specs/out", outside.to_str().unwrap()),
        ("specs/in", "../specs"),
        ("specs/nowhere", "../secrets/new"),
        ("specs/loop", "loop"),
        ("notes", "hidden"),
        ("hidden", ".env"),
        ("sub/folder", "../secrets"),
    ] {
        symlink(to, root.join(link)).unwrap();
    }
    place.fifo("specs/fifo");
    let cwd = root.with_file_name("cwd");
    symlink(root, &cwd).unwrap();
    let mut config = place.agent();
    config.permission = Policy::new(
        Unmatched::Ask,
        ["Write(specs/**)", "Read"],
        ["Read(**/.env)", "Write(secrets/**)"],
    )
    .unwrap();
    let start = SessionStart {
        cwd: Some(cwd.to_str().unwrap().to_owned()),
        ..SessionStart::default()
    };
    let (_host, _session, mut turn, mut peer, _) = session(config, start).await;
    let line = json!({ "type": "session.ready", "session_id": "s", "protocol": 1,
        "extensions": ["control", "options"], "options_applied": ["cwd"] });
    peer.write(&format!("{line}\n")).await;
    peer.read("user.input").await;

    let allowed = Some(true);
    let denied = Some(false);
    let asked = None;
    for (tool, path, expected) in [
        ("Write", "specs/new/file", allowed),
        ("Write", "specs/in/new", allowed),
        ("Write", "specs/fifo", allowed),
        ("Write", "specs/out/passwd", asked),
        ("Write", "specs/in/../out/new", asked),
        ("Write", "specs/loop", asked),
        ("Write", "specs/fifo/x", asked),
        ("Write", "specs/nowhere", denied),
        ("Write", "sub/folder/new", denied),
        ("Write", "sub/folder/../specs/x", asked),
        ("Read", "specs/new/file", allowed),
        ("Read", "notes", denied),
        ("Read", "hidden", denied),
        ("Read", "specs/loop", asked),
    ] {
        for path in [path.to_owned(), format!("{}/{path}", cwd.display())] {
            let request = json!({ "type": "permission.request", "session_id": "s", "request_id": "r",
                "tool": tool, "description": "d", "resource": path, "input": { "file_path": path } });
            peer.write(&format!("{request}\n")).await;
            if expected.is_none() {
                match soon(turn.next()).await.unwrap().kind {
                    EventKind::Permission(permission) => permission.allow(),
                    other => panic!("{tool}({path}): {other:?}"),
                }
            }
            let response = peer.read("permission.response").await;
            let approved = json!(expected.unwrap_or(true));
            assert_eq!(response["approved"], approved, "{tool}({path})");
        }
    }

    // A person may change a call, but not to what the rules deny.
    let request = json!({ "type": "permission.request", "session_id": "s", "request_id": "r",
        "tool": "Write", "description": "d", "resource": "sub/x", "input": { "file_path": "sub/x" } });
    peer.write(&format!("{request}\n")).await;
    let EventKind::Permission(permission) = soon(turn.next()).await.unwrap().kind else {
        panic!("a permission");
    };
    let id = permission.request().request_id.clone();
    let edit = |input: Value| PermissionResponse {
        updated_input: Some(Json::from_serialize(&input).unwrap()),
        ..PermissionResponse::new(id.clone(), true)
    };
    for (input, expected) in [
        (json!({ "file_path": "sub/y" }), Ok(())),
        (json!({ "file_path": "sub/folder/y" }), Err(())),
        (json!({ "file_path": "specs/loop" }), Err(())),
        (json!({ "target": "sub/y" }), Err(())),
    ] {
        let checked = permission.check_edit(&edit(input.clone())).unwrap().await;
        let pattern = EditRejected::ByPattern("Write(secrets/**)".to_owned());
        assert_eq!(checked, expected.map_err(|()| pattern), "{input}");
    }
    assert!(
        permission
            .check_edit(&edit(json!({ "file_path": "sub/x" })))
            .is_none()
    );
    permission.respond(edit(json!({ "file_path": "sub/y" })));
    let response = peer.read("permission.response").await;
    assert_eq!(response["updated_input"], json!({ "file_path": "sub/y" }));
}
