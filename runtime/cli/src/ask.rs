//! Permission requests and questions on the terminal. Without a terminal, permissions are denied
//! and questions cancelled.

use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use anstream::stderr;
use tokio::task::JoinHandle;
use trunkline_host::{
    Decision,
    protocol::{
        FieldKind, InputRequest, InputResponse, Json, OptionKind, PermissionRequest, QuestionField,
        RequestId,
    },
};

use self::page::RequestPage;
use crate::{
    paint,
    session_backend::{AgentRequest, PendingRequest, RequestAnswer},
    terminal::{EchoMode, ReadCancel, UserTerminal, one_line},
};

mod page;

/// Input that shows the whole of a long request.
const ALL: &str = "all";

/// Asks on the terminal, if there is one.
#[derive(Debug, Clone)]
pub(crate) struct RequestPrompter {
    terminal: Option<Arc<UserTerminal>>,
    /// Text typed before a question, if it can become part of the next input.
    early: Option<EarlyText>,
}

/// Text that was typed before a question, and so is not its answer.
type EarlyText = Arc<Mutex<String>>;

/// A request shown to the user. Dropping it removes the prompt and declines the request.
#[derive(Debug)]
pub(crate) struct ShownRequest {
    request: Option<PendingRequest>,
    cancel: ReadCancel,
    reply: JoinHandle<Option<RequestAnswer>>,
}

/// Result of a request, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettledRequest {
    /// Id of the request.
    pub(crate) request_id: RequestId,
    /// True if it was allowed or answered.
    pub(crate) approved: bool,
    /// True if there was no terminal to ask on.
    pub(crate) unasked: bool,
}

impl RequestPrompter {
    /// Finds the terminal.
    pub(crate) fn new() -> Self {
        Self {
            terminal: UserTerminal::find().map(Arc::new),
            early: None,
        }
    }

    /// Stores text typed before a question for [`Self::take_early`].
    pub(crate) fn keeping_early(self) -> Self {
        Self {
            early: Some(EarlyText::default()),
            ..self
        }
    }

    /// Takes the text typed before the questions so far.
    pub(crate) fn take_early(&self) -> String {
        let early = self.early.as_ref();
        early.map_or_else(String::new, |early| std::mem::take(&mut lock(early)))
    }

    /// Shows a request. Returns its result at once if there is no terminal.
    pub(crate) fn ask(&self, mut request: PendingRequest) -> Result<ShownRequest, SettledRequest> {
        let Some(terminal) = self.terminal.clone() else {
            let settled = SettledRequest {
                request_id: request.id().clone(),
                approved: false,
                unasked: true,
            };
            request.decline();
            return Err(settled);
        };
        let cancel = ReadCancel::default();
        let dialogue = TerminalDialogue {
            terminal,
            early: self.early.clone(),
            cancel: cancel.clone(),
        };
        let asked = request.request.clone();
        let reply = tokio::task::spawn_blocking(move || dialogue.answer(&asked));
        Ok(ShownRequest {
            request: Some(request),
            cancel,
            reply,
        })
    }
}

impl AgentRequest {
    /// Returns the subject of the request, on one line.
    pub(crate) fn headline(&self) -> String {
        match self {
            Self::Permission(permission) => headline(permission),
            Self::Question(question) => one_line(&question.prompt),
        }
    }

    /// Returns the result of a request without a terminal, and the next step. `takes_allow` is true
    /// if the command has an option `--allow` with an effect.
    pub(crate) fn without_terminal(&self, takes_allow: bool) -> (&'static str, String) {
        match self {
            Self::Permission(permission) if takes_allow => {
                let tool = one_line(&permission.tool);
                let allow = shell_words::quote(&tool);
                (
                    "denied",
                    format!("--allow {allow}, or `permission` in the configuration, can allow it"),
                )
            }
            Self::Permission(_) => (
                "denied",
                "run it on a terminal, or allow it by `permission` in the configuration of its host"
                    .to_owned(),
            ),
            Self::Question(_) => (
                "not answered",
                "run it on a terminal, or answer it by a program through `trunkline serve`"
                    .to_owned(),
            ),
        }
    }
}

impl ShownRequest {
    /// Cancels the prompt, and waits until the terminal is restored. The request is declined.
    pub(crate) async fn end(mut self) {
        self.cancel.cancel();
        // A late answer is dropped.
        let _ = (&mut self.reply).await;
    }

