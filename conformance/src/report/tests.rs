//! Every report of a run whose peer writes what would break or steer it.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;

use super::{
    diagram::tests::{adapter, finding, host},
    *,
};
use crate::{
    case::Case,
    class::Class,
    clauses::Level,
    run::CaseResult,
    verdict::{Finding, Tier, Verdict},
};

/// Closes comments, data, attributes and fences; steers terminals, TAP, workflows and directions of writing.
const HOSTILE: &str = "]]>--><script>alert('1')</script>\"&amp;\u{1b}[2J\u{0}\u{fffe}\u{202e}\u{2028}\r\n\
    ::error::x\n```\n|\\`*_[a](javascript:x) # SKIP\n  ...\nok 99 - {{7*7}} @someone \u{9b}31m\u{85}\t%0A";

static CASES: [Case; 6] = [
    Case::unlisted(Level::Must, "A-FRM-01", "frame.1", "one <&> title"),
    Case::unlisted(Level::Must, "A-FRM-02", "frame.2", "two # titles"),
    Case::unlisted(Level::Should, "A-STP-01", "turn.2", "three"),
    Case::unlisted(Level::Must, "A-STP-02", "turn.3", "four"),
    Case::unlisted(Level::Must, "A-STP-03", "turn.4", "five"),
    Case::unlisted(Level::Must, "A-TRN-01", "turn.1", "six"),
];

fn ended(case: &'static Case, verdict: Verdict) -> Repeated {
    let hostile = || HOSTILE.to_owned();
    let broken = Finding {
        sent: hostile(),
        got: hostile(),
        hint: Some(hostile()),
        level: if verdict == Verdict::Warn {
            Level::Should
        } else {
            Level::Must
        },
        ..finding(Some(1))
    };
    let shows = matches!(verdict, Verdict::Fail | Verdict::Warn);
    let line =
        serde_json::json!({"type": HOSTILE, "session_id": HOSTILE, "content": HOSTILE}).to_string();
    let result = CaseResult {
        case,
        verdict,
        findings: if shows { vec![broken] } else { Vec::new() },
        reason: (!shows && verdict != Verdict::Pass).then(hostile),
        notes: vec![hostile()],
        tier: Tier::Probe,
        took: Duration::from_millis(1_500),
        attempts: 2,
        choices: 0,
        records: vec![host(1, &line), adapter(2, &line), adapter(3, HOSTILE)],
        scored: true,
    };
    Repeated {
        result,
        run_seed: 0xbeef,
        rounds: 1,
        failed: 0,
    }
}

fn document(baseline: Option<&str>) -> Document {
    let verdicts = [
        Verdict::Fail,
        Verdict::Warn,
        Verdict::Inconclusive,
        Verdict::Skip,
        Verdict::Harness,
        Verdict::Pass,
    ];
    document_of(&verdicts, baseline)
}

fn document_of(verdicts: &[Verdict], baseline: Option<&str>) -> Document {
    let results: Vec<Repeated> = CASES
        .iter()
        .zip(verdicts)
        .map(|(case, verdict)| ended(case, *verdict))
        .collect();
    let plan = Plan {
        cases: CASES.iter().collect(),
        class: Class::Robust,
        jobs: 2,
        seed: 0xbeef,
        results: None,
        fail_fast: false,
    };
    let mut subject = Subject::adapter(["python3", HOSTILE]);
    subject.extensions = BTreeSet::from([HOSTILE.to_owned()]);
    let calibration = Calibration {
        start_ms: 410.123_456,
        turn_ms: 38.0,
        quiet_ms: 250.0,
        probe: BTreeSet::from([HOSTILE.to_owned()]),
        extensions: subject.extensions.clone(),
        program: Some(HOSTILE.to_owned()),
    };
    let run = FinishedRun {
        plan: &plan,
        selection: &["all".to_owned()],
        subject: &subject,
        calibration: &calibration,
        results: &results,
        started: Moment::now(),
        took: Duration::from_secs(42),
        time_scale: 1.0,
        again: &[],
        from_arguments: true,
        redactor: &Redactor::default(),
    };
    let mut document = gather::document(&run, None);
    let listed = baseline.map(|text| BaselineFile {
        baseline: Baseline::parse(text, |_| true).unwrap(),
        file: PathBuf::from("conform-baseline.toml"),
    });
    compare(&mut document, listed.as_ref());
    document
}

const KNOWN: &str = r#"
    suite = "9.9"
    [[known]]
    case = "A-FRM-01"
    expect = "fail"
    reason = "]]> <b> # TODO"
    [[known]]
    case = "A-TRN-01"
    expect = "fail"
    reason = "r"
