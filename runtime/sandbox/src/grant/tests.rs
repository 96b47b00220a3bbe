use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use crate::{AgentConfinement, Backend, Outlet, Policy};
use trunkline_process::{Containment, Inherit, Limits};

use super::*;

/// Folders of a test: `private/one/tmp`, `work`, `data/deep`, `init`.
struct GrantFixture {
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

impl GrantFixture {
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
        let mut fixture = Self {
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
        fixture.work_dir = fixture.at("work");
        fixture
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

    fn grants(&self) -> Result<Vec<PathGrant>, SandboxError> {
        self.with(|inside| collect_grants(&self.sandbox, inside))
    }

    /// Returns the grants below the test's folder, in order, such as `w work`.
    #[track_caller]
    fn granted(&self) -> Vec<String> {
        let root = self.at("");
        let shown = |grant: &PathGrant| {
            let access = match grant.access {
                PathAccess::Covered => '-',
                PathAccess::Masked => 'x',
                PathAccess::Read => 'r',
                PathAccess::Write => 'w',
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
    assert_eq!(GrantFixture::new().granted(), ALWAYS);
}

#[test]
fn nested_grants_go_from_outer_to_inner_and_the_inner_one_counts() {
    let mut fixture = GrantFixture::new();
    fixture.sandbox.writable = vec![fixture.at("data")];
    fixture.sandbox.read_only = vec![fixture.at("data/deep"), fixture.at("work/sub")];
    let granted = fixture.granted();
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
fn a_working_directory_in_a_read_only_path_is_read_only() {
    for listed in ["work", ""] {
        let mut fixture = GrantFixture::new();
        // The test's folder itself contains private folders.
        if listed.is_empty() {
            fixture.work_dir = fixture.at("data/deep");
            fixture.sandbox.read_only = vec![fixture.at("data")];
        } else {
            fixture.sandbox.read_only = vec![fixture.at(listed)];
        }
        let work_dir = fixture.work_dir.clone();
        let grants = fixture.grants().unwrap();
        let found = grants
            .iter()
            .find(|grant| grant.place.real == work_dir)
            .unwrap();
        assert_eq!(found.access, PathAccess::Read, "{listed}");
    }
}

#[test]
fn of_two_grants_of_one_path_the_narrower_counts() {
    let mut fixture = GrantFixture::new();
    fixture.sandbox.writable = vec![fixture.at("data")];
    fixture.sandbox.read_only = vec![fixture.at("data")];
    assert!(fixture.granted().contains(&"r data".to_owned()));
    assert!(!fixture.granted().contains(&"w data".to_owned()));
}

#[test]
fn a_link_grants_what_it_leads_to_by_both_names() {
    let mut fixture = GrantFixture::new();
    symlink("data", fixture.at("first")).unwrap();
    symlink(fixture.at("first"), fixture.at("second")).unwrap();
    fixture.sandbox.read_only = vec![fixture.at("second/deep")];
    let grants = fixture.grants().unwrap();
    let grant = grants
        .iter()
        .find(|grant| grant.list == "read_only")
        .unwrap();
    assert_eq!(grant.place.real, fixture.at("data/deep"));
    assert_eq!(grant.aliases, [fixture.at("second/deep")]);
    let links: Vec<_> = grant
        .place
        .links
        .iter()
        .map(|link| (link.at.clone(), link.target.clone()))
        .collect();
    assert_eq!(
        links,
        [
            (fixture.at("second"), fixture.at("data")),
            (fixture.at("first"), fixture.at("data"))
        ]
    );
}

#[test]
fn dots_are_followed_as_the_system_does() {
    let mut fixture = GrantFixture::new();
    symlink(fixture.at("data/deep"), fixture.at("link")).unwrap();
    fixture.sandbox.read_only = vec![fixture.at("./link/../../work/sub")];
    assert!(fixture.granted().contains(&"r work/sub".to_owned()));
}

#[test]
fn no_grant_leads_through_a_link_that_the_child_can_change() {
    let mut fixture = GrantFixture::new();
    symlink(fixture.at("data"), fixture.at("work/turned")).unwrap();
    fixture.sandbox.read_only = vec![fixture.at("work/turned")];
    let error = fixture.refused();
    assert_eq!(
        error,
        r#"grant "work/turned" (read_only): "work/turned" is a link to "data" that an agent in a sandbox can change, as it may write in "work"; remove the link, or name "data" itself if you mean it"#
    );

    // Also one that stays within: the next one may lead elsewhere.
    symlink(fixture.at("work/sub"), fixture.at("work/within")).unwrap();
    fixture.sandbox.read_only = vec![fixture.at("work/within")];
    assert!(fixture.refused().contains("can change"));

    // An indirect link is rejected too: only the first link belongs to the operator.
    symlink(fixture.at("work/turned"), fixture.at("detour")).unwrap();
    fixture.sandbox.read_only = vec![fixture.at("detour")];
    assert!(fixture.refused().contains("can change"));
}

#[test]
fn no_grant_leads_through_a_link_that_another_child_may_have_changed() {
    let other = GrantFixture::new();
    fs::create_dir_all(other.at("work/conf")).unwrap();
    symlink(other.at("work/conf"), other.at("link")).unwrap();
    let mut fixture = GrantFixture::new();
    let mut refuses = |path: &str| {
        fixture.sandbox.writable = vec![other.at(path)];
        fixture
            .grants()
            .is_err_and(|error| error.to_string().contains("can change"))
    };
    symlink(other.at("data"), other.at("work/turned")).unwrap();
    symlink(other.at("data"), other.at("work/conf/kept")).unwrap();
    assert!(!refuses("work/turned"), "nobody writes there");

    let mut sandbox = other.sandbox.clone();
    sandbox.read_only = vec![other.at("work/conf")];
    sandbox.writable = vec![other.at("missing")];
    guard_writable([("", &sandbox, other.at("work"))]);
    assert!(refuses("work/turned") && refuses("work/turned/deep"));
    assert!(!refuses("work/conf/kept"), "it may only be read");
    assert!(!refuses("link") && !refuses("work/sub"));
    assert_eq!(resolve_guarded(&other.at("work/turned/new")), None);
    assert_eq!(
        resolve_guarded(&other.at("link/new")),
        Some(other.at("work/conf/new"))
    );

    // A start registers what it grants.
    symlink(other.at("data"), other.at("state/turned")).unwrap();
    assert!(!refuses("state/turned") && !refuses("state"));
    assert!(refuses("state/turned"));
}

#[test]
fn a_folder_of_an_agent_may_be_moved_behind_a_link_by_the_operator() {
    let mut fixture = GrantFixture::new();
    fixture.sandbox.writable = vec![fixture.at("data")];
    assert!(fixture.grants().is_ok());
    fs::rename(fixture.at("data"), fixture.at("moved")).unwrap();
    symlink("moved", fixture.at("data")).unwrap();
    assert!(fixture.granted().contains(&"w moved".to_owned()));
}

#[test]
fn the_target_of_a_changed_link_is_no_folder_of_an_agent() {
    let fixture = GrantFixture::new();
    symlink(fixture.at("data"), fixture.at("work/turned")).unwrap();
    symlink("deep", fixture.at("data/link")).unwrap();
    guard_writable([
        ("", &fixture.sandbox, fixture.at("work/turned")),
        ("", &fixture.sandbox, fixture.at("work")),
    ]);
    assert_eq!(
        resolve_guarded(&fixture.at("data/link")),
        Some(fixture.at("data/deep"))
    );
}

#[test]
fn a_container_gets_no_path_that_another_child_could_exchange() {
    let other = GrantFixture::new();
    let mut sandbox = other.sandbox.clone();
    sandbox.read_only = vec![other.at("work/sub")];
    fs::create_dir_all(other.at("work/own")).unwrap();
    let mut fixture = GrantFixture::new();
    for (path, is_refused) in [
        ("work/own", true),
        ("work/sub", false),
        ("work", false),
        ("data", false),
    ] {
        fixture.sandbox.writable = vec![other.at(path)];
        let grants = fixture.grants().unwrap();
        guard_writable([("other", &sandbox, other.at("work"))]);
        let refused = reject_exchangeable(&grants, "").is_err();
        assert_eq!(refused, is_refused, "{path}");
        assert!(reject_exchangeable(&grants, "other").is_ok(), "{path}");
    }
    // What is within its own folder is not mounted again.
    fixture.sandbox.writable = vec![other.at("work"), other.at("work/own")];
    assert!(reject_exchangeable(&fixture.grants().unwrap(), "").is_ok());
}

#[test]
fn a_policy_holds_for_what_a_path_leads_to_at_the_start() {
    let mut fixture = GrantFixture::new();
    let link = fixture.at("link");
    symlink("work/sub", &link).unwrap();
    for list in ["writable", "the working directory"] {
        let policy = Policy {
            writable: Some(vec![fixture.at("work")]),
            ..Policy::default()
        };
        let asked = AgentConfinement {
            sandbox: Some(Sandbox::new(Backend::Bubblewrap)),
            work_dir: link.clone(),
            limits: Limits::default(),
            containment: Containment::Auto,
            at_least: Containment::Auto,
            inherit: Inherit::Curated,
        };
        fixture.sandbox = policy.narrow(asked).unwrap().granted.sandbox.unwrap();
        if list == "writable" {
            fixture.sandbox.writable = vec![link.clone()];
        } else {
            fixture.work_dir.clone_from(&link);
        }
        assert!(fixture.grants().is_ok());
        fs::remove_file(&link).unwrap();
        symlink("data", &link).unwrap();
        assert_eq!(
            fixture.refused(),
            format!(r#"grant "data" ({list}): the policy allows only paths in "work""#)
        );
        fs::remove_file(&link).unwrap();
        symlink("work/sub", &link).unwrap();
    }
}

#[test]
fn a_mounted_path_is_identified_without_following_a_link() {
    let fixture = GrantFixture::new();
    let grants = fixture.grants().unwrap();
    let places = identify_mounts(&grants).unwrap();
    let found = fixture.at("work").metadata().unwrap();
    assert!(places.contains(&((found.dev(), found.ino()), fixture.at("work"))));
    for replaced in ["work", "private"] {
        fs::rename(fixture.at(replaced), fixture.at("old")).unwrap();
        symlink("old", fixture.at(replaced)).unwrap();
        assert!(identify_mounts(&grants).is_err(), "{replaced}");
        fs::remove_file(fixture.at(replaced)).unwrap();
        fs::rename(fixture.at("old"), fixture.at(replaced)).unwrap();
    }
}

#[test]
fn missing_and_relative_paths_are_rejected() {
    let mut fixture = GrantFixture::new();
    fixture.sandbox.read_only = vec!["relative".into()];
    assert_eq!(
        fixture.refused(),
        r#"grant "relative" (read_only): the path is not absolute"#
    );
    for missing in ["nothing", "dangling", "circle"] {
        symlink("nowhere", fixture.at("dangling")).ok();
        symlink("circle", fixture.at("circle")).ok();
        fixture.sandbox.read_only = vec![];
        fixture.sandbox.writable = vec![fixture.at(missing)];
        let error = fixture.refused();
        assert!(
            error.starts_with(&format!(
                "grant {missing:?} (writable): it cannot be looked at"
            )),
            "{error}"
        );
    }
}

#[test]
fn what_a_sandbox_makes_itself_or_what_opens_the_machine_is_refused() {
    for (path, access, part) in [
        ("/proc", PathAccess::Read, "/proc of its own"),
        ("/proc/self", PathAccess::Read, "/proc of its own"),
        ("/dev/null", PathAccess::Write, "/dev of its own"),
        ("/", PathAccess::Write, "all of the machine"),
        ("/sys", PathAccess::Write, "settings of the kernel"),
    ] {
        if !Path::new(path).exists() {
            continue;
        }
        let mut fixture = GrantFixture::new();
        match access {
            PathAccess::Covered | PathAccess::Masked | PathAccess::Read => {
                fixture.sandbox.read_only = vec![path.into()]
            }
            PathAccess::Write => fixture.sandbox.writable = vec![path.into()],
        }
        let error = fixture.refused();
        assert!(error.contains(part), "{path}: {error}");
    }
    let mut fixture = GrantFixture::new();
    fixture.work_dir = "/".into();
    assert!(
        fixture.refused().contains("all of the machine"),
        "as a working directory too"
    );
}

#[test]
fn the_way_to_the_proxy_is_covered_by_nothing() {
    let mut fixture = GrantFixture::new();
    fixture.sandbox.read_only = vec!["/run".into()];
    assert!(fixture.grants().is_ok(), "nothing has to be there");
    fixture.outlet = Some(Outlet {
        port: 3128,
        socket: fixture.at("init"),
    });
    assert!(fixture.refused().contains("/run/trunkline"));
}

#[test]
fn what_the_host_keeps_to_itself_is_not_shown() {
    let mut fixture = GrantFixture::new();
    symlink("data", fixture.at("link")).unwrap();
    fixture.hidden = vec![fixture.at("state"), fixture.at("link/not/made/yet")];
    for (path, part) in [
        ("private", "private folders of others"),
        ("private/one", "which the host keeps to itself"),
        ("private/one/tmp", "which the host keeps to itself"),
        ("state", "which the host keeps to itself"),
    ] {
        fixture.sandbox.read_only = vec![fixture.at(path)];
        let error = fixture.refused();
        assert!(error.contains(part), "{path}: {error}");
    }
    fixture.sandbox.read_only = vec![];
    for (path, part) in [
        ("data", "which the host keeps to itself"),
        ("", "private folders of others"),
    ] {
        fixture.sandbox.writable = vec![fixture.at(path)];
        let error = fixture.refused();
        assert!(error.contains(part), "{path}: {error}");
    }
    fixture.sandbox.writable = vec![fixture.at("data/deep")];
    assert!(fixture.grants().is_ok());
}

#[test]
fn hidden_paths_in_readable_grants_are_covered() {
    let mut fixture = GrantFixture::new();
    symlink("data", fixture.at("link")).unwrap();
    fixture.hidden = vec![
        fixture.at("state"),
        fixture.at("link/deep"),
        fixture.at("data/not/made/yet"),
    ];
    fixture.sandbox.read_only = vec![fixture.at("data")];
    let granted = fixture.granted();
    assert!(granted.ends_with(&[
        "- data/deep".into(),
        "r private/one".into(),
        "w private/one/tmp".into()
    ]));
    fixture.sandbox.read_only = vec![fixture.at("")];
    let covers: Vec<_> = fixture
        .granted()
        .into_iter()
        .filter(|grant| grant.starts_with('-'))
        .collect();
    assert_eq!(covers, ["- private", "- state", "- data/deep"]);
    fixture
        .environment
        .insert("HOME".into(), fixture.at("state").into());
    let grants = fixture.grants().unwrap();
    assert_eq!(
        fixture.with(|inside| home_folder(&grants, inside)),
        fixture.at("private/one/tmp"),
        "no home is covered"
    );
}

#[test]
fn covered_paths_in_writable_grants_are_covered() {
    let mut fixture = GrantFixture::new();
    fs::create_dir_all(fixture.at("work/a/journal")).unwrap();
    for file in [
        "work/a/journal/host.sock",
        "work/wire.log",
        "data/deep/other.sock",
    ] {
        fs::write(fixture.at(file), "").unwrap();
    }
    symlink("work/a", fixture.at("link")).unwrap();
    fixture.covered = [
        "link/journal/host.sock",
        "link/journal",
        "work/wire.log",
        "data/deep/other.sock",
        "work/no",
    ]
    .map(|path| fixture.at(path))
    .into();
    let of_work = ["w work", "w work/a", "x work/wire.log", "- work/a/journal"];
    let granted = fixture.granted();
    let seen: Vec<_> = granted
        .iter()
        .filter(|grant| grant.contains("work"))
        .collect();
    assert_eq!(
        seen, of_work,
        "what lies in nothing that is granted, and what is not there, is left out"
    );
    assert_eq!(granted.len(), ALWAYS.len() + 3);
    fixture.sandbox.read_only = vec![fixture.at("data")];
    assert!(
        fixture
            .granted()
            .contains(&"x data/deep/other.sock".to_owned())
    );
    for (within, of) in [
        ("work/a/journal", "work/a/journal"),
        ("link/journal/host.sock", "work/a/journal"),
        ("work/wire.log", "work/wire.log"),
    ] {
        fixture.sandbox.read_only = vec![fixture.at(within)];
        let error = fixture.refused();
        assert!(
            error.ends_with(&format!("it is in {of:?}, which the host keeps to itself")),
            "{error}"
        );
    }
}

#[test]
fn all_of_the_machine_may_be_read_where_an_empty_folder_covers_the_private_ones() {
    let mut fixture = GrantFixture::new();
    fixture.sandbox.read_only = vec!["/".into()];
    let covered = fixture.granted().contains(&"- private".to_owned());
    assert_eq!(
        covered,
        !fixture.at("").starts_with("/tmp"),
        "{}",
        fixture.at("").display()
    );
}

#[test]
fn folders_between_something_writable_and_something_read_only_are_mounted_too() {
    let mut fixture = GrantFixture::new();
    fs::create_dir_all(fixture.at("work/a/b/c/d")).unwrap();
    fixture.sandbox.read_only = vec![fixture.at("work/a/b/c/d")];
    let below_work = |fixture: &GrantFixture| -> Vec<String> {
        fixture
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
    assert_eq!(below_work(&fixture), all);
    // A writable folder within is mounted too. A read-only one above ends the chain.
    symlink("work/a/b", fixture.at("alias")).unwrap();
    fixture.sandbox.writable = vec![fixture.at("alias")];
    assert_eq!(below_work(&fixture), all);
    fixture.sandbox.read_only.push(fixture.at("work/a"));
    assert_eq!(
        below_work(&fixture),
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
    let mut fixture = GrantFixture::new();
    fixture.sandbox.writable = vec![
        fixture.at("work/sub"),
        fixture.at("data"),
        fixture.at("data/deep"),
    ];
    assert_eq!(
        fixture.granted(),
        [
            "w data",
            "w exchange",
            "r init",
            "w work",
            "r private/one",
            "w private/one/tmp"
        ]
    );
    symlink("data/deep", fixture.at("alias")).unwrap();
    fixture.sandbox.writable.push(fixture.at("alias"));
    let grants = fixture.grants().unwrap();
    let implied: Vec<_> = grants
        .iter()
        .filter(|grant| grant.is_implied)
        .map(|grant| &grant.named)
        .collect();
    assert_eq!(implied, [&fixture.at("alias")]);
}

#[test]
fn home_is_the_hosts_only_where_it_is_granted_or_declared() {
    let mut fixture = GrantFixture::new();
    let home = |fixture: &GrantFixture| {
        let grants = fixture.grants().unwrap();
        PathBuf::from(fixture.with(|inside| home_folder(&grants, inside)))
    };
    let temp = fixture.at("private/one/tmp");
    assert_eq!(home(&fixture), temp);
    fixture
        .environment
        .insert("HOME".into(), fixture.at("data").into());
    assert_eq!(home(&fixture), temp, "it is not granted");
    fixture
        .declared
        .insert("HOME".into(), fixture.at("data").into());
    assert_eq!(home(&fixture), fixture.at("data"), "it is declared");
    fixture.declared.clear();
    fixture.sandbox.writable = vec![fixture.at("data")];
    assert_eq!(home(&fixture), fixture.at("data"), "it is granted");
    fixture
        .environment
        .insert("HOME".into(), fixture.at("work/sub").into());
    assert_eq!(
        home(&fixture),
        fixture.at("work/sub"),
        "it lies in the working directory"
    );
}

#[test]
fn what_the_host_reads_is_read_only_inside_with_the_folders_around_it() {
    let mut fixture = GrantFixture::new();
    fs::write(fixture.at("work/sub/config.json"), "{}").unwrap();
    fixture.unwritable = vec![
        fixture.at("work/sub/config.json"),
        fixture.at("data/secret"),
        fixture.at("init"),
    ];
    fixture.reserved = vec![
        fixture.at("work/new/config.json"),
        fixture.at("state/config.json"),
    ];
    let granted = fixture.granted();
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
    assert_eq!(fs::read(fixture.at("work/new/config.json")).unwrap(), b"");
    assert!(
        !fixture.at("state/config.json").exists(),
        "nothing is made where the child cannot make it"
    );
    // Even if the operator granted the file itself.
    fixture.sandbox.writable = vec![fixture.at("work/sub/config.json")];
    assert!(
        fixture
            .granted()
            .contains(&"r work/sub/config.json".to_owned())
    );
}

#[test]
fn what_the_host_reads_and_the_child_could_replace_is_refused() {
    for (make, part) in [
        (
            (|_: &GrantFixture| {}) as fn(&GrantFixture),
            "make it yourself",
        ),
        (
            |fixture| symlink(fixture.at("init"), fixture.at("work/config.json")).unwrap(),
            "is a link",
        ),
        (
            |fixture| {
                fs::write(fixture.at("work/sub/other"), "").unwrap();
                fs::hard_link(fixture.at("work/sub/other"), fixture.at("work/config.json"))
                    .unwrap();
            },
            "second name",
        ),
    ] {
        let mut fixture = GrantFixture::new();
        make(&fixture);
        fixture.unwritable = vec![fixture.at("work/config.json")];
        let error = fixture.refused();
        assert!(error.contains(part), "{error}");
    }
    let mut fixture = GrantFixture::new();
    symlink(fixture.at("work/nowhere"), fixture.at("work/config.json")).unwrap();
    fixture.reserved = vec![fixture.at("work/config.json")];
    assert!(fixture.refused().contains("config.json"));
}