    /// Returns true if this is the request.
    pub(crate) fn is_about(&self, request_id: &RequestId) -> bool {
        self.request
            .as_ref()
            .is_some_and(|request| request.id() == request_id)
    }

    /// Waits for the user's answer and sends it to the agent.
    ///
    /// # Cancel safety
    /// Dropping the future loses no answer.
    pub(crate) async fn answered(&mut self) -> Option<SettledRequest> {
        let answer = (&mut self.reply).await.unwrap_or_default();
        let mut request = self.request.take()?;
        let request_id = request.id().clone();
        let approved = match &answer {
            Some(RequestAnswer::Permission(response)) => response.approved,
            Some(RequestAnswer::Question(_)) => true,
            None => false,
        };
        match answer {
            Some(answer) => request.answer(answer),
            None => request.decline(),
        }
        Some(SettledRequest {
            request_id,
            approved,
            unasked: false,
        })
    }
}

impl Drop for ShownRequest {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Prompt on the terminal, on its own thread.
struct TerminalDialogue {
    terminal: Arc<UserTerminal>,
    early: Option<EarlyText>,
    cancel: ReadCancel,
}

impl TerminalDialogue {
    fn answer(&self, request: &AgentRequest) -> Option<RequestAnswer> {
        Some(match request {
            AgentRequest::Permission(request) => {
                let decision = self.permission(request)?;
                RequestAnswer::Permission(decision.for_request(request.request_id.clone()))
            }
            AgentRequest::Question(request) => RequestAnswer::Question(InputResponse {
                request_id: request.request_id.clone(),
                values: Some(self.question(request)?),
                cancelled: None,
            }),
        })
    }

    fn permission(&self, request: &PermissionRequest) -> Option<Decision> {
        let dim = paint::DIM;
        let page = RequestPage::of_permission(request, false);
        write_lines(&page.lines);
        if page.is_cut {
            write_lines(&[format!(
                "    {dim}this is only a part; {ALL} shows the whole request{dim:#}"
            )]);
        }
        let options = request.options.as_deref().unwrap_or_default();
        let prompt = if options.is_empty() {
            "allow? [y/N]".to_owned()
        } else {
            format!("1-{}, or y/N?", options.len())
        };
        loop {
            self.set_early_aside();
            let line = self.ask(&prompt, EchoMode::Shown)?;
            if line.trim() == ALL {
                write_lines(&RequestPage::of_permission(request, true).lines);
                continue;
            }
            if let Some(decision) = decision(&line, request) {
                return Some(decision);
            }
            write_lines(&[format!(
                "    {dim}not a valid answer; y allows it once, n or Enter denies it{dim:#}"
            )]);
        }
    }

    fn question(&self, request: &InputRequest) -> Option<BTreeMap<String, Json>> {
        let page = RequestPage::of_question(request);
        write_lines(&page.lines);
        self.set_early_aside();
        let one_text = [QuestionField {
            id: "answer".to_owned(),
            ..QuestionField::default()
        }];
        let fields = request
            .fields
            .as_deref()
            .filter(|fields| !fields.is_empty())
            .unwrap_or(&one_text);
        let mut values = BTreeMap::new();
        for field in fields {
            if let Some(value) = self.field(field)? {
                values.insert(field.id.clone(), value);
            }
        }
        Some(values)
    }

    /// Asks for one value; the inner `None` is an omitted optional value.
    fn field(&self, field: &QuestionField) -> Option<Option<Json>> {
        let bold = paint::STRONG;
        let dim = paint::DIM;
        let choices = field.choices.as_deref().unwrap_or_default();
        let mut page = RequestPage::new(false);
        for (number, choice) in page.items(choices, "choices").iter().enumerate() {
            let label = page.name(choice.label.as_deref().unwrap_or(&choice.id));
            let more = page.name(choice.description.as_deref().unwrap_or_default());
            page.lines.push(format!(
                "    {bold}{}{bold:#} {label} {dim}{more}{dim:#}",
                number + 1
            ));
        }
        write_lines(&page.lines);
        let label = page.name(field.label.as_deref().unwrap_or("answer"));
        let hint = match field.kind {
            Some(FieldKind::Boolean) => " [y/n]".to_owned(),
            Some(FieldKind::Choice) if !choices.is_empty() => format!(" [1-{}]", choices.len()),
            Some(FieldKind::Choices) if !choices.is_empty() => {
                format!(" [1-{}, several by commas]", choices.len())
            }
            _ => String::new(),
        };
        let default = field.default.as_ref().map_or(String::new(), |default| {
            format!(" (Enter: {})", page.name(default.get()))
        });
        let echo = if field.kind == Some(FieldKind::Secret) {
            EchoMode::Hidden
        } else {
            EchoMode::Shown
        };
        loop {
            let line = self.ask(&format!("{label}{hint}{default}"), echo)?;
            if echo == EchoMode::Hidden {
                write_lines(&[String::new()]);
            }
            match value(&line, field) {
                Ok(value) => return Some(value),
                Err(why) => write_lines(&[format!("    {dim}{why}{dim:#}")]),
            }
        }
    }

