//! A hub that loses no conversation with its host: each input is one turn, each entry comes once.
//!
//! ```sh
//! cargo run -p trunkline-examples --example reconnect -- hello '/sleep 9' -- trunkline serve --journal journal
//! ```

use std::{
    error::Error,
    io::{self, BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdout, Command, Stdio},
    time::UNIX_EPOCH,
};

use serde_json::{Value, json};

/// Limit of hosts that may end before a text is answered.
const HOSTS: usize = 10;

/// State of the hub. A hub that may crash itself keeps `session` and `last` in a file.
struct Hub {
    command: Vec<String>,
    host: Option<(Child, Lines<BufReader<ChildStdout>>)>,
    session: String,
    /// The last entry that it has.
    last: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let texts: Vec<String> = words.by_ref().take_while(|word| word != "--").collect();
    let command = words.collect();
    let session = format!("reconnect-{}", UNIX_EPOCH.elapsed()?.as_nanos());
    let mut hub = Hub {
        command,
        host: None,
        session,
        last: 0,
    };
    for (number, text) in (1..).zip(&texts) {
        hub.turn(number, text)?;
    }
    // The end of its stdin ends the host, and leaves the session.
    if let Some((mut host, _lines)) = hub.host.take() {
        host.wait()?;
    }
    Ok(())
}

impl Hub {
    /// Takes one turn, by as many hosts as that needs.
    fn turn(&mut self, number: usize, text: &str) -> Result<(), Box<dyn Error>> {
        let turn = format!("t-{number}");
        let id = format!("m-{number}");
        // By its `message_id` it is one input, however often it is sent.
        let input = json!({"type":"user.input","turn_id":turn,"message_id":id,"content":text});
        for _ in 0..HOSTS {
            if self.host.is_none() {
                self.start()?;
                self.enter(if self.last > 0 {
                    "session.attach"
                } else {
                    "session.start"
                });
            }
            self.send(input.clone());
            if self.hear(&turn, &input)? {
                return Ok(());
            }
            if let Some((mut host, _)) = self.host.take() {
                host.wait()?;
            }
        }
        Err(format!("{HOSTS} hosts ended before the turn did").into())
    }

    fn start(&mut self) -> Result<(), Box<dyn Error>> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or("what is the command? reconnect TEXT ... -- COMMAND ...")?;
        let mut host = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        writeln!(io::stdout(), "host {}", host.id())?;
        let stdout = host.stdout.take().ok_or("the host has no stdout")?;
        self.host = Some((host, BufReader::new(stdout).lines()));
        Ok(())
    }

    fn enter(&mut self, by: &str) {
        let mut enter = json!({"type":by,"protocol":1,"extensions":["turns","events","journal"]});
        if by == "session.attach" {
            enter["after"] = self.last.into();
        }
        self.send(enter);
    }

    fn send(&mut self, mut message: Value) {
        message["session_id"] = self.session.as_str().into();
        if let Some(stdin) = self.host.as_mut().and_then(|(host, _)| host.stdin.as_mut()) {
            // The end of its stdout reports that a host is gone.
            let _ = writeln!(stdin, "{message}");
        }
    }

    /// Prints each entry up to the end of the turn; whether that came before the host ended.
    fn hear(&mut self, turn: &str, input: &Value) -> Result<bool, Box<dyn Error>> {
        while let Some(Ok(line)) = self.host.as_mut().and_then(|(_, lines)| lines.next()) {
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            let kind = message["type"].as_str().unwrap_or_default();
            let seq = message["seq"].as_u64();
            match (kind, seq) {
                _ if message["session_id"] != self.session.as_str() => {}
                // Its start was stored, but the reply was lost.
                ("session.refused", _) if message["reason"] == "exists" => {
                    self.enter("session.attach");
                    self.send(input.clone());
                }
                ("session.refused" | "session.closed", _) | ("turn.complete", None) => {
                    return Err(format!("the host refuses: {line}").into());
                }
                ("input.result", _) if message["duplicate"] == true => writeln!(
                    io::stdout(),
                    "known {}",
                    message["message_id"].as_str().unwrap_or_default()
                )?,
                ("input.result", _) => {}
                (_, Some(seq)) if seq > self.last => {
                    self.last = seq;
                    let shown = [
                        &message["content"],
                        &message["fact"],
                        &message["error"]["category"],
                    ];
                    let shown = shown
                        .into_iter()
                        .find_map(Value::as_str)
                        .unwrap_or_default();
                    writeln!(
                        io::stdout(),
                        "{}",
                        format!("{seq} {kind} {shown}").trim_end()
                    )?;
                    if kind == "permission.request" {
                        let id = &message["request_id"];
                        self.send(
                            json!({"type":"permission.response","request_id":id,"approved":false}),
                        );
                    }
                    if kind == "turn.complete" && message["turn_id"] == turn {
                        return Ok(true);
                    }
                }
                _ => {}
            }
        }
        Ok(false)
    }
}
