use std::sync::{Arc, Mutex};

use trunkline_host::protocol::{MessageId, Output, Thinking};

use super::*;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn event(kind: EventKind) -> Event {
    Event::new(TurnScope::Outside, kind)
}

fn output(text: &str) -> EventKind {
    EventKind::Output(Output::text(text))
}

fn thinking(text: &str) -> EventKind {
    EventKind::Thinking(Thinking {
        content: text.to_owned(),
        ..Thinking::default()
    })
}

/// What goes to stdout and to stderr.
fn shown_on(terminals: (bool, bool), kinds: Vec<EventKind>) -> (String, String) {
    let answer = Sink::default();
    let aside = Sink::default();
    let plain = anstream::StripStream::new(Box::new(aside.clone()) as Box<dyn Write + Send>);
    let mut screen = SessionScreen::with_outputs(
        Box::new(answer.clone()),
        Box::new(plain),
        terminals,
        OutputDetail::Calm,
    );
    for kind in kinds {
        screen.event(&event(kind)).unwrap();
    }
    screen.end_answer().unwrap();
    (answer.text(), aside.text())
}

#[test]
fn a_piped_answer_is_what_the_agent_said_and_a_line_end() {
    let (answer, _) = shown_on(
        (false, false),
        vec![output("a\u{1b}[1m"), thinking("hm"), output("b")],
    );
    assert_eq!(answer, "a\u{1b}[1mb\n");
}

#[test]
fn two_messages_of_one_answer_have_an_empty_line_between_them() {
    let pieces = [
        (Some("m1"), "a"),
        (Some("m1"), "b"),
        (Some("m2"), "c\n"),
        (None, "d\n"),
        (Some("m3"), "e"),
    ];
    let kinds = || {
        let piece = |(id, text): (Option<&str>, &str)| {
            EventKind::Output(Output {
                message_id: id.map(|id| MessageId::new(id).unwrap()),
                ..Output::text(text)
            })
        };
        Vec::from(pieces.map(piece))
    };
    for terminals in [(false, false), (true, true)] {
        let (answer, _) = shown_on(terminals, kinds());
        assert_eq!(answer, "ab\n\nc\nd\n\ne\n", "{terminals:?}");
    }
    // On a terminal another line separates them already.
    for (terminals, expected) in [
        ((false, false), "ab\n\nc\nd\n\ne\n"),
        ((true, true), "abc\nd\n\ne\n"),
    ] {
        let mut kinds = kinds();
        kinds.insert(2, thinking("hm"));
        let (answer, _) = shown_on(terminals, kinds);
        assert_eq!(answer, expected, "{terminals:?}");
    }
}

#[test]
fn an_answer_on_a_terminal_cannot_command_it() {
    let (answer, _) = shown_on((true, true), vec![output("a\u{1b}[2Jb\n")]);
    assert_eq!(answer, "a␛[2Jb\n");
}

#[test]
fn what_comes_beside_an_answer_in_one_file_begins_a_line() {
    let sink = Sink::default();
    let plain = anstream::StripStream::new(Box::new(sink.clone()) as Box<dyn Write + Send>);
    let mut screen = SessionScreen::with_outputs(
        Box::new(sink.clone()),
        Box::new(plain),
        (false, false),
        OutputDetail::Calm,
    );
    screen.is_one_sink = true;
    for kind in [
        output("a"),
        thinking("hm"),
        output("b\n"),
        thinking("hm"),
        output("c"),
    ] {
        screen.event(&event(kind)).unwrap();
    }
    screen.end_answer().unwrap();
    let lines: Vec<_> = sink
        .text()
        .lines()
        .map(|line| line.trim().to_owned())
        .collect();
    let said = lines
        .iter()
        .filter(|line| !line.starts_with('(') && !line.is_empty());
    assert_eq!(
        said.collect::<Vec<_>>(),
        ["a", "hm", "b", "hm", "c"],
        "{:?}",
        sink.text()
    );
}

#[test]
fn thoughts_begin_on_a_line_of_their_own() {
    let (_, aside) = shown_on(
        (true, true),
        vec![output("a"), thinking("one\ntw"), thinking("o"), output("b")],
    );
    assert_eq!(
        aside,
        "  (outside any turn)\n\n  one\n  two\n  (outside any turn)\n"
    );
}

#[test]
fn markdown_is_rendered_and_its_author_commands_no_terminal() {
    let answer = Sink::default();
    let aside = Sink::default();
    let mut screen = SessionScreen::with_outputs(
        Box::new(answer.clone()),
        Box::new(aside.clone()),
        (true, true),
        OutputDetail::Calm,
    );
    screen.markdown = Some(markdown::MarkdownRenderer::default());
    let pieces = [
        "# Ti",
        "tle\n\n**bo",
        "ld** \u{1b}[31m `\u{9b}2J`\n\n```\n\u{1b}]0;x\u{7}\n```\n",
        "[x](http://a\u{1b}[0m)\n\n&#27;[2J &#x9b;2J [y](<http://b/&#27;[2J>)\n\n|&#27;[2J|\n|-|\n|&#27;[3J|\n",
    ];
    for piece in pieces {
        screen.event(&event(output(piece))).unwrap();
    }
    screen.event(&event(thinking("hm"))).unwrap();
    screen.event(&event(output("last"))).unwrap();
    screen.end_answer().unwrap();
    let raw = answer.text();
    let plain = anstream::adapter::strip_str(&raw).to_string();
    for text in ["Title\n", "bold ␛[31m ", "    ␛]0;x␇\n", "last\n"] {
        assert!(plain.contains(text), "{text:?} is not in {plain:?}");
    }
    // All escapes are our own styles: only digits, and `m` at the end.
    for escape in raw.split('\u{1b}').skip(1) {
        let style = escape
            .strip_prefix('[')
            .and_then(|rest| rest.split_once('m'));
        assert!(
            style.is_some_and(|(digits, _)| digits.chars().all(|c| c.is_ascii_digit() || c == ';')),
            "{escape:?}"
        );
    }
    assert!(!raw.contains(['\u{9b}', '\u{7}']));
    assert!(aside.text().contains("hm"));
}

#[test]
fn a_stall_is_one_line_beside_the_answer() {
    let seconds = std::time::Duration::from_secs;
    let stalled = EventKind::Stalled {
        silent_for: seconds(90),
        deadline_in: Some(seconds(30)),
    };
    let (answer, aside) = shown_on((false, false), vec![output("a"), stalled, output("b")]);
    assert_eq!(answer, "ab\n");
    let stalls: Vec<_> = aside
        .lines()
        .filter(|line| line.contains("no output"))
        .collect();
    assert_eq!(
        stalls,
        ["  ! no output from the agent for 1 min 30 s; the turn is stopped in 30.0 s"]
    );
}
