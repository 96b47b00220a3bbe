//! Paired browsers: who pairs them, how they sign in, and what ends them.

use std::{
    io::{BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::Duration,
};

use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};

use super::{
    super::{Home, terminal::Person},
    Answer, Client, Daemon, head,
};

/// Sends a request over the daemon's socket. Returns the status and the answer.
pub(super) fn ask(home: &Home, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let socket = home.path().join("state/journal/host.sock");
    let mut stream = UnixStream::connect(socket).unwrap();
    let body = body.to_string();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Returns the page that a code of `trunkline open` gives, and the code in it.
pub(super) fn open(home: &Home, daemon: &Daemon<'_>) -> (Answer, String) {
    let opened = home.run(["open", "--state", "state", "--print"]);
    let file = std::fs::read_to_string(opened.must_end_with(0).stdout.trim()).unwrap();
    let code = between(&file, "value=\"");
    let page = send_form(daemon, &code).must_be(200);
    let code = between(&page.body, "name=\"trunkline-code\" content=\"");
    (page, code)
}

pub(super) fn send_form(daemon: &Daemon<'_>, code: &str) -> Answer {
    let form = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Origin", "null"),
    ];
    daemon
        .stranger()
        .ask_with("POST", "/open", &form, &format!("code={code}"))
}

fn between(text: &str, start: &str) -> String {
    let rest = text.split_once(start).unwrap().1;
    rest.split_once('"').unwrap().0.to_owned()
}

/// A browser with its key.
pub(super) struct Browser {
    key: EcdsaKeyPair,
    id: String,
    http: String,
}

impl Browser {
    /// Pairs by a code, or by the token of a client.
    fn try_pair(client: &Client, code: Option<&str>) -> Result<Self, Answer> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        let mut wanted =
            json!({ "name": "Chrome on Android", "key": hex(key.public_key().as_ref()) });
        if let Some(code) = code {
            wanted["code"] = json!(code);
        }
        let origin = format!("http://{}", client.http);
        let headers = [("Origin", &*origin)];
        let paired = client.ask_with("POST", "/v1/browsers", &headers, &wanted.to_string());
        if paired.status != 201 {
            return Err(paired);
        }
        let id = paired.json()["id"].as_str().unwrap().to_owned();
        let http = client.http.clone();
        Ok(Self { key, id, http })
    }

    pub(super) fn pair(daemon: &Daemon<'_>, code: &str) -> Self {
        Self::try_pair(&daemon.stranger(), Some(code)).unwrap()
    }

    fn stranger(&self) -> Client {
        Client {
            http: self.http.clone(),
            token: None,
        }
    }

    fn origin(&self) -> String {
        format!("http://{}", self.http)
    }

    fn challenge(&self) -> Answer {
        let path = format!("/v1/browsers/{}/challenge", self.id);
        let origin = self.origin();
        let headers = [("Origin", &*origin)];
        self.stranger().ask_with("POST", &path, &headers, "{}")
    }

    /// Waits until the daemon has read that the browser was revoked.
    fn wait_until_revoked(&self) {
        while self.challenge().status != 401 {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Signs a challenge for one origin, and sends it from another.
    fn answer(&self, challenge: &str, signed: &str, sent: &str) -> Answer {
        let text = format!("trunkline sign-in 1\n{signed}\n{}\n{challenge}", self.id);
        let signature = self
            .key
            .sign(&SystemRandom::new(), text.as_bytes())
            .unwrap();
        let body = json!({ "challenge": challenge, "signature": hex(signature.as_ref()) });
        let path = format!("/v1/browsers/{}/bearer", self.id);
        self.stranger()
            .ask_with("POST", &path, &[("Origin", sent)], &body.to_string())
    }

    /// Signs in.
    pub(super) fn client(&self) -> Client {
        let challenge = self.challenge().must_be(200).json();
        let challenge = challenge["challenge"].as_str().unwrap();
        let origin = self.origin();
        let bearer = self.answer(challenge, &origin, &origin).must_be(200).json();
        assert_eq!(bearer["expires_in"], 600);
        Client {
            token: Some(bearer["token"].as_str().unwrap().to_owned()),
            ..self.stranger()
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks that no file below a folder contains one of these texts.
fn assert_no_secrets(folder: &Path, secrets: &[&str]) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            assert_no_secrets(&path, secrets);
        } else if kind.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            let found = secrets.iter().find(|secret| text.contains(**secret));
            assert_eq!(found, None, "{}", path.display());
        }
    }
}

