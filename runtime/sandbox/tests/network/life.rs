use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdStream;

use tokio::io::AsyncReadExt;
use trunkline_sandbox::network::{AllowList, Proxy, ProxyOptions};

use super::fixture::{start_proxy, within};
use super::server::echo;

fn nothing() -> AllowList {
    AllowList::default()
}

#[tokio::test]
async fn dropping_the_proxy_ends_its_connections_and_removes_the_socket() {
    let server = echo().await;
    let fixture = start_proxy(&server, &["127.0.0.2:{}"]);
    let mut tunnel = fixture.tunnel(&format!("127.0.0.2:{}", server.port)).await;
    let mut waiting = fixture.connect().await;
    fixture
        .wait_for_counters("both connections", |counters| counters.accepted == 2)
        .await;
    let socket = fixture.socket.clone();
    drop(fixture.proxy);
    assert!(!socket.exists());
    for client in [&mut tunnel, &mut waiting] {
        assert!(!matches!(
            within("the end", client.read(&mut [0])).await,
            Ok(1..)
        ));
    }
}

#[tokio::test]
async fn a_path_longer_than_a_socket_address_works_and_is_cleaned_up() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    let socket = deep.join("proxy.sock");
    let proxy = Proxy::start(&socket, nothing(), "x", ProxyOptions::default()).unwrap();
    assert!(
        fs::symlink_metadata(&socket)
            .unwrap()
            .file_type()
            .is_socket()
    );

    // The bridge connects to it as well.
    let bridge = trunkline_process::init::bridge::listen(0).unwrap();
    let port = bridge.port().unwrap();
    let path = socket.clone();
    std::thread::spawn(move || bridge.run(path));
    let mut client = tokio::net::TcpStream::connect(("127.0.0.1", port))
        .await
        .unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut client, b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let answer = super::fixture::read_all(&mut client).await;
    assert_eq!(super::fixture::reason(&answer), "not-listed");

    drop(proxy);
    assert!(fs::read_dir(&deep).unwrap().next().is_none());
}

#[tokio::test]
async fn a_file_in_place_of_the_socket_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("proxy.sock");
    let proxy = Proxy::start(&socket, nothing(), "x", ProxyOptions::default()).unwrap();
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "mine").unwrap();
    drop(proxy);
    assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
    let error = Proxy::start(&socket, nothing(), "x", ProxyOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("proxy.sock") && error.contains("in use"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
}

#[tokio::test]
async fn who_may_connect_follows_from_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, expected) in [(0o700, 0o666), (0o755, 0o600), (0o710, 0o600)] {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        let socket = folder.path().join("proxy.sock");
        let _proxy = Proxy::start(&socket, nothing(), "x", ProxyOptions::default()).unwrap();
        assert_eq!(
            fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
            expected,
            "{mode:o}"
        );
        StdStream::connect(&socket).unwrap();
    }
}

#[test]
fn without_a_runtime_starting_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(
        Proxy::start(
            folder.path().join("s"),
            nothing(),
            "x",
            ProxyOptions::default()
        )
        .is_err()
    );
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}
