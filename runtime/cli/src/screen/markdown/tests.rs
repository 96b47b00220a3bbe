use super::*;

/// What is shown, without its colours, after each piece and at the end.
fn pieces(pieces: &[&str]) -> Vec<String> {
    let mut markdown = MarkdownRenderer::default();
    let mut shown: Vec<_> = pieces.iter().map(|piece| markdown.push(piece)).collect();
    shown.push(markdown.finish());
    shown
        .iter()
        .map(|text| anstream::adapter::strip_str(text).to_string())
        .collect()
}

fn whole(text: &str) -> String {
    pieces(&[text]).concat()
}

#[test]
fn a_paragraph_is_shown_when_it_is_complete() {
    assert_eq!(
        pieces(&["one **t", "wo** three\n", "\nnext"]),
        ["", "", "one two three\n", "\nnext\n"]
    );
}

#[test]
fn lines_are_wrapped_between_words_below_their_marks() {
    let text = "Some **bold words** and ticks ago\n\n- one two three four five six seven\n\n> said one two three four five six\n";
    let shown = render_block(text, Some(24));
    let shown = anstream::adapter::strip_str(&shown).to_string();
    assert_eq!(
        shown,
        "Some bold words and\nticks ago\n• one two three four\n  five six seven\n│ said one two three\n│ four five six\n"
    );
}

#[test]
fn the_end_of_an_incomplete_paragraph_is_shown_while_it_waits() {
    let mut markdown = MarkdownRenderer::default();
    markdown.push("one\ntwo \u{1b}[2J");
    assert_eq!(markdown.waiting_end(), "one two ␛[2J");
    markdown.push(&"x".repeat(100));
    assert_eq!(markdown.waiting_end(), format!("…{}", "x".repeat(30)));
}

#[test]
fn however_it_is_cut_the_same_is_shown() {
    let text = "# Title\n\nA *b* `c`.\n\n- one\n- two\n\n  more\n\n1. x\n2. y\n\n```rust\nfn a() {}\n\n# no title\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> said\n> so\n\n[here](http://x)\n";
    let expected = whole(text);
    for size in 1..20 {
        let mut markdown = MarkdownRenderer::default();
        let chars: Vec<char> = text.chars().collect();
        let mut shown = String::new();
        for piece in chars.chunks(size) {
            shown.push_str(&markdown.push(&piece.iter().collect::<String>()));
        }
        shown.push_str(&markdown.finish());
        assert_eq!(
            anstream::adapter::strip_str(&shown).to_string(),
            expected,
            "{size}"
        );
    }
    for line in [
        "Title\n",
        "A b c.\n",
        "• one\n",
        "  more\n",
        "2. y\n",
        "    fn a() {}\n    \n    # no title\n",
        "│ said\n",
        "here (http://x)\n",
    ] {
        assert!(expected.contains(line), "{line:?} is not in {expected}");
    }
    assert!(!expected.contains("```") && !expected.contains("**"));
}

#[test]
fn a_line_of_code_is_shown_when_it_comes() {
    assert_eq!(
        pieces(&["```\nlet a", " = 1;\n", "b\n```\n"])[..3],
        ["", "    let a = 1;\n", "    b\n"]
    );
}

#[test]
fn a_block_without_an_end_is_not_kept() {
    let mut markdown = MarkdownRenderer::default();
    let mut shown = 0;
    for _ in 0..1000 {
        shown += markdown.push(&"x".repeat(1000)).len();
        assert!(markdown.line.len() + markdown.block.len() <= MAX_BLOCK_BYTES);
    }
    assert!(shown > 900_000);
}

#[test]
fn what_is_no_markdown_stays() {
    for text in ["a_b_c 2 * 3 * 4 <T>\n", "5 > 3\n", "one\ntwo\n"] {
        assert_eq!(whole(text), text);
    }
}
