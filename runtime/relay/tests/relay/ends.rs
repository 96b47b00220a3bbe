//! Messages to a hub for each event below, with extensions and without ([relay.7]).

use std::time::Duration;

use serde_json::{Value, json};
use trunkline_host::config::{AgentConfig, Command};
use trunkline_protocol::Extensions;

use crate::{
    adapter::Adapter,
    hub::{ALL, Hub},
    world::World,
};

/// Hubs with extensions and without.
const HUBS: [bool; 2] = [true, false];

async fn open(world: &mut World, extended: bool) -> Adapter {
    if extended {
        world.open("s").await
    } else {
        world.open_core("s").await
    }
}

/// Receives the end of the turn `t`: with extensions in full, without as text and a bare end.
async fn end(hub: &mut Hub, extended: bool, status: &str, category: &str, words: &str) -> Value {
    if extended {
        let end = hub.expect("turn.complete").await;
        assert_eq!(
            (&end["turn_id"], &end["status"]),
            (&json!("t"), &json!(status)),
            "{end}"
        );
        assert_eq!(end["error"]["category"], category, "{end}");
        assert!(
            end["error"]["message"].as_str().unwrap().contains(words),
            "{end}"
        );
        end
    } else {
        let text = hub.expect("output").await;
        assert_eq!(text["channel"], "system");
        assert!(text["content"].as_str().unwrap().contains(words), "{text}");
        let end = hub.expect("turn.complete").await;
        assert_eq!(end, json!({"type": "turn.complete", "session_id": "s"}));
        end
    }
}

/// Receives a report between turns or within one: an `error`, or text on `system`.
async fn told(hub: &mut Hub, extended: bool, category: &str, words: &str) {
    let told = hub.hear().await;
    if extended {
        assert_eq!(
            (&told["type"], &told["category"], &told["fatal"]),
            (&json!("error"), &json!(category), &json!(false))
        );
        assert!(told["message"].as_str().unwrap().contains(words), "{told}");
    } else {
        assert_eq!(
            (&told["type"], &told["channel"]),
            (&json!("output"), &json!("system")),
            "{told}"
        );
        assert!(told["content"].as_str().unwrap().contains(words), "{told}");
    }
}

