//! Observations of a session, for `report`.

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
};

use serde_json::{Value, json};
use trunkline_protocol::{FileInput, PermissionResponse, Sha256};

use crate::turn::digest;

/// The most that is remembered of each kind.
const KEPT: usize = 4096;

/// Observations and stored values of a session.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    inputs: VecDeque<Value>,
    files: VecDeque<FileInput>,
    answers: VecDeque<Value>,
    values: BTreeMap<String, Value>,
}

impl Ledger {
    pub(crate) fn input(&mut self, content: &str) {
        let sha256 = Sha256::digest(content.as_bytes());
        keep(
            &mut self.inputs,
            json!({ "bytes": content.len(), "sha256": sha256 }),
        );
    }

    pub(crate) fn file(&mut self, file: &FileInput) {
        keep(&mut self.files, file.clone());
    }

    pub(crate) fn answer(&mut self, response: &PermissionResponse) {
        let answer = json!({ "request_id": response.request_id, "approved": response.approved });
        keep(&mut self.answers, answer);
    }

    pub(super) fn set(&mut self, key: String, value: Value) {
        if self.values.len() < KEPT || self.values.contains_key(&key) {
            self.values.insert(key, value);
        }
    }

    pub(super) fn get(&self, key: &str) -> Value {
        self.values.get(key).cloned().unwrap_or_default()
    }

    pub(super) fn files(&self) -> Vec<FileInput> {
        self.files.iter().cloned().collect()
    }

    /// Returns the output of `report`, with the digests of the files.
    pub(super) fn report(&self, files: &[Value]) -> Value {
        json!({
            "$probe": 1,
            "count": self.inputs.len(),
            "inputs": self.inputs,
            "files": files,
            "permissions": self.answers,
        })
    }
}

/// Reads a file, which may be anything or nothing.
pub(super) fn judge(file: &FileInput) -> Value {
    let mut judged =
        json!({ "name": file.file_name, "mime": file.file_mime_type, "path": file.file_path });
    match digest(Path::new(&file.file_path)) {
        Ok((bytes, sha256)) => {
            judged["bytes"] = bytes.into();
            judged["sha256"] = sha256.to_string().into();
        }
        Err(error) => judged["error"] = error.to_string().into(),
    }
    judged
}

fn keep<T>(list: &mut VecDeque<T>, entry: T) {
    if list.len() == KEPT {
        list.pop_front();
    }
    list.push_back(entry);
}
