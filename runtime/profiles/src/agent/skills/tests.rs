use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::document::listing;
use super::document::parse_description;
use trunkline_sdk::skill::Inlined;
use trunkline_sdk::skill::inline as resolve;

use super::*;

/// A folder with a skill of each name and text.
fn skills(of: &[(&str, &str)]) -> (tempfile::TempDir, Vec<Skill>) {
    let folder = tempfile::tempdir().unwrap();
    let made = of.iter().map(|(name, text)| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("SKILL.md"), text).unwrap();
        Skill::new(&path, None).unwrap()
    });
    let made = made.collect();
    (folder, made)
}

#[test]
fn every_published_form_is_read_and_the_rest_is_told() {
    let (folder, _) = skills(&[("a", ""), ("b", "")]);
    let a = folder.path().join("a");
    let b = folder.path().join("b");
    for (value, names, warnings) in [
        (json!(null), &[][..], 0),
        (json!([a, b]), &["a", "b"], 0),
        (json!(a), &["a"], 0),
        (
            json!([{"name": "x", "path": a}, {"path": b}]),
            &["x", "b"],
            0,
        ),
        (json!({"path": a, "name": "x"}), &["x"], 0),
        (json!({"x": a, "y": {"path": b}}), &["x", "y"], 0),
        (json!([a.join("SKILL.md")]), &["a"], 0),
        (json!([a, {"name": "a", "path": b}]), &["a"], 0),
        (
            json!([7, null, {"name": "x"}, "relative", "/no/such", a, format!("{}/../b", a.display())]),
            &["a"],
            6,
        ),
        (
            json!([{"name": "../x", "path": a}, {"name": "", "path": a}, {"name": "a/b", "path": a}, {"name": ".x", "path": a}]),
            &[],
            4,
        ),
        (json!({"x": 7, "y": null}), &[], 2),
        (json!(true), &[], 1),
    ] {
        let (parsed, told) = parse(std::slice::from_ref(&value));
        let parsed: Vec<_> = parsed.iter().map(Skill::name).collect();
        assert_eq!(
            (parsed.as_slice(), told.len()),
            (names, warnings),
            "{value} {told:?}"
        );
    }
}

#[test]
fn a_session_s_skills_come_after_the_configuration_s() {
    let (folder, _) = skills(&[("a", ""), ("b", "")]);
    let a = folder.path().join("a");
    let b = folder.path().join("b");
    let (parsed, told) = parse(&[json!(a), json!([b, {"name": "a", "path": b}])]);
    let parsed: Vec<_> = parsed
        .iter()
        .map(|skill| (skill.name(), skill.folder()))
        .collect();
    assert_eq!(
        (parsed.as_slice(), told.len()),
        (&[("b", b.as_path()), ("a", b.as_path())][..], 0)
    );
    assert_eq!(parse(&[]).0, []);
}

#[test]
fn the_folder_to_add_leads_to_the_skills_and_is_gone_afterwards() {
    let (kept, made) = skills(&[("a", "text a"), ("b", "text b")]);
    let folder = SkillsFolder::new(&made).unwrap();
    let path = folder.path().to_owned();
    assert_eq!(
        fs::read_to_string(path.join(".claude/skills/a/SKILL.md")).unwrap(),
        "text a"
    );
    assert_eq!(
        fs::read_to_string(path.join(".claude/skills/b/SKILL.md")).unwrap(),
        "text b"
    );
    assert_eq!(
        fs::read_to_string(path.join(".github/skills/b/SKILL.md")).unwrap(),
        "text b"
    );
    drop(folder);
    assert!(!path.exists());
    assert!(kept.path().join("a/SKILL.md").exists());
}

#[test]
fn an_entry_of_the_agent_s_own_stays() {
    let (_kept, made) = skills(&[("a", "ours"), ("b", "ours")]);
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("skills");
    fs::create_dir_all(folder.join("a")).unwrap();
    fs::write(folder.join("a/SKILL.md"), "theirs").unwrap();
    let installed = install(&made, &folder).unwrap();
    assert_eq!(installed.skipped(), ["a"]);
    assert_eq!(
        fs::read_to_string(folder.join("a/SKILL.md")).unwrap(),
        "theirs"
    );
    assert_eq!(
        fs::read_to_string(folder.join("b/SKILL.md")).unwrap(),
        "ours"
    );
    // Another session wants one of them, too.
    let second = install(&made[1..], &folder).unwrap();
    assert_eq!(second.skipped(), [""; 0]);
    drop(installed);
    assert!(folder.join("b/SKILL.md").exists());
    drop(second);
    assert!(folder.join("a/SKILL.md").exists() && !folder.join("b").exists());
}

#[test]
fn a_link_that_somebody_replaced_stays() {
    let (_kept, made) = skills(&[("a", "ours")]);
    let home = tempfile::tempdir().unwrap();
    let installed = install(&made, home.path()).unwrap();
    fs::remove_file(home.path().join("a")).unwrap();
    fs::write(home.path().join("a"), "theirs").unwrap();
    drop(installed);
    assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "theirs");
}

