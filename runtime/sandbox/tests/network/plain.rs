use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::fixture::{USUAL, read_all, reason, start_proxy, within};
use super::server::{echo, http};

#[tokio::test]
async fn an_allowed_request_is_passed_on_in_origin_form() {
    let server = http().await;
    let fixture = start_proxy(&server, &USUAL);
    let port = server.port;
    let answer = fixture
        .ask(format!(
            "GET http://ALLOWED.test.:{port}/path?q=1 HTTP/1.1\r\nHost: allowed.test:{port}\r\nProxy-Connection: Keep-Alive\r\nX: y\r\n\r\n"
        ))
        .await;
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n/path?q=1"
    );
    let seen = format!(
        "GET /path?q=1 HTTP/1.1\r\nHost: allowed.test:{port}\r\nX: y\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(server.heads(), [seen]);
    let counters = fixture.proxy.counters();
    assert_eq!((counters.allowed, counters.denied), (1, 0));
}

#[tokio::test]
async fn bodies_pass_both_ways_in_every_framing() {
    let server = http().await;
    let fixture = start_proxy(&server, &USUAL);
    let head = |method: &str, path: &str, more: &str| {
        format!(
            "{method} http://allowed.test:{0}{path} HTTP/1.1\r\nHost: allowed.test:{0}\r\n{more}\r\n",
            server.port
        )
    };
    let body = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.to_owned();

    let big = "0123456789abcdef".repeat(64 * 1024);
    let answer = fixture
        .ask(
            head(
                "POST",
                "/echo",
                &format!("Content-Length: {}\r\n", big.len()),
            ) + &big,
        )
        .await;
    assert!(body(&answer) == big, "{}", answer.len());

    let mut chunked = head("POST", "/echo", "Transfer-Encoding: chunked\r\n");
    for part in big.as_bytes().chunks(70_000) {
        chunked += &format!(
            "{:X};ext=1\r\n{}\r\n",
            part.len(),
            std::str::from_utf8(part).unwrap()
        );
    }
    let answer = fixture.ask(chunked + "0\r\nTrailer: x\r\n\r\n").await;
    assert!(body(&answer) == big, "{}", answer.len());

    assert_eq!(
        body(&fixture.ask(head("GET", "/big", "")).await).len(),
        1024 * 1024
    );
    assert_eq!(
        body(&fixture.ask(head("GET", "/chunked", "")).await),
        "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    );
    assert_eq!(
        body(&fixture.ask(head("GET", "/endless", "")).await),
        "to the end"
    );
    let answer = fixture
        .ask(head("POST", "/early", "Content-Length: 3000000\r\n") + &"x".repeat(3_000_000))
        .await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");

    let expecting = head(
        "POST",
        "/echo",
        "Expect: 100-continue\r\nContent-Length: 2\r\n",
    );
    let mut client = fixture.connect().await;
    client.write_all(expecting.as_bytes()).await.unwrap();
    let mut answer = [0; 21];
    within("100 Continue", client.read_exact(&mut answer))
        .await
        .unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue");
    client.write_all(b"hi").await.unwrap();
    assert!(read_all(&mut client).await.ends_with("\r\n\r\nhi"));
}

#[tokio::test]
async fn a_client_that_closes_its_half_gets_the_answer() {
    let server = http().await;
    let fixture = start_proxy(&server, &USUAL);
    let mut client = fixture.connect().await;
    let request = format!(
        "GET http://allowed.test:{0}/x HTTP/1.1\r\nHost: allowed.test:{0}\r\n\r\n",
        server.port
    );
    client.write_all(request.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    assert!(read_all(&mut client).await.ends_with("\r\n\r\n/x"));
}

/// Several requests of one connection, sent at once and in single bytes.
#[tokio::test]
async fn each_request_of_a_connection_is_judged() {
    let server = http().await;
    let fixture = start_proxy(&server, &USUAL);
    let to = format!("allowed.test:{}", server.port);
    for (is_tunnel, prefix) in [(false, format!("http://{to}")), (true, String::new())] {
        let request = |path: &str, headers: &str, body: &str| {
            format!("POST {prefix}{path} HTTP/1.1\r\nHost: {to}\r\n{headers}\r\n{body}")
        };
        let length = |path: &str| request(path, "Content-Length: 2\r\n", "ok");
        let chunks = |path: &str| {
            request(
                path,
                "Transfer-Encoding: chunked\r\n",
                "2\r\nok\r\n0\r\n\r\n",
            )
        };
        let good = length("/one") + &chunks("/chunked") + &length("/echo") + &length("/big");
        let close = request("/last", "Content-Length: 2\r\nConnection: close\r\n", "ok");
        let other = format!("GET {prefix}/secret HTTP/1.1\r\nHost: other.test\r\n\r\n");
        let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
        for (last, served, refusal) in [
            (String::new(), 4, None),
            (close.clone() + &length("/after"), 5, None),
            (other.clone(), 4, Some("host-mismatch")),
            (
                request("/", "Upgrade: websocket\r\n", ""),
                4,
                Some("upgrade"),
            ),
            (request("/", both, "0\r\n\r\n"), 4, Some("ambiguous-body")),
            (
                request("/", "Content-Length: 1, 1\r\n", "x"),
                4,
                Some("ambiguous-body"),
            ),
            ("0\r\n\r\n".to_owned(), 4, Some("malformed-head")),
            // The body of the first request contains text that looks like another request.
            (
                request(
                    "/x",
                    &format!("Content-Length: {}\r\n", other.len()),
                    &other,
                ),
                5,
                None,
            ),
        ] {
            for dribbles in [false, true] {
                let before = server.heads().len();
                let mut client = if is_tunnel {
                    fixture.tunnel(&to).await
                } else {
                    fixture.connect().await
                };
                let all = good.clone() + &last;
                if dribbles {
                    for byte in all.as_bytes().chunks(7) {
                        // The proxy may have closed the connection.
                        let _ = client.write_all(byte).await;
                        tokio::task::yield_now().await;
                    }
                } else {
                    let _ = client.write_all(all.as_bytes()).await;
                }
                let _ = client.shutdown().await;
                let answer = read_all(&mut client).await;
                assert_eq!(
                    answer.matches("HTTP/1.1 200 OK").count(),
                    served,
                    "{last}: {answer:.900}"
                );
                let heads = server.heads().split_off(before);
                assert_eq!(heads.len(), served, "{last}");
                assert!(
                    heads
                        .iter()
                        .all(|head| head.contains(&format!("Host: {to}\r\n")))
                );
                assert!(
                    !heads
                        .iter()
                        .any(|head| head.contains("secret") || head.contains("after"))
                );
                let refused = answer
                    .contains("X-Trunkline-Denied")
                    .then(|| reason(&answer));
                assert_eq!(refused, refusal, "{last}");
            }
        }
    }
}

#[tokio::test]
async fn a_connection_closes_after_a_body_without_an_end_or_an_early_response() {
    let server = http().await;
    let fixture = start_proxy(&server, &USUAL);
    let to = format!("allowed.test:{}", server.port);
    let request = |path: &str, headers: &str| {
        format!("GET http://{to}{path} HTTP/1.1\r\nHost: {to}\r\n{headers}\r\n")
    };
    for first in [
        request("/endless", ""),
        request("/early", "Content-Length: 3000000\r\n") + "x",
    ] {
        let mut client = fixture.connect().await;
        client
            .write_all((first.clone() + &request("/second", "")).as_bytes())
            .await
            .unwrap();
        let answer = read_all(&mut client).await;
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{first}: {answer}");
    }
    assert!(server.heads().iter().all(|head| !head.contains("second")));
}

#[tokio::test]
async fn a_port_of_the_daemon_needs_an_entry_that_names_it() {
    let server = http().await;
    trunkline_sandbox::network::guard_port(server.port);
    let to = |host: &str| format!("{host}:{}", server.port);
    let get = |to: &str| format!("GET http://{to}/own HTTP/1.1\r\nHost: {to}\r\n\r\n");
    let around = start_proxy(&server, &["allowed.test:{}", "127.0.0.0/8:{}"]);
    for host in ["127.0.0.2", "allowed.test"] {
        let answer = around.ask(get(&to(host))).await;
        assert_eq!(reason(&answer), "own-port", "{answer}");
        let entry = format!("add \"127.0.0.2:{}\"", server.port);
        assert!(answer.contains(&entry), "{answer}");
        let tunnel = format!("CONNECT {} HTTP/1.1\r\n\r\n", to(host));
        assert_eq!(reason(&around.ask(tunnel).await), "own-port");
    }
    assert!(server.heads().is_empty());
    let named = start_proxy(&server, &USUAL);
    assert!(named.ask(get(&to("allowed.test"))).await.ends_with("/own"));
}

#[tokio::test]
async fn what_is_not_allowed_or_not_plain_is_refused() {
    let server = echo().await;
    let fixture = start_proxy(
        &server,
        &[
            "allowed.test:{}",
            "127.0.0.2:{}",
            "localhost:1",
            "10.0.0.0/8",
        ],
    );
    let port = server.port;
    let allowed = format!("Host: allowed.test:{port}\r\n");
    let get = |url: String, headers: &str| format!("GET {url} HTTP/1.1\r\n{headers}\r\n");
    let own = |host: &str| get(format!("http://{host}/"), &format!("Host: {host}\r\n"));
    let usual = |headers: &str| {
        get(
            format!("http://allowed.test:{port}/"),
            &format!("{allowed}{headers}"),
        )
    };
    for (request, expected) in [
        (own(&format!("other.test:{port}")), "not-listed"),
        (own("allowed.test"), "not-listed"),
        (own("allowed.test:1"), "not-listed"),
        (own(&format!("sub.allowed.test:{port}")), "not-listed"),
        (own(&format!("127.0.0.1:{port}")), "not-listed"),
        (own(&format!("[::1]:{port}")), "not-listed"),
        (own(&format!("[::ffff:127.0.0.1]:{port}")), "not-listed"),
        (own("1.1.1.1"), "not-listed"),
        (own("169.254.169.254"), "not-listed"),
        (own("localhost"), "not-listed"),
        (own("2130706434"), "bad-target"),
        (own("0x7f.0.0.2"), "bad-target"),
        (own("0177.0.0.2"), "bad-target"),
        (own("127.2"), "bad-target"),
        (own("allowed%2etest"), "bad-target"),
        (own(&format!("allowed.test..:{port}")), "bad-target"),
        (
            get(format!("http://allowed.test:{port}@evil.test/"), &allowed),
            "bad-target",
        ),
        (
            get(format!("http://evil.test@allowed.test:{port}/"), &allowed),
            "bad-target",
        ),
        (
            get(format!("http://allowed.test:{port}\\@evil.test/"), &allowed),
            "malformed-head",
        ),
        (
            get(format!("https://allowed.test:{port}/"), &allowed),
            "no-target",
        ),
        (get("/".to_owned(), &allowed), "no-target"),
        (get("*".to_owned(), &allowed), "no-target"),
        (
            get(
                format!("http://allowed.test:{port}/"),
                "Host: other.test\r\n",
            ),
            "host-mismatch",
        ),
        (
            get(
                format!("http://allowed.test:{port}/"),
                "Host: allowed.test\r\n",
            ),
            "host-mismatch",
        ),
        (
            get(format!("http://allowed.test:{port}/"), ""),
            "host-mismatch",
        ),
        (usual("Host: other.test\r\n"), "host-mismatch"),
        (usual(&allowed), "host-mismatch"),
        (
            usual("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
            "ambiguous-body",
        ),
        (
            usual("Content-Length: 1\r\nContent-Length: 2\r\n"),
            "ambiguous-body",
        ),
        (
            usual("Transfer-Encoding: chunked, chunked\r\n"),
            "ambiguous-body",
        ),
        (
            usual("Transfer-Encoding: chunked\r\n") + "1\nx\r\n0\r\n\r\n",
            "ambiguous-body",
        ),
        (usual("X: y\r\n folded\r\n"), "malformed-head"),
        (usual("X: y\nHost: other.test\r\n"), "malformed-head"),
        (usual("X: y\rHost: other.test\r\n"), "malformed-head"),
        (usual("X : y\r\n"), "malformed-head"),
        (
            usual("Upgrade: websocket\r\nConnection: upgrade\r\n"),
            "upgrade",
        ),
        (
            "CONNECT allowed.test HTTP/1.1\r\n\r\n".to_owned(),
            "bad-target",
        ),
        ("PRI * HTTP/2.0\r\n\r\n".to_owned(), "malformed-head"),
        ("\u{16}\u{3}\u{1}\r\n\r\n".to_owned(), "malformed-head"),
        (
            format!("GET /{} HTTP/1.1\r\n", "x".repeat(64 * 1024)),
            "head-too-large",
        ),
    ] {
        let before = fixture.proxy.counters().denied;
        let answer = fixture.ask(&request).await;
        let shown = &request[..request.len().min(200)];
        assert_eq!(reason(&answer), expected, "{shown}: {answer}");
        assert_eq!(fixture.proxy.counters().denied, before + 1, "{shown}");
    }
    // Only the request with the malformed body led to a connection.
    assert!(server.heads().len() <= 1, "{:?}", server.heads());
    assert_eq!(fixture.proxy.counters().failed, 0);
}

#[tokio::test]
async fn a_refusal_names_the_target_and_what_to_add() {
    let server = echo().await;
    let fixture = start_proxy(&server, &[]);
    let answer = fixture
        .ask("GET http://blocked.test:8080/secret HTTP/1.1\r\nHost: blocked.test:8080\r\n\r\n")
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 403 Forbidden\r\nX-Trunkline-Denied: not-listed\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains("blocked blocked.test:8080: ")
            && answer.contains("add \"blocked.test:8080\""),
        "{answer}"
    );
    assert!(!answer.contains("secret"));
}

#[tokio::test]
async fn localhost_is_reached_by_that_name_alone() {
    let server = super::server::serve("127.0.0.1", |mut stream, _| async move {
        let _ = stream.read(&mut [0; 1000]).await;
        let _ = stream.write_all(b"HTTP/1.1 204 No\r\n\r\n").await;
    })
    .await;
    let fixture = start_proxy(&server, &["localhost:{}"]);
    let get = |host: &str| {
        format!(
            "GET http://{host}:{0}/ HTTP/1.1\r\nHost: {host}:{0}\r\n\r\n",
            server.port
        )
    };
    assert!(
        fixture
            .ask(get("localhost"))
            .await
            .starts_with("HTTP/1.1 204 No")
    );
    assert_eq!(reason(&fixture.ask(get("127.0.0.1")).await), "not-listed");
    assert!(fixture.names.requested().is_empty());
}

#[tokio::test]
async fn an_invalid_response_is_reported() {
    for nonsense in [
        &b"SSH-2.0-OpenSSH\r\n\r\n"[..],
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"",
    ] {
        let server = super::server::serve("127.0.0.2", move |mut stream, _| async move {
            let _ = stream.read(&mut [0; 1000]).await;
            let _ = stream.write_all(nonsense).await;
        })
        .await;
        let fixture = start_proxy(&server, &USUAL);
        let answer = fixture
            .ask(format!(
                "GET http://allowed.test:{0}/ HTTP/1.1\r\nHost: allowed.test:{0}\r\n\r\n",
                server.port
            ))
            .await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        fixture
            .wait_for_counters("a failure", |counters| {
                counters.failed == 1 && counters.denied == 0
            })
            .await;
    }
}