    /// Discards text typed before the question was shown, because it cannot be its answer. The text
    /// is displayed, and stored for the next input if possible.
    fn set_early_aside(&self) {
        let typed = self.terminal.take_typed();
        if typed.is_empty() {
            return;
        }
        let dim = paint::DIM;
        let what = if self.early.is_some() {
            "moved to your next input"
        } else {
            "dropped"
        };
        write_lines(&[format!(
            "    {dim}typed before the question, {what}: {}{dim:#}",
            one_line(&typed)
        )]);
        if let Some(early) = &self.early {
            let mut early = lock(early);
            if !early.is_empty() {
                early.push('\n');
            }
            early.push_str(&typed);
        }
    }

    fn ask(&self, prompt: &str, echo: EchoMode) -> Option<String> {
        let act = paint::ACT;
        let prompt = format!("    {prompt} {act}›{act:#} ");
        self.terminal.line(&prompt, echo, &self.cancel)
    }
}

fn write_lines(lines: &[String]) {
    let mut stderr = stderr().lock();
    for line in lines {
        let _ = writeln!(stderr, "{}", line.trim_end());
    }
}

fn lock(early: &EarlyText) -> std::sync::MutexGuard<'_, String> {
    early.lock().unwrap_or_else(PoisonError::into_inner)
}

fn headline(request: &PermissionRequest) -> String {
    match request
        .title
        .as_deref()
        .filter(|title| !title.trim().is_empty())
    {
        Some(title) => format!("{} · {}", one_line(&request.tool), one_line(title)),
        None => format!("{} asks for permission", one_line(&request.tool)),
    }
}

/// Parses a typed line as a decision; `None` repeats the question. Only a clear yes allows.
fn decision(line: &str, request: &PermissionRequest) -> Option<Decision> {
    let options = request.options.as_deref().unwrap_or_default();
    let of_kind = |kind| {
        options
            .iter()
            .find(|option| option.kind == Some(kind))
            .map(|option| option.id.clone())
    };
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(Decision {
            approved: true,
            option_id: of_kind(OptionKind::AllowOnce),
            ..Decision::default()
        }),
        "" | "n" | "no" => Some(Decision {
            option_id: of_kind(OptionKind::RejectOnce),
            ..Decision::default()
        }),
        number => {
            let option = options.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
            // An option of unknown kind allows nothing.
            let approved = option.kind.is_some_and(OptionKind::allows);
            Some(Decision {
                approved,
                option_id: Some(option.id.clone()),
                ..Decision::default()
            })
        }
    }
}