/// Answers the question of a terminal when a browser has sent the code.
fn decide(home: &Home, pairing: &Value, confirm: bool) -> Value {
    let path = format!("/v1/pairing/{}", pairing["id"].as_str().unwrap());
    loop {
        let (status, state) = ask(home, "GET", &path, &json!({}));
        assert_eq!(status, 200, "{state}");
        if state["state"] == "claimed" {
            let decision = json!({ "confirm": confirm });
            assert_eq!(ask(home, "POST", &path, &decision).0, 204);
            return state;
        }
        assert_eq!(state["state"], "waiting");
        thread::sleep(Duration::from_millis(2));
    }
}

fn start_pairing(home: &Home) -> Value {
    let (status, pairing) = ask(home, "POST", "/v1/pairing", &json!({}));
    assert_eq!(status, 200, "{pairing}");
    pairing
}

#[test]
fn a_browser_signs_in_by_its_key_across_restarts_and_at_its_own_origin_only() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let (page, code) = open(&home, &daemon);
    assert!(!page.body.contains("tlk_"));
    let browser = Browser::pair(&daemon, &code);
    assert!(
        Browser::try_pair(&daemon.stranger(), Some(&code))
            .is_err_and(|answer| answer.status == 403)
    );
    let me = browser.client().get("/v1/me").must_be(200).json();
    assert_eq!(
        (&me["scope"], &me["may_approve"]),
        (&json!("control"), &json!(true))
    );
    assert!(
        me["name"]
            .as_str()
            .unwrap()
            .starts_with("Chrome-on-Android/t-"),
        "{me}"
    );

    let own = browser.origin();
    let port = daemon.http.rsplit_once(':').unwrap().1.to_owned();
    let other = format!("http://localhost:{port}");
    let challenge = || {
        let challenge = browser.challenge().must_be(200).json();
        challenge["challenge"].as_str().unwrap().to_owned()
    };
    // Of another site, for another name of this daemon, and from there.
    for (signed, sent, status) in [
        (&*own, "https://evil.example", 403),
        ("https://evil.example", &*own, 401),
        (&*other, &*own, 401),
        (&*own, &*other, 401),
        (&*own, &*own, 200),
    ] {
        browser.answer(&challenge(), signed, sent).must_be(status);
    }
    let once = challenge();
    browser.answer(&once, &own, &own).must_be(200);
    browser.answer(&once, &own, &own).must_be(401);
    let stranger = daemon.stranger();
    let path = format!("/v1/browsers/{}/challenge", browser.id);
    stranger.ask_with("POST", &path, &[], "").must_be(400);
    let origin = [("Origin", &*own)];
    stranger
        .ask_with("POST", "/v1/browsers/00000000/challenge", &origin, "")
        .must_be(401);
    // A token is no browser.
    let token = daemon.token(&["control"]);
    let path = format!("/v1/browsers/{}/challenge", token.token_id());
    stranger.ask_with("POST", &path, &origin, "").must_be(401);

    // A killed daemon forgets the bearers, and not the browsers.
    let before = browser.client();
    let old = challenge();
    let http = daemon.kill();
    let arguments = [
        "up",
        "--state",
        "state",
        "--http",
        &*http,
        "--json",
        "--log-file",
        "state/log",
    ];
    let mut command = home.command(arguments);
    let daemon = Daemon::spawn(
        &home,
        command.env("TRUNKLINE_LOG", "trunkline_gateway=trace"),
    );
    before.get("/v1/me").must_be(401);
    browser.answer(&old, &own, &own).must_be(401);
    let after = browser.client();
    after.get("/v1/me").must_be(200);
    // No file of the daemon has a secret, the log included.
    let pairing = start_pairing(&home);
    assert!(Browser::try_pair(&daemon.stranger(), Some("2222-2222")).is_err());
    let log = std::fs::read_to_string(home.path().join("state/log")).unwrap();
    assert!(log.contains("a wrong code for pairing was sent"), "{log}");
    let secrets = [
        &*old,
        &code,
        pairing["code"].as_str().unwrap(),
        after.token.as_ref().unwrap(),
        before.token.as_ref().unwrap(),
    ];
    assert_no_secrets(&home.path().join("state"), &secrets);
    daemon.down();
}

