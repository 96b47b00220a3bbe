//! An adapter in ten lines: many sessions, queued inputs, stop, files, failures, all by the SDK.

use std::process::ExitCode;

fn main() -> ExitCode {
    trunkline_sdk::serve_stdio(trunkline_sdk::adapter(|turn, input| async move {
        turn.output(input.content).await;
        Ok(())
    }))
}
