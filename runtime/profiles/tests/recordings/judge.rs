//! Holds what came out of a profile against what must.

use serde_json::Value;

use super::{
    driver::{Observed, SeenSession, SeenTurn, short},
    expected::{Expected, Permission, Piece, Session, Tool, Turn},
    mode::Mode,
    recording::{Recording, option},
};

/// The folder that every recording was made in.
const RECORDED_CWD: &str = "$WORK/scratch/proj";

/// Tolerance of a cost.
const CENT_OF_A_CENT: f64 = 1e-7;

/// Returns the differences; empty if there are none.
pub(crate) fn judge(
    expected: &Expected,
    observed: &Observed,
    recording: &Recording,
) -> Result<(), String> {
    let mut wrong = Vec::new();
    if !observed
        .starts
        .iter()
        .any(|words| Mode::of_arguments(words) != Mode::Query)
    {
        wrong.push("the CLI was never started for a turn".to_owned());
    }
    if expected.sessions.len() != observed.sessions.len() {
        wrong.push(format!(
            "{} sessions instead of {}",
            observed.sessions.len(),
            expected.sessions.len()
        ));
    }
    for (number, (session, seen)) in expected.sessions.iter().zip(&observed.sessions).enumerate() {
        let judge = Judge {
            observed,
            recording,
            wrong: Vec::new(),
        };
        wrong.extend(
            judge
                .session(session, seen)
                .into_iter()
                .map(|text| format!("session {}: {text}", number + 1)),
        );
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n  "))
    }
}

struct Judge<'a> {
    observed: &'a Observed,
    recording: &'a Recording,
    wrong: Vec<String>,
}

