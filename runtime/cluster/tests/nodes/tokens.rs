//! Tokens that are made and revoked at any of several hosts.

use trunkline_cluster::{
    memory::Memory,
    store::{Space, Store},
};
use trunkline_gateway::{NewToken, Scope, TokenFile};

use crate::{
    files::connect,
    machine::{Known, Machine, until},
    server::Server,
};

fn make(file: &TokenFile) -> (String, String) {
    let new = NewToken::with_scope(Scope::Control);
    let (token, text) = file.add(new).unwrap();
    (token.id, text)
}

fn has(file: &TokenFile, id: &str) -> bool {
    file.read().unwrap().iter().any(|token| token.id == id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_good_at_each_host_until_it_is_revoked_at_one() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let b = Machine::start(&memory, "b").await;
    let (one, text) = make(&a.tokens());
    a.node.share_tokens(a.tokens()).await.unwrap();
    b.node.share_tokens(b.tokens()).await.unwrap();
    assert!(
        has(&b.tokens(), &one),
        "what was made before it joined is known when it has"
    );
    // By the command line, while both run, at either.
    let (two, _) = make(&b.tokens());
    until(|| has(&a.tokens(), &two)).await;
    b.tokens().revoke(&one).unwrap();
    until(|| !has(&a.tokens(), &one)).await;

    // A host that is cut off continues with the tokens that it knows, and gets the rest on its
    // return.
    memory.cut("a", true);
    b.tokens().revoke(&two).unwrap();
    let (three, _) = make(&b.tokens());
    let (four, _) = make(&a.tokens());
    let shared = || memory.all(Space::Tokens, "all").pop().unwrap().bytes;
    let is_shared = |id: &str| String::from_utf8_lossy(&shared()).contains(id);
    until(|| is_shared(&three)).await;
    assert!(has(&a.tokens(), &two) && !has(&a.tokens(), &three));
    memory.cut("a", false);
    until(|| !has(&a.tokens(), &two) && has(&a.tokens(), &three) && has(&b.tokens(), &four)).await;

    // Only digests are stored.
    let secret = text.rsplit('_').next().unwrap();
    assert!(!String::from_utf8_lossy(&shared()).contains(secret));
    a.end().await;
    b.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_are_made_at_the_same_time_are_all_kept() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let b = Machine::start(&memory, "b").await;
    a.node.share_tokens(a.tokens()).await.unwrap();
    b.node.share_tokens(b.tokens()).await.unwrap();
    let mut all = Vec::new();
    for _ in 0..20 {
        memory.lose_answer("a");
        all.push(make(&a.tokens()).0);
        all.push(make(&b.tokens()).0);
        tokio::task::yield_now().await;
    }
    until(|| {
        all.iter()
            .all(|id| has(&a.tokens(), id) && has(&b.tokens(), id))
    })
    .await;
    assert_eq!(a.tokens().read().unwrap().len(), all.len());

    // An unreadable value is left unchanged, and each host keeps its tokens.
    let store = memory.access_for("a");
    let last = store
        .last(Space::Tokens, "all")
        .await
        .unwrap()
        .unwrap()
        .number;
    let last = store
        .put(Space::Tokens, "all", last, "{".into())
        .await
        .unwrap();
    let later = Machine::start(&memory, "c").await;
    let refused = later.node.share_tokens(later.tokens()).await.unwrap_err();
    assert!(
        refused.contains("the tokens of the cluster cannot be read"),
        "{refused}"
    );
    assert_eq!(memory.all(Space::Tokens, "all").pop().unwrap().number, last);
    assert!(all.iter().all(|id| has(&a.tokens(), id)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_shared_by_a_real_server_as_well() {
    let Some(server) = Server::start() else {
        return;
    };
    let start = async |host: &str| {
        let nats = connect(&server, host).await;
        let machine = Machine::over(nats.clone(), nats, host, &[], Known::default())
            .await
            .unwrap();
        machine.node.share_tokens(machine.tokens()).await.unwrap();
        machine
    };
    let a = start("a").await;
    let b = start("b").await;
    let (one, _) = make(&a.tokens());
    until(|| has(&b.tokens(), &one)).await;
    b.tokens().revoke(&one).unwrap();
    until(|| !has(&a.tokens(), &one)).await;
    a.end().await;
    b.end().await;
}
