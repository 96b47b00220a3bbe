//! Rows of hosts.

use std::time::Duration;

use bytes::Bytes;
use trunkline_cluster::{
    ownership::{self, Me},
    row::{HostRow, SessionRow},
    store::key_of,
    wire,
};
use trunkline_protocol::SessionId;
use trunkline_sessions::Batch;

/// The name of a host.
pub(crate) fn name(number: usize) -> String {
    format!("host-{number:04}")
}

/// A host as it presents itself.
pub(crate) fn me(host: &str) -> Me {
    Me {
        host: host.to_owned(),
        incarnation: key_of(host),
        storage: Vec::new(),
        digest: key_of("d"),
    }
}

/// Returns a host's row.
pub(crate) fn host(me: &Me, ttl: Duration) -> HostRow {
    HostRow {
        host: me.host.clone(),
        incarnation: me.incarnation.clone(),
        beat: 1,
        ttl_ms: ttl.as_millis() as u64,
        version: "0.1.0".to_owned(),
        labels: [("zone".to_owned(), "a".to_owned())].into(),
        storage: Vec::new(),
        agents: vec!["claude-code".to_owned(), "codex".to_owned()],
        digest: me.digest.clone(),
        sessions: 0,
        busy: 0,
        is_draining: false,
        is_over: false,
    }
}

/// The id of a session.
pub(crate) fn session(number: u64) -> String {
    format!("s-{}", key_of(&number.to_string()))
}

/// The row of a session that was opened at a host.
pub(crate) fn opened(number: u64, host: usize) -> SessionRow {
    ownership::opened(&me(&name(host)), &session(number), Some("codex"), None)
}

/// A message of a session's journal: one entry of a few hundred bytes.
pub(crate) fn message(id: &str, epoch: u64) -> Bytes {
    let words = "word ".repeat(60);
    let line = format!(
        "{{\"seq\":1,\"time\":\"2026-01-01T00:00:00.000Z\",\"session\":\"{id}\",\"turn\":\"t1\",\"type\":\"output\",\"content\":\"{words}\"}}\n"
    );
    let batch = Batch {
        session: SessionId::new(id).unwrap(),
        epoch,
        first: 1,
        count: 1,
        lines: Bytes::from(line),
        facts: Some(Bytes::from(vec![b'f'; 200])),
        is_settled: true,
        marks: Vec::new(),
    };
    wire::messages(&batch, &key_of("w"), 1, 1 << 20).remove(0)
}