impl Judge<'_> {
    fn session(mut self, session: &Session, seen: &SeenSession) -> Vec<String> {
        if let Some(native) = session.native_id.as_deref() {
            let chosen = self.chosen(native);
            let known = seen.native_id.as_deref();
            // An id that was never used because its start failed need not be reported.
            let began = session
                .turns
                .iter()
                .any(|turn| turn.status.first() == Some(&"completed"));
            if known != Some(chosen.as_str()) && (known.is_some() || began) {
                self.wrong
                    .push(format!("native session id {known:?} instead of {chosen:?}"));
            }
        }
        if let Some(context) = session.context
            && seen.context.as_deref() != Some(context)
            && seen.closed.is_none()
        {
            self.wrong
                .push(format!("context {:?} instead of {context:?}", seen.context));
        }
        let first = seen.turns.first().and_then(|turn| turn.complete.as_ref());
        if seen.context.as_deref() == Some("lost")
            && first.is_some_and(|end| end["clear_session"] != true)
        {
            self.wrong.push(
                "the first end after a lost context does not clear what was resumed".to_owned(),
            );
        }
        if session.turns.len() != seen.turns.len() && seen.closed.is_none() {
            self.wrong.push(format!(
                "{} turns instead of {}",
                seen.turns.len(),
                session.turns.len()
            ));
        }
        for (number, (turn, told)) in session.turns.iter().zip(&seen.turns).enumerate() {
            let before = self.wrong.len();
            self.turn(turn, told, seen);
            for text in &mut self.wrong[before..] {
                *text = format!("turn {} {:?}: {text}", number + 1, turn.prompt);
            }
        }
        self.wrong
    }

    /// The id that the profile chose in place of the recorded one, if it did.
    fn chosen(&self, native: &str) -> String {
        let given = self
            .observed
            .starts
            .iter()
            .rev()
            .find_map(|words| option(words, &["--session-id"]));
        let fixed = self.recording.resumes() == Some(native);
        given
            .filter(|_| !fixed)
            .map_or_else(|| native.to_owned(), str::to_owned)
    }

    fn turn(&mut self, turn: &Turn, seen: &SeenTurn, session: &SeenSession) {
        let Some(complete) = &seen.complete else {
            // The session as a whole was refused: that is an end too.
            let category = session
                .closed
                .as_ref()
                .and_then(|closed| closed["error"]["category"].as_str());
            let fits = turn.category.is_empty()
                || category.is_some_and(|category| turn.category.contains(&category));
            if session.closed.is_none() || !turn.status.contains(&"failed") || !fits {
                self.wrong
                    .push(format!("no end; session closed: {:?}", session.closed));
            }
            return;
        };
        self.end(turn, complete);
        self.text(turn, seen);
        self.tools(turn, seen);
        self.permissions(turn, seen);
        self.usage(turn, seen, complete);
        for warning in &turn.warned {
            let told = seen
                .messages
                .iter()
                .chain(&session.outside)
                .any(|message| message.to_string().contains(warning.as_str()));
            if !told {
                self.wrong.push(format!("no one is warned of {warning:?}"));
            }
        }
    }

    fn end(&mut self, turn: &Turn, complete: &Value) {
        let status = complete["status"].as_str().unwrap_or("completed");
        if !turn.status.contains(&status) {
            self.wrong.push(format!(
                "ended as {status} instead of {:?}: {}",
                turn.status, complete["error"]
            ));
        }
        if status != "failed" {
            return;
        }
        let error = &complete["error"];
        let category = error["category"].as_str().unwrap_or_default();
        let message = error["message"].as_str().unwrap_or_default();
        if category.is_empty() || message.trim().is_empty() {
            self.wrong
                .push(format!("failed without saying why: {complete}"));
        }
        if !turn.category.is_empty() && !turn.category.contains(&category) {
            self.wrong.push(format!(
                "category {category} instead of {:?}: {message}",
                turn.category
            ));
        }
        let told: Vec<String> = turn.told.iter().map(|words| self.live(words)).collect();
        if !told.is_empty()
            && !told
                .iter()
                .any(|words| plain(message).contains(plain(words).trim()))
        {
            self.wrong.push(format!(
                "the error does not say what the CLI said, such as {:?}: {message}",
                told.first()
            ));
        }
    }

    fn text(&mut self, turn: &Turn, seen: &SeenTurn) {
        let pieces: Vec<Piece> = turn
            .text
            .iter()
            .map(|piece| Piece {
                ways: piece.ways.iter().map(|way| self.live(way)).collect(),
                ..piece.clone()
            })
            .collect();
        if !fits(&pieces, &seen.text, turn.stopped) {
            let wanted: Vec<_> = pieces
                .iter()
                .map(|piece| (piece.optional, &piece.ways))
                .collect();
            self.wrong.push(format!(
                "text {} instead of {}",
                short(&Value::from(seen.text.as_str()), 600),
                short(&Value::from(format!("{wanted:?}")), 600)
            ));
        }
    }

    fn tools(&mut self, turn: &Turn, seen: &SeenTurn) {
        let of = |kind: &str| -> Vec<&Value> {
            seen.messages
                .iter()
                .filter(|message| message["type"] == kind)
                .collect()
        };
        let starts = of("tool.start");
        let ends = of("tool.end");
        for Tool {
            id,
            name,
            failed,
            optional,
        } in &turn.tools
        {
            let named = |message: &&&Value| {
                message["tool_call_id"]
                    .as_str()
                    .is_some_and(|told| told.contains(id.as_str()))
            };
            let started: Vec<_> = starts.iter().filter(named).collect();
            let ended: Vec<_> = ends.iter().filter(named).collect();
            match (started.as_slice(), ended.as_slice()) {
                ([], []) if *optional => {}
                ([start], [end]) => {
                    let tool = start["tool"].as_str().unwrap_or_default();
                    if tool.is_empty()
                        || name
                            .as_deref()
                            .is_some_and(|name| !name.eq_ignore_ascii_case(tool))
                    {
                        self.wrong
                            .push(format!("tool {id} is called {tool:?} instead of {name:?}"));
                    }
                    let told = end["is_error"].as_bool().unwrap_or(false);
                    if failed.is_some_and(|failed| failed != told) {
                        self.wrong
                            .push(format!("tool {id} failed: {told} instead of {failed:?}"));
                    }
                }
                (started, ended) => {
                    self.wrong.push(format!(
                        "tool {id}: {} starts and {} ends",
                        started.len(),
                        ended.len()
                    ));
                }
            }
        }
        if starts.len() > turn.tools.len() {
            self.wrong.push(format!(
                "{} tool calls instead of {}",
                starts.len(),
                turn.tools.len()
            ));
        }
    }

    fn permissions(&mut self, turn: &Turn, seen: &SeenTurn) {
        if seen.permissions.len() != turn.permissions.len() {
            let told = seen.permissions.len();
            let wanted = turn.permissions.len();
            self.wrong
                .push(format!("{told} permission requests instead of {wanted}"));
        }
        for (wanted, request) in turn.permissions.iter().zip(&seen.permissions) {
            let Permission {
                tool,
                tool_call_id,
                about,
                answer,
            } = wanted;
            let named = request["tool"].as_str().unwrap_or_default();
            if named.is_empty() || tool.as_deref().is_some_and(|tool| tool != named) {
                self.wrong
                    .push(format!("permission for {named:?} instead of {tool:?}"));
            }
            let call = request["tool_call_id"].as_str();
            if call.is_some()
                && tool_call_id.is_some()
                && !call
                    .unwrap_or_default()
                    .contains(tool_call_id.as_deref().unwrap_or_default())
            {
                self.wrong.push(format!(
                    "permission of tool call {call:?} instead of {tool_call_id:?}"
                ));
            }
            let resource = request["resource"].as_str().unwrap_or_default();
            let about: Vec<_> = about
                .iter()
                .map(|about| self.live(about))
                .filter(|about| !about.is_empty())
                .collect();
            let same = |about: &String| {
                resource.contains(about.as_str())
                    || (about.contains(resource) && !resource.is_empty())
            };
            if !about.is_empty() && !about.iter().any(same) {
                self.wrong.push(format!(
                    "permission about {resource:?} instead of one of {about:?}"
                ));
            }
            if let Some((place, value)) = answer.as_ref().and_then(|answer| answer.to_cli.as_ref())
                && !self
                    .observed
                    .told
                    .iter()
                    .any(|line| line.pointer(place) == Some(value))
            {
                self.wrong
                    .push(format!("the CLI was never told {value} at {place}"));
            }
        }
    }

    fn usage(&mut self, turn: &Turn, seen: &SeenTurn, complete: &Value) {
        let mut told = seen
            .messages
            .iter()
            .filter(|message| message["type"] == "usage" && message["scope"] != "session");
        let told = Some(&complete["usage"])
            .filter(|usage| usage.is_object())
            .or_else(|| told.next_back());
        if let Some(total) = turn.no_total
            && told
                .and_then(|told| told["cost_usd"].as_f64())
                .is_some_and(|cost| (cost - total).abs() < CENT_OF_A_CENT)
        {
            self.wrong.push(format!(
                "a running total of {total} is reported as the cost of a turn"
            ));
        }
        let Some(wanted) = &turn.usage else { return };
        let Some(told) = told else {
            if !wanted.optional {
                self.wrong.push("no usage".to_owned());
            }
            return;
        };
        for (name, wanted) in [
            ("input_tokens", &wanted.input),
            ("output_tokens", &wanted.output),
        ] {
            let told = told[name].as_u64();
            if told.is_none_or(|told| !wanted.contains(&told)) {
                self.wrong
                    .push(format!("{name} {told:?} instead of {wanted:?}"));
            }
        }
        if let (Some(wanted), Some(told)) = (turn.cost, told["cost_usd"].as_f64())
            && (wanted - told).abs() > CENT_OF_A_CENT
        {
            self.wrong.push(format!("cost {told} instead of {wanted}"));
        }
        if turn.cost.is_some_and(|cost| cost > 0.0)
            && told["cost_usd"].is_null()
            && !wanted.optional
        {
            self.wrong.push("no cost".to_owned());
        }
    }

    /// Returns the live form of a recorded text.
    fn live(&self, text: &str) -> String {
        text.replace(RECORDED_CWD, &self.observed.cwd)
    }
}

/// A text in which only words count.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true if a text consists of these pieces, with only white space between; a stopped one
/// may end anywhere in an optional piece.
fn fits(pieces: &[Piece], text: &str, stopped: bool) -> bool {
    let Some((piece, rest)) = pieces.split_first() else {
        return text.trim().is_empty();
    };
    let trimmed = text.trim_start();
    piece.ways.iter().any(|way| {
        let after = text
            .strip_prefix(way.as_str())
            .or_else(|| trimmed.strip_prefix(way.trim_start()));
        after.is_some_and(|after| fits(rest, after, stopped))
            || (stopped && piece.optional && way.trim_start().starts_with(trimmed))
    }) || (piece.optional && fits(rest, text, stopped))
}
