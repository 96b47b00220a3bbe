//! `trunkline agents usage`: sums of the usage log.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anstream::eprintln;
use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use trunkline_gateway::DailyUsage;
use trunkline_host::{config, usage};
use trunkline_prices::Prices;

use self::sum::{UsageSums, UsageTotal};
use super::{print_json, table::ListTable};
use crate::{
    error::{CliError, CommandResult},
    exit, paint, target,
    terminal::plain_line,
};

mod sum;

/// Sums up tokens and cost of turns, by agent, session, user, task, run, model and day
///
/// Each host writes a line for each ended turn to `usage.jsonl` in its state folder, unless
/// `runtime.usage_log` is false: time, agent, session, model, tokens, cost, and the names of the
/// session's user, task and run given by a hub. It contains no text of users or agents. At 16 MiB a
/// new file is started; the last two files are read.
///
/// A number that was not reported is not a zero: a row shows `-` if no turn reported it. A cost
/// ends with `+` if some turns reported none, and starts with `~` if a part of it is estimated from
/// tokens and list prices (`runtime.prices` names a file with your own prices). Days are in UTC.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline agents usage
  trunkline agents usage --by agent --since 7d
  trunkline agents usage --by session --since 1d
  trunkline agents usage --by task
  trunkline agents usage --by day,model --since 2026-03-01
  trunkline agents usage --json | jq .total.cost_usd")]
pub(super) struct UsageArgs {
    /// Grouping of the rows
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        default_value = "day,agent,model"
    )]
    by: Vec<GroupingKey>,

    /// Only turns that ended after this time: an age (7d, 12h), a day (2026-03-01) or a time (RFC
    /// 3339)
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Grouping key of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GroupingKey {
    Agent,
    Session,
    User,
    Task,
    Run,
    Model,
    Day,
}

impl GroupingKey {
    fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Session => "session",
            Self::User => "user",
            Self::Task => "task",
            Self::Run => "run",
            Self::Model => "model",
            Self::Day => "day",
        }
    }
}

/// Contents of the usage log.
struct UsageLog {
    sums: UsageSums,
    skipped: usage::Skipped,
    folder: PathBuf,
}

/// Reads and sums up the usage log.
fn read_log(
    file: Option<&Path>,
    by: Vec<GroupingKey>,
    since: Option<SystemTime>,
) -> Result<UsageLog, CliError> {
    let config = target::read(file, target::UNCHECKED)?;
    let prices = match &config.prices {
        Some(file) => Prices::built_in()
            .with_file(file)
            .map_err(CliError::usage)?,
        None => Prices::built_in(),
    };
    let Some(folder) = config
        .state_dir
        .or_else(|| config::state_dir(|name| std::env::var_os(name)))
    else {
        return Err(CliError::usage(anyhow!(
            "no usage is logged, because there is no state folder"
        ))
        .next("set HOME, or `runtime.state_dir` in the configuration"));
    };
    let mut sums = UsageSums::new(by, since, prices);
    let skipped = usage::read(&folder, |record| sums.add(record))
        .with_context(|| format!("failed to read the usage log in {}", folder.display()))?;
    Ok(UsageLog {
        sums,
        skipped,
        folder,
    })
}

/// Returns the usage since a time, by day and agent, for a client of the daemon.
///
/// # Errors
/// The usage log cannot be read.
pub(super) fn by_day(file: Option<&Path>, since: SystemTime) -> Result<Vec<DailyUsage>, CliError> {
    let read = read_log(
        file,
        vec![GroupingKey::Day, GroupingKey::Agent],
        Some(since),
    )?;
    let days = read.sums.rows().filter_map(|(names, total)| {
        let [date, agent] = names else { return None };
        Some(DailyUsage {
            date: date.to_string(),
            agent: agent.to_string(),
            turns: total.turns,
            tokens_in: total.tokens.input_tokens,
            tokens_out: total.tokens.output_tokens,
            cost_usd: total.cost_usd,
            is_estimated: total.estimated,
        })
    });
    Ok(days.collect())
}