/// Parses a typed line as a value; the error describes the expected value.
fn value(line: &str, field: &QuestionField) -> Result<Option<Json>, String> {
    let typed = line.trim();
    if typed.is_empty() {
        return match (&field.default, field.required) {
            (Some(default), _) => Ok(Some(default.clone())),
            (None, Some(true)) => Err("an answer is required; Ctrl-C stops the turn".to_owned()),
            (None, _) => Ok(None),
        };
    }
    let choices = field.choices.as_deref().unwrap_or_default();
    let chosen = |typed: &str| {
        let by_number = typed
            .parse::<usize>()
            .ok()
            .and_then(|number| choices.get(number.checked_sub(1)?));
        let choice = by_number.or_else(|| choices.iter().find(|choice| choice.id == typed));
        choice
            .map(|choice| choice.id.clone())
            .ok_or_else(|| format!("a number from 1 to {}", choices.len()))
    };
    let json = match field.kind {
        Some(FieldKind::Boolean) => match typed.to_lowercase().as_str() {
            "y" | "yes" | "true" => Json::from_serialize(&true),
            "n" | "no" | "false" => Json::from_serialize(&false),
            _ => return Err("y or n".to_owned()),
        },
        Some(FieldKind::Number) => {
            let number: serde_json::Number = typed.parse().map_err(|_| "a number".to_owned())?;
            Json::from_serialize(&number)
        }
        Some(FieldKind::Choice) if !choices.is_empty() => Json::from_serialize(&chosen(typed)?),
        Some(FieldKind::Choices) if !choices.is_empty() => {
            let ids = typed
                .split(',')
                .map(|one| chosen(one.trim()))
                .collect::<Result<Vec<_>, _>>()?;
            Json::from_serialize(&ids)
        }
        Some(FieldKind::Secret) => Json::from_serialize(line),
        Some(FieldKind::Text | FieldKind::Choice | FieldKind::Choices) | None => {
            Json::from_serialize(typed)
        }
    };
    json.map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use trunkline_host::protocol::{Choice, PermissionOption};

    use super::*;

    fn request(options: &[(&str, Option<OptionKind>)]) -> PermissionRequest {
        let options = options.iter().map(|(id, kind)| PermissionOption {
            id: (*id).to_owned(),
            label: None,
            kind: *kind,
        });
        PermissionRequest {
            options: Some(options.collect()),
            ..asked("bash", String::new())
        }
    }

    pub(super) fn asked(tool: &str, resource: String) -> PermissionRequest {
        PermissionRequest {
            request_id: RequestId::new("r").unwrap(),
            tool: tool.to_owned(),
            description: Some(String::new()),
            resource: Some(resource),
            input: None,
            title: None,
            tool_call_id: None,
            diffs: None,
            expires_at: None,
            options: None,
            truncated: None,
            message_id: None,
            parent_tool_call_id: None,
            history: None,
        }
    }

    #[test]
    fn only_a_clear_yes_allows() {
        let request = request(&[]);
        for (line, expected) in [
            ("y", Some(true)),
            ("YES", Some(true)),
            ("", Some(false)),
            ("n", Some(false)),
        ] {
            assert_eq!(
                decision(line, &request).map(|decision| decision.approved),
                expected,
                "{line:?}"
            );
        }
        for unclear in ["ye", "1", "0", "sure", "-1"] {
            assert_eq!(decision(unclear, &request), None, "{unclear:?}");
        }
    }

    #[test]
    fn an_option_is_chosen_by_its_number() {
        let request = request(&[
            ("once", Some(OptionKind::AllowOnce)),
            ("no", Some(OptionKind::RejectAlways)),
            ("odd", None),
        ]);
        let chosen = |line| {
            decision(line, &request)
                .map(|decision| (decision.approved, decision.option_id.unwrap()))
        };
        assert_eq!(chosen("1"), Some((true, "once".to_owned())));
        assert_eq!(chosen("2"), Some((false, "no".to_owned())));
        assert_eq!(chosen("3"), Some((false, "odd".to_owned())));
        assert_eq!(chosen("y"), Some((true, "once".to_owned())));
        assert_eq!(decision("4", &request), None);
    }

    #[test]
    fn a_value_has_its_fields_kind() {
        let choices = ["a", "b"]
            .map(|id| Choice {
                id: id.to_owned(),
                ..Choice::default()
            })
            .to_vec();
        let field = |kind| QuestionField {
            kind: Some(kind),
            choices: Some(choices.clone()),
            required: Some(true),
            ..QuestionField::default()
        };
        let json =
            |line, kind| value(line, &field(kind)).map(|json| json.unwrap().get().to_owned());
        assert_eq!(json("hi", FieldKind::Text).as_deref(), Ok("\"hi\""));
        assert_eq!(json("y", FieldKind::Boolean).as_deref(), Ok("true"));
        assert_eq!(json("1.5", FieldKind::Number).as_deref(), Ok("1.5"));
        assert_eq!(json("2", FieldKind::Choice).as_deref(), Ok("\"b\""));
        assert_eq!(
            json("2, a", FieldKind::Choices).as_deref(),
            Ok("[\"b\",\"a\"]")
        );
        assert!(json("3", FieldKind::Choice).is_err());
        assert!(json("", FieldKind::Text).is_err());
    }
}
