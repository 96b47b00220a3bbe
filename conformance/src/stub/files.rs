//! The file actions: what an honest adapter hands over, and what a hostile one tries.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use hmac_sha256::Hash as Sha256;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::json;

use super::action::{Action, TargetFolder};
use super::frame::{EarlyEnd, Frame, message};
use crate::wire::hex;

impl Frame {
    /// Executes an action on files; a failure is logged and the list continues.
    pub(super) fn act_on_files(&self, action: &Action) -> Result<(), EarlyEnd> {
        let done = match action {
            Action::File {
                name,
                mime,
                bytes,
                place,
            } => {
                let number = self.stub.next_file();
                let file = format!("{}-{}-{number}.bin", self.log_name(), self.stub.log.start());
                let path = self.folder(*place).join(file);
                match self.write_file(&path, *bytes) {
                    Ok(()) => return self.announce(&path, Some(name), Some(mime)),
                    Err(error) => Err(error),
                }
            }
            Action::FileAt { path, name, mime } => {
                let path = self.path(path);
                return self.announce(&path, name.as_deref(), mime.as_deref());
            }
            Action::WriteFile { path, bytes } => self.write_file(&self.path(path), *bytes),
            Action::Mkfifo(path) => {
                let mode = Mode::RUSR | Mode::WUSR;
                mknodat(CWD, self.path(path), FileType::Fifo, mode, 0).map_err(io::Error::from)
            }
            Action::Symlink { target, path } => {
                std::os::unix::fs::symlink(self.path(target), self.path(path))
            }
            Action::Hardlink { target, path } => {
                std::fs::hard_link(self.path(target), self.path(path))
            }
            Action::ReportFile(path) => self.report(&self.path(path)),
            _ => Ok(()),
        };
        if let Err(error) = done {
            self.failed(&error);
        }
        Ok(())
    }

    /// Returns a name that differs between two stubs of one host, which may share the folder.
    fn log_name(&self) -> String {
        self.stub
            .log
            .path()
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    fn announce(
        &self,
        path: &Path,
        name: Option<&str>,
        mime: Option<&str>,
    ) -> Result<(), EarlyEnd> {
        self.emit(&message(json!({
            "type": "file.output",
            "file_name": name,
            "file_mime_type": mime,
            "file_path": path.to_string_lossy(),
        })))
    }

    fn path(&self, path: &str) -> PathBuf {
        let folder = |place| self.folder(place).to_string_lossy().into_owned();
        let path = path
            .replace("{tmpdir}", &folder(TargetFolder::Tmpdir))
            .replace("{cwd}", &folder(TargetFolder::Cwd))
            .replace("{exchange_dir}", &folder(TargetFolder::ExchangeDir));
        PathBuf::from(path)
    }

    fn folder(&self, place: TargetFolder) -> PathBuf {
        let exchange = || self.session.look(|state| state.exchange_dir.clone());
        match place {
            TargetFolder::Tmpdir => std::env::temp_dir(),
            TargetFolder::Cwd => std::env::current_dir().unwrap_or_default(),
            TargetFolder::ExchangeDir => exchange().map_or_else(std::env::temp_dir, PathBuf::from),
        }
    }

    fn write_file(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut hash = Sha256::new();
        let mut noise = Noise(bytes | 1);
        let mut rest = bytes;
        let mut piece = [0; 8192];
        while rest > 0 {
            let n = usize::try_from(rest).map_or(piece.len(), |rest| rest.min(piece.len()));
            noise.fill(&mut piece);
            file.write_all(&piece[..n])?;
            hash.update(&piece[..n]);
            rest -= n as u64;
        }
        file.flush()?;
        self.stub.log.add(
            "file",
            [
                ("path", path.to_string_lossy().into()),
                ("len", bytes.into()),
                ("sha256", hex(&hash.finalize()).into()),
            ],
        );
        Ok(())
    }

    /// Logs what a path holds, as the stub can read it. A FIFO does not hold it up.
    fn report(&self, path: &Path) -> io::Result<()> {
        let place = path.to_string_lossy();
        match digest(path) {
            Ok((len, sha256)) => self.stub.log.add(
                "report",
                [
                    ("path", place.into()),
                    ("len", len.into()),
                    ("sha256", sha256.into()),
                ],
            ),
            Err(error) => self.stub.log.add(
                "report",
                [("path", place.into()), ("error", error.to_string().into())],
            ),
        }
        Ok(())
    }
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblock)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut hash = Sha256::new();
    let mut piece = vec![0; 64 * 1024];
    let mut len = 0;
    loop {
        let n = file.read(&mut piece)?;
        if n == 0 {
            return Ok((len, hex(&hash.finalize())));
        }
        hash.update(&piece[..n]);
        len += n as u64;
    }
}

/// Bytes that look random and are the same every time.
struct Noise(u64);

impl Noise {
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            chunk.copy_from_slice(&self.0.to_le_bytes()[..chunk.len()]);
        }
    }
}
