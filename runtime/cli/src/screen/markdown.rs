//! Renders Markdown on a terminal, block by block, as soon as each is complete.
//!
//! The input must be cleaned by [`shown`]; decoded text is cleaned again. So all escape sequences
//! in the output come from here.

use std::{fmt::Write as _, io};

use anstream::adapter::strip_str;
use anstyle::{Effects, Style};
use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::{
    paint,
    terminal::{columns_of, one_line, shown, text_width, wrapped},
};

/// Limit of a block that waits for its end, in bytes; a longer block is shown without rendering.
const MAX_BLOCK_BYTES: usize = 64 * 1024;

const CODE: Style = paint::ACT;
const EMPHASIS: Style = Style::new().italic();
const STRUCK: Style = Style::new().effects(Effects::STRIKETHROUGH);
const LINK: Style = Style::new().underline();

/// Renderer of a text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct MarkdownRenderer {
    /// The line without its end.
    line: String,
    /// Lines of the incomplete block.
    block: String,
    /// True if the last line of the block is empty.
    is_after_blank: bool,
    /// End of the code block that contains the lines.
    fence: Option<CodeFence>,
    /// True if the next block is separated from earlier output.
    has_before: bool,
}

#[derive(Debug, Clone, Copy)]
struct CodeFence {
    mark: char,
    length: usize,
    indent: usize,
}

impl MarkdownRenderer {
    /// Adds a piece, and returns the whole lines that it completes.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for part in piece.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.take_line(line.trim_end_matches('\n'), &mut out);
            }
        }
        if self.line.len() + self.block.len() > MAX_BLOCK_BYTES {
            self.give_up(&mut out);
        }
        out
    }

    /// Returns true if text waits for the end of its block.
    pub(super) fn is_waiting(&self) -> bool {
        !self.line.is_empty() || !self.block.is_empty()
    }

    /// Returns the end of the text that waits, in one line.
    pub(super) fn waiting_end(&self) -> String {
        const MAX_CHARS: usize = 30;
        let text = self.block.chars().chain(self.line.chars()).rev();
        let mut end: Vec<_> = text.take(MAX_CHARS + 1).collect();
        let mark = if end.len() > MAX_CHARS { "…" } else { "" };
        end.truncate(MAX_CHARS);
        let end: String = end.into_iter().rev().collect();
        format!("{mark}{}", one_line(&end))
    }

    /// Returns the remaining text.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut out);
        }
        self.end_block(&mut out);
        *self = Self {
            has_before: self.has_before,
            ..Self::default()
        };
        out
    }

    fn take_line(&mut self, line: &str, out: &mut String) {
        if let Some(fence) = self.fence {
            if fence.is_closed_by(line) {
                self.fence = None;
            } else {
                let indent = line.len() - line.trim_start_matches(' ').len();
                code_line(&line[indent.min(fence.indent)..], out);
            }
            return;
        }
        if let Some(fence) = CodeFence::opened_by(line) {
            self.end_block(out);
            self.separate_block(out);
            self.fence = Some(fence);
            return;
        }
        if line.trim().is_empty() {
            self.is_after_blank = true;
            // A list or a quotation can continue after an empty line.
            if !may_continue(&self.block) {
                self.end_block(out);
            } else if !self.block.is_empty() {
                self.block.push('\n');
            }
            return;
        }
        if std::mem::take(&mut self.is_after_blank)
            && !line.starts_with([' ', '\t'])
            && !may_continue(line)
        {
            self.end_block(out);
        }
        self.block.push_str(line);
        self.block.push('\n');
    }

    /// Shows a block without rendering, because it is too long.
    fn give_up(&mut self, out: &mut String) {
        out.push_str(&std::mem::take(&mut self.block));
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            out.push_str(&line);
            out.push('\n');
        }
        self.has_before = true;
    }

    fn end_block(&mut self, out: &mut String) {
        let block = std::mem::take(&mut self.block);
        if !block.trim().is_empty() {
            self.separate_block(out);
            out.push_str(&render_block(&block, columns_of(io::stdout())));
        }
    }

    fn separate_block(&mut self, out: &mut String) {
        if std::mem::replace(&mut self.has_before, true) {
            out.push('\n');
        }
    }

    /// Starts a new answer.
    pub(super) fn begin(&mut self) {
        self.has_before = false;
    }
}

impl CodeFence {
    fn opened_by(line: &str) -> Option<Self> {
        let text = line.trim_start_matches(' ');
        let mark = text
            .chars()
            .next()
            .filter(|mark| matches!(mark, '`' | '~'))?;
        let length = text.chars().take_while(|next| *next == mark).count();
        let is_inline = mark == '`' && text[length..].contains('`');
        (length >= 3 && !is_inline).then_some(Self {
            mark,
            length,
            indent: line.len() - text.len(),
        })
    }

    fn is_closed_by(self, line: &str) -> bool {
        let text = line.trim();
        text.len() >= self.length && text.chars().all(|next| next == self.mark)
    }
}

/// Returns true if the block can continue after an empty line.
fn may_continue(block: &str) -> bool {
    let text = block.trim_start();
    let number = text.trim_start_matches(|next: char| next.is_ascii_digit());
    let is_numbered = number.len() < text.len() && number.starts_with(['.', ')']);
    is_numbered
        || text.starts_with("- ")
        || text.starts_with("* ")
        || text.starts_with("+ ")
        || text.starts_with('>')
}

fn code_line(line: &str, out: &mut String) {
    let _ = writeln!(out, "    {CODE}{}{CODE:#}", shown(line));
}

