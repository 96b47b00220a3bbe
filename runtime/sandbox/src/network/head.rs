//! Strict parser of the head of an HTTP/1 message. It rejects a head that two readers could
//! interpret differently.

use super::host::{HostProblem, NetworkTarget};

/// Limit of a head with its request line or status line, in bytes.
pub(crate) const MAX_HEAD: usize = 32 * 1024;

/// Limit of a method, in bytes. The registered methods have at most 17.
const MAX_METHOD: usize = 32;

/// Headers for one hop only (RFC 9110, section 7.6.1), besides the headers that `Connection` names.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "upgrade",
    "http2-settings",
];

/// A complete head with its empty line, and the bytes after it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CompleteHead {
    pub(crate) head: Vec<u8>,
    pub(crate) rest: Vec<u8>,
}

/// Headers that are not copied, because the proxy writes them itself.
const WRITTEN_ANEW: [&str; 3] = ["host", "content-length", "transfer-encoding"];

/// Collects the bytes of a head until its empty line.
#[derive(Debug, Default)]
pub(crate) struct HeadBuffer {
    bytes: Vec<u8>,
    scanned: usize,
}

impl HeadBuffer {
    /// Adds the next bytes. Returns the head when it is complete.
    ///
    /// Must not be called again after that.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Option<CompleteHead>, HeadProblem> {
        self.bytes.extend_from_slice(bytes);
        let from = self.scanned.saturating_sub(3);
        let found = self
            .bytes
            .get(from..)
            .and_then(|new| new.windows(4).position(|end| end == b"\r\n\r\n"));
        self.scanned = self.bytes.len();
        match found {
            Some(place) if from + place + 4 <= MAX_HEAD => {
                let mut head = std::mem::take(&mut self.bytes);
                let rest = head.split_off(from + place + 4);
                Ok(Some(CompleteHead { head, rest }))
            }
            None if self.bytes.len() <= MAX_HEAD => Ok(None),
            Some(_) | None => Err(HeadProblem::TooLarge),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A request of a client to the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProxyRequest {
    /// A request for a tunnel.
    Connect(NetworkTarget),
    /// A plain HTTP request to forward.
    Plain(PlainRequest),
}

/// A plain HTTP request that can be forwarded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlainRequest {
    pub(crate) target: NetworkTarget,
    /// End of the body.
    pub(crate) body: BodyFraming,
    /// True if the method is HEAD, so that the response has no body.
    pub(crate) is_head: bool,
    /// True if the client may send another request on the connection afterwards.
    pub(crate) keeps_open: bool,
    /// Head for the server: origin-form, one `Host`, no hop-by-hop headers, `Connection: close`.
    pub(crate) rewritten: Vec<u8>,
}

/// The head of a response to forward.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerResponse {
    /// True if another response follows (1xx).
    pub(crate) is_interim: bool,
    pub(crate) body: BodyFraming,
    /// True if the connection stays open for the client's next request.
    pub(crate) keeps_open: bool,
    /// Head for the client: no hop-by-hop headers, and `Connection: close` if the connection
    /// closes.
    pub(crate) rewritten: Vec<u8>,
}

/// End of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// After this number of bytes, which is 0 without a body.
    Length(u64),
    /// After its last chunk.
    Chunked,
    /// At the end of the connection. For responses only.
    UntilClose,
}

/// Error if a head is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadProblem {
    #[error("the head is longer than 32 KiB")]
    TooLarge,
    #[error("it is not an HTTP/1.0 or HTTP/1.1 message")]
    NotHttp,
    #[error("a header line is malformed")]
    Header,
    #[error("a header continues on the next line, which HTTP no longer allows")]
    Folded,
    #[error("a line ends with a single CR or LF, or has a control character")]
    ControlCharacter,
    #[error("`Host` is missing, repeated, or not the host of the request's URL")]
    Host,
    #[error("`Content-Length` and `Transfer-Encoding` are repeated, combined or malformed")]
    Framing,
    #[error("the path has a character that no URL has")]
    Path,
    #[error(
        "this is a proxy: a request names its whole URL, `http://…`, or asks for a tunnel by CONNECT"
    )]
    NoTarget,
    #[error("a request for another protocol than HTTP is not a request for a proxy; use CONNECT")]
    Upgrade,
    #[error("the request's target: {0}")]
    Target(#[from] HostProblem),
    /// The proxy allows WebSockets in tunnels only, because a tunnel needs no switch of protocols.
    #[error("the server switched protocols")]
    Switched,
}

struct Header<'a> {
    name: &'a str,
    value: &'a [u8],
}

impl Header<'_> {
    fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Returns the value as text, or `None` if it is not ASCII.
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.value)
            .ok()
            .filter(|text| text.is_ascii())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "HTTP/1.0" => Some(Self::Http10),
            "HTTP/1.1" => Some(Self::Http11),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

