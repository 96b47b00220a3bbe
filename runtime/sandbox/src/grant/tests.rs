use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use crate::{Backend, Outlet};
use trunkline_process::Limits;

use super::*;

/// Folders of a test: `private/one/tmp`, `work`, `data/deep`, `init`.
struct Ground {
    dir: TempDir,
    sandbox: Sandbox,
    work_dir: PathBuf,
    outlet: Option<Outlet>,
    hidden: Vec<PathBuf>,
    covered: Vec<PathBuf>,
    unwritable: Vec<PathBuf>,
    reserved: Vec<PathBuf>,
    environment: BTreeMap<OsString, OsString>,
    declared: BTreeMap<OsString, OsString>,
}

impl Ground {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in [
            "private/one/tmp",
            "work/sub",
            "data/deep",
            "state",
            "exchange",
        ] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("init"), "").unwrap();
        let mut ground = Self {
            sandbox: Sandbox::new(Backend::Bubblewrap),
            work_dir: PathBuf::new(),
            outlet: None,
            hidden: Vec::new(),
            covered: Vec::new(),
            unwritable: Vec::new(),
            reserved: Vec::new(),
            environment: BTreeMap::new(),
            declared: BTreeMap::new(),
            dir,
        };
        ground.work_dir = ground.at("work");
        ground
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    fn with<T>(&self, see: impl FnOnce(&Inside<'_>) -> T) -> T {
        see(&Inside {
            label: "",
            program: OsStr::new("sh"),
            args: &[],
            environment: &self.environment,
            declared: &self.declared,
            work_dir: &self.work_dir,
            private: &self.at("private/one"),
            temp: &self.at("private/one/tmp"),
            exchange: Some(&self.at("exchange")),
            init: &self.at("init"),
            status: None,
            outlet: self.outlet.as_ref(),
            limits: Limits::default(),
            hidden: &self.hidden,
            covered: &self.covered,
            unwritable: &self.unwritable,
            reserved: &self.reserved,
        })
    }

    fn grants(&self) -> Result<Vec<Grant>, SandboxError> {
        self.with(|inside| grants(&self.sandbox, inside))
    }

    /// Returns the grants below the test's folder, in order, such as `w work`.
    #[track_caller]
    fn granted(&self) -> Vec<String> {
        let root = self.at("");
        let shown = |grant: &Grant| {
            let access = match grant.access {
                Access::Covered => '-',
                Access::Masked => 'x',
                Access::Read => 'r',
                Access::Write => 'w',
            };
            format!(
                "{access} {}",
                grant
                    .place
                    .real
                    .strip_prefix(&root)
                    .unwrap_or(&grant.place.real)
                    .display()
            )
        };
        self.grants().unwrap().iter().map(shown).collect()
    }

    #[track_caller]
    fn refused(&self) -> String {
        self.grants()
            .unwrap_err()
            .to_string()
            .replace(&*self.at("").to_string_lossy(), "")
    }
}

const ALWAYS: [&str; 5] = [
    "w exchange",
    "r init",
    "w work",
    "r private/one",
    "w private/one/tmp",
];

#[test]
fn every_child_has_its_folders() {
    assert_eq!(Ground::new().granted(), ALWAYS);
}

#[test]
fn nested_grants_go_from_outer_to_inner_and_the_inner_one_counts() {
    let mut ground = Ground::new();
    ground.sandbox.writable = vec![ground.at("data")];
    ground.sandbox.read_only = vec![ground.at("data/deep"), ground.at("work/sub")];
    let granted = ground.granted();
    let position = |of: &str| {
        granted
            .iter()
            .position(|grant| grant == of)
            .unwrap_or_else(|| panic!("{granted:?}"))
    };
    assert!(position("w data") < position("r data/deep"));
    assert!(position("w work") < position("r work/sub"));
}

#[test]
fn a_working_directory_is_read_only_where_it_is_listed_or_lies_in_what_is() {
    for listed in ["work", ""] {
        let mut ground = Ground::new();
        // The test's folder itself contains private folders.
        if listed.is_empty() {
            ground.work_dir = ground.at("data/deep");
            ground.sandbox.read_only = vec![ground.at("data")];
        } else {
            ground.sandbox.read_only = vec![ground.at(listed)];
        }
        let work_dir = ground.work_dir.clone();
        let grants = ground.grants().unwrap();
        let found = grants
            .iter()
            .find(|grant| grant.place.real == work_dir)
            .unwrap();
        assert_eq!(found.access, Access::Read, "{listed}");
    }
}

#[test]
fn of_the_same_path_twice_the_narrower_counts() {
    let mut ground = Ground::new();
    ground.sandbox.writable = vec![ground.at("data")];
    ground.sandbox.read_only = vec![ground.at("data")];
    assert!(ground.granted().contains(&"r data".to_owned()));
    assert!(!ground.granted().contains(&"w data".to_owned()));
}