#[tokio::test]
async fn a_crash_is_told_with_status_and_last_words() {
    for extended in HUBS {
        let script = "read start; read input; echo 'last words' >&2; exit 3";
        let agent = AgentConfig::external("sh", Command::new("sh").arg("-c").arg(script));
        let mut world = World::made(
            |agent| agent,
            |host| host.agent(agent).default_agent("sh"),
            64 * 1024,
        );
        if extended {
            world.hub.start("s").await;
        } else {
            world.hub.start_core("s").await;
        }
        world.hub.input("s", "t", "go").await;
        let end = end(
            &mut world.hub,
            extended,
            "failed",
            "process_exit",
            "last words",
        )
        .await;
        if extended {
            assert_eq!(
                (&end["exit_code"], &end["delivered"]),
                (&json!(3), &json!("unknown"))
            );
        }
        if extended {
            told(&mut world.hub, extended, "process_exit", "exit status 3").await;
        }
        world.hub.hang_up().await;
        assert_eq!(
            world.hub.rest().await,
            [json!(null); 0],
            "a core-only hub reads of a crash once"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_the_adapter_reports_reaches_a_core_only_hub_whole() {
    let mut world = World::new();
    let mut adapter = world.open_core("s").await;
    world.hub.input_core("s", "go").await;
    let turn = adapter.turn().await;
    let report = "a line of a long report\n".repeat(200);
    adapter
        .say(
            json!({"type": "turn.complete", "session_id": "s", "turn_id": turn, "status": "failed",
            "error": {"message": report, "stderr": ["last words"]}}),
        )
        .await;
    let text = world.hub.expect("output").await;
    assert!(text["content"].as_str().unwrap().contains(&report));
    world.hub.expect("turn.complete").await;
}

#[tokio::test]
async fn a_core_only_hub_gets_one_short_text_of_a_crash() {
    let script = "read start; read input; i=0; while [ $i -lt 3000 ]; do echo noise $i >&2; i=$((i+1)); done; exit 7";
    for crashes in 1..=2 {
        let agent = AgentConfig::external("sh", Command::new("sh").arg("-c").arg(script));
        let mut world = World::made(
            |agent| agent,
            |host| host.agent(agent).default_agent("sh"),
            64 * 1024,
        );
        world.hub.start_core("s").await;
        for _ in 0..crashes {
            world.hub.input_core("s", "go").await;
            let text = world.hub.expect("output").await;
            let expected = "the adapter's process ended with exit status 7; its last words on stderr: noise 2999";
            assert_eq!(text["content"], expected);
            world.hub.expect("turn.complete").await;
        }
        world.hub.hang_up().await;
        assert_eq!(world.hub.rest().await, [json!(null); 0]);
    }
}

#[tokio::test]
async fn a_signal_is_told_as_such() {
    let script = "read start; read input; kill -9 $$";
    let agent = AgentConfig::external("sh", Command::new("sh").arg("-c").arg(script));
    let mut world = World::made(
        |agent| agent,
        |host| host.agent(agent).default_agent("sh"),
        64 * 1024,
    );
    world.hub.start("s").await;
    world.hub.input("s", "t", "go").await;
    let end = end(&mut world.hub, true, "failed", "process_exit", "signal 9").await;
    assert_eq!(
        (&end["signal"], &end["exit_code"]),
        (&json!(9), &json!(null))
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_end_of_stream_and_the_restart_behind_it_are_told() {
    for extended in HUBS {
        let mut world = World::new();
        let mut adapter = open(&mut world, extended).await;
        world.hub.input("s", "t", "go").await;
        let turn = adapter.turn().await;
        adapter.output("s", &turn, "half").await;
        world.hub.expect("output").await;
        drop(adapter);
        let end = end(&mut world.hub, extended, "failed", "process_exit", "").await;
        if extended {
            assert_eq!(end["delivered"], "yes");
            told(&mut world.hub, extended, "process_exit", "").await;
        }
        world.hub.input("s", "u", "again").await;
        let mut adapter = world.adapters.next().await;
        let id = adapter.ready().await;
        let turn = adapter.turn().await;
        adapter.output(&id, &turn, "fresh").await;
        if extended {
            assert_eq!(
                world.hub.hear().await,
                json!({"type": "session.info", "session_id": "s", "context": "lost"})
            );
        } else {
            assert_eq!(world.hub.expect("output").await["channel"], "system");
        }
        assert_eq!(world.hub.expect("output").await["content"], "fresh");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_told_whether_the_stop_is_answered_or_not() {
    for extended in HUBS {
        for answered in [true, false] {
            let mut world = World::with(|mut agent| {
                agent.timeouts.turn = Some(Duration::from_secs(5));
                agent
            });
            let mut adapter = open(&mut world, extended).await;
            world.hub.input("s", "t", "go").await;
            let turn = adapter.turn().await;
            assert_eq!(adapter.expect("stop").await["reason"], "timeout");
            if answered {
                adapter.complete("s", &turn).await;
                end(
                    &mut world.hub,
                    extended,
                    "failed",
                    "timeout",
                    "turn_timeout",
                )
                .await;
            } else {
                let category = "stop_unanswered";
                let words = "stop_timeout";
                end(&mut world.hub, extended, "failed", category, words).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_stop_is_told() {
    for extended in HUBS {
        let mut world = World::new();
        let mut adapter = open(&mut world, extended).await;
        world.hub.input("s", "t", "go").await;
        adapter.turn().await;
        world
            .hub
            .say(json!({"type": "stop", "session_id": "s"}))
            .await;
        adapter.expect("stop").await;
        end(
            &mut world.hub,
            extended,
            "failed",
            "stop_unanswered",
            "stop_timeout",
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_told() {
    for extended in HUBS {
        let mut world = World::with(|mut agent| {
            agent.limits.max_turn_output = Some(10);
            agent
        });
        let mut adapter = open(&mut world, extended).await;
        world.hub.input("s", "t", "go").await;
        let turn = adapter.turn().await;
        adapter.output("s", &turn, "much more than ten bytes").await;
        adapter.expect("stop").await;
        adapter.complete("s", &turn).await;
        world.hub.expect("output").await;
        end(
            &mut world.hub,
            extended,
            "limit",
            "oversize",
            "more than it may",
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_input_that_reaches_its_limits_is_stopped_and_the_next_one_runs() {
    for (limit, status, category) in [
        ("max_tokens", "limit", "usage_limit"),
        ("turn_timeout_ms", "failed", "timeout"),
        ("inactivity_timeout_ms", "failed", "timeout"),
    ] {
        let mut world = World::new();
        let mut adapter = open(&mut world, true).await;
        let limits = json!({limit: 9});
        world
            .hub
            .say(
                json!({"type": "user.input", "session_id": "s", "turn_id": "t", "content": "go",
                "limits": limits}),
            )
            .await;
        let input = adapter.expect("user.input").await;
        let turn = input["turn_id"].as_str().unwrap();
        assert_eq!(input["limits"], limits, "an adapter may apply it, too");
        if limit == "max_tokens" {
            adapter
                .say(
                    json!({"type": "usage", "session_id": "s", "turn_id": turn, "total_tokens": 9}),
                )
                .await;
            world.hub.expect("usage").await;
        }
        adapter.expect("stop").await;
        adapter.complete("s", turn).await;
        let why = format!("the input's {limit} of 9");
        let end = end(&mut world.hub, true, status, category, &why).await;
        assert_eq!(end["delivered"], "yes");
        world
            .hub
            .say(
                json!({"type": "user.input", "session_id": "s", "turn_id": "u", "content": "on",
                "limits": {"later": 9}}),
            )
            .await;
        let input = adapter.expect("user.input").await;
        assert_eq!(input["content"], "on");
    }
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_an_input_are_ignored_without_options() {
    let mut world = World::new();
    let mut adapter = open(&mut world, false).await;
    world
        .hub
        .say(
            json!({"type": "user.input", "session_id": "s", "content": "go",
            "limits": {"max_tokens": 0}}),
        )
        .await;
    let input = adapter.expect("user.input").await;
    assert_eq!(
        (&input["content"], input.get("limits")),
        (&json!("go"), None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_tokens_are_used_up_ends_each_input_undelivered() {
    let mut world = World::new();
    let ready = world
        .hub
        .start_with("s", &ALL, json!({"max_tokens": 9}))
        .await;
    let of_host = json!(["max_tokens", "turn_timeout_ms", "inactivity_timeout_ms"]);
    assert_eq!(ready["options_applied"], of_host);
    world.hub.input("s", "t", "go").await;
    let mut adapter = world.adapters.next().await;
    let start = adapter.expect("session.start").await;
    assert_eq!(start["max_tokens"], 9, "an adapter may apply it, too");
    adapter
        .say(json!({"type": "session.ready", "session_id": "s", "protocol": 1, "extensions": ALL}))
        .await;
    let turn = adapter.expect("user.input").await["turn_id"].clone();
    adapter
        .say(
            json!({"type": "turn.complete", "session_id": "s", "turn_id": turn,
            "usage": {"input_tokens": 8, "output_tokens": 1}}),
        )
        .await;
    let first = world.hub.until("turn.complete").await;
    assert_eq!(first["status"], "completed");
    for turn in ["u", "v"] {
        world.hub.input("s", turn, "go").await;
        let end = world.hub.expect("turn.complete").await;
        assert_eq!(
            (
                &end["turn_id"],
                &end["status"],
                &end["cause"],
                &end["delivered"]
            ),
            (
                &json!(turn),
                &json!("limit"),
                &json!("max_tokens"),
                &json!("no")
            )
        );
        assert_eq!(end["error"]["category"], "usage_limit");
    }
    adapter.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told() {
    for extended in HUBS {
        let mut world = World::new();
        let start = json!({"type": "session.start", "session_id": "s", "denied_tools": ["Bash"],
            "extensions": if extended { json!(Extensions::all().to_names()) } else { json!(null) }});
        world.hub.say(start).await;
        if extended {
            world.hub.expect("session.ready").await;
        }
        world.hub.input("s", "t", "go").await;
        let mut adapter = world.adapters.next().await;
        adapter.ready().await;
        let why = "does not enforce denied_tools";
        let end = end(&mut world.hub, extended, "refused", "protocol", why).await;
        adapter.expect("session.close").await;
        if extended {
            assert_eq!(end["delivered"], "no");
            assert_eq!(
                world.hub.expect("session.closed").await["reason"],
                "refused"
            );
        } else {
            assert!(
                world.hub.expect("output").await["content"]
                    .as_str()
                    .unwrap()
                    .contains(why)
            );
            world.hub.input_core("s", "go on").await;
            assert!(
                world.hub.expect("output").await["content"]
                    .as_str()
                    .unwrap()
                    .contains(why)
            );
            world.hub.expect("turn.complete").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_adapters_own_failure_is_passed_on() {
    for extended in HUBS {
        let mut world = World::new();
        let mut adapter = open(&mut world, extended).await;
        world.hub.input("s", "t", "go").await;
        let turn = adapter.turn().await;
        adapter
            .say(json!({"type": "turn.complete", "session_id": "s", "turn_id": turn, "status": "failed",
                "error": {"category": "rate_limit", "message": "slow down", "code": "429", "retry_at": "2030-01-01T00:00:00Z"}}))
            .await;
        let end = end(
            &mut world.hub,
            extended,
            "failed",
            "rate_limit",
            "slow down",
        )
        .await;
        if extended {
            assert_eq!(
                (&end["error"]["code"], &end["error"]["retry_at"]),
                (&json!("429"), &json!("2030-01-01T00:00:00Z"))
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bad_and_oversize_lines_that_name_the_session_are_told_to_it_alone() {
    for extended in HUBS {
        let mut world = World::with(|mut agent| {
            agent.limits.max_line = 1 << 20;
            agent
        });
        let mut adapter = open(&mut world, extended).await;
        if extended {
            world.hub.start("other").await;
        } else {
            world.hub.start_core("other").await;
        }
        adapter.ready().await;
        adapter
            .write(r#"{"type":"permission.request","session_id":"s","request_id":"r"}"#)
            .await;
        told(&mut world.hub, extended, "protocol", "permission.request").await;
        let long = "x".repeat(2 << 20);
        adapter
            .write(&format!(
                r#"{{"type":"output","session_id":"s","content":"{long}"}}"#
            ))
            .await;
        told(&mut world.hub, extended, "oversize", "max_line").await;
        adapter
            .write(r#"{"type":"file.output","session_id":"s","file_path":"/etc/passwd"}"#)
            .await;
        told(&mut world.hub, extended, "file_refused", "").await;
        // Noise, unknown ids, late messages: not on the wire.
        adapter.write("a banner").await;
        adapter
            .write(r#"{"type":"telepathy","session_id":"s"}"#)
            .await;
        adapter
            .write(r#"{"type":"output","session_id":"unknown","content":"x"}"#)
            .await;
        adapter
            .write(r#"{"type":"turn.complete","session_id":"s"}"#)
            .await;
        world.hub.hears_nothing().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_of_an_agent_has_at_most_256_bytes() {
    for extended in HUBS {
        let mut world = World::new();
        let mut adapter = open(&mut world, extended).await;
        for (kind, member, more) in [
            ("output", "message_id", json!({"content": "x"})),
            ("output", "turn_id", json!({"content": "x"})),
            ("tool.start", "tool_call_id", json!({"tool": "T"})),
            ("output", "parent_tool_call_id", json!({"content": "x"})),
            (
                "permission.request",
                "request_id",
                json!({"tool": "T", "description": "d", "resource": "r"}),
            ),
        ] {
            let mut message = more;
            message["type"] = kind.into();
            message["session_id"] = "s".into();
            message[member] = "\u{e9}".repeat(129).into();
            adapter.say(message.clone()).await;
            told(&mut world.hub, extended, "protocol", member).await;
            message[member] = "\u{e9}".repeat(128).into();
            adapter.say(message).await;
            if extended || kind != "tool.start" {
                assert_eq!(world.hub.hear().await["type"], kind, "{member}");
            }
        }
        // No session of this id exists: counted, and reported to none.
        let line = json!({"type": "output", "session_id": "s".repeat(257), "content": "x"});
        adapter.say(line).await;
        world.hub.hears_nothing().await;
        assert_eq!(world.host.health().await[0].counters.bad, 6);
    }
}

#[tokio::test(start_paused = true)]
async fn a_core_only_hub_gets_lines_that_it_can_read() {
    let mut world = World::new();
    let mut adapter = world.open_core("s").await;
    world.hub.input_core("s", "go").await;
    let turn = adapter.turn().await;
    let content = "\"\u{1F600}\n".repeat(400_000);
    let mut read = String::new();
    let mut lines = 0;
    let long = json!({"type": "output", "session_id": "s", "turn_id": turn, "content": content, "channel": "notes"});
    adapter.say(long).await;
    while read.len() < content.len() {
        let piece = world.hub.expect("output").await;
        assert!(piece.to_string().len() <= 1024 * 1024);
        assert_eq!(piece["channel"], "notes");
        read.push_str(piece["content"].as_str().unwrap());
        lines += 1;
    }
    assert!(read == content && lines == 4, "{} in {lines}", read.len());
    let request = json!({
        "type": "permission.request", "session_id": "s", "turn_id": turn, "request_id": "r", "tool": "Write",
        "description": "d", "resource": "x".repeat(2 << 20),
    });
    adapter.say(request).await;
    assert_eq!(
        adapter.expect("permission.response").await["approved"],
        false
    );
    told(
        &mut world.hub,
        false,
        "permission_denied",
        "too long for this hub to show",
    )
    .await;
    adapter.complete("s", &turn).await;
    world.hub.expect("turn.complete").await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_with_extensions_gets_a_long_output_whole() {
    let mut world = World::new();
    world
        .hub
        .start_with("s", &ALL, json!({"max_line": 8 << 20}))
        .await;
    let mut adapter = world.adapters.next().await;
    adapter.ready().await;
    world.hub.input("s", "t", "go").await;
    let turn = adapter.turn().await;
    adapter.output("s", &turn, &"x".repeat(3 << 20)).await;
    assert_eq!(
        world.hub.expect("output").await["content"]
            .as_str()
            .unwrap()
            .len(),
        3 << 20
    );
}