"#;

fn documents() -> [Document; 2] {
    [document(None), document(Some(KNOWN))]
}

#[test]
fn the_document_follows_the_published_schema_and_is_read_back() {
    let schema: Value =
        serde_json::from_str(include_str!("../../schema/result.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for document in documents() {
        let text = Format::Json.render(&document);
        let value: Value = serde_json::from_str(&text).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let again: Document = serde_json::from_str(&text).unwrap();
        assert_eq!(Format::Json.render(&again), text);
    }
    let unknown = serde_json::json!({"schema_version": 2});
    assert!(!validator.is_valid(&unknown));
}

#[test]
fn a_result_of_the_first_schema_is_read() {
    let document = document(None);
    let text = Format::Json.render(&document);
    let first = text
        .replace("\"class\": \"robust\"", "\"profile\": \"robust\"")
        .replace("\"basis\": \"choice\"", "\"basis\": \"profile\"");
    assert!(
        first.contains("\"profile\": \"robust\"") && first.contains("\"basis\": \"profile\""),
        "{first}"
    );
    let read: Document = serde_json::from_str(&first).unwrap();
    assert_eq!(Format::Json.render(&read), text);
}

#[test]
fn the_baseline_decides_what_counts() {
    let [plain, known] = documents();
    assert_eq!((plain.outcome.failed, plain.outcome.exit), (1, 6));
    assert_eq!(
        (
            known.outcome.failed,
            known.outcome.known,
            known.outcome.exit
        ),
        (0, 1, 6)
    );
    let notices = known.baseline.unwrap().notices;
    assert!(
        notices.iter().any(|notice| notice.contains("A-TRN-01")),
        "{notices:?}"
    );
    assert!(
        notices.iter().any(|notice| notice.contains("9.9")),
        "{notices:?}"
    );
}

#[test]
fn what_was_not_judged_is_listed_with_its_reason() {
    let document = document(None);
    let open = |clause: &str| {
        document
            .not_covered
            .iter()
            .find(|open| open.clause == clause)
    };
    assert!(open("frame.1").is_none());
    let reason = |clause| {
        open(clause)
            .map(|open| open.reason.as_str())
            .unwrap_or_default()
    };
    assert!(reason("turn.2").starts_with("A-STP-01") && reason("turn.3").starts_with("A-STP-02"));
    assert!(open("msg.1").is_some_and(|open| !open.reason.is_empty()));
}

#[test]
fn xml_and_html_stay_well_formed() {
    for document in documents() {
        for format in [Format::Junit, Format::Html] {
            let text = format.render(&document);
            well_formed(&text).unwrap_or_else(|error| panic!("{format}: {error}\n{text}"));
            assert!(!text.contains("<script"), "{format}");
        }
    }
    for bad in [
        "<a>",
        "<a></b>",
        "<a b=c/>",
        "<a>&nope;</a>",
        "<a>\u{1b}</a>",
        "<a/><b/>",
        "<a b='<'/>",
        "<a>x & y</a>",
    ] {
        assert!(well_formed(bad).is_err(), "{bad}");
    }
}

#[test]
fn junit_tells_failures_errors_skips_and_warnings_apart() {
    let text = Format::Junit.render(&document(None));
    for (what, count) in [
        ("<testsuite ", 3),
        ("<failure ", 1),
        ("<error ", 2),
        ("<skipped ", 1),
        ("<system-out>", 2),
    ] {
        assert_eq!(text.matches(what).count(), count, "{what}\n{text}");
    }
    for property in ["clause", "level", "basis", "tier"] {
        assert_eq!(
            text.matches(&format!("<property name=\"{property}\""))
                .count(),
            6,
            "{property}"
        );
    }
}

#[test]
fn tap_has_one_line_a_case_whatever_the_peer_wrote() {
    for document in documents() {
        let text = Format::Tap.render(&document);
        assert!(text.starts_with("TAP version 14\n1..6\n"));
        let points: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("ok ") || line.starts_with("not ok "))
            .collect();
        assert_eq!(points.len(), 6, "{points:#?}");
        assert_eq!(
            text.lines().filter(|line| line.trim() == "...").count(),
            text.matches("  ---\n").count()
        );
        assert_eq!(
            points
                .iter()
                .filter(|line| line.contains(" # SKIP"))
                .count(),
            1
        );
        assert!(
            text.chars()
                .all(|character| character == '\n' || !character.is_control())
        );
    }
    let text = Format::Tap.render(&document(Some(KNOWN)));
    assert!(
        text.contains("not ok 1 - A-FRM-01 one <&> title # TODO known: ]]> <b> \\# TODO\n"),
        "{text}"
    );
}

