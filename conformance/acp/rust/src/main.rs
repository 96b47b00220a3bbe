//! Drives an agent of ACP with ACP's own Rust library: new, prompt, permission, cancel, list, load,
//! resume, close, delete, and a daemon that ends between two prompts; one elsewhere is killed in a
//! turn.
//!
//!     client RECORD trunkline acp [ARGUMENTS]
//!     client RECORD http://ADDRESS        with the feature `http`; ws://ADDRESS, too. The token is in ACP_TOKEN
//!
//! Every message of both sides goes to the file RECORD, which validate.mjs holds against the
//! official schema.

mod record;

use std::{
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, Client, DynConnectTo, Error,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            CancelNotification, CloseSessionRequest, ContentBlock, DeleteSessionRequest,
            InitializeRequest, ListSessionsRequest, LoadSessionRequest, NewSessionRequest,
            PermissionOptionKind, PromptRequest, RequestPermissionOutcome,
            RequestPermissionRequest, RequestPermissionResponse, ResumeSessionRequest,
            SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason,
            TextContent, ToolCallStatus,
        },
    },
};
use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    sync::Notify,
    time::timeout,
};

use crate::record::Recorded;

/// Longer than anything here takes.
const LONGEST: Duration = Duration::from_secs(60);

/// Answers of a person to the agent's requests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Answer {
    #[default]
    Allow,
    Reject,
    Never,
}

/// Display and answers of a person.
#[derive(Default)]
struct Person {
    seen: Mutex<Vec<SessionUpdate>>,
    answer: Mutex<Answer>,
    asked: Mutex<usize>,
    asks: Notify,
}

impl Person {
    fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }

    async fn is_asked(&self, times: usize) {
        while self.asked() < times {
            self.asks.notified().await;
        }
    }

    /// Returns the agent's text, without the user's and without thoughts.
    fn agent(&self) -> String {
        self.text(|update| match update {
            SessionUpdate::AgentMessageChunk(chunk) => Some(&chunk.content),
            _ => None,
        })
    }

    fn user(&self) -> String {
        self.text(|update| match update {
            SessionUpdate::UserMessageChunk(chunk) => Some(&chunk.content),
            _ => None,
        })
    }

    fn text(&self, of: impl Fn(&SessionUpdate) -> Option<&ContentBlock>) -> String {
        let seen = self.seen.lock().unwrap();
        let texts = seen
            .iter()
            .filter_map(of)
            .filter_map(|content| match content {
                ContentBlock::Text(text) => Some(text.text.as_str()),
                _ => None,
            });
        texts.collect()
    }

    /// Returns the number of tools that have run.
    fn ran(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        let ended = seen.iter().filter(|update| match update {
            SessionUpdate::ToolCallUpdate(call) => {
                call.fields.status == Some(ToolCallStatus::Completed)
            }
            _ => false,
        });
        ended.count()
    }
}

/// A session of a connection, as a person has it open.
struct Open<'a> {
    agent: &'a ConnectionTo<Agent>,
    id: SessionId,
}

impl Open<'_> {
    async fn prompt(&self, text: &str) -> Result<StopReason, Error> {
        let text = ContentBlock::Text(TextContent::new(text));
        let prompt = PromptRequest::new(self.id.clone(), vec![text]);
        Ok(self
            .agent
            .send_request(prompt)
            .block_task()
            .await?
            .stop_reason)
    }
}

/// Agent to drive: a program, or an address.
#[derive(Clone)]
struct Target {
    record: PathBuf,
    command: Vec<String>,
}

impl Target {
    fn transport(&self) -> anyhow::Result<DynConnectTo<Client>> {
        let (program, arguments) = self
            .command
            .split_first()
            .context("name a program or an address")?;
        #[cfg(feature = "http")]
        if program.contains("://") {
            return record::address(program);
        }
        let config = AcpAgentConfig::new(program).args(arguments.iter().cloned());
        Ok(DynConnectTo::new(AcpAgent::new(config)))
    }

