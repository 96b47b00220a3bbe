//! An adapter on the SDK. Your agent goes into `answer`.

use std::{process::ExitCode, time::Duration};

use trunkline_sdk::{Error, Input, Permission, Turn};

/// Runs a turn. Output as much as you like; the return ends the turn, and an error is shown to the
/// user.
///
/// `turn.stopped()` resolves on `stop` and at the end of the session: select on it beside
/// everything that you wait for. `turn.output` writes text; `turn.ask_permission` asks: act only if
/// it is approved. `input.files` are the files of the user; `turn.file` sends one. For the state of
/// a session, options and more events, see the trait `Adapter`.
async fn answer(turn: &Turn, input: Input) -> Result<(), Error> {
    // To try it out, and for the recipes in conform.toml. Your agent replaces all of this.
    let (command, rest) = input
        .content
        .split_once(' ')
        .unwrap_or((&input.content, ""));
    match command {
        "/sleep" => {
            let pause = Duration::from_secs(rest.parse()?);
            tokio::select! {
                () = turn.stopped() => return Err(Error::stopped()),
                () = tokio::time::sleep(pause) => {}
            }
        }
        "/touch" => {
            let touch = Permission::new("touch", format!("Create {rest}"), rest);
            if turn.ask_permission(touch).await.is_approved() {
                std::fs::write(rest, "")?;
            }
        }
        "/fail" => return Err(Error::other(rest)),
        _ => {}
    }
    turn.output(format!("You said: {}", input.content)).await;
    Ok(())
}

fn main() -> ExitCode {
    trunkline_sdk::serve_stdio(trunkline_sdk::adapter(|turn, input| async move {
        answer(&turn, input).await
    }))
}
