//! Third-party programs through bridge and proxy, with the environment that they get in a sandbox.

use std::process::Stdio;

use tokio::process::Command;
use trunkline_process::init::bridge;
use trunkline_sandbox::network::proxy_variables;
use trunkline_testing::has_program;

use super::fixture::{ProxyFixture, SERVED, start_proxy, within};
use super::server::{Server, http, serve};
use super::tls::Identity;

/// Runs a program behind the bridge. Returns its output, and true if it succeeded.
async fn run(fixture: &ProxyFixture, program: &str, args: &[&str]) -> (String, bool) {
    let bridge = bridge::listen(0).unwrap();
    let port = bridge.port().unwrap();
    let socket = fixture.socket.clone();
    std::thread::spawn(move || bridge.run(socket));
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(proxy_variables(port))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    for kept in ["PATH", "HOME"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    let output = within(program, command.output()).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        String::from_utf8_lossy(&text).into_owned(),
        output.status.success(),
    )
}

/// Starts an HTTPS server that answers every request with `secure`.
async fn https(identity: &Identity) -> Server {
    let acceptor = identity.acceptor();
    serve(SERVED, move |stream, heads| {
        let acceptor = acceptor.clone();
        async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => return,
                }
            }
            heads
                .lock()
                .unwrap()
                .push(String::from_utf8_lossy(&head).into_owned());
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecure";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_reaches_what_is_allowed_and_nothing_else() {
    if !has_program("curl") {
        return;
    }
    let server = http().await;
    let fixture = start_proxy(&server, &["allowed.test:{}", "127.0.0.2:{}"]);
    let url = |host: &str, path: &str| format!("http://{host}:{}{path}", server.port);
    let (text, fine) = run(
        &fixture,
        "curl",
        &[
            "-sS",
            &url("allowed.test", "/a"),
            &url("allowed.test", "/b"),
        ],
    )
    .await;
    assert!(fine && text == "/a/b", "{text}");
    let body = "x".repeat(100_000);
    let (text, fine) = run(
        &fixture,
        "curl",
        &["-sS", "--data-raw", &body, &url("allowed.test", "/echo")],
    )
    .await;
    assert!(fine && text == body, "{text}");
    let chunked = [
        "-sS",
        "-H",
        "Transfer-Encoding: chunked",
        "--data-raw",
        "hello",
        &url("allowed.test", "/echo"),
    ];
    let (text, fine) = run(&fixture, "curl", &chunked).await;
    assert!(fine && text == "hello", "{text}");
    let tunnelled = [
        "-sS",
        "--proxytunnel",
        &url("allowed.test", "/t"),
        &url("allowed.test", "/u"),
    ];
    let (text, fine) = run(&fixture, "curl", &tunnelled).await;
    assert!(fine && text == "/t/u", "{text}");
    let (text, _) = run(&fixture, "curl", &["-sS", "-i", &url("other.test", "/")]).await;
    assert!(
        text.contains("403 Forbidden") && text.contains("not-listed"),
        "{text}"
    );
    let fronting = [
        "-sS",
        "-i",
        "-H",
        "Host: other.test",
        &url("allowed.test", "/"),
    ];
    let (text, _) = run(&fixture, "curl", &fronting).await;
    assert!(text.contains("host-mismatch"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_speaks_tls_through_the_tunnel() {
    if !has_program("curl") {
        return;
    }
    let identity = Identity::new();
    let server = https(&identity).await;
    let fixture = start_proxy(&server, &["allowed.test:{}", "127.0.0.2:{}"]);
    let folder = tempfile::tempdir().unwrap();
    let certificate = folder.path().join("ca.pem");
    std::fs::write(&certificate, identity.pem()).unwrap();
    let certificate = certificate.to_str().unwrap();
    let url = format!("https://allowed.test:{}/", server.port);
    let (text, fine) = run(&fixture, "curl", &["-sS", "--cacert", certificate, &url]).await;
    assert!(fine && text == "secure", "{text}");
    let (text, fine) = run(
        &fixture,
        "curl",
        &["-sS", "-k", &format!("https://other.test:{}/", server.port)],
    )
    .await;
    assert!(!fine && text.contains("403"), "{text}");
    // The tunnel names the allowed server, and TLS another one.
    let hidden = format!("other.test:{0}:allowed.test:{0}", server.port);
    let url = format!("https://other.test:{}/", server.port);
    let (text, fine) = run(
        &fixture,
        "curl",
        &["-sS", "-k", "--connect-to", &hidden, &url],
    )
    .await;
    assert!(!fine && !text.contains("secure"), "{text}");
    assert_eq!(server.heads().len(), 1);
    fixture
        .wait_for_counters("both denials", |counters| counters.denied == 2)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_reaches_both_by_its_environment_alone() {
    if !has_program("python3") {
        return;
    }
    let identity = Identity::new();
    let plain = http().await;
    let secure = https(&identity).await;
    let entries = [
        format!("allowed.test:{}", plain.port),
        format!("allowed.test:{}", secure.port),
    ];
    let fixture = start_proxy(
        &plain,
        &[
            &entries[0],
            &entries[1],
            "127.0.0.2:{}",
            &format!("127.0.0.2:{}", secure.port),
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    let certificate = folder.path().join("ca.pem");
    std::fs::write(&certificate, identity.pem()).unwrap();
    let script = format!(
        "import ssl, urllib.request, urllib.error\n\
         print(urllib.request.urlopen('http://allowed.test:{0}/python').read().decode())\n\
         trust = ssl.create_default_context(cafile={2:?})\n\
         print(urllib.request.urlopen('https://allowed.test:{1}/', context=trust).read().decode())\n\
         try:\n    urllib.request.urlopen('http://blocked.test/')\n\
         except urllib.error.HTTPError as error:\n    print(error.code, error.headers['X-Trunkline-Denied'])\n",
        plain.port, secure.port, certificate
    );
    let (text, fine) = run(&fixture, "python3", &["-c", &script]).await;
    assert!(
        fine && text == "/python\nsecure\n403 not-listed\n",
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_opens_a_tunnel_by_hand() {
    if !has_program("node") {
        return;
    }
    let identity = Identity::new();
    let server = https(&identity).await;
    let fixture = start_proxy(&server, &["allowed.test:{}", "127.0.0.2:{}"]);
    // Node supports the proxy variables since 22.21. The tunnel is the same.
    let script = format!(
        "const http = require('http'), tls = require('tls'), proxy = new URL(process.env.HTTPS_PROXY);\n\
         http.request({{host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: 'allowed.test:{0}'}})\n\
         .on('connect', (answer, socket) => {{\n\
           const secure = tls.connect({{socket, servername: 'allowed.test', ca: {1:?}}}, () =>\n\
             secure.write('GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n'));\n\
           secure.on('data', data => console.log(answer.statusCode, data.toString().split('\\r\\n\\r\\n')[1]));\n\
         }}).end();",
        server.port,
        identity.pem()
    );
    let (text, fine) = run(&fixture, "node", &["-e", &script]).await;
    assert!(fine && text.contains("200 secure"), "{text}");
}
