//! Servers that refuse a host, and servers that a host refuses: the errors name the cause and the
//! next step.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use nkeys::KeyPair;
use serde_json::{Value, json};
use trunkline_cluster::{
    marks::Marks,
    nats::{ConnectError, Nats, NatsOptions},
};

use crate::{options, server::Server};

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

async fn refused(options: NatsOptions) -> ConnectError {
    let refused = Nats::connect(&options).await.unwrap_err();
    assert!(!refused.next().is_empty());
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_user_or_password_is_refused_and_no_password_is_shown() {
    let Some(server) = Server::with(&["-p", "-1", "-js", "--user", "u", "--pass", "a@secret"])
    else {
        return;
    };
    let at = |user: &str| NatsOptions {
        servers: server.url().replace("nats://", &format!("nats://{user}@")),
        ..options(&server, "a")
    };
    assert!(Nats::connect(&at("u:a%40secret")).await.is_ok());
    for user in ["u:wrong-one", "other:a%40secret", "wrong-one"] {
        let refused = refused(at(user)).await;
        assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
        assert!(refused.next().contains("--creds"));
        let text = format!("{refused} {refused:?}");
        assert!(
            !text.contains("wrong-one") && !text.contains("secret"),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_nkey_is_refused() {
    let good = KeyPair::new_user();
    let wrong = KeyPair::new_user();
    let config = format!(
        "authorization {{ users: [{{ nkey: {} }}] }}",
        good.public_key()
    );
    let Some(server) = Server::configured(&config) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let with = |name: &str, key: &KeyPair| NatsOptions {
        creds: Some(write(folder.path(), name, &key.seed().unwrap())),
        ..options(&server, "a")
    };
    assert!(Nats::connect(&with("good", &good)).await.is_ok());
    for options in [with("wrong", &wrong), options(&server, "a")] {
        let refused = refused(options).await;
        assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
        assert!(!format!("{refused:?}").contains("SU"));
    }
}

/// A claim of NATS, signed.
fn jwt(of: &KeyPair, by: &KeyPair, claims: &Value) -> String {
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let body = json!({"jti": "1", "iat": 1, "iss": by.public_key(), "name": "n", "sub": of.public_key(), "nats": claims});
    let text = [head, body]
        .map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()))
        .join(".");
    let signed = BASE64_URL_SAFE_NO_PAD.encode(by.sign(text.as_bytes()).unwrap());
    format!("{text}.{signed}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_of_another_account_are_refused() {
    let operator = KeyPair::new_operator();
    let account = KeyPair::new_account();
    let system = KeyPair::new_account();
    let other = KeyPair::new_account();
    let all = -1;
    let limits = json!({
        "subs": all, "data": all, "payload": all, "imports": all, "exports": all, "wildcards": true, "conn": all,
        "leaf": all, "mem_storage": all, "disk_storage": all, "streams": all, "consumer": all,
    });
    let of = |account: &KeyPair, limits: &Value| {
        jwt(
            account,
            &operator,
            &json!({"limits": limits, "type": "account", "version": 2}),
        )
    };
    let plain = json!({"subs": all, "data": all, "payload": all, "conn": all, "leaf": all, "wildcards": true});
    let config = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}",
        jwt(
            &operator,
            &operator,
            &json!({"type": "operator", "version": 2})
        ),
        system.public_key(),
        account.public_key(),
        of(&account, &limits),
        system.public_key(),
        of(&system, &plain),
    );
    let Some(server) = Server::configured(&config) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let creds = |name: &str, signed_by: &KeyPair| {
        let user = KeyPair::new_user();
        let claims =
            json!({"subs": all, "data": all, "payload": all, "type": "user", "version": 2});
        let jwt = jwt(&user, signed_by, &claims);
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            user.seed().unwrap(),
        );
        NatsOptions {
            creds: Some(write(folder.path(), name, &text)),
            ..options(&server, "a")
        }
    };
    if let Err(error) = Nats::connect(&creds("good", &account)).await {
        panic!("{error}: {}", server.log());
    }
    let refused = refused(creds("other", &other)).await;
    assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
    assert!(!format!("{refused:?}").contains("SU"));
}

