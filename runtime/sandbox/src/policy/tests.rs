use proptest::prelude::*;

use super::*;

fn requested(sandbox: Option<Sandbox>) -> AgentConfinement {
    AgentConfinement {
        sandbox,
        work_dir: "/srv/work".into(),
        limits: Limits {
            processes: Some(100),
            open_files: None,
            memory: None,
        },
        containment: Containment::Auto,
        at_least: Containment::Auto,
        inherit: Inherit::All,
    }
}

fn bubblewrap(read_only: &[&str], writable: &[&str], network: Network) -> Sandbox {
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
    Sandbox {
        read_only: paths(read_only),
        writable: paths(writable),
        network,
        ..Sandbox::new(Backend::Bubblewrap)
    }
}

fn allow(names: &[&str]) -> Network {
    Network::Allow(names.iter().map(|name| (*name).to_owned()).collect())
}

fn roots(paths: &[&str]) -> Option<Vec<PathBuf>> {
    Some(paths.iter().map(PathBuf::from).collect())
}

/// Follows only the link `/srv/link`, which leads to `/etc`.
#[expect(clippy::unnecessary_wraps, reason = "the way that the system answers")]
fn real(path: &Path) -> io::Result<PathBuf> {
    Ok(path
        .strip_prefix("/srv/link")
        .map_or_else(|_| path.to_owned(), |rest| Path::new("/etc").join(rest)))
}

fn narrow(
    policy: &Policy,
    requested: AgentConfinement,
) -> Result<NarrowedConfinement, PolicyError> {
    policy.narrow_with(requested, real)
}

#[track_caller]
fn refused(policy: &Policy, requested: AgentConfinement) -> String {
    narrow(policy, requested).unwrap_err().to_string()
}

#[test]
fn no_policy_changes_nothing() {
    for sandbox in [None, Some(bubblewrap(&["/a"], &["/b"], Network::All))] {
        let requested = requested(sandbox);
        let left = narrow(&Policy::default(), requested.clone()).unwrap();
        assert_eq!((left.granted, left.notes.len()), (requested, 0));
    }
}

#[test]
fn an_agent_without_a_sandbox_is_refused_where_only_one_would_do() {
    for (policy, part) in [
        (
            Policy {
                sandbox_required: true,
                ..Policy::default()
            },
            "requires one",
        ),
        (
            Policy {
                network: Some(Network::None),
                ..Policy::default()
            },
            "limits the network",
        ),
        (
            Policy {
                writable: roots(&[]),
                ..Policy::default()
            },
            "limits paths",
        ),
    ] {
        let text = refused(&policy, requested(None));
        assert!(
            text.contains(part) && text.contains("give the agent a `sandbox`"),
            "{text}"
        );
    }
    let all = Policy {
        network: Some(Network::All),
        ..Policy::default()
    };
    assert!(narrow(&all, requested(None)).is_ok());
}

#[test]
fn narrowed_settings_are_reported() {
    let policy = Policy {
        network: Some(allow(&["a.org", "b.org"])),
        memory: Some(1 << 20),
        processes: Some(50),
        containment: Containment::Reaper,
        inherit: Some(Inherit::Curated),
        writable: roots(&["/srv/data"]),
        ..Policy::default()
    };
    let left = narrow(
        &policy,
        requested(Some(bubblewrap(
            &[],
            &["/srv/data/x"],
            allow(&["a.org", "c.org"]),
        ))),
    )
    .unwrap();
    assert_eq!(
        left.notes,
        [
            "50 processes at most, in place of 100 processes",
            "1MiB of memory at most, in place of no limit",
            "the host's environment is not inherited as a whole",
            "of the network only a.org",
            "the working directory \"/srv/work\" is read-only",
        ]
    );
    let sandbox = left.granted.sandbox.unwrap();
    assert_eq!(sandbox.network, allow(&["a.org"]));
    assert_eq!(sandbox.read_only, [Path::new("/srv/work")]);
}

