//! What a session has seen, for `report`.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write,
    fs::File,
    io::Read,
};

use hmac_sha256::Hash as Sha256;
use serde_json::{Value, json};
use trunkline_protocol::{FileInput, PermissionResponse};

/// The most that is remembered of each kind.
const KEPT: usize = 4096;

/// What one session has seen and was asked to keep.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    inputs: VecDeque<Value>,
    files: VecDeque<FileInput>,
    answers: VecDeque<Value>,
    values: BTreeMap<String, Value>,
}

impl Ledger {
    pub(crate) fn input(&mut self, content: &str) {
        let sha256 = hex(&Sha256::hash(content.as_bytes()));
        keep(&mut self.inputs, json!({ "bytes": content.len(), "sha256": sha256 }));
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

    /// What `report` outputs, with what was read of the files.
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
    let mut judged = json!({ "name": file.file_name, "mime": file.file_mime_type, "path": file.file_path });
    match digest(&file.file_path) {
        Ok((bytes, sha256)) => {
            judged["bytes"] = bytes.into();
            judged["sha256"] = sha256.into();
        }
        Err(error) => judged["error"] = error.to_string().into(),
    }
    judged
}

fn digest(path: &str) -> std::io::Result<(u64, String)> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut file = File::open(path)?;
    let (mut hash, mut total, mut chunk) = (Sha256::new(), 0, vec![0; 64 * 1024]);
    loop {
        let bytes = file.read(&mut chunk)?;
        if bytes == 0 {
            return Ok((total, hex(&hash.finalize())));
        }
        hash.update(&chunk[..bytes]);
        total += bytes as u64;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn keep<T>(list: &mut VecDeque<T>, entry: T) {
    if list.len() == KEPT {
        list.pop_front();
    }
    list.push_back(entry);
}
