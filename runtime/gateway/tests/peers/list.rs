//! Lists of sessions of all hosts, and of hosts.

use std::collections::BTreeSet;

use serde_json::json;
use trunkline_gateway::Scope;

use crate::{client::Client, cluster::Cluster};

/// Reads all pages of a list. Returns the ids, and the hosts that did not respond.
async fn listed(client: &Client, query: &str) -> (Vec<String>, BTreeSet<String>) {
    let mut ids = Vec::new();
    let mut missing = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let page = client
            .get(&format!("/v1/sessions?{query}{cursor}"))
            .await
            .must_be(200)
            .json();
        let found = page["sessions"].as_array().unwrap();
        ids.extend(
            found
                .iter()
                .map(|one| one["session_id"].as_str().unwrap().to_owned()),
        );
        assert_eq!(page.get("cursors"), None, "they are for hosts");
        missing.extend(
            page["missing"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|host| host.as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            None => return (ids, missing),
            Some(next) => cursor = format!("&cursor={next}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_has_the_sessions_of_all_hosts_once_through_any_gateway() {
    let cluster = Cluster::with_hosts(3).await;
    cluster.adapters_run().await;
    let (ann, _) = cluster.bearer(0, Scope::Control, false);
    let mut all = Vec::new();
    let mut of_ann = Vec::new();
    for n in 0..90 {
        cluster.known.next_at(["a", "b", "c"][n * 5 % 7 % 3]);
        if n % 9 == 0 {
            of_ann.push(ann.open().await);
            all.extend(of_ann.last().cloned());
        } else {
            let options = json!({ "options": { "title": format!("no. {n}") } });
            let opened = cluster
                .user(n % 3)
                .post("/v1/sessions", &options)
                .await
                .must_be(201)
                .json();
            all.push(opened["id"].as_str().unwrap().to_owned());
        }
    }
    // All entries are stored: a later one would move its session to the front, and a reader of
    // pages would miss it.
    for daemon in &cluster.daemons {
        daemon.sessions.finish().await;
    }
    all.sort();
    let ordered = listed(&cluster.user(0), "limit=1000").await.0;
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert_eq!(sorted(ordered.clone()), all);
    for host in 0..3 {
        let user = cluster.user(host);
        for query in ["limit=7", "limit=1000", "limit=1"] {
            assert_eq!(
                listed(&user, query).await,
                (ordered.clone(), BTreeSet::new()),
                "{host} {query}"
            );
        }
        assert_eq!(listed(&user, "text=no.%207").await.0.len(), 10);
        assert_eq!(listed(&user, "agent_id=other").await.0.len(), 0);
    }
    assert_eq!(
        sorted(listed(&ann, "limit=3").await.0),
        sorted(of_ann),
        "filters and rights hold at each host"
    );
    cluster
        .user(0)
        .get("/v1/sessions?cursor=x")
        .await
        .must_be(422);
    cluster
        .user(0)
        .get("/v1/sessions?unknown=x")
        .await
        .must_be(400);

    // A host that does not respond and one that is lost are named; the sessions of the others are
    // listed.
    cluster.known.deaf.lock().unwrap().push("b".to_owned());
    let (some, missing) = listed(&cluster.user(0), "limit=1000").await;
    assert_eq!(missing, ["b".to_owned()].into());
    assert!(some.len() < all.len() && some.iter().all(|id| all.contains(id)));
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_are_shown_to_who_may_see_them() {
    let cluster = Cluster::with_hosts(2).await;
    let hosts = cluster.user(1).get("/v1/hosts").await.must_be(200).json();
    let shown: Vec<_> = hosts["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| &host["id"])
        .collect();
    assert_eq!(shown, ["a", "b"]);
    assert_eq!(
        (&hosts["hosts"][0]["is_this"], &hosts["hosts"][1]["is_this"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(
        (
            &hosts["hosts"][0]["state"],
            &hosts["hosts"][0]["labels"]["zone"]
        ),
        (&json!("up"), &json!("a"))
    );
    assert_eq!(hosts["hosts"][0]["load"], 0.5);
    let figures = cluster.user(0).get("/metrics").await.must_be(200).body;
    let figures = String::from_utf8(figures.to_vec()).unwrap();
    for line in [
        "trunkline_cluster_hosts{state=\"up\"} 2",
        "trunkline_cluster_hosts{state=\"draining\"} 0",
        "trunkline_cluster_hosts{state=\"lost\"} 0",
        "trunkline_cluster_host_sessions{host=\"a\"} 0",
        "trunkline_cluster_host_sessions{host=\"b\"} 0",
    ] {
        assert!(
            figures.lines().any(|figure| figure == line),
            "{line} is not in {figures}"
        );
    }
    // The load of all sessions is visible only to principals that see all sessions.
    let (few, _) = cluster.bearer(0, Scope::Control, false);
    let host = few.get("/v1/hosts").await.must_be(200).json()["hosts"][0].clone();
    assert_eq!(
        (host.get("load"), host.get("sessions"), &host["id"]),
        (None, None, &json!("a"))
    );
    Client { token: None, ..few }
        .get("/v1/hosts")
        .await
        .must_be(401);
    cluster.down().await;
}
