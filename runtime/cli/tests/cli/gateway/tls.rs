//! Listening for other machines: by TLS, or without it where that is wanted.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Command,
};

use serde_json::{Value, json};
use trunkline_testing::has_program;

use super::{super::Home, Daemon, SILENT};

/// Makes a certificate for names, and its key, as an operator does.
fn certificate(home: &Home, file: &str, names: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=trunkline",
            "-addext",
            &format!("subjectAltName={names}"),
        ])
        .args([
            "-out",
            &format!("{file}.pem"),
            "-keyout",
            &format!("{file}.key"),
        ])
        .current_dir(home.path())
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

/// What curl gets: a status, 0 where it does not agree, and the body.
fn curl(home: &Home, arguments: &[&str]) -> (u16, String) {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "60", "-w", "\n%{http_code}"])
        .args(arguments)
        .current_dir(home.path());
    let said = String::from_utf8(curl.output().unwrap().stdout).unwrap();
    let (body, status) = said.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

fn up<'a>(home: &'a Home, more: &[&str]) -> (Daemon<'a>, String) {
    let arguments = [
        "up",
        "--state",
        "state",
        "--http",
        "127.0.0.1:0",
        "--listen",
        "127.0.0.1:0",
        "--json",
    ];
    let (daemon, told) = Daemon::told(home, &mut home.command(arguments.iter().chain(more)));
    let listen = told["listen"].as_str().unwrap().to_owned();
    (daemon, listen)
}

#[test]
fn others_come_in_by_tls_under_the_names_of_the_certificate() {
    if !has_program("openssl") || !has_program("curl") {
        return;
    }
    let home = Home::new();
    certificate(&home, "host", "DNS:agents.test,IP:127.0.0.1");
    certificate(&home, "other", "DNS:other.test,IP:127.0.0.1");
    let tls = [
        "--tls-cert",
        "host.pem",
        "--tls-key",
        "host.key",
        "--host-name",
        "also.test",
    ];
    let (daemon, listen) = up(&home, &tls);
    let client = daemon.token(&["control"]);
    let header = format!("Authorization: Bearer {}", client.token.as_ref().unwrap());
    let me = format!("{listen}/v1/me");
    let ask = |ca: &str, host: &str| {
        curl(
            &home,
            &[
                "--cacert",
                ca,
                "-H",
                &header,
                "-H",
                &format!("Host: {host}"),
                &me,
            ],
        )
    };
    let (status, body) = ask("host.pem", "agents.test");
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap()["scope"],
        "control"
    );
    for (host, status) in [
        ("agents.test:443", 200),
        ("127.0.0.1", 200),
        ("also.test:8443", 200),
        ("evil.test", 421),
        ("localhost", 421),
    ] {
        assert_eq!(ask("host.pem", host).0, status, "{host}");
    }
    assert_eq!(
        ask("other.pem", "agents.test").0,
        0,
        "another's certificate is not trusted"
    );
    // A page of the daemon's own comes by https.
    for (origin, status) in [
        ("https://agents.test", 200),
        ("http://agents.test", 403),
        ("https://evil.test", 403),
    ] {
        let origin = format!("Origin: {origin}");
        let asked = curl(
            &home,
            &["--cacert", "host.pem", "-H", &header, "-H", &origin, &me],
        );
        assert_eq!(asked.0, status, "{origin}");
    }
    // No token, and no TLS.
    assert_eq!(curl(&home, &["--cacert", "host.pem", &me]).0, 401);
    let mut plain = TcpStream::connect(listen.strip_prefix("https://").unwrap()).unwrap();
    plain.set_read_timeout(Some(SILENT)).unwrap();
    plain
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: agents.test\r\n\r\n")
        .unwrap();
    let mut heard = Vec::new();
    // It may be cut.
    let _ = plain.read_to_end(&mut heard);
    assert!(!heard.starts_with(b"HTTP"), "{heard:?}");
    // The pipe goes through it as well.
    let pipe = format!("{listen}/v1/pipe");
    let upgrade = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
    ];
    let mut curl_pipe = Command::new("curl");
    curl_pipe.args([
        "-sS",
        "-i",
        "-N",
        "--http1.1",
        "--cacert",
        "host.pem",
        "-H",
        &header,
    ]);
    curl_pipe.args(upgrade.into_iter().flat_map(|header| ["-H", header]));
    curl_pipe
        .args(["-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", &pipe])
        .current_dir(home.path());
    let mut piped = curl_pipe
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(piped.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("HTTP/1.1 101"), "{line}");
    piped.kill().unwrap();
    piped.wait().unwrap();
    // On the loopback all is as it was.
    assert_eq!(client.get("/v1/me").must_be(200).json()["scope"], "control");

    // A certificate that changes is read again; one that is wrong changes nothing.
    std::fs::rename(home.path().join("other.pem"), home.path().join("host.pem")).unwrap();
    home.run(["daemon", "reload", "--state", "state"])
        .must_end_with(1)
        .must_say("cannot be used together");
    std::fs::rename(home.path().join("other.key"), home.path().join("host.key")).unwrap();
    home.run(["daemon", "reload", "--state", "state"])
        .must_end_with(0);
    assert_eq!(ask("host.pem", "other.test").0, 200);
    assert_eq!(ask("host.pem", "agents.test").0, 421);
    daemon.down();
}

#[test]
fn a_daemon_lets_no_one_in_without_tls_unless_that_is_said() {
    let home = Home::new();
    home.file("a.pem", "no certificate");
    home.file("a.key", "no key");
    let start = |more: &[&str]| {
        home.run(
            ["up", "--state", "state", "--http", "127.0.0.1:0"]
                .iter()
                .chain(more),
        )
    };
    start(&["--listen", "127.0.0.1:0"])
        .must_end_with(2)
        .must_say("has no TLS");
    start(&["--listen", "0.0.0.0:0", "--insecure"])
        .must_end_with(2)
        .must_say("--host-name");
    start(&["--listen", "0.0.0.0:0", "--tls-cert", "a.pem"])
        .must_end_with(2)
        .must_say("--tls-key");
    let both = [
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        "a.pem",
        "--tls-key",
        "a.key",
    ];
    start(&both)
        .must_end_with(2)
        .must_say("has no certificate in PEM");
    start(&["--http", "0.0.0.0:0"]).must_end_with(2);

    let (mut daemon, listen) = up(&home, &["--insecure", "--host-name", "agents.test"]);
    let mut warned = String::new();
    BufReader::new(daemon.child.stderr.take().unwrap())
        .read_line(&mut warned)
        .unwrap();
    assert!(warned.contains("has no TLS"), "{warned}");
    let mut client = daemon.token(&["control"]);
    client.http = listen.strip_prefix("http://").unwrap().to_owned();
    for (host, status) in [
        (&*client.http, 200),
        ("agents.test", 200),
        ("127.0.0.1", 200),
        ("evil.test", 421),
    ] {
        client
            .ask_with("GET", "/v1/me", &[("Host", host)], "")
            .must_be(status);
    }
    let id = client.post("/v1/sessions", &json!({})).must_be(201).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(client.turn(&id, "from afar")["text"], "from afar");
    daemon.down();
}
