//! Memory of a host under hostile output of adapters. These tests have a process of their own:
//! others would be measured with them.

mod support;

use support::{named, script, soon};
use trunkline_host::{Cause, EventKind, Host};

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .expect("a number")
        * 4096
}

const MIB: u64 = 1024 * 1024;

/// Held by the tests that measure memory: they would measure one another.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test]
async fn sixty_four_mebibytes_on_stderr_before_the_first_answer_do_no_harm() {
    let agent = script(
        r#"head -c 67108864 /dev/zero >&2; read a; read b; printf '{"type":"turn.complete","session_id":"s"}\n'; cat >/dev/null"#,
    );
    let _alone = ALONE.lock().await;
    let before = resident();
    let host = Host::builder().agent(agent).build().unwrap();
    let session = host.open("sh", named("s")).unwrap();
    assert_eq!(
        soon(session.send("x").unwrap().end()).await.cause,
        Cause::Complete
    );
    assert!(
        resident().saturating_sub(before) < 48 * MIB,
        "{} MiB more",
        (resident() - before) / MIB
    );
    soon(host.shutdown()).await;
}

#[tokio::test]
async fn a_line_of_256_mebibytes_costs_that_line_and_its_memory_falls_back() {
    let mut agent = script(
        r#"read a; read b; read c; read d; head -c 268435456 /dev/zero; echo
        printf '{"type":"output","session_id":"two","content":"fine"}\n{"type":"turn.complete","session_id":"two"}\n'
        cat >/dev/null"#,
    );
    agent.limits.max_line = 4 * 1024 * 1024;
    let _alone = ALONE.lock().await;
    let before = resident();
    let host = Host::builder().agent(agent).build().unwrap();
    let one = host.open("sh", named("one")).unwrap();
    let two = host.open("sh", named("two")).unwrap();
    let _stuck = one.send("x").unwrap();
    let turn = two.send("x").unwrap();
    let (text, end) = soon(turn.text()).await;
    assert_eq!((text.as_str(), end.cause), ("fine", Cause::Complete));
    assert_eq!(host.agent("sh").unwrap().counters.too_long, 1);
    assert!(
        resident().saturating_sub(before) < 64 * MIB,
        "{} MiB more",
        (resident() - before) / MIB
    );
    soon(host.shutdown()).await;
}

#[tokio::test]
async fn a_flood_that_no_one_reads_goes_to_disk_and_comes_back_whole() {
    // More by the environment: 2048 is the two gibibytes that the goals name.
    let mebibytes: u64 = std::env::var("FLOOD_MIB")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(96);
    let agent = script(&format!(
        r#"read a; read b; read c; read d
        yes '{{"type":"output","session_id":"slow","content":"{}"}}' | head -n {}
        printf '{{"type":"turn.complete","session_id":"slow"}}\n'
        printf '{{"type":"turn.complete","session_id":"quick"}}\n'
        cat >/dev/null"#,
        "x".repeat(8192 - 53),
        mebibytes * 128,
    ));
    let _alone = ALONE.lock().await;
    let before = resident();
    let host = Host::builder().agent(agent).build().unwrap();
    let slow = host.open("sh", named("slow")).unwrap();
    let quick = host.open("sh", named("quick")).unwrap();
    let mut flooded = slow.send("x").unwrap();
    let turn = quick.send("x").unwrap();
    assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    assert!(
        resident().saturating_sub(before) < 160 * MIB,
        "{} MiB more",
        (resident() - before) / MIB
    );
    let mut outputs = 0;
    while let Some(event) = soon(flooded.next()).await {
        match event.kind {
            EventKind::Output(_) => outputs += 1,
            EventKind::End(end) => assert_eq!(end.cause, Cause::Complete),
            _ => {}
        }
    }
    assert_eq!(outputs, mebibytes * 128);
    soon(host.shutdown()).await;
}