    /// Runs `work` on one connection.
    async fn connect<T: Send>(
        &self,
        person: &Arc<Person>,
        work: impl AsyncFnOnce(ConnectionTo<Agent>) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let seeing = person.clone();
        let asked = person.clone();
        let transport = Recorded::new(self.transport()?, &self.record)?;
        let mut done = None;
        let told = &mut done;
        Client
            .v1()
            .on_receive_notification(
                async move |said: SessionNotification, _| {
                    seeing.seen.lock().unwrap().push(said.update);
                    Ok(())
                },
                agent_client_protocol::on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest,
                            responder,
                            connection: ConnectionTo<Agent>| {
                    *asked.asked.lock().unwrap() += 1;
                    asked.asks.notify_one();
                    let kind = match *asked.answer.lock().unwrap() {
                        Answer::Allow => PermissionOptionKind::AllowOnce,
                        Answer::Reject => PermissionOptionKind::RejectOnce,
                        Answer::Never => {
                            return connection.spawn(async move {
                                responder.cancellation().cancelled().await;
                                let outcome = RequestPermissionOutcome::Cancelled;
                                responder.respond(RequestPermissionResponse::new(outcome))
                            });
                        }
                    };
                    let option = request.options.iter().find(|option| option.kind == kind);
                    let option =
                        option.ok_or_else(|| Error::internal_error().data("no such option"))?;
                    let chosen = SelectedPermissionOutcome::new(option.option_id.clone());
                    responder.respond(RequestPermissionResponse::new(
                        RequestPermissionOutcome::Selected(chosen),
                    ))
                },
                agent_client_protocol::on_receive_request!(),
            )
            .connect_with(transport, async move |connection: ConnectionTo<Agent>| {
                let first = InitializeRequest::new(ProtocolVersion::V1);
                let told_version = connection
                    .send_request(first)
                    .block_task()
                    .await?
                    .protocol_version;
                assert_eq!(told_version, ProtocolVersion::V1);
                *told = Some(work(connection).await);
                Ok(())
            })
            .await?;
        done.context("the connection ended before its work")?
    }

    /// Of a daemon elsewhere, its address and port.
    fn address(&self) -> Option<&str> {
        let (_, rest) = self.command[0].split_once("://")?;
        rest.split('/').next()
    }
}

async fn drive(target: &Target) -> anyhow::Result<()> {
    let cwd = std::env::current_dir()?;
    let person = Arc::<Person>::default();
    let id = target
        .connect(&person, async |agent| {
            all_of_a_session(target, &person, &agent).await
        })
        .await?;

    let person = Arc::<Person>::default();
    target
        .connect(&person, async |agent| {
            let load = LoadSessionRequest::new(id.clone(), cwd.clone());
            agent.send_request(load).block_task().await?;
            ensure!(
                person.user().starts_with("hello from rust"),
                "the history: {}",
                person.user()
            );
            ensure!(
                person.agent().starts_with("hello from rust"),
                "the history: {}",
                person.agent()
            );
            ensure!(person.asked() == 0, "what is settled is not asked again");
            Ok(())
        })
        .await?;

    let person = Arc::<Person>::default();
    target
        .connect(&person, async |agent| {
            let resume = ResumeSessionRequest::new(id.clone(), cwd.clone());
            agent.send_request(resume).block_task().await?;
            ensure!(
                person.agent().is_empty(),
                "it is resumed without its history"
            );
            let session = Open {
                agent: &agent,
                id: id.clone(),
            };
            ensure!(session.prompt("and on").await? == StopReason::EndTurn);
            ensure!(person.agent() == "and on", "{}", person.agent());
            agent
                .send_request(CloseSessionRequest::new(id.clone()))
                .block_task()
                .await?;
            ensure!(
                session.prompt("too late").await.is_err(),
                "a closed session takes no prompt"
            );
            agent
                .send_request(DeleteSessionRequest::new(id.clone()))
                .block_task()
                .await?;
            let left = agent
                .send_request(ListSessionsRequest::new())
                .block_task()
                .await?
                .sessions;
            ensure!(
                left.iter().all(|session| session.session_id != id),
                "{left:?}"
            );
            let load = LoadSessionRequest::new(id.clone(), cwd.clone());
            ensure!(
                agent.send_request(load).block_task().await.is_err(),
                "it is gone"
            );
            Ok(())
        })
        .await?;
    match target.address() {
        Some(address) => killed(target, address).await,
        None => Ok(()),
    }
}

