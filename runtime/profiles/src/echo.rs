//! An adapter without an agent: for trying a host, and for seeing each part of the protocol at work.

mod command;

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use trunkline_sdk::{
    Adapter, Category, Description, Error, Input, Permission, PlanEntry, PlanStatus, ToolCallId,
    ToolOutcome, Turn, file_type_of, protocol::Command as Offered,
};

use self::command::Command;

/// Interval between signs of life during quiet work.
const WORKING: Duration = Duration::from_secs(5);

/// Echoes its input. An input that begins with `/` may be a command; one that it does not know is echoed too.
///
/// | command | shows |
/// |---|---|
/// | `/tool NAME` | a permission request, then a tool call |
/// | `/file NAME` | a file |
/// | `/sleep SECONDS` | a long turn, which a stop ends and a steer adds to |
/// | `/fail [TEXT]` | a failed turn |
/// | `/burst N BYTES` | many outputs |
/// | `/think TEXT`, `/plan A; B` | what the model thinks, and a plan |
#[derive(Debug, Clone, Copy, Default)]
pub struct Echo;

impl Adapter for Echo {
    /// Number of called tools: a later turn uses another id.
    type State = u64;

    async fn turn(&self, turn: Turn, input: Input, calls: &mut u64) -> Result<(), Error> {
        match Command::from_content(&input.content) {
            Command::Echo => turn.output(input.content).await,
            Command::Tool(name) => tool(&turn, name, calls).await?,
            Command::File(name) => {
                let contents = format!("a file named {name}\n");
                turn.new_file(name, file_type_of(name), contents).await?;
            }
            Command::Sleep(time) => return rest(&turn, time).await,
            Command::Fail(text) => return Err(Error::new(Category::Other, text)),
            Command::Burst { pieces, bytes } => burst(&turn, pieces, bytes).await,
            Command::Think(text) => {
                turn.thinking(text).await;
                turn.output("thought about it").await;
            }
            Command::Plan(entries) => {
                let entry = |text: &str| PlanEntry {
                    content: text.to_owned(),
                    status: Some(PlanStatus::Pending),
                    ..PlanEntry::default()
                };
                turn.plan(entries.iter().copied().map(entry).collect())
                    .await;
                turn.output(format!("planned {} steps", entries.len()))
                    .await;
            }
        }
        Ok(())
    }

    fn describe(&self) -> Description {
        Description::new("echo", env!("CARGO_PKG_VERSION"))
            .use_when("a host is tried, tested or shown", "an answer is wanted")
            .steerable()
            .commands(command::OFFERED.iter().map(offered).collect())
    }
}

fn offered((name, hint, description): &(&str, &str, &str)) -> Offered {
    Offered {
        name: (*name).to_owned(),
        description: Some((*description).to_owned()),
        hint: Some((*hint).to_owned()),
        text: Some(format!("/{name}")),
    }
}

async fn tool(turn: &Turn, name: &str, calls: &mut u64) -> Result<(), Error> {
    *calls += 1;
    let call = ToolCallId::new(format!("call-{calls}"))?;
    let permission = Permission::new(name, format!("Run {name}"), name).tool_call(call.clone());
    let decision = turn.ask_permission(permission).await;
    if !decision.is_approved() {
        turn.output(format!("denied {name}")).await;
        return Ok(());
    }
    turn.tool_start(&call, name, None).await;
    turn.tool_end(&call, format!("{name} did nothing"), ToolOutcome::Succeeded)
        .await;
    turn.output(format!("ran {name}")).await;
    Ok(())
}

async fn rest(turn: &Turn, time: Duration) -> Result<(), Error> {
    let until = Instant::now() + time;
    loop {
        tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            Some(steer) = turn.next_steer() => turn.output(steer.accept()).await,
            () = sleep_until(until) => break,
            () = sleep(WORKING) => turn.working().await,
        }
    }
    turn.output(format!("slept {} s", time.as_secs_f64())).await;
    Ok(())
}

async fn burst(turn: &Turn, pieces: u64, bytes: usize) {
    for number in 1..=pieces {
        if turn.is_stopped() {
            return;
        }
        let mut text = format!("{number:08} ");
        text.extend(std::iter::repeat_n('x', bytes.saturating_sub(text.len())));
        turn.output(text).await;
    }
}

#[cfg(test)]
mod tests;
