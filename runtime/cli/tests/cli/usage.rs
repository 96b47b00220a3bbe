use serde_json::{Value, json};

use super::Home;

const STATE: &str = ".local/state/trunkline";

/// A home whose usage log has these lines.
fn home(lines: &[Value]) -> Home {
    let home = Home::new();
    std::fs::create_dir_all(home.path().join(STATE)).unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    home.file(&format!("{STATE}/usage.jsonl"), &text);
    home
}

#[test]
fn a_turn_is_logged_and_summed_up() {
    let home = Home::new();
    home.run(["run", "hush"]).must_end_with(0);
    home.run(["run", "/fail hush"]).must_end_with(1);
    let log = std::fs::read_to_string(home.path().join(STATE).join("usage.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(!log.contains("hush"), "{log}");
    let report: Value = serde_json::from_str(
        &home
            .run(["agents", "usage", "--json"])
            .must_end_with(0)
            .stdout,
    )
    .unwrap();
    assert_eq!(
        (&report["total"]["turns"], &report["rows"][0]["agent"]),
        (&json!(2), &json!("echo"))
    );
    assert_eq!(report["total"]["cost_usd"], Value::Null);
}

#[test]
fn a_relays_turns_are_logged_and_a_demos_are_not() {
    let home = Home::new();
    let input = "{\"type\":\"session.start\",\"session_id\":\"a\",\"extensions\":[\"options\"],\"task_id\":\"t-1\"}\n\
        {\"type\":\"user.input\",\"session_id\":\"a\",\"content\":\"hi\"}\n";
    let mut child = home
        .command(["serve"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout = child.stdout.take().unwrap();
    std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stdout));
    assert!(lines.any(|line| line.unwrap().contains("turn.complete")));
    drop(stdin);
    assert!(child.wait().unwrap().success());
    home.run(["demo", "--sessions", "2", "--turns", "2", "--json"])
        .must_end_with(0);
    home.run([
        "demo",
        "--sessions",
        "2",
        "--turns",
        "2",
        "--json",
        "--agent",
        "echo",
    ])
    .must_end_with(0);
    let log = std::fs::read_to_string(home.path().join(STATE).join("usage.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
    let ran = home.run(["agents", "usage", "--by", "task", "--json"]);
    let report: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
    assert_eq!(
        (&report["rows"][0]["task"], &report["rows"][0]["turns"]),
        (&json!("t-1"), &json!(1))
    );
}

#[test]
fn the_cost_of_a_task_is_the_sum_of_its_turns() {
    let turn = |session: &str, task: Value, run: Value, cost: f64| {
        json!({ "time": "2026-03-01T10:00:00Z", "agent": "a", "session": session, "user": "u", "task": task, "run": run,
                "cost_usd": cost })
    };
    let home = home(&[
        turn("s-1", json!("t-1"), json!("1"), 0.5),
        turn("s-2", json!("t-1"), json!("2"), 0.25),
        turn("s-3", json!("t-2"), json!("1"), 2.0),
        turn("s-3", Value::Null, Value::Null, 4.0),
    ]);
    let costs = |by: &str| -> Vec<(Value, Value)> {
        let ran = home.run(["agents", "usage", "--json", "--by", by]);
        let report: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
        let rows = report["rows"].as_array().unwrap();
        rows.iter()
            .map(|row| (row[by].clone(), row["cost_usd"].clone()))
            .collect()
    };
    let expected = |rows: &[(Value, f64)]| -> Vec<(Value, Value)> {
        rows.iter()
            .map(|(name, cost)| (name.clone(), json!(cost)))
            .collect()
    };
    let none = || Value::Null;
    assert_eq!(
        costs("task"),
        expected(&[(none(), 4.0), (json!("t-1"), 0.75), (json!("t-2"), 2.0)])
    );
    assert_eq!(
        costs("run"),
        expected(&[(none(), 4.0), (json!("1"), 2.5), (json!("2"), 0.25)])
    );
    assert_eq!(costs("user"), expected(&[(json!("u"), 6.75)]));
    let table = home.run(["agents", "usage", "--by", "task,run"]).stdout;
    let row: Vec<_> = table.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(row, ["t-1", "1", "1", "-", "-", "-", "$0.5000"], "{table}");
}

#[test]
fn a_configuration_turns_the_log_off_and_names_its_folder() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [{ "id": "e", "profile": "echo" }], "runtime": { "usage_log": false, "state_dir": "here" } }"#,
    );
    home.run(["run", "x"]).must_end_with(0);
    home.run(["agents", "usage"])
        .must_end_with(0)
        .must_say("no turn is logged in ");
    home.file(
        "trunkline.json",
        r#"{ "agents": [{ "id": "e", "profile": "echo" }], "runtime": { "state_dir": "here" } }"#,
    );
    home.run(["run", "x"]).must_end_with(0);
    assert!(home.path().join("here/usage.jsonl").exists());
    assert!(
        home.run(["agents", "usage", "--by", "agent"])
            .must_end_with(0)
            .stdout
            .contains("e ")
    );
}

#[test]
fn sums_are_by_the_keys_that_are_asked_for_and_bad_lines_are_told() {
    let turn = |time: &str, model: &str, cost: f64| {
        json!({ "time": time, "agent": "a", "session": "s", "model": model, "cost_usd": cost,
                "usage": { "input_tokens": 10, "output_tokens": 2 } })
    };
    let home = home(&[
        turn("2026-03-01T10:00:00Z", "big", 0.5),
        turn("2026-03-01T11:00:00Z", "small\u{1b}[2J", 0.25),
        json!("no turn"),
        json!({ "time": "2026-03-01T11:30:00Z", "dropped": 7 }),
        turn("2026-03-02T10:00:00Z", "big", 1.0),
        json!({ "time": "2026-03-02T11:00:00Z", "agent": "a", "session": "s", "model": "free" }),
    ]);
    let ran = home.run(["agents", "usage", "--by", "model"]);
    ran.must_end_with(0)
        .must_say("1 lines of the usage log could not be read")
        .must_say("7 turns are missing");
    let rows: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["model", "turns", "in", "cached", "out", "cost"]);
    assert_eq!(rows[1], ["big", "2", "20", "-", "4", "$1.5000"]);
    assert_eq!(rows[2], ["free", "1", "-", "-", "-", "-"]);
    assert_eq!(rows[4], ["total", "4", "30", "-", "6", "$1.7500+"]);
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);

    let ran = home.run([
        "agents",
        "usage",
        "--json",
        "--by",
        "day",
        "--since",
        "2026-03-02",
    ]);
    let report: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
    assert_eq!(report["rows"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&report["rows"][0]["day"], &report["total"]["turns"]),
        (&json!("2026-03-02"), &json!(2))
    );
    assert_eq!(
        (&report["bad_lines"], &report["dropped_turns"]),
        (&json!(1), &json!(7))
    );

    home.run(["agents", "usage", "--since", "yesterday"])
        .must_end_with(2)
        .must_say("next:");
    home.run(["agents", "usage", "--by", "colour"])
        .must_end_with(2);
}

