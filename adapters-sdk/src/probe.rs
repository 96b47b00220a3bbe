//! Scripts of the conformance suite, which judge an adapter without its model.
//!
//! Every adapter on this SDK executes them. The probe is off unless `CONFORM_PROBE=1` is in the
//! environment at the start ([`Server::probing`](crate::Server::probing) in tests); then an input
//! whose content is an object with `$probe` is executed instead of passed to the adapter:
//!
//! ```json
//! {"$probe":1,"do":[["say","hello"],["sleep",200],["ask",{"tool":"shell","description":"d","resource":"r"}]]}
//! ```
//!
//! | operation | effect |
//! |---|---|
//! | `hello` | outputs `ops`, `adapter`, `version` |
//! | `say text [channel]` | outputs the text |
//! | `echo [text]` | outputs the text, or the script's own member `text` |
//! | `burst n bytes [letter]` | outputs `n` pieces of that size, numbered from 1 in eight digits |
//! | `sleep ms`, `until_stop` | is busy; outputs `tick` each 50 ms; takes steers |
//! | `report` | outputs `inputs`, `files` (each with `bytes` and `sha256`) and `permissions` (with `approved`) of the session |
//! | `set key value`, `get key` | keeps a value in the session; outputs `key` and `value` |
//! | `ask request…` | asks for all at once; creates each one's `effect` file only if approved; outputs `asked` |
//! | `question {prompt, fields}` | asks; outputs `values`, `cancelled` |
//! | `file name mime bytes` | writes a file and sends it |
//! | `event message` | sends any event, given as a message without `session_id` |
//! | `info message`, `ready` | sends a `session.info`; outputs the agreed `extensions` |
//! | `complete [end]` | ends the turn: nothing, a status, or the members of a `turn.complete` |
//! | `fail [message]` | fails as an adapter fails |
//! | `close_session [reason]` | ends the session |
//! | `exit n`, `abort` | ends the process |
//!
//! Data is output as one object with `"$probe":1`. An unknown operation is answered by
//! `unsupported` and an ordinary end.

mod ledger;
mod operation;
mod run;

use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::{ledger::Ledger, run::run};

/// A script, as it is in an input.
#[derive(Debug, Deserialize)]
pub(crate) struct Script {
    #[serde(rename = "$probe")]
    _version: Value,
    #[serde(rename = "do", default)]
    steps: Vec<Vec<Value>>,
    #[serde(default)]
    text: String,
}

/// The script in an input, if the probe is on and it holds one.
pub(crate) fn script_in(probing: bool, content: &str) -> Option<Script> {
    if !probing || !content.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(content).ok()
}
