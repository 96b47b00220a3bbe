//! Everything that a turn can send and ask besides text: one function each, by the input.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use trunkline_sdk::{
    Error, FieldKind, Input, Json, Permission, PlanEntry, PlanStatus, Question, ToolCallId,
    ToolOutcome, Turn, protocol::Usage,
};

/// Sends thinking piece by piece. It is not part of the answer.
async fn think(turn: &Turn) {
    turn.thinking("Is it a question? ").await;
    turn.thinking("It is.").await;
    turn.output("42").await;
}

/// Reports a tool call: its start, its output, its end. Take the agent's own id of the call, so
/// that the events pair. Without one, count: a later turn uses another id.
async fn call_a_tool(turn: &Turn) -> Result<(), Error> {
    static CALLS: AtomicU64 = AtomicU64::new(1);
    let call = ToolCallId::new(format!("call-{}", CALLS.fetch_add(1, Ordering::Relaxed)))?;
    turn.tool_start(&call, "Bash", Some(Json::from_serialize(&["ls"])?))
        .await;
    turn.tool_update(&call, "README.md\n").await;
    turn.tool_end(&call, "1 file", ToolOutcome::Succeeded).await;
    Ok(())
}

/// Sends the whole plan each time that it changes.
async fn plan(turn: &Turn) {
    let step = |content: &str, status| PlanEntry {
        content: content.to_owned(),
        status: Some(status),
        ..PlanEntry::default()
    };
    turn.plan(vec![
        step("read", PlanStatus::InProgress),
        step("write", PlanStatus::Pending),
    ])
    .await;
    turn.plan(vec![
        step("read", PlanStatus::Completed),
        step("write", PlanStatus::InProgress),
    ])
    .await;
}

/// Reports progress: a line for the user, and a heartbeat during quiet work.
async fn work(turn: &Turn) -> Result<(), Error> {
    turn.progress("step 1 of 2").await;
    tokio::select! {
        () = turn.stopped() => return Err(Error::stopped()),
        () = tokio::time::sleep(Duration::from_millis(100)) => turn.working().await,
    }
    turn.progress("step 2 of 2").await;
    Ok(())
}

/// Reports tokens and cost of this turn, not running totals. Unknown values are absent, not zero.
async fn account(turn: &Turn) {
    let usage = Usage {
        input_tokens: Some(1_200),
        output_tokens: Some(80),
        cost_usd: Some(0.004),
        ..Usage::default()
    };
    turn.usage(usage).await;
}

/// Asks permission for one action. Without an answer, and after a stop, it is denied.
async fn act(turn: &Turn) {
    let permission = Permission::new("Bash", "Remove the build folder", "rm -r target");
    let approved = turn.ask_permission(permission).await.is_approved();
    turn.output(if approved { "removed" } else { "kept" }).await;
}

/// Asks a question. A host that cannot ask shows it as text, and it counts as cancelled.
async fn ask(turn: &Turn) {
    let answer = turn
        .ask(Question::new("Which branch?").ask_for("branch", "Branch", FieldKind::Text))
        .await;
    turn.output(
        answer
            .text("branch")
            .unwrap_or_else(|| "no answer".to_owned()),
    )
    .await;
}

/// Lists the user's files, which come with the input, and makes one to send. `Turn::file` sends
/// an existing file.
async fn exchange_files(turn: &Turn, input: &Input) -> Result<(), Error> {
    for file in &input.files {
        turn.output(format!("got {}\n", file.file_path)).await;
    }
    turn.new_file("report.txt", "text/plain", "done").await?;
    Ok(())
}

async fn answer(turn: &Turn, input: &Input) -> Result<(), Error> {
    match input.content.as_str() {
        "think" => think(turn).await,
        "tool" => call_a_tool(turn).await?,
        "plan" => plan(turn).await,
        "work" => work(turn).await?,
        "usage" => account(turn).await,
        "act" => act(turn).await,
        "ask" => ask(turn).await,
        "files" => exchange_files(turn, input).await?,
        other => return Err(Error::other(format!("unknown: {other}"))),
    }
    Ok(())
}

fn main() -> ExitCode {
    let adapter = trunkline_sdk::adapter(|turn, input| async move { answer(&turn, &input).await });
    trunkline_sdk::serve_stdio(adapter)
}