#[test]
fn a_code_pairs_after_the_terminal_has_confirmed_it_and_one_browser_of_two() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    for confirm in [false, true] {
        let pairing = start_pairing(&home);
        let code = pairing["code"].as_str().unwrap();
        assert_eq!(
            pairing["origins"],
            json!([format!("http://{}", daemon.http)])
        );
        let client = daemon.stranger();
        let pair = || Browser::try_pair(&client, Some(code)).map_err(|answer| answer.status);
        let outcomes = thread::scope(|scope| {
            let pairs = [scope.spawn(pair), scope.spawn(pair)];
            let request = decide(&home, &pairing, confirm);
            assert_eq!(request["name"], "Chrome on Android");
            assert_eq!(
                (&request["address"], &request["is_elevation"]),
                (&json!("127.0.0.1"), &json!(false))
            );
            pairs.map(|pair| pair.join().unwrap())
        });
        let paired = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(paired, usize::from(confirm));
        assert!(
            outcomes
                .iter()
                .all(|outcome| outcome.as_ref().err().is_none_or(|status| *status == 403))
        );
    }
    // Five wrong codes of all strangers.
    let pairing = start_pairing(&home);
    for _ in 0..5 {
        let wrong = Browser::try_pair(&daemon.stranger(), Some("2222-2222"));
        assert!(wrong.is_err_and(|answer| answer.status == 403));
    }
    let path = format!("/v1/pairing/{}", pairing["id"].as_str().unwrap());
    assert_eq!(ask(&home, "GET", &path, &json!({})).1["state"], "spent");
    let right = Browser::try_pair(&daemon.stranger(), pairing["code"].as_str());
    assert!(right.is_err_and(|answer| answer.status == 403));
    // Only the socket gives codes.
    let admin = daemon.token(&["admin", "--approve", "--all-sessions"]);
    admin.post("/v1/pairing", &json!({})).must_be(403);
    admin.get(&path).must_be(403);
    admin.post(&path, &json!({ "confirm": true })).must_be(403);
    for name in ["", "a\u{1b}[2J", "a\"b", "\u{202e}x"] {
        let wanted = json!({ "name": name, "key": format!("04{}", "00".repeat(64)), "code": "x" });
        let origin = format!("http://{}", daemon.http);
        let headers = [("Origin", &*origin)];
        let stranger = daemon.stranger();
        stranger
            .ask_with("POST", "/v1/browsers", &headers, &wanted.to_string())
            .must_be(422);
    }
    daemon.down();
}

