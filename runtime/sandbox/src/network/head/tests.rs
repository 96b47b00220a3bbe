use proptest::prelude::*;

use super::*;

fn plain(head: &str) -> Result<PlainRequest, HeadProblem> {
    match ProxyRequest::parse(head.as_bytes(), None)? {
        ProxyRequest::Plain(request) => Ok(request),
        ProxyRequest::Connect(target) => panic!("a tunnel to {target}"),
    }
}

#[test]
fn a_request_is_rewritten_for_its_server() {
    let head = "POST HTTP://Example.com.:8080?q=1 HTTP/1.1\r\nhost: example.com:8080\r\nA:  b \r\nProxy-Connection: keep-alive\r\n\
                Connection: keep-alive, X-Hop\r\nX-hop: 1\r\nProxy-Authorization: Basic x\r\nUpgrade: h2c\r\ncontent-length: 3\r\n\r\n";
    let request = plain(head).unwrap();
    assert_eq!(request.target.to_string(), "example.com:8080");
    assert_eq!(request.body, BodyFraming::Length(3));
    assert_eq!(
        String::from_utf8(request.rewritten).unwrap(),
        "POST /?q=1 HTTP/1.1\r\nHost: example.com:8080\r\nA: b\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn a_tunnel_names_its_port() {
    let connect = |line: &str| {
        ProxyRequest::parse(
            format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes(),
            None,
        )
    };
    let target = NetworkTarget::parse("a.test:443", None).unwrap();
    assert_eq!(
        connect("CONNECT A.test:443"),
        Ok(ProxyRequest::Connect(target))
    );
    assert_eq!(connect("CONNECT a.test"), Err(HostProblem::NoPort.into()));
    assert_eq!(
        connect("CONNECT http://a.test:443/"),
        Err(HostProblem::Brackets.into())
    );
    assert_eq!(
        connect("CONNECT allowed:443@evil:443"),
        Err(HostProblem::UserInfo.into())
    );
}

#[test]
fn what_is_ambiguous_is_refused() {
    use HeadProblem as P;
    let get = |rest: &str| plain(&format!("GET http://a.test/ HTTP/1.1\r\n{rest}\r\n"));
    let hosted = |rest: &str| get(&format!("Host: a.test\r\n{rest}"));
    assert!(hosted("").is_ok());
    for (request, problem) in [
        (get(""), P::Host),
        (get("Host: b.test\r\n"), P::Host),
        (get("Host: a.test:81\r\n"), P::Host),
        (get("Host: x@a.test\r\n"), P::Host),
        (get("Host: a.test, b.test\r\n"), P::Host),
        (get("Host:\r\n"), P::Host),
        (hosted("Host: a.test\r\n"), P::Host),
        (hosted("hOST: b.test\r\n"), P::Host),
        (
            hosted("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
            P::Framing,
        ),
        (
            hosted("Content-Length: 1\r\nContent-Length: 1\r\n"),
            P::Framing,
        ),
        (hosted("Content-Length: +1\r\n"), P::Framing),
        (hosted("Content-Length: 1, 1\r\n"), P::Framing),
        (hosted("Content-Length: \r\n"), P::Framing),
        (
            hosted("Content-Length: 99999999999999999999\r\n"),
            P::Framing,
        ),
        (hosted("Transfer-Encoding: gzip, chunked\r\n"), P::Framing),
        (hosted("Transfer-Encoding: identity\r\n"), P::Framing),
        (
            hosted("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            P::Framing,
        ),
        (hosted("Transfer-Encoding : chunked\r\n"), P::Header),
        (
            hosted("Transfer\u{b}-Encoding: chunked\r\n"),
            P::ControlCharacter,
        ),
        (hosted("A: b\r\n c\r\n"), P::Folded),
        (hosted("A: b\nContent-Length: 1\r\n"), P::ControlCharacter),
        (hosted("A: b\rContent-Length: 1\r\n"), P::ControlCharacter),
        (hosted("A: \0\r\n"), P::ControlCharacter),
        (hosted("A\r\n"), P::Header),
        (hosted(": b\r\n"), P::Header),
        (
            hosted("Upgrade: websocket\r\nConnection: Upgrade\r\n"),
            P::Upgrade,
        ),
        (plain("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), P::NoTarget),
        (
            plain("GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            P::NoTarget,
        ),
        (
            plain("GET http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            P::Framing,
        ),
        (
            plain("GET  http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            P::NotHttp,
        ),
        (
            plain("GET http://a.test/ HTTP/1.1 \r\nHost: a.test\r\n\r\n"),
            P::NotHttp,
        ),
        (
            plain("GET\thttp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            P::NotHttp,
        ),
        (
            plain("GET http://a.test/ HTTP/2.0\r\nHost: a.test\r\n\r\n"),
            P::NotHttp,
        ),
        (
            plain("G@T http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            P::NotHttp,
        ),
        (plain("\r\n\r\n"), P::NotHttp),
        (plain("PRI * HTTP/2.0\r\n\r\n"), P::NotHttp),
        (
            plain("GET http://a.test/# HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            P::Path,
        ),
        (
            plain("GET http://a.test\\@b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            P::Path,
        ),
        (
            plain("GET http://a.test/\u{e4} HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            P::Path,
        ),
        (
            plain("GET http://a.test@b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            HostProblem::UserInfo.into(),
        ),
        (
            plain("GET http:///x HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            HostProblem::Empty.into(),
        ),
        (
            plain("GET http://2130706433/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            HostProblem::Numeric.into(),
        ),
        (
            plain("GET http://%61.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            HostProblem::Character.into(),
        ),
    ] {
        assert_eq!(
            request.map(|request| request.target.to_string()),
            Err(problem),
            "{problem:?}"
        );
    }
}

#[test]
fn a_response_has_a_framing() {
    let parse = |head: &str| {
        ServerResponse::parse(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes(), false, false)
    };
    for (head, body) in [
        ("200 OK\r\nContent-Length: 5", BodyFraming::Length(5)),
        ("200 OK\r\nTransfer-Encoding: Chunked", BodyFraming::Chunked),
        ("200", BodyFraming::UntilClose),
        ("204 x\r\nContent-Length: 5", BodyFraming::Length(0)),
        ("100 Continue", BodyFraming::Length(0)),
    ] {
        assert_eq!(parse(head).unwrap().body, body, "{head}");
    }
    assert_eq!(parse("101 x"), Err(HeadProblem::Switched));
    assert_eq!(parse("20 x"), Err(HeadProblem::NotHttp));
    assert_eq!(
        parse("200 x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked"),
        Err(HeadProblem::Framing)
    );

    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nKeep-Alive: x\r\nConnection: keep-alive\r\nSet-Cookie: a\r\n\r\n";
    let response = ServerResponse::parse(head, true, false).unwrap();
    assert_eq!(response.body, BodyFraming::Length(0));
    let rewritten =
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nContent-Length: 7\r\nConnection: close\r\n\r\n";
    assert_eq!(response.rewritten.as_bstr(), rewritten.as_bstr());
}

trait AsBstr {
    fn as_bstr(&self) -> String;
}

impl<T: AsRef<[u8]> + ?Sized> AsBstr for T {
    fn as_bstr(&self) -> String {
        self.as_ref().escape_ascii().to_string()
    }
}

fn collect(bytes: &[u8], cuts: &[usize]) -> Result<Option<CompleteHead>, HeadProblem> {
    let mut buffer = HeadBuffer::default();
    let mut rest = bytes;
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            return Ok(None);
        }
        let (part, after) = rest.split_at((*cut).clamp(1, rest.len()));
        rest = after;
        if let Some(mut whole) = buffer.push(part)? {
            whole.rest.extend(rest);
            return Ok(Some(whole));
        }
    }
    Ok(None)
}

#[test]
fn a_head_is_bounded_wherever_its_end_is() {
    let head = |length: usize| [&vec![b'a'; length - 4][..], b"\r\n\r\n"].concat();
    assert!(collect(&head(MAX_HEAD), &[4096]).unwrap().is_some());
    for cuts in [&[4096][..], &[usize::MAX], &[1]] {
        assert_eq!(
            collect(&head(MAX_HEAD + 1), cuts),
            Err(HeadProblem::TooLarge)
        );
        assert_eq!(
            collect(&vec![b'a'; 64 * 1024], cuts),
            Err(HeadProblem::TooLarge)
        );
    }
}

const PARTS: [&str; 26] = [
    "GET ",
    "POST ",
    "CONNECT ",
    "http://",
    "a.test",
    "b.test",
    ":80",
    ":443",
    "/",
    "?",
    "@",
    "#",
    " HTTP/1.1",
    " HTTP/1.0",
    "\r\n",
    "\n",
    "\r",
    " ",
    "Host: a.test\r\n",
    "Content-Length: 1\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: Host\r\n",
    "X: y\r\n",
    ":",
    "\u{0}",
    "\u{ff}",
];

proptest! {
    #[test]
    fn the_split_over_reads_makes_no_difference(
        bytes in prop::collection::vec(prop::sample::select(b"ab\r\n\r\n".to_vec()), 0..80),
        cuts in prop::collection::vec(1_usize..6, 1..6),
    ) {
        prop_assert_eq!(collect(&bytes, &cuts), collect(&bytes, &[usize::MAX]));
    }

    #[test]
    fn arbitrary_heads_do_not_panic(
        parts in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 0..14),
        noise in prop::collection::vec(any::<u8>(), 0..30),
        start: bool,
    ) {
        let begin = if start { "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n" } else { "" };
        let head = [begin.as_bytes(), parts.concat().as_bytes(), &noise, b"\r\n\r\n"].concat();
        let _ = ServerResponse::parse(&head, false, false);
        // A forwarded request is parsed again as one and the same request.
        if let Ok(ProxyRequest::Plain(request)) = ProxyRequest::parse(&head, None) {
            let text = String::from_utf8_lossy(&request.rewritten).into_owned();
            prop_assert_eq!(text.matches("\r\n\r\n").count(), 1);
            let hosts = text.lines().filter(|line| line.to_ascii_lowercase().starts_with("host:")).count();
            prop_assert_eq!(hosts, 1);
            prop_assert_eq!(text.to_ascii_lowercase().matches("connection: close").count() , 1);
        }
    }
}
