//! Executes scripts.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::{task::JoinSet, time::Instant};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, Category, Channel, ClosedReason, OptionKind, Output, SessionId,
    Status,
};

use super::{
    Script,
    ledger::judge,
    operation::{NAMES, Operation, ProbeRequest},
};
use crate::{Description, Error, Permission, Question, Turn};

const TICK: Duration = Duration::from_millis(50);

/// The most that one `burst` piece or `file` holds, in bytes.
const MOST: u64 = 64 * 1024 * 1024;

/// Result of a step.
enum StepResult {
    On,
    Done,
}

pub(crate) async fn run(
    turn: Turn,
    script: Script,
    description: &Description,
) -> Result<(), Error> {
    let turn = std::sync::Arc::new(turn);
    for step in script.steps {
        let operation = Operation::from_step(step);
        if turn.is_stopped() {
            return Err(Error::stopped());
        }
        if operation.name == "complete" {
            return complete(turn, operation);
        }
        match take(&turn, operation, &script.text, description).await? {
            StepResult::On => {}
            StepResult::Done => return Ok(()),
        }
    }
    Ok(())
}

async fn take(
    turn: &std::sync::Arc<Turn>,
    mut operation: Operation,
    text: &str,
    description: &Description,
) -> Result<StepResult, Error> {
    let core = &turn.session().0;
    match operation.name.as_str() {
        "hello" => {
            let named = serde_json::to_value(description.printed(None)).unwrap_or_default();
            let name = &named["name"];
            let version = &named["version"];
            say(
                turn,
                json!({ "$probe": 1, "ops": NAMES, "adapter": name, "version": version }),
            )
            .await;
        }
        "say" => {
            let said = operation.text_or("");
            match operation.text() {
                Some(channel) => turn.emit(Output::on(Channel::named(&channel), said)).await,
                None => turn.emit(Output::text(said)).await,
            }
        }
        "echo" => turn.emit(Output::text(operation.text_or(text))).await,
        "burst" => {
            burst(
                turn,
                operation.number(),
                operation.number(),
                operation.text(),
            )
            .await
        }
        "sleep" => busy(turn, Some(Duration::from_millis(operation.number()))).await,
        "until_stop" => busy(turn, None).await,
        "report" => {
            let files = core
                .with_ledger(|ledger| ledger.files())
                .unwrap_or_default();
            let read = move || files.iter().map(judge).collect::<Vec<_>>();
            let files = tokio::task::spawn_blocking(read).await?;
            say(
                turn,
                core.with_ledger(|ledger| ledger.report(&files))
                    .unwrap_or_default(),
            )
            .await;
        }
        "set" => {
            let key = operation.text_or("");
            let value = operation.value();
            core.with_ledger(|ledger| ledger.set(key, value));
        }
        "get" => {
            let key = operation.text_or("");
            let value = core
                .with_ledger(|ledger| ledger.get(&key))
                .unwrap_or_default();
            say(turn, json!({ "$probe": 1, "key": key, "value": value })).await;
        }
        "ask" => ask(turn, operation.rest()).await?,
        "question" => question(turn, operation.object()).await,
        "file" => {
            let name = operation.text_or("probe.bin");
            let mime = operation.text_or("application/octet-stream");
            let bytes = usize::try_from(operation.number().min(MOST)).unwrap_or(0);
            turn.new_file(name, mime, vec![b'x'; bytes]).await?;
        }
        "event" => {
            if let Some(event) = message(operation.object()) {
                turn.emit(event).await;
            }
        }
        "info" => {
            let mut info = operation.object();
            info.insert("type".to_owned(), json!("session.info"));
            if let Some(event) = message(info) {
                turn.emit(event).await;
            }
        }
        "ready" => {
            let extensions = turn.session().agreed().to_names();
            say(turn, json!({ "$probe": 1, "extensions": extensions })).await;
        }
        "fail" => {
            let why = operation.text_or("the script fails");
            return Err(Error::new(Category::Other, why));
        }
        "close_session" => {
            let reason = operation
                .text()
                .and_then(|reason| ClosedReason::named(&reason));
            turn.session()
                .end(reason.unwrap_or(ClosedReason::Finished), None);
            return Ok(StepResult::Done);
        }
        "exit" => std::process::exit(i32::try_from(operation.number()).unwrap_or(1)),
        "abort" => std::process::abort(),
        unknown => {
            say(turn, json!({ "$probe": 1, "unsupported": unknown })).await;
            return Ok(StepResult::Done);
        }
    }
    Ok(StepResult::On)
}

