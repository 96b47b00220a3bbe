//! A to-do list for each session: state, a permission, a file, a long turn that can be stopped and
//! steered.
//!
//! Commands: `add TEXT`, `list`, `clear` (asks first), `export` (sends a file), `work` (does one
//! entry a second; input that arrives meanwhile is added to the list).

use std::{process::ExitCode, time::Duration};

use trunkline_sdk::{
    Adapter, Description, Error, Input, Permission, Program, Session, SessionStart, Turn,
    protocol::OptionKind,
};

/// State of a session.
#[derive(Default)]
struct List {
    entries: Vec<String>,
}

struct Todo;

impl Adapter for Todo {
    type State = List;

    async fn start(&self, session: &Session, _: SessionStart) -> Result<List, Error> {
        session
            .output("Commands: add, list, clear, export, work\n")
            .await;
        Ok(List::default())
    }

    async fn turn(&self, turn: Turn, input: Input, list: &mut List) -> Result<(), Error> {
        let (verb, text) = input
            .content
            .split_once(' ')
            .unwrap_or((&input.content, ""));
        match verb {
            "add" if !text.is_empty() => {
                list.entries.push(text.to_owned());
                turn.output(format!("{} to do", list.entries.len())).await;
            }
            "list" => turn.output(list.entries.join("\n")).await,
            "clear" => clear(&turn, list).await,
            "export" => {
                turn.new_file("todo.txt", "text/plain", list.entries.join("\n"))
                    .await?;
            }
            "work" => work(&turn, list).await?,
            other => {
                return Err(Error::other(format!(
                    "{other} is none of add, list, clear, export, work"
                )));
            }
        }
        Ok(())
    }

    async fn close(&self, session: &Session, list: List) {
        eprintln!(
            "session {} ends with {} to do",
            session.id(),
            list.entries.len()
        );
    }

    fn describe(&self) -> Description {
        Description::new("todo", "1.0")
            .use_when("a list is kept", "a task should be done")
            .steerable()
    }
}

/// There is no answer, or the turn is stopped: the list stays.
async fn clear(turn: &Turn, list: &mut List) {
    let permission = Permission::new(
        "clear",
        format!("Forget {} entries", list.entries.len()),
        "the list",
    )
    .option("yes", "Forget them", OptionKind::AllowOnce)
    .option("no", "Keep them", OptionKind::RejectOnce);
    if turn.ask_permission(permission).await.is_approved() {
        list.entries.clear();
        turn.output("forgotten").await;
    } else {
        turn.output("kept").await;
    }
}

/// Stops between two entries: `stopped` resolves when the user stops the turn, or the session or
/// process ends.
async fn work(turn: &Turn, list: &mut List) -> Result<(), Error> {
    while !list.entries.is_empty() {
        tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            Some(steer) = turn.next_steer() => list.entries.push(steer.accept()),
            () = tokio::time::sleep(Duration::from_secs(1)) => {
                let done = list.entries.remove(0);
                turn.output(format!("done: {done}\n")).await;
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    Program::new(Todo).run()
}
