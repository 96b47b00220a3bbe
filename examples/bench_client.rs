//! Turns a second of an adapter, with many sessions at once: `bench_client SESSIONS TURNS PROGRAM [ARG…]`.
//!
//! It names what measurements from outside name: a rename that breaks it breaks them.

use std::{
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use trunkline_host::{
    EventKind, Host, SessionOptions,
    config::{AgentConfig, Command},
    process::init,
};

static BYTES: AtomicUsize = AtomicUsize::new(0);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all, before any thread: see `process::init`.
    init::hook();
    let mut args = std::env::args().skip(1);
    let usage = "bench_client SESSIONS TURNS PROGRAM [ARG…]";
    let (sessions, turns): (usize, usize) = (
        args.next().ok_or(usage)?.parse()?,
        args.next().ok_or(usage)?.parse()?,
    );
    let command = Command::new(args.next().ok_or(usage)?).args(args);
    let mut agent = AgentConfig::external("agent", command);
    // Only the core.
    agent.extensions = Some(Vec::new());
    #[allow(deprecated, reason = "older measurements call it")]
    let host = Host::builder().agent(agent).without_usage_log().build()?;

    let began = Instant::now();
    let mut running = Vec::new();
    for _ in 0..sessions {
        let session = host.open("agent", SessionOptions::default())?;
        running.push(tokio::spawn(async move {
            for _ in 0..turns {
                let Ok(mut turn) = session.send("hello") else {
                    return false;
                };
                while let Some(event) = turn.next().await {
                    match event.kind {
                        EventKind::Output(output) => {
                            BYTES.fetch_add(output.content.len(), Ordering::Relaxed);
                        }
                        EventKind::End(end) if !end.is_completed() => return false,
                        _ => {}
                    }
                }
            }
            true
        }));
    }
    let mut completed = 0;
    for session in running {
        completed += usize::from(session.await?);
    }
    let took = began.elapsed();
    let rate = (completed * turns) as f64 / took.as_secs_f64();
    writeln!(
        std::io::stdout(),
        "{completed} of {sessions} sessions, {turns} turns each: {rate:.0} turns a second, {} bytes of answers",
        BYTES.load(Ordering::Relaxed)
    )?;
    host.shutdown().await;
    Ok(())
}