fn complete(turn: std::sync::Arc<Turn>, mut operation: Operation) -> Result<(), Error> {
    let Some(turn) = std::sync::Arc::into_inner(turn) else {
        return Ok(());
    };
    match operation.value() {
        Value::Object(mut end) => {
            end.insert("type".to_owned(), json!("turn.complete"));
            if let Some(AdapterBody::TurnComplete(end)) = message(end) {
                turn.finish(*end);
            }
        }
        Value::String(status) => turn.finish(Status::named(&status).unwrap_or(Status::Completed)),
        _ => {}
    }
    Ok(())
}

async fn say(turn: &Turn, data: Value) {
    turn.emit(Output::text(data.to_string())).await;
}

async fn burst(turn: &Turn, pieces: u64, bytes: u64, letter: Option<String>) {
    let letter = letter
        .filter(|letter| letter.len() == 1)
        .unwrap_or_else(|| "x".to_owned());
    let fill = usize::try_from(bytes.min(MOST))
        .unwrap_or(0)
        .saturating_sub("00000001 ".len());
    let fill = letter.repeat(fill);
    for number in 1..=pieces {
        if turn.is_stopped() {
            return;
        }
        turn.emit(Output::text(format!("{number:08} {fill}"))).await;
    }
}

async fn busy(turn: &Turn, time: Option<Duration>) {
    let until = time.map(|time| Instant::now() + time);
    loop {
        let left = until.map_or(TICK, |until| until.duration_since(Instant::now()).min(TICK));
        if left.is_zero() {
            return;
        }
        tokio::select! {
            biased;
            () = turn.stopped() => return,
            // A steer has reached the turn, if the adapter accepts steers at all.
            Some(steer) = turn.next_steer() => {
                drop(steer.accept());
                continue;
            }
            () = tokio::time::sleep(left) => {}
        }
        if left == TICK {
            turn.output("tick").await;
        }
    }
}

/// Asks for all at once, so that they can be answered in any order.
async fn ask(turn: &std::sync::Arc<Turn>, asked: Vec<ProbeRequest>) -> Result<(), Error> {
    let mut asking = JoinSet::new();
    for request in asked {
        let turn = turn.clone();
        asking.spawn(async move {
            let mut permission =
                Permission::new(request.tool, request.description, &request.resource);
            if let Some(title) = request.title {
                permission = permission.title(title);
            }
            for option in request.options {
                let text = |name| option.get(name).and_then(Value::as_str).unwrap_or_default();
                if let Some(kind) = OptionKind::named(text("kind")) {
                    permission = permission.option(text("id"), text("label"), kind);
                }
            }
            let decision = turn.ask_permission(permission).await;
            if let Some(effect) = request.effect.filter(|_| decision.is_approved()) {
                tokio::fs::write(effect, b"").await?;
            }
            let asked = json!({
                "resource": request.resource,
                "approved": decision.is_approved(),
                "option_id": decision.option_id,
            });
            say(&turn, json!({ "$probe": 1, "asked": asked })).await;
            Ok::<_, std::io::Error>(())
        });
    }
    while let Some(done) = asking.join_next().await {
        done??;
    }
    Ok(())
}

async fn question(turn: &Turn, asked: Map<String, Value>) {
    let mut request = asked;
    request.insert("type".to_owned(), json!("input.request"));
    request.insert("request_id".to_owned(), json!("script"));
    request.entry("prompt").or_insert(json!(""));
    let Some(AdapterBody::InputRequest(request)) = message(request) else {
        return;
    };
    let question = request
        .fields
        .into_iter()
        .flatten()
        .fold(Question::new(request.prompt), Question::field);
    let answer = turn.ask(question).await;
    let cancelled = answer.is_cancelled();
    say(
        turn,
        json!({ "$probe": 1, "values": answer.values, "cancelled": cancelled }),
    )
    .await;
}

/// A message of this pipe's direction, given without its session.
fn message(mut members: Map<String, Value>) -> Option<AdapterBody> {
    members.insert("session_id".to_owned(), json!("script"));
    let line = Value::Object(members).to_string();
    AdapterMessage::parse(&line)
        .ok()
        .filter(|message| message.session_id != SessionId::none())
        .map(|m| m.body)
}