impl UsageArgs {
    pub(super) fn run(self, file: Option<&Path>) -> CommandResult {
        let since = self
            .since
            .as_deref()
            .map(|when| parse_moment(when, SystemTime::now()))
            .transpose()?;
        let UsageLog {
            sums,
            skipped,
            folder,
        } = read_log(file, self.by.clone(), since)?;
        let bad = skipped.bad + sums.bad();
        let dropped = skipped.dropped;
        if self.json {
            let mut report = sums.json();
            report["since"] = since
                .map(|since| humantime::format_rfc3339_seconds(since).to_string())
                .into();
            report["bad_lines"] = bad.into();
            report["dropped_turns"] = dropped.into();
            report["folder"] = folder.to_string_lossy().into();
            print_json(&report)?;
        } else {
            self.print(&sums)?;
        }
        let dim = paint::DIM;
        let note = |text: String| eprintln!("{dim} note: {text}{dim:#}");
        if sums.total().turns == 0 && !self.json {
            let when = if since.is_some() { " since then" } else { "" };
            note(format!(
                "no turn is logged in {}{when}",
                folder.join(usage::FILE_NAME).display()
            ));
        }
        if bad > 0 {
            note(format!("{bad} lines of the usage log could not be read"));
        }
        if dropped > 0 {
            note(format!(
                "{dropped} turns are missing from the usage log: more ended than could be written"
            ));
        }
        Ok(exit::OK)
    }

    fn print(&self, sums: &UsageSums) -> CommandResult {
        let keys: Vec<_> = self.by.iter().map(|key| key.name()).collect();
        let headings = [&keys[..], &["turns", "in", "cached", "out", "cost"]].concat();
        let mut list = ListTable::new(headings, &["cached", "in", "out", "turns"]);
        for (names, total) in sums.rows() {
            list.push(
                names
                    .iter()
                    .map(|name| clean_name(name))
                    .chain(total_cells(total)),
            );
        }
        if sums.rows().count() != 1 {
            let names =
                (0..keys.len()).map(|column| if column == 0 { "total" } else { "" }.to_owned());
            list.push(names.chain(total_cells(sums.total())));
        }
        list.print()
    }
}

fn total_cells(total: &UsageTotal) -> [String; 5] {
    let known =
        |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let about = if total.estimated { "~" } else { "" };
    let more = if total.unpriced_turns > 0 { "+" } else { "" };
    [
        total.turns.to_string(),
        known(total.tokens.input_tokens),
        known(total.tokens.cache_read_tokens),
        known(total.tokens.output_tokens),
        total
            .cost_usd
            .map_or_else(|| "-".to_owned(), |cost| format!("{about}${cost:.4}{more}")),
    ]
}

/// Limit of a name in a table, in characters.
const MAX_NAME_CHARS: usize = 60;

/// Sanitizes a name for a terminal, because adapters choose the names of models.
fn clean_name(name: &str) -> String {
    plain_line(name, MAX_NAME_CHARS)
}

/// Parses a time of the command line.
fn parse_moment(text: &str, now: SystemTime) -> Result<SystemTime, CliError> {
    let text = text.trim();
    let before = |time: Duration| now.checked_sub(time);
    let moment = match humantime::parse_duration(text) {
        Ok(time) => before(time),
        Err(_) => humantime::parse_rfc3339_weak(text)
            .or_else(|_| humantime::parse_rfc3339(&format!("{text}T00:00:00Z")))
            .ok(),
    };
    moment
        .filter(|moment| *moment >= SystemTime::UNIX_EPOCH)
        .ok_or_else(|| {
            CliError::usage(anyhow!("--since {text:?} is not a time"))
                .next("use an age (7d, 12h), a day (2026-03-01) or a time (2026-03-01T12:00:00Z)")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_taken_as_people_write_it() {
        let now = humantime::parse_rfc3339("2026-03-08T12:00:00Z").unwrap();
        for (text, expected) in [
            ("7d", "2026-03-01T12:00:00Z"),
            ("12h", "2026-03-08T00:00:00Z"),
            ("2026-03-01", "2026-03-01T00:00:00Z"),
            ("2026-03-01T10:30:00Z", "2026-03-01T10:30:00Z"),
            ("2026-03-01 10:30:00", "2026-03-01T10:30:00Z"),
        ] {
            let moment = parse_moment(text, now).unwrap();
            assert_eq!(
                humantime::format_rfc3339_seconds(moment).to_string(),
                expected,
                "{text}"
            );
        }
        for text in ["", "yesterday", "2026-13-01", "99999999999999d"] {
            assert!(parse_moment(text, now).is_err(), "{text}");
        }
    }

    #[test]
    fn a_foreign_name_stays_a_word_of_bounded_length() {
        assert_eq!(clean_name("a\u{1b}[2Jb\n"), "a [2Jb ");
        assert_eq!(
            clean_name(&"x".repeat(500)).chars().count(),
            MAX_NAME_CHARS + 1
        );
    }
}
