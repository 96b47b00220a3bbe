//! The fallback: one `codex exec --json` a turn, for versions without an app server and for
//! profiles of Codex's own configuration. It cannot ask: what would need an approval is refused.

mod line;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_sdk::protocol::{Context, TurnComplete};
use trunkline_sdk::{Category, Error, SessionInfo, SessionUpdate, Turn};

use self::line::{ExecLines, Meaning};
use super::command_line::{self, ExecArguments, since};
use super::login;
use super::policy::Policy;
use super::request::Overrides;
use super::retries::Retries;
use super::skills::input_text;
use super::translate::Translator;
use crate::agent::attachment::{self, Attachment};
use crate::agent::deadlines::Watch;
use crate::agent::end::{EndSigns, TurnEnd, end_by, undelivered};
use crate::agent::failure;
use crate::agent::lines::AgentLine;
use crate::agent::mcp;
use crate::agent::options::Options;
use crate::agent::process::{Agent, ProcessEnd, Stdin};
use crate::agent::report::{TurnReport, meta_log};
use crate::agent::resume;
use crate::agent::skills::Roster;
use crate::agent::system_prompt::{self, PromptFile};
use crate::agent::turn::{self, Dialect, EffectList, EndCause, Engine, LineOut, TurnFinish};
use crate::agent::version::Version;
use crate::agents::McpVariables;

/// Timeout for the end of a stopped process after SIGTERM.
const TERM: Duration = Duration::from_millis(1200);

/// Timeout for the exit of a process whose turn has ended.
const AFTER: Duration = Duration::from_secs(5);

/// A session of one process a turn.
pub(super) struct Exec {
    options: Options,
    version: Option<Version>,
    settings: Arc<super::Settings>,
    policy: Policy,
    thread: ExecThread,
    report: TurnReport,
    skills: Roster,
    /// Instructions in place of Codex's own.
    base: Option<PromptFile>,
    /// JSON Schema of the last message.
    schema: Option<PromptFile>,
    /// Instructions at the head of the first input.
    before: Option<String>,
    /// True if a login is known, or known to be needless.
    has_login: bool,
    warnings: Vec<String>,
}

/// The thread that a session works on.
struct ExecThread {
    id: Option<String>,
    /// True if the id is one to resume, which Codex may not know.
    asked: bool,
    lines: ExecLines,
}

/// Outcome of a process.
enum ProcessOutcome {
    /// The turn's end, and the end of a process that did not report one.
    Ended(TurnEnd, Option<ProcessEnd>),
    /// Codex does not know the thread to resume.
    Unknown,
}

impl Exec {
    pub(super) fn new(
        settings: Arc<super::Settings>,
        mut options: Options,
        version: Option<Version>,
        policy: Policy,
        skills: Roster,
        mut warnings: Vec<String>,
    ) -> Result<Self, Error> {
        since().need("exec --json", "this profile", version)?;
        let id = options
            .resume
            .take()
            .and_then(|resume| resume.native_session_id);
        let asked = id.is_some();
        let mut lines = ExecLines::default();
        if id.is_none() {
            lines.translator = Translator::fresh();
        }
        let system = options.system_prompt.clone();
        let (base, before) = match system {
            Some(system) if options.replaces_system_prompt => {
                (Some(PromptFile::new(&system)?), None)
            }
            // What is too long for an argument goes before the first input.
            Some(system)
                if system.len() > system_prompt::LONGEST_ARGUMENT
                    || !since().has("developer_instructions", version) =>
            {
                (None, Some(system))
            }
            _ => (None, None),
        };
        let schema = options.output_schema.as_deref().map(PromptFile::new);
        let schema = schema.transpose()?;
        if !policy.bypasses() {
            warnings
                .push("codex exec cannot ask for approval: what needs one is refused".to_owned());
        }
        let report = TurnReport::of_session(&options, asked);
        Ok(Self {
            options,
            version,
            settings,
            policy,
            thread: ExecThread { id, asked, lines },
            report,
            skills,
            base,
            schema,
            before,
            has_login: false,
            warnings,
        })
    }

