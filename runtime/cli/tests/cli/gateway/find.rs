//! Sessions found again: titles, the archive, search, history from its end, export.

use serde_json::{Value, json};

use super::{super::Home, Client, Daemon};

fn entries(page: &Value) -> Vec<String> {
    let entries = page["entries"].as_array().unwrap();
    entries.iter().map(ToString::to_string).collect()
}

/// Returns all hits of a search, over all its pages.
fn search(client: &Client, query: &str) -> Vec<Value> {
    let mut hits = Vec::new();
    let mut after = String::new();
    loop {
        let page = client
            .get(&format!("/v1/search?q={query}{after}"))
            .must_be(200)
            .json();
        hits.extend(page["hits"].as_array().unwrap().clone());
        assert_eq!(page["complete"], page["next"].is_null());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return hits,
        }
    }
}

fn titles(client: &Client, query: &str) -> Vec<Value> {
    let listed = client.get(&format!("/v1/sessions{query}")).must_be(200);
    let listed = listed.json();
    let sessions = listed["sessions"].as_array().unwrap().iter();
    sessions.map(|session| session["title"].clone()).collect()
}

#[test]
fn a_title_and_the_archive_survive_a_restart_and_close_nothing() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let observer = daemon.token(&["observe", "--all-sessions"]);
    let id = client.open();
    let path = format!("/v1/sessions/{id}");
    client.turn(&id, "\u{202e}first\u{7} input");
    assert_eq!(titles(&client, ""), ["first input"]);

    for title in [
        "\u{1b}[31mred",
        "a\nb",
        "\u{202e}txt.exe",
        "\u{2066}",
        "a\0",
        &"x".repeat(201),
    ] {
        client.patch(&path, &json!({ "title": title })).must_be(422);
    }
    client.patch(&path, &json!({ "tittle": "x" })).must_be(400);
    observer.patch(&path, &json!({ "title": "x" })).must_be(403);
    let other = daemon.token(&["control"]);
    other.patch(&path, &json!({ "title": "x" })).must_be(404);
    let title = "Logs of M\u{e4}rz \u{1f469}\u{200d}\u{1f4bb}";
    client
        .patch(&path, &json!({ "title": title, "archived": true }))
        .must_be(204);
    assert_eq!(titles(&client, ""), [""; 0]);
    assert_eq!(titles(&client, "?archived=true"), [title]);
    client.turn(&id, "goes on");

    let address = daemon.kill();
    let daemon = Daemon::at(&home, &address);
    assert_eq!(titles(&client, ""), [""; 0]);
    assert_eq!(titles(&client, "?archived=true"), [title]);
    client
        .patch(&path, &json!({ "archived": false }))
        .must_be(204);
    assert_eq!(titles(&client, ""), [title]);
    daemon.down();
}

#[test]
fn a_search_finds_what_its_token_sees_and_takes_any_text() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let ann = daemon.token(&["control"]);
    let ben = daemon.token(&["control"]);
    let all = daemon.token(&["observe", "--all-sessions"]);
    let of_ann = ann.open();
    ann.turn(&of_ann, "a Needle in (.*) hay");
    let of_ben = ben.open();
    ben.turn(&of_ben, "another needle");
    let ids = |client: &Client, query: &str| {
        let hits = search(client, query);
        let id = |hit: &Value| hit["id"].as_str().unwrap().to_owned();
        let mut ids: Vec<_> = hits.iter().map(id).collect();
        ids.dedup();
        ids
    };
    // Each is in the title, in the input and in the answer.
    assert_eq!(search(&all, "nEEDLE").len(), 6);
    assert_eq!(search(&all, "nEEDLE&limit=1").len(), 6);
    assert_eq!(search(&all, "needle&agent=other").len(), 0);
    assert_eq!(ids(&ann, "needle"), [&*of_ann]);
    assert_eq!(ids(&ben, "needle"), [&*of_ben]);
    assert_eq!(ids(&all, "(.*)"), [&*of_ann]);
    assert_eq!(ids(&all, ".*)%20hay"), [&*of_ann]);
    let hits = search(&ann, "in%20(");
    let turn = hits[1]["turn"].as_str().unwrap();
    assert_eq!(
        [&hits[0]["kind"], &hits[1]["kind"], &hits[2]["kind"]],
        ["title", "output", "input"]
    );
    assert!(hits[0]["turn"].is_null() && !turn.is_empty());
    assert_eq!(hits[1]["snippet"], "a Needle in (.*) hay");

    for (query, status) in [
        ("", 400),
        ("?q=", 422),
        (&*format!("?q={}", "x".repeat(257)), 422),
        (&*format!("?q={}", "%20".repeat(300)), 422),
        ("?q=%00", 200),
        ("?q=%5B%5E%2A", 200),
        ("?q=%ff", 400),
        ("?q=a%C3%28", 400),
        ("?q=x&after=%ff", 400),
        ("?q=x&after=zz", 422),
        ("?q=x&limit=-1", 400),
        ("?q=x&limit=0", 200),
        ("?q=x&regex=true", 400),
    ] {
        all.get(&format!("/v1/search{query}")).must_be(status);
    }
    // The head of a request is bounded before that.
    let long = all.get(&format!("/v1/search?q={}", "x".repeat(10_000)));
    assert_eq!(long.status, 431);
    daemon.stranger().get("/v1/search?q=x").must_be(401);

    // A session that was removed is found no more.
    let removed = format!("/v1/sessions/{of_ann}?remove=true");
    ann.ask_with("DELETE", &removed, &[], "").must_be(204);
    assert_eq!(ids(&all, "needle"), [&*of_ben]);
    daemon.down();
}