#[test]
fn a_browser_has_at_most_the_rights_of_what_paired_it_and_an_administrators_for_a_while() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    // A token pairs a browser that ends with it.
    for (arguments, scope, may_approve, sees_all) in [
        (vec!["observe"], "observe", false, false),
        (vec!["control", "--agents", "echo"], "control", false, false),
        (
            vec!["admin", "--approve", "--all-sessions"],
            "control",
            true,
            true,
        ),
    ] {
        let token = daemon.token(&arguments);
        let browser = Browser::try_pair(&token, None).unwrap();
        let client = browser.client();
        let me = client.get("/v1/me").must_be(200).json();
        assert_eq!(
            (&me["scope"], &me["may_approve"]),
            (&json!(scope), &json!(may_approve))
        );
        assert_eq!(me["sees_all"], sees_all);
        assert_eq!(me["agents"], token.get("/v1/me").json()["agents"]);
        client.get("/v1/tokens").must_be(403);
        let own = client.get("/v1/browsers").must_be(200).json();
        assert_eq!(own["browsers"].as_array().unwrap().len(), 1);
        // It pairs no other, and a code gives it no more.
        assert!(Browser::try_pair(&client, None).is_err_and(|answer| answer.status == 403));
        if scope == "control" {
            let code = start_pairing(&home)["code"].clone();
            client
                .post("/v1/elevation", &json!({ "code": code }))
                .must_be(403);
        }
        daemon.revoke(&token);
        browser.wait_until_revoked();
    }
    assert!(Browser::try_pair(&daemon.stranger(), None).is_err_and(|answer| answer.status == 401));

    let browser = Browser::pair(&daemon, &open(&home, &daemon).1);
    let client = browser.client();
    let other = browser.client();
    let third = Browser::pair(&daemon, &open(&home, &daemon).1);
    let of_third = format!("/v1/browsers/{}", third.id);
    client.ask_with("DELETE", &of_third, &[], "").must_be(403);
    client
        .patch(&of_third, &json!({ "name": "x" }))
        .must_be(403);
    client.get("/v1/tokens").must_be(403);
    client
        .post("/v1/elevation", &json!({ "code": "2222-2222" }))
        .must_be(403);
    let pairing = start_pairing(&home);
    let code = json!({ "code": pairing["code"] });
    thread::scope(|scope| {
        let elevated = scope.spawn(|| client.post("/v1/elevation", &code));
        assert_eq!(decide(&home, &pairing, true)["is_elevation"], true);
        assert_eq!(
            elevated.join().unwrap().must_be(200).json()["expires_in"],
            300
        );
    });
    assert_eq!(client.get("/v1/me").json()["scope"], "admin");
    assert_eq!(
        other.get("/v1/me").json()["scope"],
        "control",
        "only that bearer"
    );
    let make = || {
        let made = client
            .post("/v1/tokens", &json!({ "scope": "observe" }))
            .must_be(201)
            .json();
        let token = Some(made["token"].as_str().unwrap().to_owned());
        Client {
            token,
            ..client.clone()
        }
    };
    let kept = make();
    let ended = make();
    let listed = client.get("/v1/browsers").must_be(200).json();
    let own = &listed["browsers"][0];
    assert_eq!(
        (&own["id"], &own["is_this"]),
        (&json!(browser.id), &json!(true))
    );
    assert_eq!(own["tokens"].as_array().unwrap().len(), 2);
    client
        .patch(&of_third, &json!({ "name": "Ann's phone" }))
        .must_be(204);
    assert_eq!(
        client.get("/v1/browsers").json()["browsers"][1]["name"],
        "Ann's phone"
    );

    // Its streams end when it is revoked, and its tokens with it or not.
    let session = third.client().open();
    let mut events = third.client().events(&session, 0);
    client.ask_with("DELETE", &of_third, &[], "").must_be(204);
    while events.next().is_some() {}
    third.challenge().must_be(401);
    client.ask_with("DELETE", &of_third, &[], "").must_be(404);
    let listed = home.run(["token", "list", "--state", "state"]);
    assert!(listed.must_end_with(0).stdout.contains("Chrome on Android"));
    let revoked = ["token", "revoke", ended.token_id(), "--state", "state"];
    home.run(revoked).must_end_with(0);
    let kept_id = kept.token_id().to_owned();
    let revoked = home.run([
        "token",
        "revoke",
        &browser.id,
        "--keep-tokens",
        "--state",
        "state",
    ]);
    assert_eq!(
        revoked.must_end_with(0).stderr,
        format!("kept: {kept_id}\n")
    );
    browser.wait_until_revoked();
    kept.get("/v1/me").must_be(200);
    daemon.down();
}

#[test]
fn challenges_of_a_stranger_are_cheap_and_leave_room_for_the_browser() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let browser = Browser::pair(&daemon, &open(&home, &daemon).1);
    let origin = browser.origin();
    let http = &daemon.http;
    let path = format!("/v1/browsers/{}/challenge", browser.id);
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {http}\r\nOrigin: {origin}\r\nContent-Length: 0\r\n\r\n"
    );
    let mut stream = TcpStream::connect(http).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..500 {
        stream.write_all(request.as_bytes()).unwrap();
        let (status, headers) = head(&mut answers);
        assert_eq!(status, 200);
        let length: usize = headers["content-length"].parse().unwrap();
        answers.read_exact(&mut vec![0; length]).unwrap();
    }
    browser.client().get("/v1/me").must_be(200);
    daemon.down();
}

#[test]
fn the_terminal_shows_a_code_and_asks() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let talk = r#"
expect("The code is ")
code = expect(".")
open("code.new", "w").write(code)
os.rename("code.new", "code")
send("y\n")
expect("Pair \"Chrome on Android\" at 127.0.0.1? [y/N] ")
send("y\n")
expect("paired")
done()
"#;
    let arguments = ["open", "--pair", "--state", "state"];
    let mut person = Person::new(&home, &arguments, talk);
    let file = home.path().join("code");
    let code = loop {
        match std::fs::read_to_string(&file) {
            Ok(code) => break code,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    };
    let browser = Browser::pair(&daemon, code.trim());
    person.until_done().must_end_with(0);
    browser.client().get("/v1/me").must_be(200);
    assert!(
        person.seen.contains("/#/pair/") && person.seen.contains("needs https"),
        "{}",
        person.seen
    );
    // Without a terminal there is no confirmation.
    home.run(arguments).must_end_with(2);
    daemon.down();
}