#[test]
fn a_link_grants_what_it_leads_to_by_both_names() {
    let mut ground = Ground::new();
    symlink("data", ground.at("first")).unwrap();
    symlink(ground.at("first"), ground.at("second")).unwrap();
    ground.sandbox.read_only = vec![ground.at("second/deep")];
    let grants = ground.grants().unwrap();
    let grant = grants
        .iter()
        .find(|grant| grant.list == "read_only")
        .unwrap();
    assert_eq!(grant.place.real, ground.at("data/deep"));
    assert_eq!(grant.also, [ground.at("second/deep")]);
    let links: Vec<_> = grant
        .place
        .links
        .iter()
        .map(|link| (link.at.clone(), link.target.clone()))
        .collect();
    assert_eq!(
        links,
        [
            (ground.at("second"), ground.at("data")),
            (ground.at("first"), ground.at("data"))
        ]
    );
}

#[test]
fn dots_are_followed_as_the_system_does() {
    let mut ground = Ground::new();
    symlink(ground.at("data/deep"), ground.at("link")).unwrap();
    ground.sandbox.read_only = vec![ground.at("./link/../../work/sub")];
    assert!(ground.granted().contains(&"r work/sub".to_owned()));
}

#[test]
fn a_link_in_something_writable_may_not_lead_out_of_it() {
    let mut ground = Ground::new();
    symlink(ground.at("data"), ground.at("work/turned")).unwrap();
    ground.sandbox.read_only = vec![ground.at("work/turned")];
    let said = ground.refused();
    assert_eq!(
        said,
        r#"grant "work/turned" (read_only): "work/turned" is a link that the child can turn, as it may write in "work"; name "data" instead"#
    );

    symlink(ground.at("work/sub"), ground.at("work/within")).unwrap();
    ground.sandbox.read_only = vec![ground.at("work/within")];
    assert!(
        ground.granted().contains(&"r work/sub".to_owned()),
        "it leads to what is granted anyway"
    );

    // An indirect link is rejected too: only the first link belongs to the operator.
    symlink(ground.at("work/turned"), ground.at("detour")).unwrap();
    ground.sandbox.read_only = vec![ground.at("detour")];
    assert!(ground.refused().contains("can turn"));
}

#[test]
fn what_is_missing_or_not_absolute_is_told() {
    let mut ground = Ground::new();
    ground.sandbox.read_only = vec!["relative".into()];
    assert_eq!(
        ground.refused(),
        r#"grant "relative" (read_only): the path is not absolute"#
    );
    for missing in ["nothing", "dangling", "circle"] {
        symlink("nowhere", ground.at("dangling")).ok();
        symlink("circle", ground.at("circle")).ok();
        ground.sandbox.read_only = vec![];
        ground.sandbox.writable = vec![ground.at(missing)];
        let said = ground.refused();
        assert!(
            said.starts_with(&format!(
                "grant {missing:?} (writable): it cannot be looked at"
            )),
            "{said}"
        );
    }
}

#[test]
fn what_a_sandbox_makes_itself_or_what_opens_the_machine_is_refused() {
    for (path, access, part) in [
        ("/proc", Access::Read, "/proc of its own"),
        ("/proc/self", Access::Read, "/proc of its own"),
        ("/dev/null", Access::Write, "/dev of its own"),
        ("/", Access::Write, "all of the machine"),
        ("/sys", Access::Write, "settings of the kernel"),
    ] {
        if !Path::new(path).exists() {
            continue;
        }
        let mut ground = Ground::new();
        match access {
            Access::Covered | Access::Masked | Access::Read => {
                ground.sandbox.read_only = vec![path.into()]
            }
            Access::Write => ground.sandbox.writable = vec![path.into()],
        }
        let said = ground.refused();
        assert!(said.contains(part), "{path}: {said}");
    }
    let mut ground = Ground::new();
    ground.work_dir = "/".into();
    assert!(
        ground.refused().contains("all of the machine"),
        "as a working directory too"
    );
}

#[test]
fn the_way_to_the_proxy_is_covered_by_nothing() {
    let mut ground = Ground::new();
    ground.sandbox.read_only = vec!["/run".into()];
    assert!(ground.grants().is_ok(), "nothing has to be there");
    ground.outlet = Some(Outlet {
        port: 3128,
        socket: ground.at("init"),
    });
    assert!(ground.refused().contains("/run/trunkline"));
}