#[test]
fn a_session_is_read_from_its_end_and_exported() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let other = daemon.token(&["control"]);
    let id = client.open();
    let path = format!("/v1/sessions/{id}");
    for turn in 0..30 {
        client.turn(&id, &format!("turn {turn}"));
    }
    client.turn(
        &id,
        "\u{1}\u{7f}\u{1b}[31m\u{fffd}\u{10ffff}\u{85} \"};\r\n# binary",
    );
    let page = |query: &str| {
        let page = client.get(&format!("{path}/history?{query}"));
        page.must_be(200).json()
    };
    let mut forward = Vec::new();
    let mut next = json!(1);
    while !next.is_null() {
        let page = page(&format!("from={next}&limit=2"));
        forward.extend(entries(&page));
        next = page["next"].clone();
    }
    let mut backward = Vec::new();
    let mut previous = "end".to_owned();
    let last = loop {
        let page = page(&format!("before={previous}&limit=1"));
        backward.splice(0..0, entries(&page));
        if page["previous"].is_null() {
            break page["last"].clone();
        }
        previous = page["previous"].to_string();
    };
    assert!(forward.len() > 90, "{}", forward.len());
    assert_eq!(backward, forward);
    assert_eq!(last, forward.len());
    let end = page("before=end&limit=3");
    assert_eq!(entries(&end), forward[forward.len() - 3..]);
    assert!(end["next"].is_null());
    for (query, status) in [
        ("from=1&before=2", 422),
        ("before=-1", 400),
        ("before=last", 400),
        ("before=0", 200),
        ("before=18446744073709551615", 200),
        ("before=18446744073709551616", 400),
    ] {
        client
            .get(&format!("{path}/history?{query}"))
            .must_be(status);
    }

    let export = client.get(&format!("{path}/export")).must_be(200);
    let name = format!("attachment; filename=\"session-{id}.jsonl\"");
    assert_eq!(export.headers["content-disposition"], name);
    // The lines between them are sizes of chunks.
    let lines = export.body.lines().filter(|line| line.starts_with('{'));
    assert_eq!(lines.collect::<Vec<_>>(), forward);
    let document = client
        .get(&format!("{path}/export?format=markdown"))
        .must_be(200)
        .body;
    let controls = document.chars().filter(|char| char.is_control());
    assert!(controls.into_iter().all(|char| matches!(char, '\r' | '\n')));
    for part in [
        "\n# turn 0\n",
        "## You\n\nturn 29",
        "## Agent\n\nturn 29",
        "# binary",
    ] {
        assert!(document.contains(part), "{part:?} {document}");
    }
    client
        .get(&format!("{path}/export?format=html"))
        .must_be(400);
    for path in [
        format!("{path}/export"),
        format!("{path}/history?before=end"),
    ] {
        other.get(&path).must_be(404);
    }
    daemon.down();
}
