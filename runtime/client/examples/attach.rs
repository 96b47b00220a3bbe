//! Attaches to a session of a daemon, prints its entries, and sends an input if one is given.
//! Permissions are denied.
//!
//! ```sh
//! cargo run -p trunkline-client --example attach -- SOCKET                      # lists the sessions
//! cargo run -p trunkline-client --example attach -- SOCKET SESSION [INPUT]
//! ```

use std::{error::Error, io::Write};

use trunkline_client::{
    Client, EventBody, UnixSocket,
    protocol::{
        AdapterBody, PermissionResponse, RequestId, SessionAttach, SessionId, SessionsList,
    },
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments
        .next()
        .ok_or("usage: attach SOCKET [SESSION [INPUT]]")?;
    let client = Client::connect(UnixSocket::new(socket)).await?;
    let mut out = std::io::stdout();
    let Some(id) = arguments.next() else {
        let page = client
            .sessions(SessionsList::new(RequestId::new("list")?))
            .await?;
        for session in page.sessions {
            let title = session.title.unwrap_or_default();
            writeln!(out, "{} {} {title}", session.session_id, session.agent_id)?;
        }
        return Ok(());
    };
    let (session, mut events) = client
        .attach(SessionId::new(id)?, SessionAttach::default())
        .await?;
    let turn = match arguments.next() {
        Some(input) => Some(session.send(input).await?),
        None => None,
    };
    while let Some(event) = events.next().await? {
        writeln!(out, "{}", event.line())?;
        if let EventBody::Adapter(AdapterBody::PermissionRequest(request)) = &event.body
            && event.awaits_answer
        {
            let denial = PermissionResponse::new(request.request_id.clone(), false);
            session.answer_permission(denial).await?;
        }
        if turn.as_ref().is_some_and(|turn| event.ends(turn)) {
            break;
        }
    }
    client.close().await;
    Ok(())
}