#[test]
fn what_the_host_keeps_to_itself_is_not_shown() {
    let mut ground = Ground::new();
    symlink("data", ground.at("link")).unwrap();
    ground.hidden = vec![ground.at("state"), ground.at("link/not/made/yet")];
    for (path, part) in [
        ("private", "private folders of others"),
        ("private/one", "which the host keeps to itself"),
        ("private/one/tmp", "which the host keeps to itself"),
        ("state", "which the host keeps to itself"),
    ] {
        ground.sandbox.read_only = vec![ground.at(path)];
        let said = ground.refused();
        assert!(said.contains(part), "{path}: {said}");
    }
    ground.sandbox.read_only = vec![];
    for (path, part) in [
        ("data", "which the host keeps to itself"),
        ("", "private folders of others"),
    ] {
        ground.sandbox.writable = vec![ground.at(path)];
        let said = ground.refused();
        assert!(said.contains(part), "{path}: {said}");
    }
    ground.sandbox.writable = vec![ground.at("data/deep")];
    assert!(ground.grants().is_ok());
}

#[test]
fn what_the_host_keeps_to_itself_is_covered_where_all_around_can_be_read() {
    let mut ground = Ground::new();
    symlink("data", ground.at("link")).unwrap();
    ground.hidden = vec![
        ground.at("state"),
        ground.at("link/deep"),
        ground.at("data/not/made/yet"),
    ];
    ground.sandbox.read_only = vec![ground.at("data")];
    let granted = ground.granted();
    assert!(granted.ends_with(&[
        "- data/deep".into(),
        "r private/one".into(),
        "w private/one/tmp".into()
    ]));
    ground.sandbox.read_only = vec![ground.at("")];
    let covers: Vec<_> = ground
        .granted()
        .into_iter()
        .filter(|grant| grant.starts_with('-'))
        .collect();
    assert_eq!(covers, ["- private", "- state", "- data/deep"]);
    ground
        .environment
        .insert("HOME".into(), ground.at("state").into());
    let grants = ground.grants().unwrap();
    assert_eq!(
        ground.with(|inside| home(&grants, inside)),
        ground.at("private/one/tmp"),
        "no home is covered"
    );
}

#[test]
fn what_is_covered_is_covered_where_all_around_can_be_written_too() {
    let mut ground = Ground::new();
    fs::create_dir_all(ground.at("work/a/journal")).unwrap();
    for file in [
        "work/a/journal/host.sock",
        "work/wire.log",
        "data/deep/other.sock",
    ] {
        fs::write(ground.at(file), "").unwrap();
    }
    symlink("work/a", ground.at("link")).unwrap();
    ground.covered = [
        "link/journal/host.sock",
        "link/journal",
        "work/wire.log",
        "data/deep/other.sock",
        "work/no",
    ]
    .map(|path| ground.at(path))
    .into();
    let of_work = ["w work", "w work/a", "x work/wire.log", "- work/a/journal"];
    let granted = ground.granted();
    let seen: Vec<_> = granted
        .iter()
        .filter(|grant| grant.contains("work"))
        .collect();
    assert_eq!(
        seen, of_work,
        "what lies in nothing that is granted, and what is not there, is left out"
    );
    assert_eq!(granted.len(), ALWAYS.len() + 3);
    ground.sandbox.read_only = vec![ground.at("data")];
    assert!(
        ground
            .granted()
            .contains(&"x data/deep/other.sock".to_owned())
    );
    for (within, of) in [
        ("work/a/journal", "work/a/journal"),
        ("link/journal/host.sock", "work/a/journal"),
        ("work/wire.log", "work/wire.log"),
    ] {
        ground.sandbox.read_only = vec![ground.at(within)];
        let said = ground.refused();
        assert!(
            said.ends_with(&format!("it is in {of:?}, which the host keeps to itself")),
            "{said}"
        );
    }
}

#[test]
fn all_of_the_machine_may_be_read_where_an_empty_folder_covers_the_private_ones() {
    let mut ground = Ground::new();
    ground.sandbox.read_only = vec!["/".into()];
    let covered = ground.granted().contains(&"- private".to_owned());
    assert_eq!(
        covered,
        !ground.at("").starts_with("/tmp"),
        "{}",
        ground.at("").display()
    );
}

#[test]
fn folders_between_something_writable_and_something_read_only_are_mounted_too() {
    let mut ground = Ground::new();
    fs::create_dir_all(ground.at("work/a/b/c/d")).unwrap();
    ground.sandbox.read_only = vec![ground.at("work/a/b/c/d")];
    let below_work = |ground: &Ground| -> Vec<String> {
        ground
            .granted()
            .into_iter()
            .filter(|grant| grant[2..].starts_with("work"))
            .collect()
    };
    let all = [
        "w work",
        "w work/a",
        "w work/a/b",
        "w work/a/b/c",
        "r work/a/b/c/d",
    ];
    assert_eq!(below_work(&ground), all);
    // A writable folder within is mounted too. A read-only one above ends the chain.
    symlink("work/a/b", ground.at("alias")).unwrap();
    ground.sandbox.writable = vec![ground.at("alias")];
    assert_eq!(below_work(&ground), all);
    ground.sandbox.read_only.push(ground.at("work/a"));
    assert_eq!(
        below_work(&ground),
        [
            "w work",
            "r work/a",
            "w work/a/b",
            "w work/a/b/c",
            "r work/a/b/c/d"
        ]
    );
}