impl ProxyRequest {
    /// Parses a complete head with its empty line. In a tunnel, only a plain request in origin-form
    /// for the tunnel's target is accepted.
    pub(crate) fn parse(head: &[u8], tunnel: Option<&NetworkTarget>) -> Result<Self, HeadProblem> {
        let (line, headers) = split_head(head)?;
        let line = std::str::from_utf8(line).map_err(|_| HeadProblem::NotHttp)?;
        let mut words = line.split(' ');
        let (Some(method), Some(url), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(HeadProblem::NotHttp);
        };
        let version = Version::parse(version).ok_or(HeadProblem::NotHttp)?;
        if !is_token(method) || method.len() > MAX_METHOD {
            return Err(HeadProblem::NotHttp);
        }
        let host = single_header(&headers, "host").map_err(|Repeated| HeadProblem::Host)?;
        let body = parse_framing(&headers, version)?.unwrap_or(BodyFraming::Length(0));
        if method == "CONNECT" && tunnel.is_none() {
            return match body {
                BodyFraming::Length(0) => Ok(Self::Connect(NetworkTarget::parse(url, None)?)),
                BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::UntilClose => {
                    Err(HeadProblem::Framing)
                }
            };
        }
        let (target, path) = match tunnel {
            None => split_url(method, url)?,
            Some(target) => (target.clone(), check_origin_form(method, url)?.to_owned()),
        };
        match host.map(|host| host.text().map(|text| NetworkTarget::parse(text, Some(80)))) {
            Some(Some(Ok(host))) if host == target => {}
            None if version == Version::Http10 => {}
            Some(_) | None => return Err(HeadProblem::Host),
        }
        // Java clients offer HTTP/2 (`h2c`), and continue with HTTP/1 if the server ignores the
        // offer.
        let asks_for_more = |header: &Header<'_>| {
            header.is_named("upgrade") && !header.value.eq_ignore_ascii_case(b"h2c")
        };
        if headers.iter().any(asks_for_more) {
            return Err(HeadProblem::Upgrade);
        }
        let mut rewritten = format!(
            "{method} {path} {}\r\nHost: {}",
            version.text(),
            target.host
        )
        .into_bytes();
        if target.port != 80 {
            rewritten.extend(format!(":{}", target.port).bytes());
        }
        rewritten.extend(b"\r\n");
        write_headers(&mut rewritten, &headers, body, false);
        Ok(Self::Plain(PlainRequest {
            keeps_open: version == Version::Http11 && !asks_to_close(&headers),
            target,
            body,
            is_head: method == "HEAD",
            rewritten,
        }))
    }
}

/// Returns the target of a rejected head, for the report.
pub(crate) fn parse_reported_target(head: &[u8]) -> Option<NetworkTarget> {
    let line = Lines(Some(head))
        .next()
        .and_then(|line| std::str::from_utf8(line).ok())?;
    let mut words = line.split(' ');
    let method = words.next()?;
    let url = words.next()?;
    if method == "CONNECT" {
        NetworkTarget::parse(url, None).ok()
    } else {
        split_url(method, url).ok().map(|(target, _)| target)
    }
}

impl ServerResponse {
    /// Parses a complete head. `to_head` is true for the response to a HEAD request,
    /// `may_keep_open` if the connection can serve another request.
    pub(crate) fn parse(
        head: &[u8],
        to_head: bool,
        may_keep_open: bool,
    ) -> Result<Self, HeadProblem> {
        let (line, headers) = split_head(head)?;
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let mut word = || words.next().and_then(|word| std::str::from_utf8(word).ok());
        let version = word().and_then(Version::parse);
        let digits =
            word().filter(|status| status.len() == 3 && status.bytes().all(|b| b.is_ascii_digit()));
        let (Some(version), Some(Ok(status))) = (version, digits.map(str::parse::<u16>)) else {
            return Err(HeadProblem::NotHttp);
        };
        if status == 101 {
            return Err(HeadProblem::Switched);
        }
        let is_interim = (100..200).contains(&status);
        let framed = parse_framing(&headers, Version::Http11)?;
        let body = if to_head || is_interim || status == 204 || status == 304 {
            BodyFraming::Length(0)
        } else {
            framed.unwrap_or(BodyFraming::UntilClose)
        };
        let has_end = body != BodyFraming::UntilClose;
        let keeps_open = may_keep_open && has_end && version == Version::Http11;
        let mut rewritten = [line, b"\r\n"].concat();
        let framing = framed.unwrap_or(body);
        write_headers(&mut rewritten, &headers, framing, keeps_open);
        Ok(Self {
            is_interim,
            keeps_open,
            body,
            rewritten,
        })
    }
}

/// Splits a head into its first line and its headers.
///
/// Does not use `httparse`, for two reasons. It accepts a single LF as the end of a line and skips
/// empty lines before the first, which a server may interpret differently. Its errors do not
/// distinguish a folded header from a control character.
fn split_head(head: &[u8]) -> Result<(&[u8], Vec<Header<'_>>), HeadProblem> {
    let head = head.strip_suffix(b"\r\n\r\n").ok_or(HeadProblem::NotHttp)?;
    let mut lines = Lines(Some(head));
    let first = lines.next().unwrap_or_default();
    let mut headers = Vec::new();
    if has_control(first) {
        return Err(HeadProblem::ControlCharacter);
    }
    for line in lines {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(HeadProblem::Folded);
        }
        if has_control(line) {
            return Err(HeadProblem::ControlCharacter);
        }
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .ok_or(HeadProblem::Header)?;
        let (name, value) = line.split_at(colon);
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| is_token(name))
            .ok_or(HeadProblem::Header)?;
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        headers.push(Header { name, value });
    }
    Ok((first, headers))
}

