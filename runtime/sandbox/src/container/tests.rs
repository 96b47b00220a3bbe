use crate::Outlet;
use crate::grant::ResolvedPath;
use trunkline_process::Limits;

use super::*;

fn grant(path: &str, access: PathAccess) -> PathGrant {
    let place = ResolvedPath {
        real: path.into(),
        links: Vec::new(),
    };
    PathGrant {
        list: "test",
        named: path.into(),
        aliases: Vec::new(),
        place,
        access,
        is_implied: false,
    }
}

fn usual() -> Vec<PathGrant> {
    vec![
        grant("/srv/work", PathAccess::Write),
        grant("/tmp/private", PathAccess::Read),
        grant("/tmp/private/tmp", PathAccess::Write),
        grant("/opt/trunkline", PathAccess::Read),
    ]
}

fn machine(user: u32) -> HostProperties {
    HostProperties {
        program: "/usr/bin/engine".into(),
        user: (user, user),
        open_files: 4096,
        processes: 1000,
        variables: map(&[
            ("PATH", "/host/bin"),
            ("HOME", "/host/home"),
            ("XDG_RUNTIME_DIR", "/run/user/0"),
        ]),
        name: "trunkline.boot.1.2.3.abc".into(),
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn podman() -> Backend {
    Backend::Podman {
        image: "localhost/bb:1".into(),
        options: vec!["--root".into(), "/r".into()],
    }
}

fn docker() -> Backend {
    Backend::Docker {
        image: "debian:12".into(),
        options: vec![],
    }
}

struct Case {
    backend: Backend,
    network: Network,
    outlet: Option<Outlet>,
    user: Option<(u32, u32)>,
    host: u32,
    grants: Vec<PathGrant>,
    environment: BTreeMap<OsString, OsString>,
    declared: BTreeMap<OsString, OsString>,
    program: &'static str,
}

impl Case {
    fn new(backend: Backend) -> Self {
        Self {
            backend,
            network: Network::None,
            outlet: None,
            user: None,
            host: 0,
            grants: usual(),
            environment: map(&[
                ("PATH", "/usr/bin"),
                ("HOME", "/root"),
                ("USER", "root"),
                ("TMPDIR", "/tmp/private/tmp"),
            ]),
            declared: BTreeMap::new(),
            program: "adapter",
        }
    }

    fn declare(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self.declared.insert(name.into(), value.into());
        self
    }

    fn with<T>(&self, see: impl FnOnce(&Inside<'_>) -> T) -> T {
        see(&Inside {
            label: "",
            program: OsStr::new(self.program),
            args: &["--flag".into()],
            environment: &self.environment,
            declared: &self.declared,
            work_dir: Path::new("/srv/work"),
            private: Path::new("/tmp/private"),
            temp: Path::new("/tmp/private/tmp"),
            exchange: None,
            init: Path::new("/opt/trunkline"),
            status: Some(5),
            outlet: self.outlet.as_ref(),
            limits: Limits {
                processes: Some(64),
                open_files: Some(1024),
                memory: Some(64 << 20),
            },
            hidden: &[],
            covered: &[],
            unwritable: &[],
            reserved: &[],
        })
    }

    fn build(&self) -> Result<CommandLine, SandboxError> {
        let mut sandbox = Sandbox::new(self.backend.clone());
        sandbox.network = self.network.clone();
        sandbox.user = self.user;
        let (Backend::Podman { image, options } | Backend::Docker { image, options }) =
            &self.backend
        else {
            panic!("a container")
        };
        let machine = machine(self.host);
        let run = ContainerRun {
            backend: &self.backend,
            image,
            options,
            grants: &self.grants,
            machine: &machine,
        };
        self.with(|inside| command_line(&run, &sandbox, inside))
    }

    #[track_caller]
    fn args(&self) -> Vec<String> {
        self.build()
            .unwrap()
            .args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect()
    }
}

fn lines(line: &CommandLine) -> String {
    let args: Vec<_> = line.args.iter().map(|arg| arg.to_string_lossy()).collect();
    let variables: Vec<String> = line
        .environment
        .iter()
        .map(|(name, value)| format!("{}={}", name.display(), value.display()))
        .collect();
    format!(
        "{}\n{}\n\n{}",
        line.program.display(),
        args.join("\n"),
        variables.join("\n")
    )
}

#[test]
fn podman_without_a_network() {
    insta::assert_snapshot!(lines(
        &Case::new(podman())
            .declare("API_KEY", "hush")
            .build()
            .unwrap()
    ));
}

#[test]
fn docker_without_a_network() {
    insta::assert_snapshot!(lines(
        &Case::new(docker())
            .declare("API_KEY", "hush")
            .build()
            .unwrap()
    ));
}

#[test]
fn podman_with_an_allow_list() {
    let mut case = Case::new(podman());
    case.network = Network::Allow(vec!["example.org".into()]);
    case.outlet = Some(Outlet {
        port: 3128,
        socket: "/tmp/p/proxy.sock".into(),
    });
    insta::assert_snapshot!(lines(&case.build().unwrap()));
}

#[test]
fn podman_without_root_maps_the_hosts_user() {
    let mut case = Case::new(podman());
    case.host = 1001;
    assert!(
        case.args()
            .contains(&"--userns=keep-id:uid=1001,gid=1001".to_owned())
    );
    case.user = Some((5, 6));
    let args = case.args();
    assert!(
        args.contains(&"--userns=keep-id:uid=5,gid=6".to_owned())
            && args.contains(&"--user=5:6".to_owned())
    );
}

#[test]
fn the_whole_network_is_the_engines_own() {
    let mut case = Case::new(docker());
    case.network = Network::All;
    assert!(!case.args().iter().any(|arg| arg.starts_with("--network")));
}

#[test]
fn what_the_client_reads_stays_the_hosts_own() {
    let case = Case::new(podman())
        .declare("PATH", "/opt/bin")
        .declare("DOCKER_HOST", "tcp://inside:1")
        .declare("LD_PRELOAD", "/srv/work/evil.so");
    let line = case.build().unwrap();
    assert_eq!(line.environment[OsStr::new("PATH")], "/host/bin");
    assert_eq!(line.environment[OsStr::new("HOME")], "/host/home");
    assert!(!line.environment.contains_key(OsStr::new("DOCKER_HOST")));
    assert!(
        !line.environment.contains_key(OsStr::new("LD_PRELOAD")),
        "it would be loaded outside"
    );
    let args = case.args();
    assert!(args.contains(&"--env=PATH=/opt/bin".to_owned()));
}

#[test]
fn values_that_may_be_secret_are_in_a_file_and_not_in_arguments() {
    let case = Case::new(podman())
        .declare("DOCKER_AUTH", "hush=1 #2")
        .declare("REGISTRY_TOKEN", "")
        .declare("LD_PRELOAD", "/srv/work/evil.so")
        .declare("API_KEY", "hush");
    let args = case.args();
    assert!(
        args.contains(&"--env-file=/tmp/private/container.env".to_owned()),
        "{args:?}"
    );
    assert!(
        !args
            .iter()
            .any(|arg| arg.contains("hush") || arg.contains("evil")),
        "{args:?}"
    );
    let file = String::from_utf8(case.with(variables_file_content).unwrap().unwrap()).unwrap();
    assert_eq!(
        file,
        "DOCKER_AUTH=hush=1 #2\nLD_PRELOAD=/srv/work/evil.so\nREGISTRY_TOKEN=\n"
    );

    let none = Case::new(podman())
        .declare("PATH", "/opt/bin")
        .declare("API_KEY", "hush");
    assert_eq!(none.with(variables_file_content).unwrap(), None);
    assert!(!none.args().iter().any(|arg| arg.starts_with("--env-file")));

    for broken in ["one\nDOCKER_TWO=hush", "hush\r"] {
        let broken = Case::new(docker()).declare("DOCKER_KEY", broken);
        let error = broken.with(variables_file_content).unwrap_err().to_string();
        assert!(
            error.contains("DOCKER_KEY") && error.contains("line break") && !error.contains("hush"),
            "{error}"
        );
    }
}

#[test]
fn a_second_name_does_not_widen_inner_grants() {
    let mut case = Case::new(podman());
    case.grants.push(PathGrant {
        aliases: vec!["/link".into()],
        ..grant("/data", PathAccess::Write)
    });
    case.grants.push(grant("/data/.git", PathAccess::Read));
    case.grants.push(PathGrant {
        aliases: vec!["/deep".into()],
        is_implied: true,
        ..grant("/data/deep", PathAccess::Write)
    });
    let args = case.args();
    assert!(
        !args.contains(&"--volume=/data/deep:/data/deep:rw".to_owned()),
        "{args:?}"
    );
    assert!(
        args.contains(&"--volume=/data/deep:/deep:rw".to_owned()),
        "{args:?}"
    );
    for volume in [
        "/data:/data:rw",
        "/data:/link:rw",
        "/data/.git:/data/.git:ro",
        "/data/.git:/link/.git:ro",
    ] {
        assert!(
            args.contains(&format!("--volume={volume}")),
            "{volume}: {args:?}"
        );
    }
}

#[test]
fn what_is_covered_is_empty_under_every_name() {
    let data = PathGrant {
        aliases: vec!["/link".into()],
        ..grant("/data", PathAccess::Read)
    };
    for (backend, words) in [(podman(), "size=64k,notmpcopyup"), (docker(), "size=64k")] {
        let mut case = Case::new(backend);
        case.grants.push(data.clone());
        case.grants.push(grant("/data/state", PathAccess::Covered));
        case.grants.push(grant("/data/log", PathAccess::Masked));
        let args = case.args();
        for at in ["/data/state", "/link/state"] {
            assert!(args.contains(&format!("--tmpfs={at}:{words}")), "{args:?}");
        }
        for at in ["/data/log", "/link/log"] {
            assert!(
                args.contains(&format!("--volume=/dev/null:{at}:ro")),
                "{args:?}"
            );
        }
        let shown = ["--volume=/data/state", "--volume=/data/log"];
        assert!(
            !args
                .iter()
                .any(|arg| shown.iter().any(|shown| arg.starts_with(shown))),
            "{args:?}"
        );
    }
}

#[test]
fn a_built_in_adapter_brings_its_program() {
    let mut case = Case::new(podman());
    assert!(
        !case
            .args()
            .contains(&"--volume=/opt/trunkline:/opt/trunkline:ro".to_owned())
    );
    case.program = "/opt/trunkline";
    assert!(
        case.args()
            .contains(&"--volume=/opt/trunkline:/opt/trunkline:ro".to_owned())
    );
}

#[test]
fn what_cannot_be_written_is_refused() {
    let mut case = Case::new(podman());
    case.grants.push(grant("/a:b", PathAccess::Read));
    assert!(case.build().unwrap_err().to_string().contains("colon"));
    for image in ["", "--privileged"] {
        let case = Case::new(Backend::Docker {
            image: image.into(),
            options: vec![],
        });
        assert!(
            case.build()
                .unwrap_err()
                .to_string()
                .contains("not the name of an image")
        );
    }
}