#[test]
fn a_path_must_lie_in_an_allowed_folder_and_links_are_followed_first() {
    let policy = Policy {
        writable: roots(&["/srv"]),
        read_only: roots(&["/opt"]),
        ..Policy::default()
    };
    let with = |read_only: &[&str], writable: &[&str]| {
        requested(Some(bubblewrap(read_only, writable, Network::None)))
    };
    assert!(narrow(&policy, with(&["/opt/tools", "/srv/data"], &["/srv/data"])).is_ok());
    assert_eq!(
        refused(&policy, with(&[], &["/opt/tools"])),
        r#"grant "/opt/tools" (writable): the policy allows only paths in "/srv""#
    );
    assert_eq!(
        refused(&policy, with(&["/home"], &[])),
        r#"grant "/home" (read_only): the policy allows only paths in "/opt", "/srv""#
    );
    assert!(
        refused(&policy, with(&[], &["/srv/link/x"])).contains(r#"grant "/etc/x""#),
        "it leads elsewhere"
    );
    assert!(
        refused(&policy, with(&[], &["/srvx"])).contains("/srvx"),
        "folders, not beginnings of names"
    );
}

#[test]
fn a_working_directory_elsewhere_is_refused() {
    let policy = Policy {
        writable: roots(&["/data"]),
        read_only: roots(&["/opt"]),
        ..Policy::default()
    };
    let text = refused(
        &policy,
        requested(Some(bubblewrap(&[], &[], Network::None))),
    );
    assert!(text.contains("the working directory"), "{text}");
}

#[test]
fn backends_and_images_are_those_that_are_named() {
    let container = |options: &[&str]| {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        requested(Some(Sandbox::new(Backend::Podman {
            image: "good".into(),
            options,
        })))
    };
    let policy = Policy {
        backends: Some(vec!["bubblewrap".into()]),
        ..Policy::default()
    };
    assert_eq!(
        refused(&policy, container(&[])),
        "use the sandbox podman: the policy allows bubblewrap"
    );
    let policy = Policy {
        images: Some(vec!["better".into()]),
        ..Policy::default()
    };
    assert_eq!(
        refused(&policy, container(&[])),
        r#"run the image "good": the policy allows better"#
    );
    let mut policy = Policy {
        images: Some(vec!["good".into()]),
        ..Policy::default()
    };
    assert!(narrow(&policy, container(&[])).is_ok());
    assert!(refused(&policy, container(&["--root", "/mine"])).contains("give options to podman"));
    policy.options = Some(vec!["--root".into(), "/ours".into()]);
    let left = narrow(&policy, container(&["--root", "/mine"])).unwrap();
    let Some(Backend::Podman { options, .. }) = left.granted.sandbox.map(|sandbox| sandbox.backend)
    else {
        panic!()
    };
    assert_eq!(options, ["--root", "/ours"]);
}

#[test]
fn options_that_could_lift_the_policy_are_the_policys_own() {
    let container = |backend: fn(String, Vec<String>) -> Backend, options: &[&str]| {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        requested(Some(Sandbox {
            network: Network::None,
            ..Sandbox::new(backend("good".into(), options))
        }))
    };
    let podman = |image, options| Backend::Podman { image, options };
    let docker = |image, options| Backend::Docker { image, options };
    let default = Policy::default;
    let own: &[&str] = &["--root", "/mine", "--runtime", "/mine/evil.sh"];
    for policy in [
        Policy {
            sandbox_required: true,
            ..default()
        },
        Policy {
            backends: Some(vec!["podman".into(), "docker".into()]),
            ..default()
        },
        Policy {
            network: Some(Network::None),
            ..default()
        },
        Policy {
            network: Some(allow(&["a.org"])),
            ..default()
        },
        Policy {
            read_only: roots(&["/"]),
            ..default()
        },
        Policy {
            writable: roots(&["/"]),
            ..default()
        },
        Policy {
            images: Some(vec!["good".into()]),
            ..default()
        },
        Policy {
            memory: Some(1 << 30),
            ..default()
        },
        Policy {
            processes: Some(10),
            ..default()
        },
    ] {
        assert!(
            refused(&policy, container(podman, own)).starts_with("give options to podman"),
            "{policy:?}"
        );
        assert!(
            refused(&policy, container(docker, own)).starts_with("give options to docker"),
            "{policy:?}"
        );
        assert!(
            narrow(&policy, container(podman, &[])).is_ok(),
            "{policy:?}"
        );
        let text = own.iter().map(|&option| option.to_owned()).collect();
        assert!(
            narrow(
                &Policy {
                    options: Some(text),
                    ..policy
                },
                container(podman, own)
            )
            .is_ok()
        );
    }
    for policy in [
        default(),
        Policy {
            network: Some(Network::All),
            ..default()
        },
    ] {
        assert!(
            narrow(&policy, container(podman, own)).is_ok(),
            "it limits nothing"
        );
    }
}

fn networks() -> impl Strategy<Value = Network> {
    let name = prop::sample::select(vec![
        "a.org",
        "b.org",
        "*.b.org",
        "x.b.org",
        "c.org:8443",
        "*.c.org",
        "10.0.0.0/8",
        "10.1.0.0/16:8443",
    ]);
    prop_oneof![
        Just(Network::None),
        Just(Network::All),
        prop::collection::vec(name.prop_map(str::to_owned), 0..4).prop_map(Network::Allow),
    ]
}

fn paths() -> impl Strategy<Value = Vec<PathBuf>> {
    let path = prop::sample::select(vec![
        "/srv",
        "/srv/a",
        "/srv/a/b",
        "/srv/link",
        "/etc",
        "/etc/x",
        "/opt",
        "/data",
    ]);
    prop::collection::vec(path.prop_map(PathBuf::from), 0..3)
}

fn containments() -> impl Strategy<Value = Containment> {
    prop::sample::select(vec![
        Containment::Auto,
        Containment::Namespace,
        Containment::Reaper,
        Containment::Group,
    ])
}

prop_compose! {
    fn policies()(
        sandbox_required in any::<bool>(),
        network in prop::option::of(networks()),
        (read_only, writable) in (prop::option::of(paths()), prop::option::of(paths())),
        (memory, processes) in (prop::option::of(0..4u64), prop::option::of(0..4u64)),
        containment in containments(),
        curated in any::<bool>(),
    ) -> Policy {
        let inherit = curated.then_some(Inherit::Curated);
        Policy {
            sandbox_required, network, read_only, writable, memory, processes, containment, inherit,
            ..Policy::default()
        }
    }
}

prop_compose! {
    fn entries()(
        sandbox in prop::option::of((paths(), paths(), networks())),
        work_dir in prop::sample::select(vec!["/srv/a", "/opt", "/data"]),
        (memory, processes) in (prop::option::of(0..4u64), prop::option::of(0..4u64)),
        containment in containments(),
        all in any::<bool>(),
    ) -> AgentConfinement {
        let sandbox = sandbox.map(|(read_only, writable, network)| {
            Sandbox { read_only, writable, network, ..Sandbox::new(Backend::Bubblewrap) }
        });
        AgentConfinement {
            sandbox,
            work_dir: work_dir.into(),
            limits: Limits { processes, open_files: None, memory },
            containment,
            at_least: Containment::Auto,
            inherit: if all { Inherit::All } else { Inherit::Curated },
        }
    }
}

/// Returns true if `more` allows every target that `less` allows.
fn reaches_no_more(less: &Network, more: &Network) -> bool {
    [
        "a.org",
        "b.org",
        "x.b.org",
        "y.x.b.org",
        "c.org",
        "z.c.org",
        "d.org",
        "10.1.2.3",
        "10.2.2.3",
    ]
    .iter()
    .all(|host| {
        [443, 8443]
            .iter()
            .all(|port| !reaches(less, host, *port) || reaches(more, host, *port))
    })
}

fn at_most(less: Option<u64>, more: Option<u64>) -> bool {
    more.is_none_or(|more| less.is_some_and(|less| less <= more))
}

proptest! {
    #[test]
    fn what_is_left_is_within_both(policy in policies(), entry in entries()) {
        let Ok(left) = narrow(&policy, entry.clone()) else { return Ok(()) };
        let got = left.granted;
        let notes = left.notes;
        prop_assert!(at_most(got.limits.memory, policy.memory));
        prop_assert!(at_most(got.limits.memory, entry.limits.memory));
        prop_assert!(at_most(got.limits.processes, policy.processes));
        prop_assert!(at_most(got.limits.processes, entry.limits.processes));
        // For every set of mechanisms that may work, the selected one is not weaker than the policy
        // requires, nor weaker than without the policy.
        for works in 0..4u8 {
            let tried = |works: bool| works.then_some(()).ok_or_else(String::new);
            let support = trunkline_process::Support {
                namespace: tried(works & 1 != 0),
                reaper: tried(works & 2 != 0),
            };
            if let Ok(choice) = support.choose(got.containment, got.at_least) {
                prop_assert!(choice.used.strength() >= policy.containment.strength());
                let before = support.choose(entry.containment, Containment::Auto);
                let before = before.map_or(0, |before| before.used.strength());
                prop_assert!(choice.used.strength() >= before);
            }
        }
        prop_assert!(policy.inherit.is_none() || got.inherit == Inherit::Curated);
        prop_assert!(entry.inherit == Inherit::All || got.inherit == Inherit::Curated);
        prop_assert_eq!(got.sandbox.is_some(), entry.sandbox.is_some());
        if let (Some(got), Some(entry)) = (&got.sandbox, &entry.sandbox) {
            prop_assert!(reaches_no_more(&got.network, &entry.network));
            let most = policy.network.as_ref();
            prop_assert!(most.is_none_or(|most| reaches_no_more(&got.network, most)));
            for path in &got.writable {
                let most = policy.writable.as_deref().or(policy.read_only.as_deref());
                prop_assert!(is_within_any(path, most.map(real_all).as_deref()));
                let path = real(path).unwrap();
                prop_assert!(entry.writable.iter().any(|other| real(other).unwrap() == path));
            }
        }
        if got == entry {
            prop_assert!(notes.is_empty(), "{notes:?}");
        }
        // A second narrowing changes nothing.
        let again = narrow(&policy, got.clone()).unwrap();
        prop_assert_eq!(again.granted, got);
    }
}

fn real_all(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().map(|path| real(path).unwrap()).collect()
}

fn reaches(network: &Network, host: &str, port: u16) -> bool {
    match network {
        Network::None => false,
        Network::All => true,
        Network::Allow(entries) => AllowList::parse(entries).unwrap().contains(host, port),
    }
}
