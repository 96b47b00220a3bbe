//! An adapter that does what the SDK protects from: prints, blocks its threads, leaves children behind.
//!
//! The process tests run it.

#![expect(clippy::print_stdout, reason = "the adapter must not print here")]

use std::{process::ExitCode, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use trunkline_sdk::{Adapter, Check, Description, Error, Input, Program, Turn};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Prefix of each answer.
    prefix: String,
    limits: Limits,
    /// True if `--diagnose` finds no problem.
    healthy: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Limits {
    words: u32,
}

struct Misbehaving(Config);

impl Adapter for Misbehaving {
    type State = ();

    async fn turn(&self, turn: Turn, input: Input, (): &mut ()) -> Result<(), Error> {
        match input.content.as_str() {
            "print" => {
                println!("{{\"type\":\"output\",\"session_id\":\"a\",\"content\":\"printed\"}}")
            }
            "child" => {
                let child = std::process::Command::new("sh")
                    .args(["-c", "cat; echo from the child"])
                    .status()?;
                turn.output(child.success().to_string()).await;
            }
            "environment" => {
                turn.output(format!("{:?}", std::env::var_os(trunkline_sdk::VARIABLE)))
                    .await
            }
            "block" => {
                turn.output("blocking").await;
                std::thread::sleep(Duration::from_secs(600));
            }
            "wait" => {
                turn.output("waiting").await;
                std::future::pending::<()>().await;
            }
            "flood" => loop {
                turn.output("x".repeat(1000)).await;
            },
            words => {
                let words = words
                    .split_whitespace()
                    .take(self.0.limits.words.max(1) as usize);
                turn.output(format!(
                    "{}{}",
                    self.0.prefix,
                    words.collect::<Vec<_>>().join(" ")
                ))
                .await;
            }
        }
        Ok(())
    }

    fn describe(&self) -> Description {
        Description::new("misbehaving", "0.1").use_when("testing the SDK", "anything else")
    }

    async fn diagnose(&self) -> Vec<Check> {
        let start = Check::info("start", "starts");
        match self.0.healthy {
            None => vec![start, Check::warn("health", "unknown").hint("say healthy")],
            Some(true) => vec![start],
            Some(false) => vec![start, Check::error("health", "ill")],
        }
    }
}

fn main() -> ExitCode {
    Program::configured(Misbehaving).run()
}