#[test]
fn what_is_writable_within_something_writable_is_not_mounted_again() {
    let mut ground = Ground::new();
    ground.sandbox.writable = vec![
        ground.at("work/sub"),
        ground.at("data"),
        ground.at("data/deep"),
    ];
    assert_eq!(
        ground.granted(),
        [
            "w data",
            "w exchange",
            "r init",
            "w work",
            "r private/one",
            "w private/one/tmp"
        ]
    );
    symlink("data/deep", ground.at("alias")).unwrap();
    ground.sandbox.writable.push(ground.at("alias"));
    let grants = ground.grants().unwrap();
    let given: Vec<_> = grants
        .iter()
        .filter(|grant| grant.given)
        .map(|grant| &grant.named)
        .collect();
    assert_eq!(given, [&ground.at("alias")]);
}

#[test]
fn home_is_the_hosts_only_where_it_is_granted_or_declared() {
    let mut ground = Ground::new();
    let home = |ground: &Ground| {
        let grants = ground.grants().unwrap();
        PathBuf::from(ground.with(|inside| home(&grants, inside)))
    };
    let temp = ground.at("private/one/tmp");
    assert_eq!(home(&ground), temp);
    ground
        .environment
        .insert("HOME".into(), ground.at("data").into());
    assert_eq!(home(&ground), temp, "it is not granted");
    ground
        .declared
        .insert("HOME".into(), ground.at("data").into());
    assert_eq!(home(&ground), ground.at("data"), "it is declared");
    ground.declared.clear();
    ground.sandbox.writable = vec![ground.at("data")];
    assert_eq!(home(&ground), ground.at("data"), "it is granted");
    ground
        .environment
        .insert("HOME".into(), ground.at("work/sub").into());
    assert_eq!(
        home(&ground),
        ground.at("work/sub"),
        "it lies in the working directory"
    );
}

#[test]
fn what_the_host_reads_is_read_only_inside_with_the_folders_around_it() {
    let mut ground = Ground::new();
    fs::write(ground.at("work/sub/config.json"), "{}").unwrap();
    ground.unwritable = vec![
        ground.at("work/sub/config.json"),
        ground.at("data/secret"),
        ground.at("init"),
    ];
    ground.reserved = vec![
        ground.at("work/new/config.json"),
        ground.at("state/config.json"),
    ];
    let granted = ground.granted();
    let below_work: Vec<_> = granted
        .iter()
        .filter(|grant| grant.contains("work"))
        .collect();
    let expected = [
        "w work",
        "w work/new",
        "w work/sub",
        "r work/new/config.json",
        "r work/sub/config.json",
    ];
    assert_eq!(below_work, expected);
    assert!(
        !granted
            .iter()
            .any(|grant| grant.contains("data") || grant.contains("state")),
        "{granted:?}"
    );
    assert_eq!(fs::read(ground.at("work/new/config.json")).unwrap(), b"");
    assert!(
        !ground.at("state/config.json").exists(),
        "nothing is made where the child cannot make it"
    );
    // Even if the operator granted the file itself.
    ground.sandbox.writable = vec![ground.at("work/sub/config.json")];
    assert!(
        ground
            .granted()
            .contains(&"r work/sub/config.json".to_owned())
    );
}

#[test]
fn what_the_host_reads_and_the_child_could_replace_is_refused() {
    for (make, part) in [
        ((|_: &Ground| {}) as fn(&Ground), "make it yourself"),
        (
            |ground| symlink(ground.at("init"), ground.at("work/config.json")).unwrap(),
            "is a link",
        ),
        (
            |ground| {
                fs::write(ground.at("work/sub/other"), "").unwrap();
                fs::hard_link(ground.at("work/sub/other"), ground.at("work/config.json")).unwrap();
            },
            "second name",
        ),
    ] {
        let mut ground = Ground::new();
        make(&ground);
        ground.unwritable = vec![ground.at("work/config.json")];
        let said = ground.refused();
        assert!(said.contains(part), "{said}");
    }
    let mut ground = Ground::new();
    symlink(ground.at("work/nowhere"), ground.at("work/config.json")).unwrap();
    ground.reserved = vec![ground.at("work/config.json")];
    assert!(ground.refused().contains("config.json"));
}