#[test]
fn a_workflow_takes_one_command_for_each_case_that_decides() {
    let text = Format::Github.render(&document(None));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let kinds: Vec<&str> = lines
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(kinds, ["::error", "::warning", "::error", "::error"]);
}

#[test]
fn markdown_holds_no_markup_of_the_peer() {
    for document in documents() {
        let text = Format::Markdown.render(&document);
        // In a fenced block nothing is markup; the fence is longer than any that the peer wrote.
        let mut outside = String::new();
        let mut fence = None;
        for line in text.lines() {
            match fence {
                None if line.starts_with("````") => fence = line.strip_suffix("text"),
                None => outside.push_str(line),
                Some(end) if line == end => fence = None,
                Some(_) => {}
            }
        }
        assert_eq!(fence, None);
        for markup in ["<script", "@someone", "[a](java", "```"] {
            assert!(!outside.contains(markup), "{markup}: {outside}");
        }
        assert!(!text.lines().any(|line| line.starts_with("::")));
    }
}

#[test]
fn the_text_ends_with_its_stable_line_and_steers_no_terminal() {
    for document in documents() {
        let mut text = Vec::new();
        text::write(
            &document,
            Some("results/x"),
            Skipped::Listed,
            &mut anstream::StripStream::new(&mut text),
        )
        .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.chars()
                .all(|character| character == '\n' || !character.is_control()),
            "{text:?}"
        );
        assert!(
            !text.lines().any(|line| line.trim_start().starts_with("::")),
            "{text}"
        );
        assert!(
            text.contains("\ntiers: 0 black box, 0 recipe, 5 probe\n"),
            "{text}"
        );
        let last = text.lines().last().unwrap();
        assert!(
            last.starts_with("result: HARNESS ERROR (robust 1): ") && last.ends_with("   exit 6"),
            "{last}"
        );
    }
}

#[test]
fn a_run_that_only_skipped_has_judged_nothing() {
    let all = document_of(&[Verdict::Skip; 6], None);
    let last = all.last_line();
    assert!(
        last.starts_with("result: NOTHING JUDGED (robust 1): 0 failures")
            && last.ends_with("exit 2"),
        "{last}"
    );
    let one = document_of(&[Verdict::Skip, Verdict::Pass], None);
    assert_eq!(
        (one.outcome.result.as_str(), one.outcome.exit),
        ("CONFORMANT", 0)
    );
    assert_eq!(document_of(&[], None).outcome.exit, 0);
}

#[test]
fn the_notes_of_cases_that_passed_are_in_every_report_for_people() {
    let mut document = document_of(&[Verdict::Pass, Verdict::Skip], None);
    for (case, note) in document
        .cases
        .iter_mut()
        .zip(["it was slow", "it was quiet"])
    {
        case.notes = vec![note.to_owned()];
    }
    let mut text = Vec::new();
    text::write(&document, None, Skipped::Counted, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("\nnote      A-FRM-01: it was slow\nnote      A-FRM-02: it was quiet\n"),
        "{text}"
    );
    for format in [Format::Markdown, Format::Tap, Format::Junit, Format::Html] {
        let report = format.render(&document);
        assert!(report.contains("it was slow"), "{format}: {report}");
    }
}

/// A run of the core class, which does not score a failed case and a warning.
fn core_document() -> Document {
    let mut document = document_of(&[Verdict::Fail, Verdict::Warn, Verdict::Pass], None);
    document.plan.class = Class::Core;
    for case in &mut document.cases {
        case.scored = case.verdict == Verdict::Pass;
    }
    compare(&mut document, None);
    document
}