    /// The options that are known before the first turn.
    pub(super) fn info(&self) -> SessionInfo {
        SessionInfo {
            model: self.options.model.clone(),
            reasoning_effort: self.options.reasoning_effort.clone(),
            mode: self.policy.mode().map(str::to_owned),
            ..SessionInfo::default()
        }
    }

    /// Takes options for the next turn.
    pub(super) fn update(&mut self, update: SessionUpdate) -> Result<SessionInfo, Error> {
        let changed = Overrides::read(update, self.policy, &self.settings)?;
        self.policy = changed.policy.unwrap_or(self.policy);
        self.options.model = changed.model.or(self.options.model.take());
        self.options.reasoning_effort = changed.effort.or(self.options.reasoning_effort.take());
        Ok(self.info())
    }

    /// Runs a turn.
    pub(super) async fn turn(&mut self, turn: Turn, content: &str, attachments: Vec<Attachment>) {
        let session = turn.session().clone();
        let warnings = &mut self.warnings;
        let text = input_text(&self.skills, content, &session, &self.options, warnings);
        let mut text = attachment::with_paths(&text, &attachments);
        if self.thread.id.is_none() {
            text = self.with_before(text);
        }
        let images: Vec<_> = attachment::images(&attachments)
            .map(|image| image.path.clone())
            .collect();
        let mut outcome = self.run(&turn, &text, &images).await;
        if matches!(outcome, Ok(ProcessOutcome::Unknown)) {
            // Another thread is begun, and the host learns that nothing is remembered.
            if self.thread.id.take().is_some() {
                text = self.with_before(text);
            }
            self.thread.asked = false;
            self.thread.lines.translator = Translator::fresh();
            resume::lost(&session, "codex does not know the thread").await;
            outcome = self.run(&turn, &text, &images).await;
        }
        let end = match outcome {
            Ok(ProcessOutcome::Ended(end, ended)) => {
                let exit = ended.map(|ended| ended.exit);
                let answer = self.thread.lines.translator.answer.take();
                end.complete(TurnComplete {
                    result: answer.filter(|_| self.options.output_schema.is_some()),
                    exit_code: exit.and_then(|exit| exit.code).filter(|code| *code != 0),
                    signal: exit.and_then(|exit| exit.signal),
                    ..TurnComplete::default()
                })
            }
            Ok(ProcessOutcome::Unknown) => end_by(&Error::new(
                Category::SessionNotFound,
                "codex looks for a thread where a new one was to begin",
            )),
            Err(error) => undelivered(&error),
        };
        let model = self.options.model.clone();
        let meter = &mut self.thread.lines.translator.meter;
        let usage = meter.take_usage(model.clone(), None);
        let mut end = TurnComplete {
            usage,
            model,
            ..end
        };
        self.options
            .name_session(&mut end, self.thread.id.as_deref());
        self.report.finish(turn, end, None).await;
    }

    /// The first input of a thread.
    fn with_before(&self, text: String) -> String {
        match &self.before {
            Some(before) => system_prompt::before(before, &text),
            None => text,
        }
    }