/// Iterator of the lines between CR LF.
struct Lines<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let end = rest.windows(2).position(|pair| pair == b"\r\n");
        self.0 = end.and_then(|end| rest.get(end + 2..));
        Some(end.and_then(|end| rest.get(..end)).unwrap_or(rest))
    }
}

fn has_control(line: &[u8]) -> bool {
    line.iter()
        .any(|byte| byte.is_ascii_control() && *byte != b'\t')
}

/// Returns true for a token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Checks that a request's target is in origin-form, or the `*` of OPTIONS.
fn check_origin_form<'a>(method: &str, path: &'a str) -> Result<&'a str, HeadProblem> {
    if method == "CONNECT" || !(path.starts_with('/') || path == "*" && method == "OPTIONS") {
        return Err(HeadProblem::NoTarget);
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) || path.contains(['#', '\\']) {
        return Err(HeadProblem::Path);
    }
    Ok(path)
}

/// Splits `http://host[:port]/path?query` into its target and the origin-form.
fn split_url(method: &str, url: &str) -> Result<(NetworkTarget, String), HeadProblem> {
    const SCHEME: &str = "http://";
    let scheme = url
        .get(..SCHEME.len())
        .filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
    let rest = scheme
        .and_then(|scheme| url.get(scheme.len()..))
        .ok_or(HeadProblem::NoTarget)?;
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['#', '\\']) {
        return Err(HeadProblem::Path);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let target = NetworkTarget::parse(authority, Some(80))?;
    let path = match path {
        "" if method == "OPTIONS" => "*".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        query => format!("/{query}"),
    };
    Ok((target, path))
}

struct Repeated;

/// Returns the header of that name, which must not be repeated.
fn single_header<'a, 'b>(
    headers: &'a [Header<'b>],
    name: &str,
) -> Result<Option<&'a Header<'b>>, Repeated> {
    let mut found = headers.iter().filter(|header| header.is_named(name));
    match (found.next(), found.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(Repeated),
    }
}

/// Returns the end of the body according to the headers: one of the two headers, once, in its plain
/// form.
fn parse_framing(
    headers: &[Header<'_>],
    version: Version,
) -> Result<Option<BodyFraming>, HeadProblem> {
    let wrong = |Repeated| HeadProblem::Framing;
    let length = single_header(headers, "content-length").map_err(wrong)?;
    let encoding = single_header(headers, "transfer-encoding").map_err(wrong)?;
    match (length, encoding) {
        (None, None) => Ok(None),
        (Some(length), None) => {
            let digits = length
                .text()
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            digits
                .and_then(|text| text.parse().ok())
                .map(|length| Some(BodyFraming::Length(length)))
                .ok_or(HeadProblem::Framing)
        }
        (None, Some(encoding))
            if version == Version::Http11 && encoding.value.eq_ignore_ascii_case(b"chunked") =>
        {
            Ok(Some(BodyFraming::Chunked))
        }
        (_, Some(_)) => Err(HeadProblem::Framing),
    }
}

/// Returns the members of the `Connection` headers, or of another list header.
fn list_members<'a>(
    headers: &'a [Header<'_>],
    name: &'static str,
) -> impl Iterator<Item = &'a str> {
    headers
        .iter()
        .filter(move |header| header.is_named(name))
        .filter_map(Header::text)
        .flat_map(|value| value.split(',').map(str::trim))
}

fn asks_to_close(headers: &[Header<'_>]) -> bool {
    list_members(headers, "connection")
        .chain(list_members(headers, "proxy-connection"))
        .any(|member| member.eq_ignore_ascii_case("close"))
}

/// Writes the end-to-end headers, the framing as it was parsed, and the end of the head.
fn write_headers(
    head: &mut Vec<u8>,
    headers: &[Header<'_>],
    framing: BodyFraming,
    keeps_open: bool,
) {
    let named = list_members(headers, "connection");
    let dropped: Vec<&str> = HOP_BY_HOP
        .into_iter()
        .chain(WRITTEN_ANEW)
        .chain(named)
        .collect();
    for header in headers {
        let name = header.name;
        if dropped.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            continue;
        }
        head.extend(name.bytes());
        head.extend(b": ");
        head.extend(header.value);
        head.extend(b"\r\n");
    }
    match framing {
        BodyFraming::Length(length)
            if length > 0
                || headers
                    .iter()
                    .any(|header| header.is_named("content-length")) =>
        {
            head.extend(format!("Content-Length: {length}\r\n").bytes());
        }
        BodyFraming::Chunked => head.extend(b"Transfer-Encoding: chunked\r\n"),
        BodyFraming::Length(_) | BodyFraming::UntilClose => {}
    }
    if !keeps_open {
        head.extend(b"Connection: close\r\n");
    }
    head.extend(b"\r\n");
}

#[cfg(test)]
mod tests;
