//! Reports of a turn about the agent's work: titles for its tools, their repetition, and the
//! summary of its end.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use trunkline_prices::Prices;
use trunkline_sdk::protocol::{AdapterBody, ContextUsage, Log, LogStream, ToolStart, Usage};
use trunkline_sdk::{Category, Error, Turn, TurnComplete, preview};

use super::gist::Gist;
use super::log::SessionLog;
use super::options::Options;
use super::tokens::Tokens;
use super::tool_loop::{ToolLoop, ToolLoopAction, Verdict};

/// Minimum interval between reports on the context.
const CONTEXT: Duration = Duration::from_secs(30);

static PRICES: LazyLock<Prices> = LazyLock::new(Prices::built_in);

/// A line for people about the session itself.
pub(crate) fn meta_log(content: String) -> Log {
    Log {
        stream: Some(LogStream::Meta),
        content,
        ..Log::default()
    }
}

/// Emits a turn's events. Lives as long as its session: loops reach over turns.
#[derive(Debug)]
pub(crate) struct TurnReport {
    action: ToolLoopAction,
    tools: ToolLoop,
    gist: Gist,
    context: Context,
    log: Arc<SessionLog>,
}

/// Reports on the context: agents send one after each step of the model.
#[derive(Debug, Default)]
struct Context {
    sent: Option<Instant>,
    /// The last one, which is still to be sent.
    held: Option<ContextUsage>,
}

impl TurnReport {
    /// The report of a session with these options.
    pub(crate) fn of_session(options: &Options, is_resumed: bool) -> Self {
        Self {
            log: SessionLog::new(options, is_resumed),
            ..Self::new(options.tool_loop)
        }
    }

    pub(crate) fn new(action: ToolLoopAction) -> Self {
        Self {
            action,
            tools: ToolLoop::default(),
            gist: Gist::default(),
            context: Context::default(),
            log: Arc::default(),
        }
    }

    /// The log of the session's agent.
    pub(crate) fn log(&self) -> &Arc<SessionLog> {
        &self.log
    }

    /// A turn begins: what an earlier one reported is forgotten.
    pub(crate) fn begin(&mut self) {
        self.gist = Gist::default();
        self.log.begin_turn();
    }

    /// Emits an event. A tool call gets its title where the agent gives none; of reports on the
    /// context that follow each other closely only the last is sent.
    ///
    /// # Errors
    /// `tool_loop` when the agent turns in circles, and such a turn must end.
    pub(crate) async fn emit(
        &mut self,
        turn: &Turn,
        event: impl Into<AdapterBody>,
    ) -> Result<(), Error> {
        let event = event.into();
        if !matches!(event, AdapterBody::Log(_)) && self.log.release() {
            while let Some(line) = self.log.take() {
                turn.emit(line).await;
            }
        }
        self.gist.saw(&event);
        match event {
            AdapterBody::ToolStart(start) => self.tool_start(turn, *start).await,
            AdapterBody::ContextUsage(usage) => {
                self.context.held = Some(usage);
                if self
                    .context
                    .sent
                    .is_none_or(|sent| sent.elapsed() >= CONTEXT)
                {
                    self.flush(turn).await;
                }
                Ok(())
            }
            event => {
                turn.emit(event).await;
                Ok(())
            }
        }
    }

    /// Sends what was held back.
    pub(crate) async fn flush(&mut self, turn: &Turn) {
        if let Some(usage) = self.context.held.take() {
            self.context.sent = Some(Instant::now());
            turn.emit(usage).await;
        }
    }

    /// Ends a turn: with a summary and artifacts, if the agent sets neither, and with the cost of
    /// its tokens, if it reports none. `model` is the present one, if the end names none.
    pub(crate) async fn finish(&mut self, turn: Turn, mut end: TurnComplete, model: Option<&str>) {
        let lines = self.log.end_turn(&mut end);
        let rest = async {
            for line in lines {
                turn.emit(line).await;
            }
            self.flush(&turn).await;
        };
        tokio::select! {
            biased;
            () = rest => {}
            // The host does not read, and the end must come.
            () = turn.stopped() => {}
        }
        std::mem::take(&mut self.gist).fill(&mut end);
        let named = end.model.clone();
        if let Some(usage) = &mut end.usage {
            price(usage, named.as_deref().or(model));
        }
        turn.finish(end);
    }

    async fn tool_start(&mut self, turn: &Turn, mut start: ToolStart) -> Result<(), Error> {
        let input = start
            .input
            .as_ref()
            .and_then(|input| input.to::<Value>().ok());
        if start.title.is_none() {
            start.title = preview::tool_call(&start.tool, input.as_ref());
        }
        let verdict = match self.action {
            ToolLoopAction::Off => Verdict::Fine,
            ToolLoopAction::Warn | ToolLoopAction::End => self
                .tools
                .saw(&start.tool, input.as_ref().unwrap_or(&Value::Null)),
        };
        turn.emit(start).await;
        match verdict {
            Verdict::Fine => {}
            Verdict::Block(reason) if self.action == ToolLoopAction::End => {
                return Err(Error::new(
                    Category::ToolLoop,
                    format!("tool-loop: {reason}"),
                ));
            }
            Verdict::Warn(reason) | Verdict::Block(reason) => {
                turn.error(Category::ToolLoop, format!("tool-loop: {reason}"))
                    .await;
            }
        }
        Ok(())
    }
}