#[test]
fn a_called_skill_comes_before_the_request() {
    let (_kept, made) = skills(&[("review", "Look closely.\n"), ("PDF.v2", "Read it.")]);
    let find = |name: &str| {
        made.iter()
            .find(|skill| skill.name() == name)
            .map(|skill| skill.folder().to_owned())
    };
    for (input, text) in [
        (
            "/review the diff",
            "Look closely.\n\n---\n\nUser request: the diff",
        ),
        (
            "/review  two\nlines ",
            "Look closely.\n\n---\n\nUser request: two\nlines",
        ),
        ("/review", "Look closely.\n"),
        ("review this", "review this"),
        ("see /review", "see /review"),
        ("/PDF.v2 x", "Read it.\n\n---\n\nUser request: x"),
        ("/etc/hosts is odd", "/etc/hosts is odd"),
        ("/", "/"),
        ("", ""),
    ] {
        let inlined = resolve(input, find);
        assert_eq!((&*inlined.text, inlined.note), (text, None), "{input:?}");
    }
    let missing = resolve("/nope x", find);
    assert_eq!(missing.text, "/nope x");
    assert!(missing.note.unwrap().contains("nope"));
    let unreadable = resolve("/gone x", |_| Some(PathBuf::from("/no/such/folder")));
    assert_eq!(unreadable.text, "/gone x");
    assert!(unreadable.note.unwrap().contains("cannot be read"));
    // No one writes to it.
    let folder = tempfile::tempdir().unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        folder.path().join("SKILL.md"),
        rustix::fs::Mode::RUSR,
    )
    .unwrap();
    let fifo = resolve("/gone x", |_| Some(folder.path().to_owned()));
    assert!(fifo.note.unwrap().contains("cannot be read"));
}

#[test]
fn a_large_skill_is_cut() {
    let (_kept, made) = skills(&[("big", &"ü".repeat(200_000))]);
    let inline = resolve("/big", |_| Some(made[0].folder().to_owned()));
    assert_eq!(inline.text.chars().count(), 100_000);
}

#[test]
fn the_list_has_names_and_descriptions_alone() {
    let (_kept, made) = skills(&[
        (
            "a",
            "---\nname: a\ndescription: Does a thing.\nother: x\n---\nBody text\n",
        ),
        ("b", "---\ndescription: >\n  Over two\n  lines.\n---\n"),
        ("c", "no front matter"),
        ("d", "---\ndescription: \"quoted: yes\"\n"),
    ]);
    assert_eq!(
        listing(&made),
        "- a: Does a thing.\n- b: Over two lines.\n- c\n- d: quoted: yes\n"
    );
}

#[test]
fn a_session_s_skills_are_told_listed_and_put_into_its_inputs() {
    let (_kept, made) = skills(&[
        ("review", "---\ndescription: Looks.\n---\nLook closely.\n"),
        ("b", ""),
    ]);
    let values: Vec<Value> = made
        .iter()
        .map(|skill| Value::from(skill.folder().to_string_lossy().into_owned()))
        .collect();
    let mut warnings = Vec::new();
    let roster = Roster::from_skills(
        &[Value::from(values), Value::from("/no/such/skill")],
        &mut warnings,
    );
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let commands = roster.commands().unwrap();
    assert_eq!(commands[0].text.as_deref(), Some("/review"));
    assert_eq!(commands[0].description.as_deref(), Some("Looks."));
    let listing = roster.listing().unwrap();
    assert!(
        listing.ends_with("\n\n- review: Looks.\n- b\n"),
        "{listing}"
    );
    assert_eq!(roster.after(None, &mut warnings).unwrap(), listing);
    assert_eq!(
        roster.after(Some("Be brief."), &mut warnings).unwrap(),
        format!("Be brief.\n\n{listing}")
    );
    let long = "x".repeat(149_990);
    assert_eq!(roster.after(Some(&long), &mut warnings).unwrap(), long);
    assert_eq!(
        warnings[1..],
        ["the system prompt has no room for its section `skills`"]
    );
    assert!(
        roster
            .resolve("/review it")
            .text
            .ends_with("User request: it")
    );
    assert!(roster.resolve("/nope it").note.unwrap().contains("nope"));
    assert!(roster.has("b") && !roster.has("nope"));
    let none = Roster::default();
    assert_eq!(
        (
            none.commands(),
            none.listing(),
            none.after(None, &mut warnings)
        ),
        (None, None, None)
    );
    assert_eq!(none.resolve("/nope it"), Inlined::unchanged("/nope it"));
}

#[test]
fn a_skill_of_the_agent_s_own_folder_is_found_after_the_session_s() {
    let (kept, made) = skills(&[("review", "The agent's."), ("other", "Other.")]);
    let (_own, own) = skills(&[("review", "The session's.")]);
    let own = Value::from(own[0].folder().to_string_lossy().into_owned());
    let mut warnings = Vec::new();
    let further = Some(kept.path().to_owned());
    let roster = Roster::from_skills(&[own], &mut warnings).and_in(further.clone());
    assert_eq!(roster.resolve("/review").text, "The session's.");
    assert_eq!(
        roster.resolve("/other now").text,
        "Other.\n\n---\n\nUser request: now"
    );
    let alone = Roster::default().and_in(further);
    assert_eq!(alone.resolve("/review").text, "The agent's.");
    let missing = alone.resolve("/nope");
    assert_eq!((&*missing.text, missing.note.is_some()), ("/nope", true));
    for up in ["/..", "/../x"] {
        assert_eq!(alone.resolve(up), Inlined::unchanged(up));
    }
    let nowhere = Roster::default().and_in(Some("/no/such/folder".into()));
    assert_eq!(nowhere.resolve("/review"), Inlined::unchanged("/review"));
    drop(made);
}

#[test]
fn commands_are_written_as_each_agent_reads_them() {
    assert_eq!(CommandStyle::Slash.format_command("x"), "/x");
    assert_eq!(CommandStyle::SkillColon.format_command("x"), "/skill:x");
}

proptest! {
    #[test]
    fn any_text_is_taken(text in "(---\n|\\PC|[a-z]+: |>\n|[ \n/])*") {
        let _ = parse_description(&text);
        resolve(&text, |_| None);
    }
}