/// A certificate of its own, and its key, in PEM.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let pem = |what: &str, der: &[u8]| {
        format!(
            "-----BEGIN {what}-----\n{}\n-----END {what}-----\n",
            BASE64_STANDARD.encode(der)
        )
    };
    let certificate = write(
        folder,
        &format!("{name}.pem"),
        &pem("CERTIFICATE", made.cert.der()),
    );
    let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
    (certificate, write(folder, &format!("{name}.key"), &key))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_checked_by_the_authority_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (good, key) = certificate(folder.path(), "localhost");
    let (other, _) = certificate(folder.path(), "other");
    let config = format!("tls {{ cert_file: {good:?}, key_file: {key:?} }}");
    let Some(server) = Server::configured(&config) else {
        return;
    };
    let at = |name: &str, ca: Option<&PathBuf>| NatsOptions {
        servers: server
            .url()
            .replace("nats://127.0.0.1", &format!("tls://{name}")),
        ca: ca.cloned(),
        ..options(&server, "a")
    };
    assert!(Nats::connect(&at("localhost", Some(&good))).await.is_ok());
    for (wrong, why) in [
        (at("localhost", None), "of no authority of this machine"),
        (at("localhost", Some(&other)), "of another authority"),
        (at("127.0.0.1", Some(&good)), "of another name"),
    ] {
        let refused = refused(wrong).await;
        assert!(
            matches!(refused, ConnectError::Tls { .. }),
            "{why}: {refused}"
        );
        assert!(
            refused.to_string().contains("certificate"),
            "{why}: {refused}"
        );
        assert!(refused.next().contains("--cluster-ca"));
    }
    let nonsense = write(folder.path(), "nonsense", "nonsense");
    for file in [nonsense, folder.path().join("none")] {
        let refused = refused(at("localhost", Some(&file))).await;
        assert!(matches!(refused, ConnectError::File { .. }), "{refused}");
    }
    // Who asks for TLS gets it, or no connection.
    let plain = Server::start().unwrap();
    let encrypted = plain.url().replace("nats://127.0.0.1", "tls://localhost");
    let further = format!("{},tls://localhost:1", plain.url());
    for servers in [encrypted, further] {
        let options = NatsOptions {
            servers,
            ca: Some(good.clone()),
            ..options(&plain, "a")
        };
        assert!(
            Nats::connect(&options).await.is_err(),
            "{}",
            options.servers
        );
    }
}

/// Runs a server that announces this version and answers pings.
fn says(version: &str, max_payload: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let info = json!({
        "server_id": "x", "server_name": "x", "version": version, "proto": 1, "host": "127.0.0.1",
        "port": address.port(), "headers": true, "max_payload": max_payload, "jetstream": true, "client_id": 1,
    });
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        write!(stream, "INFO {info}\r\n").unwrap();
        let mut heard = Vec::new();
        let mut chunk = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            heard.extend_from_slice(&chunk[..count]);
            if heard.ends_with(b"PING\r\n") && stream.write_all(b"PONG\r\n").is_err() {
                return;
            }
        }
    });
    format!("nats://{address}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_below_the_floor_is_refused_with_both_versions() {
    for version in ["2.10.29", "2.11.1", "2.11.0-RC.1", "1.4.0"] {
        let options = NatsOptions {
            servers: says(version, 1 << 20),
            ..nowhere()
        };
        let refused = refused(options).await;
        let text = refused.to_string();
        assert!(text.contains(version) && text.contains("2.11.2"), "{text}");
        assert!(matches!(refused, ConnectError::Version { .. }), "{refused}");
    }
    let refused = refused(NatsOptions {
        servers: says("2.11.2", 4096),
        ..nowhere()
    })
    .await;
    assert!(
        matches!(refused, ConnectError::Payload { most: 4096, .. }),
        "{refused}"
    );
    assert!(refused.next().contains("max_payload"));
}

fn nowhere() -> NatsOptions {
    NatsOptions {
        servers: String::new(),
        creds: None,
        ca: None,
        prefix: "trunkline".to_owned(),
        host: "a".to_owned(),
        marks: Marks::default(),
        replicas: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_would_be_several_subjects_is_refused_before_it_connects() {
    for host in ["", "a.b", "*", ">", "a b", "a\r\n", &"x".repeat(65)] {
        let refused = refused(NatsOptions {
            host: host.to_owned(),
            ..nowhere()
        })
        .await;
        assert!(matches!(refused, ConnectError::Host(_)), "{refused}");
        assert!(refused.next().contains("--host-id"));
    }
}
