//! `trunkline token`: tokens for the daemon's HTTP API.

use std::{path::PathBuf, time::Duration};

use anyhow::anyhow;
use clap::{
    Args, Subcommand,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use trunkline_gateway::{NewToken, Scope, Token, TokenError, TokenFile};
use trunkline_process::is_started_by_agent;

use super::{print_json, print_line, table};
use crate::{
    daemon::DaemonSelection,
    error::{CliError, CommandResult},
    exit,
    private_file::write_output,
};

/// Creates, lists and revokes the access tokens of the daemon's HTTP API
///
/// A paired browser of `trunkline open` is a token, too, with a key instead of a text.
///
/// A token can access only the sessions that it opened, unless it is created with --all-sessions.
/// It cannot answer permission requests, whatever its scope, unless it is created with --approve.
/// The daemon need not run. A running daemon applies a change within a second, and closes the
/// streams of a revoked token.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  trunkline token new --scope control
  trunkline token new --scope control --approve --name ann --output ann.token
  trunkline token new --scope observe --all-sessions --expires 30d
  trunkline token new --scope control --agents codex,claude-code
  trunkline token list
  trunkline token revoke 3f9c2a11")]
pub(crate) enum TokenCommand {
    /// Creates a token and prints it, this one time only
    New(NewTokenArgs),
    /// Lists the valid tokens, without their secrets
    List {
        #[command(flatten)]
        state: DaemonSelection,
        /// Prints a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Revokes a token or a browser, and the tokens that it created; their streams close within a
    /// second
    Revoke {
        /// Id of the token, as in `trunkline token list`
        id: String,
        /// Keeps the tokens that it created
        #[arg(long)]
        keep_tokens: bool,
        #[command(flatten)]
        state: DaemonSelection,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewTokenArgs {
    /// Access level
    #[arg(long, value_parser = parse_scope())]
    scope: Scope,
    /// Allows answers to permission requests, which no scope includes
    #[arg(long)]
    approve: bool,
    /// Name for lists and for `by` in its decisions: letters, digits, `.`, `_`, `@` and `-`
    #[arg(long)]
    name: Option<String>,
    /// Ids of the agents that the token may use, separated by commas [default: all that the
    /// configuration names; without one, those of the command line and echo]
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    agents: Option<Vec<String>>,
    /// Lifetime, such as 30d or 12h [default: valid until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = crate::option_value::parse_time)]
    expires: Option<Duration>,
    /// Allows access to all sessions, not only to those that the token opened
    #[arg(long)]
    all_sessions: bool,
    /// Writes the token to a new file of mode 0600 instead of printing it
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replaces an existing file
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    state: DaemonSelection,
}

fn parse_scope() -> impl TypedValueParser<Value = Scope> {
    let all = [
        (Scope::Observe, "Read sessions"),
        (Scope::Control, "Also open sessions and send input"),
        (Scope::Admin, "Also create tokens and end the daemon"),
    ];
    let values = all.map(|(scope, help)| PossibleValue::new(scope.as_str()).help(help));
    let find = move |name: String| {
        all.into_iter()
            .map(|it| it.0)
            .find(|it| it.as_str() == name)
    };
    PossibleValuesParser::new(values).try_map(move |name| find(name).ok_or("unknown scope"))
}

impl TokenCommand {
    pub(super) fn run(self) -> CommandResult {
        match self {
            Self::New(new) => new.run(),
            Self::List { state, json } => list_tokens(&state, json),
            Self::Revoke {
                id,
                keep_tokens,
                state,
            } => revoke_token(&token_file(&state)?, &id, keep_tokens),
        }
    }
}

fn token_file(state: &DaemonSelection) -> Result<TokenFile, CliError> {
    let folder = state.folder()?;
    folder.create_folder()?;
    Ok(TokenFile::in_folder(&folder.0))
}

fn to_cli_error(error: TokenError) -> CliError {
    if matches!(
        error,
        TokenError::Unknown(_) | TokenError::Name | TokenError::ApproverWithoutControl
    ) {
        CliError::usage(error)
    } else {
        CliError::failed(error)
    }
}

/// Refuses a token to a process of an agent, or to one whose ancestors cannot be read.
fn refuse_agent() -> Result<(), CliError> {
    let why = match is_started_by_agent() {
        Some(false) => return Ok(()),
        Some(true) => "an agent started this process, and agents create no tokens",
        None => "/proc does not show the ancestors of this process, so it may be an agent's",
    };
    let error = CliError::failed(anyhow!("failed to create a token: {why}"));
    Err(error.next("run `trunkline token new` in a terminal of your own"))
}

impl NewTokenArgs {
    fn run(self) -> CommandResult {
        refuse_agent()?;
        if self.expires.is_some_and(|lifetime| lifetime.is_zero()) {
            return Err(CliError::usage(anyhow!("a token of 0 s is expired at once"))
                .next("give a lifetime such as --expires 30d, or omit it: the token is valid until it is revoked"));
        }
        let mut new = NewToken::with_scope(self.scope);
        new.name = self.name;
        new.may_approve = self.approve;
        new.agents = self.agents;
        new.all_sessions = self.all_sessions;
        new.expires = self.expires;
        let tokens = token_file(&self.state)?;
        let (token, text) = tokens.add(new).map_err(to_cli_error)?;
        let Some(output) = self.output else {
            return print_line(text);
        };
        if let Err(error) = write_output(&output, format!("{text}\n").as_bytes(), self.force) {
            tokens.revoke(&token.id).map_err(to_cli_error)?;
            return Err(error);
        }
        Ok(exit::OK)
    }
}

/// Revokes a token, and names the tokens that it created.
fn revoke_token(tokens: &TokenFile, id: &str, keep_tokens: bool) -> CommandResult {
    let known = tokens.read().map_err(to_cli_error)?;
    let revoked = if keep_tokens {
        tokens.revoke_alone(id)
    } else {
        tokens.revoke(id)
    };
    revoked.map_err(to_cli_error)?;
    let made: Vec<_> = known
        .iter()
        .filter(|token| token.parent.as_deref() == Some(id))
        .map(|token| match &token.name {
            Some(name) => format!("{} ({name})", token.id),
            None => token.id.clone(),
        })
        .collect();
    if !made.is_empty() {
        let what = if keep_tokens { "kept" } else { "also revoked" };
        anstream::eprintln!("{what}: {}", made.join(", "));
    }
    Ok(exit::OK)
}

fn list_tokens(state: &DaemonSelection, as_json: bool) -> CommandResult {
    let tokens = token_file(state)?.read().map_err(to_cli_error)?;
    if as_json {
        let public: Vec<_> = tokens.iter().map(Token::to_public).collect();
        return print_json(&serde_json::json!(public));
    }
    if tokens.is_empty() {
        return print_line(
            "the daemon has no tokens; `trunkline token new --scope control` creates one",
        );
    }
    let headings = [
        "id",
        "name",
        "scope",
        "permissions",
        "sessions",
        "agents",
        "expires",
        "last sign-in",
    ];
    let optional = &[
        "last sign-in",
        "agents",
        "expires",
        "sessions",
        "permissions",
    ];
    let mut list = table::ListTable::new(headings, optional);
    for token in &tokens {
        list.push(token_row(token));
    }
    list.print()
}

fn token_row(token: &Token) -> [String; 8] {
    let time = |at| {
        let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(at);
        humantime::format_rfc3339_seconds(at).to_string()
    };
    let browser = token.browser.as_ref();
    let used = browser.map(|browser| format!("{} from {}", time(browser.used), browser.address));
    let name = browser.map(|browser| browser.label.clone());
    [
        token.id.clone(),
        name.or_else(|| token.name.clone()).unwrap_or_default(),
        token.scope.as_str().to_owned(),
        if token.may_approve { "answers" } else { "" }.to_owned(),
        if token.all_sessions { "all" } else { "its own" }.to_owned(),
        token
            .agents
            .as_ref()
            .map_or_else(|| "all".to_owned(), |agents| agents.join(", ")),
        token.expires.map_or_else(|| "never".to_owned(), time),
        used.unwrap_or_default(),
    ]
}