/// Sets the cost of tokens by list prices, marked as an estimate, unless the agent reports it or
/// the model has no price.
fn price(usage: &mut Usage, model: Option<&str>) {
    let has_cost = usage
        .models
        .iter()
        .flatten()
        .any(|(_, part)| part.cost_usd.is_some());
    if usage.cost_usd.is_some() || has_cost {
        return;
    }
    let prices = &*PRICES;
    let cost = match usage.models.as_mut().filter(|models| !models.is_empty()) {
        None => {
            let model = usage.model.as_deref().or(model);
            model.and_then(|model| prices.cost(model, Tokens::from_usage(usage).priced()))
        }
        Some(models) => {
            let of_each = models
                .iter()
                .map(|(model, part)| prices.cost(model, Tokens::from_model_usage(part).priced()));
            // One without a price leaves the whole unknown.
            of_each.sum()
        }
    };
    if cost.is_some() {
        (usage.cost_usd, usage.estimated) = (cost, Some(true));
    }
}

#[cfg(test)]
mod tests {
    use trunkline_sdk::protocol::{Diff, Output, ToolEnd};
    use trunkline_sdk::testing::Host;
    use trunkline_sdk::{Input, adapter};

    use super::*;

    fn context(used: u64) -> ContextUsage {
        ContextUsage {
            used_tokens: Some(used),
            total_tokens: Some(1000),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reports_on_the_context_come_every_half_minute_and_the_last_is_never_lost() {
        let host = Host::start(adapter(|turn: Turn, _: Input| async move {
            let mut report = TurnReport::new(ToolLoopAction::Off);
            for step in 0..100 {
                report.emit(&turn, context(step)).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            report.finish(turn, TurnComplete::default(), None).await;
            Ok(())
        }));
        let turn = host.open().send("go").await;
        let used = turn
            .messages
            .iter()
            .filter_map(|message| match &message.body {
                AdapterBody::ContextUsage(usage) => usage.used_tokens,
                _ => None,
            });
        assert_eq!(used.collect::<Vec<_>>(), [0, 30, 60, 90, 99]);
    }

    #[tokio::test]
    async fn an_end_has_the_summary_and_the_files_that_the_agent_leaves_out() {
        let host = Host::start(adapter(|turn: Turn, input: Input| async move {
            let mut report = TurnReport::new(ToolLoopAction::Off);
            let id = trunkline_sdk::ToolCallId::new("c1").unwrap();
            let diff = Diff {
                path: "/b".to_owned(),
                ..Diff::default()
            };
            report
                .emit(&turn, ToolStart::new(id.clone(), "Write"))
                .await?;
            report
                .emit(
                    &turn,
                    ToolEnd {
                        diffs: Some(vec![diff]),
                        ..ToolEnd::new(id)
                    },
                )
                .await?;
            report.emit(&turn, Output::text("All done.")).await?;
            let summary = (input.content == "own").then(|| "its own".to_owned());
            report
                .finish(
                    turn,
                    TurnComplete {
                        summary,
                        ..TurnComplete::default()
                    },
                    None,
                )
                .await;
            Ok(())
        }));
        let session = host.open();
        for (input, summary) in [("go", "All done."), ("own", "its own")] {
            let end = session.send(input).await.end;
            assert_eq!(end.summary.as_deref(), Some(summary));
            assert_eq!(end.artifacts.unwrap().get(), r#"[{"path":"/b"}]"#);
        }
    }

    #[test]
    fn tokens_have_a_cost_where_the_agent_names_none() {
        let tokens = || Usage {
            input_tokens: Some(1_000_000),
            output_tokens: Some(0),
            ..Usage::default()
        };
        let priced = |mut usage: Usage, model: Option<&str>| {
            price(&mut usage, model);
            (usage.cost_usd, usage.estimated)
        };
        assert_eq!(priced(tokens(), Some("gpt-5")), (Some(1.25), Some(true)));
        assert_eq!(
            priced(
                Usage {
                    model: Some("gpt-5".into()),
                    ..tokens()
                },
                Some("x")
            ),
            (Some(1.25), Some(true))
        );
        assert_eq!(priced(tokens(), Some("no-such-model")), (None, None));
        assert_eq!(priced(tokens(), None), (None, None));
        assert_eq!(
            priced(
                Usage {
                    cost_usd: Some(0.5),
                    ..tokens()
                },
                Some("gpt-5")
            ),
            (Some(0.5), None)
        );
        let part = || trunkline_sdk::protocol::ModelUsage {
            input_tokens: Some(1_000_000),
            output_tokens: Some(0),
            ..Default::default()
        };
        let models = |names: [&str; 2]| Usage {
            models: Some(names.map(|name| (name.to_owned(), part())).into()),
            ..Usage::default()
        };
        assert_eq!(
            priced(models(["gpt-5", "gpt-5.1"]), None),
            (Some(2.5), Some(true))
        );
        assert_eq!(
            priced(models(["gpt-5", "no-such-model"]), None),
            (None, None)
        );
    }
}