#[test]
fn cases_outside_of_the_class_are_counted_apart_in_every_report() {
    let document = core_document();
    let mut out = Vec::new();
    text::write(&document, None, Skipped::Counted, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let red = text::style_of(Verdict::Fail).to_string();
    assert!(!text.contains(&red) && !text.contains("FAIL"), "{text}");
    let totals = "\n1 pass  1 fail outside of this class  1 warn outside of this class   in";
    assert!(text.contains(totals), "{text}");
    let plain = anstream::adapter::strip_str(&text).to_string();
    assert!(plain.contains("\nnot scored  A-FRM-01"), "{plain}");
    assert!(plain.contains("(fail, outside of this class)\n"), "{plain}");
    assert!(plain.contains("0 failures"), "{plain}");
    let html = Format::Html.render(&document);
    assert!(
        !html.contains("class=\"fail\"") && !html.contains("class=\"warn\""),
        "{html}"
    );
    assert!(
        html.contains("<span class=\"skip\">fail, outside of this class</span>"),
        "{html}"
    );
    let summary = Format::Markdown.render(&document);
    assert!(summary.contains("| FRM |  |  |  |  |  |  |"), "{summary}");
    assert!(
        summary.contains("### Outside of this class\n\n- **A\\-FRM\\-01**"),
        "{summary}"
    );
    let junit = Format::Junit.render(&document);
    assert!(junit.contains("failures=\"0\" errors=\"0\""), "{junit}");
    let matrix = Matrix {
        started_at: String::new(),
        took: Duration::ZERO,
        rows: vec![matrix::MatrixRow {
            name: "mine".to_owned(),
            config: String::new(),
            side: Some(crate::clauses::Side::Adapter),
            judged: Ok(Box::new(document)),
        }],
    };
    let table = anstream::adapter::strip_str(&matrix.text()).to_string();
    let row = table.lines().nth(1).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        cells,
        ["mine", "core", "CONFORMANT", "1", "0", "0", "0", "-", "1/1"],
        "{table}"
    );
    assert!(!matrix.html().contains("class=\"fail\""));
}

#[test]
fn a_summary_is_one_line() {
    let text = Format::Summary.render(&document(None));
    assert_eq!(text.lines().count(), 1);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&value["exit"], &value["totals"]["fail"]),
        (&Value::from(6), &Value::from(1))
    );
}

#[test]
fn evidence_is_kept_and_latest_leads_to_the_newest() {
    let results = tempfile::tempdir().unwrap();
    let at = Moment::now();
    let first = evidence::folder(results.path(), at).unwrap();
    let second = evidence::folder(results.path(), at).unwrap();
    assert_ne!(first, second);
    let held = [
        ended(&CASES[0], Verdict::Fail),
        ended(&CASES[5], Verdict::Pass),
    ];
    evidence::keep(&first, &held, EvidenceCases::Failures).unwrap();
    evidence::keep(&second, &held, EvidenceCases::All).unwrap();
    assert_eq!(evidence::files_of(&first, "A-FRM-01").len(), 3);
    assert_eq!(evidence::files_of(&first, "A-TRN-01").len(), 0);
    assert_eq!(evidence::files_of(&second, "A-TRN-01").len(), 3);
    for folder in [&first, &second] {
        evidence::point_latest(folder).unwrap();
        let latest = results.path().join("latest").canonicalize().unwrap();
        assert_eq!(latest, folder.canonicalize().unwrap());
    }
    assert_eq!(std::fs::read_dir(results.path()).unwrap().count(), 3);
}

/// Checks that a text is one well-formed XML element after its declarations, as far as it is needed
/// here.
fn well_formed(text: &str) -> Result<(), String> {
    let forbidden = |c: char| {
        c < ' ' && !matches!(c, '\n' | '\t' | '\r') || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    if let Some(found) = text.chars().find(|c| forbidden(*c)) {
        return Err(format!("character {found:?}"));
    }
    let mut open = Vec::new();
    let mut roots = 0;
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        entities(&rest[..start])?;
        let end = rest[start..].find('>').ok_or("an open tag")? + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let inside = tag.strip_suffix('/').unwrap_or(tag);
        let (name, mut attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        while !attributes.trim().is_empty() {
            let (_, value) = attributes
                .split_once("=\"")
                .ok_or(format!("attribute in {tag}"))?;
            let (value, after) = value.split_once('"').ok_or(format!("quote in {tag}"))?;
            entities(value)?;
            if value.contains('<') || !(after.is_empty() || after.starts_with(' ')) {
                return Err(format!("attribute in {tag}"));
            }
            attributes = after;
        }
        roots += usize::from(open.is_empty());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    if rest.trim().is_empty() && open.is_empty() && roots == 1 {
        Ok(())
    } else {
        Err(format!(
            "{roots} roots, {open:?} open, {:?} behind",
            rest.trim()
        ))
    }
}

fn entities(text: &str) -> Result<(), String> {
    for part in text.split('&').skip(1) {
        let name = part.split(';').next().unwrap_or_default();
        let known = ["amp", "lt", "gt", "quot", "#39"].contains(&name) && part.contains(';');
        if !known {
            return Err(format!("entity &{name}"));
        }
    }
    if text.contains('>') {
        Err(format!("a bare > in {text}"))
    } else {
        Ok(())
    }
}
