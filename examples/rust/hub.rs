//! A hub in Rust: embeds the host, opens two sessions on one adapter process, and shows both while they run.
//!
//! ```sh
//! cargo run -p trunkline-examples --example hub                                 # the Python echo
//! cargo run -p trunkline-examples --example hub -- node examples/node/echo.js   # another adapter
//! ```

use std::{
    error::Error,
    io::{self, IsTerminal, Write},
};

use tokio::sync::Mutex;
use trunkline_host::{
    EventKind, Host, Permission, Session, SessionOptions, TurnEnd,
    config::{AgentConfig, Command},
    protocol::Channel,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // First of all: lets this program be the small process that ends an adapter's whole tree, even
    // when the hub is killed.
    trunkline_host::process::init::hook();
    let mut words = std::env::args().skip(1);
    let command = match words.next() {
        Some(program) => Command::new(program).args(words),
        None => Command::new("python3").arg("examples/python/echo.py"),
    };
    let host = Host::builder()
        .agent(AgentConfig::external("agent", command))
        .build()?;
    // Opening waits for nothing: the process starts meanwhile, and both sessions share it.
    let one = host.open("agent", SessionOptions::default())?;
    let two = host.open("agent", SessionOptions::default())?;

    let terminal = Mutex::new(());
    let (one, two) = tokio::join!(
        talk("one", &one, &["hello from one", "/tool bash"], &terminal),
        talk("two", &two, &["hello from two", "/sleep 1"], &terminal),
    );

    // The processes are gone when this returns, whatever happened above.
    host.shutdown().await;
    one.and(two)
}

/// Says one text after the other and shows what comes, until each turn has ended.
async fn talk(
    name: &str,
    session: &Session,
    texts: &[&str],
    terminal: &Mutex<()>,
) -> Result<(), Box<dyn Error>> {
    for text in texts {
        show(name, "user", text)?;
        let mut turn = session.send(*text)?;
        while let Some(event) = turn.next().await {
            match event.kind {
                EventKind::Output(output) if *output.channel() == Channel::Stdout => {
                    show(name, "agent", &output.content)?
                }
                EventKind::Output(output) => {
                    show(name, output.channel().as_str(), &output.content)?
                }
                EventKind::Permission(permission) => ask(name, permission, terminal).await?,
                EventKind::End(end) => show(name, "end", &how(&end))?,
                // Thinking, tools, plans, usage, files: see `EventKind`. A question that is dropped
                // is cancelled.
                _ => {}
            }
        }
    }
    session.close().await;
    Ok(())
}

/// Asks the person at the terminal, one request at a time. The other session continues meanwhile.
async fn ask(
    name: &str,
    permission: Permission,
    terminal: &Mutex<()>,
) -> Result<(), Box<dyn Error>> {
    if !io::stdin().is_terminal() {
        show(
            name,
            "denied",
            permission
                .request()
                .description
                .as_deref()
                .unwrap_or_default(),
        )?;
        permission.deny();
        return Ok(());
    }
    let _one_at_a_time = terminal.lock().await;
    let request = permission.request();
    let [description, resource] =
        [&request.description, &request.resource].map(|text| text.as_deref().unwrap_or_default());
    let prompt = format!(
        "[{name}] {}: {description} ({resource}). Allow? [y/N] ",
        request.tool
    );
    let answer = tokio::task::spawn_blocking(move || {
        io::stderr().write_all(prompt.as_bytes())?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    // An answer that comes after the turn's end is ignored.
    if answer.await??.trim().eq_ignore_ascii_case("y") {
        permission.allow()
    } else {
        permission.deny()
    }
    Ok(())
}

fn how(end: &TurnEnd) -> String {
    let why = end
        .error
        .as_ref()
        .and_then(|error| error.message.as_deref())
        .unwrap_or_default();
    format!("{} after {} ms {why}", end.status, end.took.as_millis())
}

fn show(name: &str, who: &str, text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "[{name}] {who}: {}", text.trim_end())
}
