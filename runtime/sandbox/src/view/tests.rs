use super::*;

#[test]
fn this_machine_shows_programs_and_no_secrets() {
    let system = SystemFiles::read();
    assert!(system.folders.contains(&PathBuf::from("/usr")));
    let shown = system
        .etc
        .iter()
        .chain(&system.etc_network)
        .map(|(at, _)| at);
    for at in shown {
        for secret in [
            "/etc/shadow",
            "/etc/gshadow",
            "/etc/ssh",
            "/etc/ssl/private",
            "/etc/sudoers",
            "/etc/passwd",
        ] {
            assert!(
                !Path::new(secret).starts_with(at),
                "{} shows {secret}",
                at.display()
            );
        }
    }
}
