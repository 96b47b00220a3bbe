use super::*;

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Handler for Arc<Recorder> {
    fn notified(&self, _: &Peer, method: &str, params: &RawValue) {
        locked(&self.0).push(format!("{method} {params}"));
    }
    fn asked(&self, peer: &Arc<Peer>, id: Id, method: &str, _: &RawValue) {
        locked(&self.0).push(format!("{method}? {}", id.text()));
        peer.answer_now::<()>(&id, Err((METHOD_NOT_FOUND, "no".to_owned())));
    }
}

async fn peer(script: &str) -> (Arc<Peer>, Arc<Recorder>) {
    let launch = Launch::new("sh").arg("-c").arg(script);
    let agent = Agent::start(&launch, Stdin::Owned, None).await.unwrap();
    let heard = Arc::new(Recorder::default());
    (Peer::new(agent, JsonRpcVersion::V2, heard.clone()), heard)
}

#[tokio::test]
async fn calls_are_answered_in_any_order_and_requests_of_the_agent_too() {
    let script = r#"read a; read b
        echo 'noise'; echo '{"method":"note","params":[1]}'; echo '{"id":"q","method":"ask"}'
        read answer; echo "{\"method\":\"heard\",\"params\":$answer}"
        echo '{"id":2,"result":"second"}'; echo '{"id":1,"error":{"code":429,"message":"slow down"}}'
        cat >/dev/null"#;
    let (peer, heard) = peer(script).await;
    let first = async { peer.call::<_, String>("one", &json!({}), None).await };
    let second = async { peer.call::<_, String>("two", &json!({}), None).await };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(second.unwrap(), "second");
    let error = first.unwrap_err().error("one");
    assert_eq!(error.failure().code.as_deref(), Some("429"));
    peer.close();
    peer.wait_for_end().await;
    let heard = locked(&heard.0).join("\n");
    assert!(heard.contains("note [1]"), "{heard}");
    assert!(
        heard.contains("ask? \"q\"") && heard.contains(r#""code":-32601"#),
        "{heard}"
    );
}

#[tokio::test]
async fn an_end_fails_what_is_open_and_what_comes_later() {
    let (peer, _) = peer("read a; exit 7").await;
    let error = peer
        .call::<_, Value>("one", &json!({}), None)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, CallError::Gone(ended) if ended.exit.code == Some(7)),
        "{error}"
    );
    assert!(matches!(
        peer.call::<_, Value>("two", &json!({}), None).await,
        Err(CallError::Gone(_))
    ));
    assert_eq!(peer.wait_for_end().await.exit.to_string(), "exit status 7");
}

#[tokio::test]
async fn a_late_answer_is_not_waited_for() {
    let (peer, _) = peer("cat >/dev/null").await;
    let wait = Some(Duration::from_millis(1));
    assert!(matches!(
        peer.call::<_, Value>("one", &json!({}), wait).await,
        Err(CallError::Late { .. })
    ));
    assert!(locked(&peer.calls).is_empty());
}
