//! Observations of a session, for the probe's `report`.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read},
};

use hmac_sha256::Hash as Sha256;
use serde_json::{Value, json};
use trunkline_conformance_mutants::hex;

use crate::{
    fields::Fields,
    switches::{Mutant::*, broken},
};

/// The most that is remembered of each kind.
const KEPT: usize = 4096;

/// A file of the host's.
#[derive(Debug, Clone)]
pub(crate) struct AnnouncedFile {
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) path: String,
}

impl AnnouncedFile {
    /// Returns true if it can be read and differs from its announcement ([large.1]).
    pub(crate) fn differs(&self, fields: &Fields<'_>) -> bool {
        let Ok((bytes, found)) = digest(&self.path) else {
            return false;
        };
        let size = fields
            .value("size")
            .optional()
            .and_then(|size| size.as_u64());
        let sha256 = fields.text("sha256").optional();
        size.is_some_and(|size| size != bytes) || sha256.is_some_and(|sha256| sha256 != found)
    }

    /// Reads it, whatever it is ([file.2]).
    pub(crate) fn judged(&self) -> Value {
        let mut judged = json!({ "name": self.name, "mime": self.mime, "path": self.path });
        let path = if broken(NameIsPath) {
            &self.name
        } else {
            &self.path
        };
        match digest(path) {
            Ok((bytes, sha256)) => {
                judged["bytes"] = bytes.into();
                judged["sha256"] = sha256.into();
            }
            Err(error) => judged["error"] = error.to_string().into(),
        }
        judged
    }
}

/// Inputs, files and answers, each list bounded.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    inputs: VecDeque<Value>,
    files: VecDeque<AnnouncedFile>,
    answers: VecDeque<Value>,
}

impl Ledger {
    pub(crate) fn input(&mut self, content: &str) {
        let sha256 = hex(&Sha256::hash(content.as_bytes()));
        keep(
            &mut self.inputs,
            json!({ "bytes": content.len(), "sha256": sha256 }),
        );
    }

    pub(crate) fn inputs(&self) -> usize {
        self.inputs.len()
    }

    pub(crate) fn has_inputs(&self) -> bool {
        !self.inputs.is_empty()
    }

    pub(crate) fn file(&mut self, file: AnnouncedFile) {
        keep(&mut self.files, file);
    }

    pub(crate) fn answer(&mut self, request_id: &str, approved: bool) {
        keep(
            &mut self.answers,
            json!({ "request_id": request_id, "approved": approved }),
        );
    }

    pub(crate) fn files(&self) -> Vec<AnnouncedFile> {
        self.files.iter().cloned().collect()
    }

    pub(crate) fn report(&self, files: &[Value]) -> Value {
        json!({
            "$probe": 1,
            "count": self.inputs.len(),
            "inputs": self.inputs,
            "files": files,
            "permissions": self.answers,
        })
    }
}

/// The size and the SHA-256 of a regular file.
pub(crate) fn digest(path: &str) -> io::Result<(u64, String)> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut total = 0;
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let bytes = file.read(&mut chunk)?;
        if bytes == 0 {
            return Ok((total, hex(&hash.finalize())));
        }
        hash.update(&chunk[..bytes]);
        total += bytes as u64;
    }
}

fn keep<T>(list: &mut VecDeque<T>, entry: T) {
    if list.len() == KEPT {
        list.pop_front();
    }
    list.push_back(entry);
}
