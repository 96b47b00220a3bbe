//! Folders: existence and permissions. The checks create nothing.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use trunkline_host::config::{self, AgentConfig, Config};
use trunkline_host::files::Pinned;

use super::report::{CheckCode, DoctorCheck};

/// Checks the folders of the host.
pub(super) fn of_host(config: &Config, spool: &Path) -> Vec<DoctorCheck> {
    let state = config
        .state_dir
        .clone()
        .or_else(|| config::state_dir(|name| std::env::var_os(name)));
    let check = |used: Result<String, String>, codes: [CheckCode; 2], hint: &str| match used {
        Ok(how) => codes[0].check(how),
        Err(why) => codes[1].check(why).hint(hint),
    };
    let state = check(
        match &state {
            None => Err("neither XDG_STATE_HOME nor HOME names a folder".to_owned()),
            Some(state) => check_usable(state, MissingFolder::IsMade),
        },
        [CheckCode::StateUsable, CheckCode::StateUnusable],
        "set `runtime.state_dir` to a folder that you can write to",
    );
    let spool = check(
        check_usable(spool, MissingFolder::IsWrong),
        [CheckCode::SpoolUsable, CheckCode::SpoolUnusable],
        "set `runtime.spool_dir` to a folder on a large disk",
    );
    let temp = check(
        check_usable(&std::env::temp_dir(), MissingFolder::IsWrong),
        [CheckCode::TempUsable, CheckCode::TempUnusable],
        "set TMPDIR to another folder",
    );
    vec![temp, spool, state]
}

/// Checks the folders of one agent.
pub(super) fn of_agent(agent: &AgentConfig, work_dir: &Path) -> Vec<DoctorCheck> {
    let configured = !agent.command.work_dir.as_os_str().is_empty();
    let mut checks = vec![match check_enterable(work_dir) {
        Ok(()) if configured => CheckCode::WorkDirUsable.check(work_dir.to_string_lossy()),
        Ok(()) => CheckCode::WorkDirUsable.check(format!(
            "{}, the working directory of the host",
            work_dir.display()
        )),
        Err(error) => CheckCode::WorkDirUnusable
            .check(format!("{}: {error}", work_dir.display()))
            .hint("create that folder, or correct `work_dir`"),
    }];
    for root in &agent.file_roots {
        let why = match (Pinned::new(root), check_enterable(root)) {
            (Err(error), _) => error.to_string(),
            (Ok(_), Err(error)) => error.to_string(),
            (Ok(_), Ok(())) => continue,
        };
        checks.push(
            CheckCode::RootMissing
                .check(format!(
                    "no files can be read from {}: {why}",
                    root.display()
                ))
                .hint("create that folder, or correct `file_roots`"),
        );
    }
    checks
}

/// Consequence of a missing folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingFolder {
    IsMade,
    IsWrong,
}

/// Returns whether files can be created in a folder, or in one that the host would create there.
fn check_usable(folder: &Path, missing: MissingFolder) -> Result<String, String> {
    let shown = folder.display();
    let may = |folder: &Path| {
        accessat(
            CWD,
            folder,
            Access::WRITE_OK | Access::EXEC_OK,
            AtFlags::EACCESS,
        )
    };
    match std::fs::metadata(folder) {
        Ok(meta) if !meta.is_dir() => Err(format!("{shown} is not a folder")),
        Ok(_) => match may(folder) {
            Ok(()) => Ok(format!("{shown} is writable")),
            Err(errno) => Err(format!(
                "{shown} is not writable: {}",
                io::Error::from(errno)
            )),
        },
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && missing == MissingFolder::IsMade =>
        {
            let above: PathBuf = folder
                .ancestors()
                .skip(1)
                .find(|above| above.exists())
                .unwrap_or(folder)
                .into();
            match (above.is_dir(), may(&above)) {
                (true, Ok(())) => Ok(format!("{shown} can be created")),
                (_, refused) => {
                    let error = io::Error::from(refused.err().unwrap_or(Errno::NOTDIR));
                    Err(format!(
                        "{shown} cannot be created in {}: {error}",
                        above.display()
                    ))
                }
            }
        }
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

fn check_enterable(folder: &Path) -> io::Result<()> {
    if !std::fs::metadata(folder)?.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    Ok(accessat(CWD, folder, Access::EXEC_OK, AtFlags::EACCESS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_judged_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let missing = folder.path().join("a/b/c");
        assert!(
            check_usable(folder.path(), MissingFolder::IsWrong)
                .unwrap()
                .ends_with("is writable")
        );
        assert!(
            check_usable(&missing, MissingFolder::IsMade)
                .unwrap()
                .ends_with("can be created")
        );
        assert!(
            check_usable(&missing, MissingFolder::IsWrong)
                .unwrap_err()
                .contains("No such file")
        );
        assert!(
            check_usable(&file, MissingFolder::IsMade)
                .unwrap_err()
                .ends_with("is not a folder")
        );
        assert!(check_usable(&file.join("x"), MissingFolder::IsMade).is_err());
        assert!(!folder.path().join("a").exists());
        assert!(check_enterable(&file).is_err());
    }
}
