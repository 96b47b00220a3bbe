use crate::Outlet;
use crate::accounts::EtcFiles;
use crate::grant::{PathGrant, ResolvedPath, SymbolicLink};
use crate::view::SystemFiles;
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

fn system() -> SystemFiles {
    let same = |path: &str| (path.into(), path.into());
    SystemFiles {
        folders: vec!["/usr".into(), "/lib32".into()],
        links: vec![SymbolicLink {
            at: "/bin".into(),
            target: "usr/bin".into(),
        }],
        etc: vec![
            same("/etc/ssl/certs"),
            ("/etc/localtime".into(), "/usr/share/zoneinfo/UTC".into()),
        ],
        etc_network: vec![
            same("/etc/hosts"),
            ("/etc/resolv.conf".into(), "/run/resolve/resolv.conf".into()),
        ],
        masked: Vec::new(),
    }
}

/// Writes each option with its values on one line.
fn lines(line: &CommandLine) -> String {
    let mut text = String::new();
    let mut program = false;
    for arg in &line.args {
        let arg = arg.to_string_lossy();
        if arg.starts_with("--") && !program {
            text.push('\n');
        } else {
            text.push(' ');
        }
        text.push_str(&arg);
        program |= arg == "--";
    }
    let variables: Vec<String> = line
        .environment
        .iter()
        .map(|(name, value)| format!("{}={}", name.display(), value.display()))
        .collect();
    format!("{}{text}\n{}", line.program.display(), variables.join("\n"))
}

fn build(
    grants: &[PathGrant],
    network: &Network,
    outlet: Option<&Outlet>,
    environment: &[(&str, &str)],
) -> CommandLine {
    let environment: BTreeMap<OsString, OsString> = environment
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let inside = Inside {
        label: "",
        program: OsStr::new("adapter"),
        args: &["--flag".into()],
        environment: &environment,
        declared: &BTreeMap::new(),
        work_dir: Path::new("/srv/work"),
        private: Path::new("/tmp/private"),
        temp: Path::new("/tmp/private/tmp"),
        exchange: Some(Path::new("/tmp/exchange")),
        init: Path::new("/opt/trunkline"),
        status: Some(5),
        outlet,
        limits: Limits::default(),
        hidden: &[],
        covered: &[],
        unwritable: &[],
        reserved: &[],
    };
    let files = EtcFiles::in_private_folder(inside.private);
    let view = FileView::new(grants, &system(), &files, network, outlet);
    let tool = BubblewrapTool {
        program: "/usr/bin/bwrap".into(),
        disable_userns: true,
    };
    command_line(
        &tool,
        &view,
        network,
        (1000, 1000),
        OsStr::new("/tmp/private/tmp"),
        Vec::new(),
        &inside,
    )
}

fn usual() -> Vec<PathGrant> {
    vec![
        grant("/srv/work", PathAccess::Write),
        grant("/srv/work/.git", PathAccess::Read),
        grant("/tmp/exchange", PathAccess::Write),
        grant("/tmp/private", PathAccess::Read),
        grant("/tmp/private/tmp", PathAccess::Write),
        grant("/opt/trunkline", PathAccess::Read),
    ]
}

#[test]
fn nothing_but_what_is_granted_and_no_network() {
    let line = build(
        &usual(),
        &Network::None,
        None,
        &[
            ("HOME", "/root"),
            ("API_KEY", "hush"),
            ("LD_PRELOAD", "/x.so"),
        ],
    );
    assert!(
        !line.args.iter().any(|arg| arg == "hush"),
        "values are not seen in arguments"
    );
    insta::assert_snapshot!(lines(&line));
}

#[test]
fn an_allow_list_is_one_socket_and_the_variables_that_name_it() {
    let outlet = Outlet {
        port: 3128,
        socket: "/tmp/p/proxy.sock".into(),
    };
    let network = Network::Allow(vec!["example.org".into()]);
    insta::assert_snapshot!(lines(&build(
        &usual(),
        &network,
        Some(&outlet),
        &[("HTTP_PROXY", "http://old")]
    )));
}

#[test]
fn the_whole_network_comes_with_its_names() {
    insta::assert_snapshot!(lines(&build(&usual(), &Network::All, None, &[])));
}

#[test]
fn links_lead_where_they_do_outside() {
    let mut grants = usual();
    let linked = ResolvedPath {
        real: "/data/real".into(),
        links: vec![
            SymbolicLink {
                at: "/home/u/link".into(),
                target: "/data/real".into(),
            },
            SymbolicLink {
                at: "/srv/work/seen".into(),
                target: "/data/real".into(),
            },
            SymbolicLink {
                at: "/bin".into(),
                target: "/usr/bin".into(),
            },
        ],
    };
    grants.push(PathGrant {
        place: linked,
        ..grant("/home/u/link", PathAccess::Read)
    });
    let text = lines(&build(&grants, &Network::None, None, &[]));
    assert!(
        text.contains("\n--symlink /data/real /home/u/link\n"),
        "{text}"
    );
    assert!(
        !text.contains("/srv/work/seen"),
        "what lies in a granted folder is there already: {text}"
    );
    assert_eq!(text.matches(" /bin\n").count(), 1, "{text}");
}

#[test]
fn an_implied_grant_is_not_mounted_again_and_its_links_are_created() {
    let mut grants = usual();
    let link = SymbolicLink {
        at: "/home/u/link".into(),
        target: "/srv/work/deep".into(),
    };
    let place = ResolvedPath {
        real: "/srv/work/deep".into(),
        links: vec![link],
    };
    grants.push(PathGrant {
        place,
        is_implied: true,
        ..grant("/home/u/link", PathAccess::Write)
    });
    let text = lines(&build(&grants, &Network::None, None, &[]));
    assert!(!text.contains("--bind /srv/work/deep"), "{text}");
    assert!(
        text.contains("\n--symlink /srv/work/deep /home/u/link\n"),
        "{text}"
    );
}

#[test]
fn all_of_the_machine_lies_under_what_the_sandbox_makes() {
    let mut grants = usual();
    grants.push(grant("/", PathAccess::Read));
    insta::assert_snapshot!(lines(&build(&grants, &Network::None, None, &[])));
}

#[test]
fn a_granted_folder_is_the_hosts_own_and_not_mixed() {
    let mut grants = usual();
    grants.push(grant("/etc", PathAccess::Read));
    let text = lines(&build(&grants, &Network::None, None, &[]));
    assert!(text.contains("\n--ro-bind /etc /etc\n"), "{text}");
    assert!(
        !text.contains("/etc/passwd") && !text.contains("/etc/localtime"),
        "{text}"
    );
}

#[test]
fn an_old_bubblewrap_gets_no_flag_that_it_does_not_know() {
    let flags = isolation_args(false, &Network::None);
    assert!(!flags.iter().any(|flag| flag == "--disable-userns"));
}
