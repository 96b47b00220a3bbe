//! `trunkline open --pair`: shows a code, and confirms the browser that sends it.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use anstyle::{AnsiColor, Color, Style};
use anyhow::anyhow;
use qrcode::{QrCode, render::unicode::Dense1x2};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::sleep};
use trunkline_client::Method;

use crate::{
    command::print_line,
    daemon::DaemonFolder,
    error::{CliError, CommandResult},
    exit,
};

/// Interval at which the daemon is asked whether a browser has sent the code.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Colours of a QR code. They do not depend on the theme of the terminal.
const QR_STYLE: Style = Style::new()
    .fg_color(Some(Color::Ansi(AnsiColor::Black)))
    .bg_color(Some(Color::Ansi(AnsiColor::BrightWhite)));

/// Shows a code and confirms the browser that sends it.
pub(super) async fn pair_browser(folder: &DaemonFolder) -> CommandResult {
    if !io::stdin().is_terminal() {
        return Err(CliError::usage(anyhow!(
            "--pair asks for a confirmation, and the input is not a terminal"
        ))
        .next("run it in a terminal"));
    }
    let pairing = folder.request(Method::POST, "/v1/pairing", None).await?;
    show_code(&pairing)?;
    let path = format!("/v1/pairing/{}", text_member(&pairing, "id"));
    let request = loop {
        let state = folder.request(Method::GET, &path, None).await?;
        match text_member(&state, "state") {
            "waiting" => sleep(POLL_INTERVAL).await,
            "claimed" => break state,
            ended => {
                let why = match ended {
                    "spent" => "too many wrong codes were sent",
                    _ => "the code has expired or was replaced",
                };
                return Err(CliError::failed(anyhow!("{why}; no browser was paired"))
                    .next("run `trunkline open --pair` for a new code"));
            }
        }
    };
    let is_confirmed = confirm_pairing(pairing_question(&request)).await?;
    let decision = json!({ "confirm": is_confirmed });
    folder.request(Method::POST, &path, Some(&decision)).await?;
    let done = match (is_confirmed, request["is_elevation"] == true) {
        (false, _) => "refused",
        (true, true) => "the browser has the rights of an administrator for five minutes",
        (true, false) => {
            "paired; `trunkline token list` shows it, and `trunkline token revoke` ends it"
        }
    };
    print_line(done)?;
    Ok(if is_confirmed { exit::OK } else { exit::FAILED })
}

fn text_member<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Prints the code, and the links with their QR codes.
fn show_code(pairing: &Value) -> io::Result<()> {
    let code = text_member(pairing, "code");
    let mut out = anstream::stdout();
    let origins = pairing["origins"].as_array().into_iter().flatten();
    let origins: Vec<_> = origins.filter_map(Value::as_str).collect();
    let is_local =
        |origin: &&str| origin.starts_with("http://127.") || origin.starts_with("http://[::1]");
    let has_remote = !origins.iter().all(is_local);
    // A link to this machine leads a phone nowhere.
    for origin in origins
        .iter()
        .filter(|origin| !(has_remote && is_local(origin)))
    {
        let link = format!("{origin}/#/pair/{code}");
        writeln!(out, "{link}")?;
        if has_remote && let Ok(drawn) = QrCode::new(&link) {
            let drawn = drawn.render::<Dense1x2>().build();
            for line in drawn.lines() {
                writeln!(out, "{QR_STYLE}{line}{QR_STYLE:#}")?;
            }
        }
    }
    if origins.iter().all(|origin| origin.starts_with("http://")) {
        anstream::eprintln!(
            "a phone needs https: start the daemon with --listen ADDRESS:PORT, --tls-cert and \
             --tls-key, and a certificate that the phone trusts"
        );
    }
    writeln!(out, "The code is {code}. It works once, within a minute.")
}

/// Returns the question for a browser's request.
fn pairing_question(request: &Value) -> String {
    let name = text_member(request, "name");
    let address = text_member(request, "address");
    if request["is_elevation"] == true {
        format!("Give \"{name}\" at {address} the rights of an administrator for five minutes?")
    } else {
        format!("Pair \"{name}\" at {address}?")
    }
}

/// Asks the terminal. What was typed before the question does not answer it.
async fn confirm_pairing(question: String) -> Result<bool, CliError> {
    let answer = spawn_blocking(move || -> io::Result<String> {
        let input = io::stdin();
        tcflush(&input, QueueSelector::IFlush)?;
        let mut out = anstream::stdout();
        write!(out, "{question} [y/N] ")?;
        out.flush()?;
        let mut line = String::new();
        input.read_line(&mut line)?;
        Ok(line)
    });
    let answer = answer.await.map_err(CliError::failed)??;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