/// Renders a block as lines for the terminal.
fn render_block(block: &str, columns: Option<u16>) -> String {
    let mut page = RenderedBlock {
        columns,
        ..RenderedBlock::default()
    };
    for event in Parser::new_ext(
        block,
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS,
    ) {
        page.event(event);
    }
    page.end_line();
    page.out
}

/// Output of a block.
#[derive(Default)]
struct RenderedBlock {
    out: String,
    /// Width of the terminal.
    columns: Option<u16>,
    /// Start of the text of the line in the output.
    text_at: usize,
    /// Width of the marks and the indentation before this text.
    indent: usize,
    /// Styles around the next text, the innermost last.
    styles: Vec<Style>,
    /// Numbers of the enclosing lists, `None` for bullets.
    lists: Vec<Option<u64>>,
    quotes: usize,
    /// Start of the next line, in place of the indentation.
    mark: Option<String>,
    is_in_line: bool,
    is_code: bool,
    links: Vec<String>,
    table: Option<Vec<Vec<String>>>,
}

impl RenderedBlock {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_code => {
                for line in text.lines() {
                    code_line(line, &mut self.out);
                }
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => self.styled(CODE, &text),
            Event::SoftBreak | Event::HardBreak if self.table.is_some() => self.text(" "),
            Event::SoftBreak | Event::HardBreak => self.end_line(),
            Event::Rule => {
                self.styled(paint::DIM, "────────");
                self.end_line();
            }
            Event::TaskListMarker(is_done) => self.text(if is_done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text)
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => self.styles.push(paint::STRONG.underline()),
            Tag::Strong => self.styles.push(paint::STRONG),
            Tag::Emphasis => self.styles.push(EMPHASIS),
            Tag::Strikethrough => self.styles.push(STRUCK),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.into_string());
                self.styles.push(LINK);
            }
            Tag::List(first) => {
                self.end_line();
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_line();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                self.mark = Some(mark);
            }
            Tag::BlockQuote(_) => self.quotes += 1,
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => {
                self.end_line();
                self.is_code = true;
            }
            Tag::Table(_) => self.table = Some(Vec::new()),
            Tag::TableHead | Tag::TableRow => {
                if let Some(rows) = &mut self.table {
                    rows.push(Vec::new());
                }
            }
            Tag::TableCell => {
                if let Some(row) = self.table.as_mut().and_then(|rows| rows.last_mut()) {
                    row.push(String::new());
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_line();
            }
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                if let Some(to) = self.links.pop()
                    && !self.out.ends_with(&format!("{to}{LINK:#}"))
                {
                    self.styled(paint::DIM, &format!(" ({to})"));
                }
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Paragraph | TagEnd::Item | TagEnd::HtmlBlock => self.end_line(),
            TagEnd::BlockQuote(_) => self.quotes = self.quotes.saturating_sub(1),
            TagEnd::CodeBlock => self.is_code = false,
            TagEnd::Table => self.end_table(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.styled(self.styles.last().copied().unwrap_or_default(), text);
    }

    fn styled(&mut self, style: Style, text: &str) {
        // Entities such as `&#27;` are now characters.
        let text = shown(text);
        if let Some(cell) = self
            .table
            .as_mut()
            .and_then(|rows| rows.last_mut())
            .and_then(|row| row.last_mut())
        {
            return cell.push_str(&text);
        }
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                self.end_line();
            }
            if !line.is_empty() {
                self.begin_line();
                let _ = write!(self.out, "{style}{line}{style:#}");
            }
        }
    }

    fn begin_line(&mut self) {
        if std::mem::replace(&mut self.is_in_line, true) {
            return;
        }
        self.quote_marks();
        let depth = self.lists.len();
        match self.mark.take() {
            Some(mark) => {
                let _ = write!(self.out, "{:1$}{mark}", "", 2 * depth.saturating_sub(1));
            }
            None => self.out.extend(std::iter::repeat_n("  ", depth)),
        }
        self.text_at = self.out.len();
        let before = &self.out[self.out.rfind('\n').map_or(0, |at| at + 1)..];
        self.indent = text_width(&strip_str(before).to_string());
    }

    fn quote_marks(&mut self) {
        let dim = paint::DIM;
        for _ in 0..self.quotes {
            let _ = write!(self.out, "{dim}│{dim:#} ");
        }
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_in_line) {
            let text = self.out.split_off(self.text_at);
            let columns = self.columns.map(usize::from);
            for (number, line) in wrapped(&text, columns, self.indent).lines().enumerate() {
                if number > 0 {
                    self.out.push('\n');
                }
                // Quotation marks are before each line.
                match line.get(2 * self.quotes..).filter(|_| number > 0) {
                    Some(line) => {
                        self.quote_marks();
                        self.out.push_str(line);
                    }
                    None => self.out.push_str(line),
                }
            }
            self.out.push('\n');
        }
    }

    fn end_table(&mut self) {
        let mut rows = self.table.take().unwrap_or_default().into_iter();
        let head = rows.next().unwrap_or_default();
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(
                head.iter()
                    .map(|cell| Cell::new(cell).add_attribute(Attribute::Dim)),
            )
            .add_rows(rows);
        if let Some(columns) = columns_of(io::stdout()) {
            table.set_width(columns);
        }
        for line in table.lines() {
            let _ = writeln!(self.out, "{}", line.trim_end());
        }
    }
}

#[cfg(test)]
mod tests;