    async fn run(
        &mut self,
        turn: &Turn,
        text: &str,
        images: &[String],
    ) -> Result<ProcessOutcome, Error> {
        let (servers, mut wrong) = mcp::parse(&self.options, McpVariables::Braced);
        let overrides = mcp::codex_overrides(&servers);
        wrong.extend(overrides.warnings);
        self.warnings.extend(wrong);
        for content in std::mem::take(&mut self.warnings) {
            turn.emit(meta_log(content)).await;
        }
        let run = ExecArguments {
            options: &self.options,
            profile: &self.settings.profile,
            version: self.version,
            policy: self.policy,
            add_dirs: &self.settings.additional_dirs,
            listing: self.skills.listing(),
            base: self.base.as_ref().map(PromptFile::path),
            schema: self.schema.as_ref().map(PromptFile::path),
            images,
            mcp: &overrides.args,
            thread: self.thread.id.as_deref(),
        };
        let mut launch = command_line::exec(&run);
        for (name, value) in &overrides.env {
            launch = launch.env(name.as_str(), value.reveal());
        }
        if !self.has_login {
            self.has_login = !login::exec_lacks_one(&self.options, &self.settings.profile).await;
        }
        let mut retries = Retries::new(&self.settings);
        if !self.has_login {
            retries.has_no_login();
        }
        let launch = launch.prompt(text);
        let mut agent = Agent::start(&launch, Stdin::Owned, Some(self.report.log())).await?;
        agent.write_input(text.to_owned()).await;
        self.thread.lines.begin();
        let running = ExecTurn {
            thread: &mut self.thread,
            retries,
            signs: EndSigns::default(),
            is_over: false,
            has_worked: false,
        };
        let engine = Engine::new(running, Watch::new(self.options.deadlines));
        let (running, finish) = turn::run(engine, &mut agent, turn, &mut self.report).await;
        let ExecTurn {
            thread,
            mut signs,
            is_over,
            has_worked,
            ..
        } = running;
        let ended = match finish {
            TurnFinish { why: Some(why), .. } => {
                let ended = agent.end(Duration::ZERO, TERM).await;
                return Ok(ProcessOutcome::Ended(TurnEnd::Ended(why), Some(ended)));
            }
            // The turn has ended: a process that lives on does not matter.
            TurnFinish {
                how: EndCause::Late,
                ..
            } => agent.end(Duration::ZERO, TERM).await,
            TurnFinish {
                how: EndCause::Ended | EndCause::Closed,
                ..
            } => agent.ended().await,
        };
        signs.exit(&ended);
        // What was begun is not run again.
        let is_new = !is_over && !has_worked && thread.id.is_some();
        if is_new && failure::is_unknown_session(&ended.stderr) {
            return Ok(ProcessOutcome::Unknown);
        }
        Ok(ProcessOutcome::Ended(
            signs.judge(),
            (!is_over).then_some(ended),
        ))
    }
}

/// The engine's view of one process.
struct ExecTurn<'e> {
    thread: &'e mut ExecThread,
    retries: Retries<'e>,
    signs: EndSigns,
    /// Codex has reported the end of the turn.
    is_over: bool,
    has_worked: bool,
}

impl Dialect for ExecTurn<'_> {
    type Message = AgentLine;
    type Command = LineOut;

    fn message(&mut self, line: AgentLine, now: Instant, out: &mut EffectList<LineOut>) {
        let events = match line {
            AgentLine::TooLong(bytes) => {
                let text = format!("codex wrote a line of {bytes} bytes");
                return out.fail(Error::new(Category::Oversize, text));
            }
            AgentLine::Whole(line) => match self.thread.lines.take(&line) {
                Meaning::Thread(id) => {
                    out.alive();
                    return self.thread.begun(id, out);
                }
                Meaning::Noise => {
                    self.signs.note_noise(&line);
                    return out.log_line(line);
                }
                Meaning::Events(events) => events,
            },
        };
        self.has_worked |= !events.is_empty();
        for event in events {
            // The first report counts.
            if !self.is_over && self.retries.take(event, now, &mut self.signs, out) {
                self.is_over = true;
                out.end_within(AFTER);
            }
        }
    }

    fn takes_stop(&self) -> bool {
        !self.is_over
    }

    fn steer(&mut self, number: u64, _: &str, out: &mut EffectList<LineOut>) {
        out.steered(
            number,
            Err("codex exec takes no input during a turn".to_owned()),
        );
    }

    fn last_error(&self) -> Option<&Error> {
        self.signs.last_error()
    }

    fn deadline(&self) -> Option<Instant> {
        self.retries.deadline()
    }

    fn late(&mut self) -> Error {
        self.retries.gave_up()
    }
}

impl ExecThread {
    /// The thread has an id. Another one than was asked for is a new thread.
    fn begun(&mut self, id: String, out: &mut EffectList<LineOut>) {
        let same = self.id.as_ref() == Some(&id);
        if same && !self.asked {
            return;
        }
        let lost = (self.id.is_some() || self.asked) && !same;
        if lost {
            self.lines.translator.meter = super::usage::Meter::fresh();
        }
        let context = if lost {
            Some(Context::Lost)
        } else {
            self.asked.then_some(Context::Kept)
        };
        self.asked = false;
        self.id = Some(id.clone());
        out.info(SessionInfo {
            native_session_id: Some(id),
            context,
            ..SessionInfo::default()
        });
    }
}
