//! An adapter with tools, permission, stop and resume, on the SDK.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use trunkline_sdk::{
    Adapter, Description, Error, Input, Json, Permission, Program, Session, SessionStart,
    ToolCallId, ToolOutcome, Turn,
    protocol::{Context, SessionInfo},
};
use uuid::Uuid;

struct Notes;

impl Adapter for Notes {
    type State = PathBuf;

    async fn start(&self, session: &Session, options: SessionStart) -> Result<PathBuf, Error> {
        let known = options.resume.and_then(|resume| resume.native_session_id);
        let name = known.unwrap_or_else(|| Uuid::new_v4().to_string());
        let folder = PathBuf::from(std::env::var_os("NOTES").unwrap_or_default());
        let kept = folder.join(Path::new(&name).file_name().unwrap_or_default());
        let context = if kept.exists() {
            Context::Kept
        } else {
            Context::Lost
        };
        session.info(SessionInfo {
            native_session_id: Some(name),
            context: Some(context),
            ..SessionInfo::default()
        });
        Ok(kept)
    }

    async fn turn(&self, turn: Turn, input: Input, kept: &mut PathBuf) -> Result<(), Error> {
        match input
            .content
            .split_once(' ')
            .unwrap_or((&input.content, ""))
        {
            ("write", path) => write(&turn, path).await?,
            ("wait", _) => {
                turn.output("waiting").await;
                turn.stopped().await;
                return Err(Error::stopped());
            }
            ("recall", _) => turn.output(fs::read_to_string(kept)?).await,
            _ => {
                let mut file = fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(kept)?;
                writeln!(file, "{}", input.content)?;
                turn.output("noted").await;
            }
        }
        Ok(())
    }

    fn describe(&self) -> Description {
        Description::new("notes", "1.0.0").resumes()
    }
}

async fn write(turn: &Turn, path: &str) -> Result<(), Error> {
    let call = ToolCallId::new(Uuid::new_v4().to_string())?;
    turn.tool_start(&call, "write", Some(Json::from_serialize(&[path])?))
        .await;
    let permission = Permission::new("write", format!("Write {path}"), path);
    if turn.ask_permission(permission).await.is_approved() {
        fs::write(path, "written")?;
        turn.tool_end(&call, "written", ToolOutcome::Succeeded)
            .await;
    } else {
        turn.tool_end(&call, "denied", ToolOutcome::Failed).await;
    }
    Ok(())
}

fn main() -> ExitCode {
    Program::new(Notes).run()
}
