//! Drives a real agent with ACP's own Rust library, the same way whatever the agent is. real.py
//! compares the records.
//!
//!     trunkline-acp-real-client RECORD COMMAND [ARGUMENTS]
//!
//! The record has the lines of typescript/real.mjs.

mod record;

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, Client, DynConnectTo, Error,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            ContentBlock, InitializeRequest, LoadSessionRequest, NewSessionRequest,
            PermissionOptionKind, PromptRequest, RequestPermissionOutcome,
            RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome,
            SessionId, SessionNotification, SetSessionModeRequest, TextContent,
        },
    },
};
use anyhow::Context;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::record::Recorded;

/// Timeout for a step.
const STEP_TIMEOUT: Duration = Duration::from_secs(90);

/// Time for what an agent sends after its last answer.
const LAST_UPDATES: Duration = Duration::from_secs(1);

/// The agent's command, and the file of the record.
struct RealAgent {
    record: PathBuf,
    command: Vec<String>,
    /// True while permissions are granted.
    allows: Arc<AtomicBool>,
}

impl RealAgent {
    /// Runs the agent and a client of it for as long as `work` takes.
    async fn connect(
        &self,
        work: impl AsyncFnOnce(ConnectionTo<Agent>) -> Result<(), Error> + Send,
    ) -> anyhow::Result<()> {
        let (program, arguments) = self.command.split_first().context("name a program")?;
        let config = AcpAgentConfig::new(program).args(arguments.iter().cloned());
        let transport = Recorded::new(DynConnectTo::new(AcpAgent::new(config)), &self.record)?;
        let allows = self.allows.clone();
        let connected = Client
            .v1()
            .on_receive_notification(
                async |_: SessionNotification, _| Ok(()),
                agent_client_protocol::on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest,
                            responder,
                            _: ConnectionTo<Agent>| {
                    let kind = if allows.load(Ordering::Relaxed) {
                        PermissionOptionKind::AllowOnce
                    } else {
                        PermissionOptionKind::RejectOnce
                    };
                    let option = request.options.iter().find(|option| option.kind == kind);
                    let outcome = option.map_or(RequestPermissionOutcome::Cancelled, |option| {
                        let chosen = SelectedPermissionOutcome::new(option.option_id.clone());
                        RequestPermissionOutcome::Selected(chosen)
                    });
                    responder.respond(RequestPermissionResponse::new(outcome))
                },
                agent_client_protocol::on_receive_request!(),
            )
            .connect_with(transport, async move |agent: ConnectionTo<Agent>| {
                let first = InitializeRequest::new(ProtocolVersion::V1);
                agent.send_request(first).block_task().await?;
                work(agent).await
            })
            .await;
        if let Err(error) = connected {
            // A real agent's program may end in any way.
            note(&self.record, &json!({ "step": "end", "failed": error.to_string() }))?;
        }
        Ok(())
    }

    /// Notes a step and its failure. An agent that refuses a step gets the next one.
    async fn step<T>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        let note = |line| {
            let noted = note(&self.record, &line);
            noted.map_err(|error| Error::internal_error().data(error.to_string()))
        };
        note(json!({ "step": name }))?;
        let failure = match timeout(STEP_TIMEOUT, work).await {
            Ok(Ok(result)) => return Ok(Some(result)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        note(json!({ "step": name, "failed": failure }))?;
        Ok(None)
    }
}

/// Adds a line to the record.
fn note(record: &Path, line: &serde_json::Value) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(record)?;
    writeln!(file, "{line}")
}

/// Sends a prompt of one text, and waits for the end of its turn.
async fn prompt(agent: &ConnectionTo<Agent>, session: &SessionId, text: &str) -> Result<(), Error> {
    let text = ContentBlock::Text(TextContent::new(text));
    let prompt = PromptRequest::new(session.clone(), vec![text]);
    agent.send_request(prompt).block_task().await.map(drop)
}

async fn drive(target: &RealAgent) -> anyhow::Result<()> {
    let cwd = std::env::current_dir()?;
    let mut opened = None;
    let session = &mut opened;
    let work = async |agent: ConnectionTo<Agent>| {
        let new = NewSessionRequest::new(cwd.clone());
        let new = agent.send_request(new).block_task();
        let Some(new) = target.step("new", new).await? else {
            return Ok(());
        };
        let id = new.session_id;
        *session = Some(id.clone());
        let write = format!("FAKE:write:{}/written.txt;;", cwd.display());
        for (name, text) in [
            ("text", "FAKE:text"),
            ("thought", "FAKE:think"),
            ("tool", "FAKE:bash:echo hello > made.txt;;"),
            ("denied", "FAKE:bash:echo hello > denied.txt;;"),
            ("write", &write),
            ("failed", "FAKE:err:400"),
        ] {
            target.allows.store(name != "denied", Ordering::Relaxed);
            target.step(name, prompt(&agent, &id, text)).await?;
        }
        if let Some(modes) = new.modes {
            let current = &modes.current_mode_id;
            let mut other = modes.available_modes.iter().map(|mode| &mode.id);
            let other = other.find(|id| *id != current && matches!(&*id.0, "plan" | "read-only"));
            for (name, mode) in [("set mode", other), ("mode back", other.and(Some(current)))] {
                let Some(mode) = mode else { continue };
                let set = SetSessionModeRequest::new(id.clone(), mode.clone());
                let set = agent.send_request(set).block_task();
                target.step(name, set).await?;
            }
        }
        sleep(LAST_UPDATES).await;
        Ok(())
    };
    target.connect(work).await?;
    let Some(id) = opened else { return Ok(()) };
    let work = async |agent: ConnectionTo<Agent>| {
        let load = LoadSessionRequest::new(id.clone(), cwd.clone());
        let load = agent.send_request(load).block_task();
        let loaded = target.step("load", load).await?;
        // One agent answers before the history has an end.
        sleep(LAST_UPDATES).await;
        if loaded.is_some() {
            let more = prompt(&agent, &id, "FAKE:text");
            target.step("after load", more).await?;
        }
        Ok(())
    };
    target.connect(work).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let target = RealAgent {
        record: arguments.next().context("name the record")?.into(),
        command: arguments.collect(),
        allows: Arc::new(AtomicBool::new(true)),
    };
    drive(&target).await
}