/// The daemon is killed under a client, in a turn, and comes back at the same address.
async fn killed(target: &Target, address: &str) -> anyhow::Result<()> {
    let cwd = std::env::current_dir()?;
    let mut id = None;
    let person = Arc::<Person>::default();
    person.answers(Answer::Never);
    let lost = target
        .connect(&person, async |agent| {
            let new = NewSessionRequest::new(cwd.clone());
            let session = Open {
                agent: &agent,
                id: agent.send_request(new).block_task().await?.session_id,
            };
            id = Some(session.id.clone());
            let kill = async {
                person.is_asked(1).await;
                kill_daemon().await.expect("the daemon is killed");
            };
            Ok(tokio::join!(session.prompt("/tool lost"), kill).0?)
        })
        .await;
    ensure!(lost.is_err(), "a client learns that its daemon has gone");
    let id = id.context("there was no session")?;

    let mut daemon = Command::new("trunkline");
    let mut daemon = daemon
        .args(["up", "--json", "--http", address])
        .stdout(Stdio::piped())
        .spawn()?;
    let told = daemon.stdout.take().context("its stdout is a pipe")?;
    BufReader::new(told).read_line(&mut String::new()).await?;
    let person = Arc::<Person>::default();
    target
        .connect(&person, async |agent| {
            let load = LoadSessionRequest::new(id.clone(), cwd.clone());
            agent.send_request(load).block_task().await?;
            ensure!(
                person.user() == "/tool lost",
                "the history: {}",
                person.user()
            );
            ensure!(person.asked() == 0, "the turn ended with its daemon");
            let session = Open {
                agent: &agent,
                id: id.clone(),
            };
            ensure!(session.prompt("and on").await? == StopReason::EndTurn);
            ensure!(person.agent().ends_with("and on"), "{}", person.agent());
            Ok(())
        })
        .await?;
    down().await?;
    daemon.wait().await?;
    Ok(())
}

async fn kill_daemon() -> anyhow::Result<()> {
    let noted = PathBuf::from(std::env::var("TRUNKLINE_STATE")?).join("daemon.json");
    let noted: serde_json::Value = serde_json::from_slice(&std::fs::read(noted)?)?;
    let killed = Command::new("kill")
        .args(["-KILL", &noted["pid"].to_string()])
        .status()
        .await?;
    ensure!(killed.success(), "kill: {killed}");
    Ok(())
}

/// Ends the daemon, as a person does.
async fn down() -> anyhow::Result<()> {
    let ended = Command::new("trunkline").arg("down").status().await?;
    ensure!(ended.success(), "the daemon did not end: {ended}");
    Ok(())
}

/// Runs everything that a session does in its first connection. Returns its id.
async fn all_of_a_session(
    target: &Target,
    person: &Person,
    agent: &ConnectionTo<Agent>,
) -> anyhow::Result<SessionId> {
    let cwd = std::env::current_dir()?;
    let opened = agent
        .send_request(NewSessionRequest::new(cwd.clone()))
        .block_task()
        .await?;
    let session = Open {
        agent,
        id: opened.session_id,
    };

    ensure!(session.prompt("hello from rust").await? == StopReason::EndTurn);
    ensure!(person.agent() == "hello from rust", "{}", person.agent());

    session.prompt("/tool ls").await?;
    ensure!((person.asked(), person.ran()) == (1, 1));
    person.answers(Answer::Reject);
    session.prompt("/tool rm").await?;
    ensure!(
        (person.asked(), person.ran()) == (2, 1),
        "what is rejected does not run"
    );

    person.answers(Answer::Never);
    let cancel = async {
        person.is_asked(3).await;
        agent.send_notification(CancelNotification::new(session.id.clone()))
    };
    let (ended, told) = tokio::join!(session.prompt("/tool wait"), cancel);
    told?;
    ensure!(ended? == StopReason::Cancelled);
    ensure!(person.ran() == 1, "what was never allowed does not run");

    // A request whose handle is dropped is cancelled by `$/cancel_request`: the session takes the
    // next prompt.
    let text = ContentBlock::Text(TextContent::new("/sleep 60"));
    drop(agent.send_request(PromptRequest::new(session.id.clone(), vec![text])));
    ensure!(session.prompt("after one that was dropped").await? == StopReason::EndTurn);

    let failed = session
        .prompt("/fail on purpose")
        .await
        .expect_err("a turn that fails is an error");
    ensure!(failed.to_string().contains("on purpose"), "{failed}");

    let listed = agent
        .send_request(ListSessionsRequest::new())
        .block_task()
        .await?
        .sessions;
    ensure!(
        listed
            .iter()
            .any(|known| known.session_id == session.id && known.cwd == cwd),
        "{listed:?}"
    );

    if target.address().is_none() {
        kill_daemon().await?;
        ensure!(session.prompt("by another daemon").await? == StopReason::EndTurn);
        ensure!(
            person.agent().ends_with("by another daemon"),
            "{}",
            person.agent()
        );
    }
    Ok(session.id)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let record = arguments
        .next()
        .context("name a file for the record")?
        .into();
    let target = Target {
        record,
        command: arguments.collect(),
    };
    timeout(LONGEST, drive(&target))
        .await
        .context("it takes too long")??;
    println!(
        "rust: new, prompt, permission, cancel, list, load, resume, close, delete, the daemon's end"
    );
    Ok(())
}