#[test]
fn a_cost_is_estimated_by_built_in_prices_and_by_ones_own() {
    let turn = |session: &str, model: &str| {
        json!({ "time": "2026-03-01T10:00:00Z", "agent": "a", "session": session, "model": model,
                "usage": { "input_tokens": 1_000_000, "output_tokens": 0 } })
    };
    let home = home(&[
        turn("s-1", "gpt-5"),
        turn("s-1", "house"),
        turn("s-2", "gpt-5"),
    ]);
    let costs = |expected: [&str; 3]| {
        let ran = home.run(["agents", "usage", "--by", "session"]);
        let lines = ran.must_end_with(0).stdout.lines().skip(1);
        let costs: Vec<_> = lines
            .map(|line| line.split_whitespace().last().unwrap().to_owned())
            .collect();
        assert_eq!(costs, expected, "{}", ran.stdout);
    };
    costs(["~$1.2500+", "~$1.2500", "~$2.5000+"]);
    let prices = r#"{ "source": "us", "date": "2026-01-01", "models": { "house": { "input": 2, "output": 2 } } }"#;
    home.file("prices.json", prices);
    home.file(
        "trunkline.json",
        r#"{ "agents": [{ "id": "a", "profile": "echo" }], "runtime": { "prices": "prices.json" } }"#,
    );
    costs(["~$3.2500", "~$1.2500", "~$4.5000"]);
    home.file("prices.json", r#"{ "source": "us" }"#);
    home.run(["agents", "usage"])
        .must_end_with(2)
        .must_say("prices.json")
        .must_say("missing field `date`");
}
