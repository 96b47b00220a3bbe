//! An Amurg runtime file, read so that it means here what it means there; what does not is noted.
//!
//! Such a file has a `hub`. In one, unknown keys are noted and not refused, a zero is Amurg's
//! default, and the words in a profile's object are Amurg's. The `security` of an agent is read
//! alike in every file.

use std::fmt;

use serde_json::{Map, Value};

use super::Config;
use super::agent::AgentConfig;
use super::error::{ConfigError, Problem};
use super::form::As;
use super::keys::{
    AgentKeys, AmurgLimits, AmurgSecurity, CommandKeys, FileKeys, RuntimeKeys, SharedKeys,
};
use super::profile::Profile;
use super::quantity::{parse_duration, shown};
use super::read::{keys_of, nearest, place};

/// Keys that take something away from an agent. A slip in one is an error here, too: it would run without.
const RESTRICTING: [&str; 7] = [
    "permission",
    "sandbox",
    "resources",
    "containment",
    "policy",
    "turn_timeout",
    "max_turn_output",
];

/// The modes in which an agent asks for nothing.
const UNASKED: [&str; 3] = ["skip", "bypassPermissions", PUBLISHED];

/// The published word for them, which the profile `claude-code` takes.
const PUBLISHED: &str = "dangerously-skip-permissions";

/// Keys of Amurg in the objects of its profiles. It reads them in any case.
const OWN_KEYS: [&str; 27] = [
    "command",
    "args",
    "work_dir",
    "env",
    "spawn_policy",
    "max_runtime",
    "base_url",
    "method",
    "headers",
    "timeout",
    "model",
    "transport",
    "permission_mode",
    "max_turns",
    "allowed_tools",
    "disallowed_tools",
    "denied_tools",
    "system_prompt",
    "system_prompt_file",
    "max_autopilot_continues",
    "approval_mode",
    "sandbox_mode",
    "additional_dirs",
    "full_auto",
    "provider",
    "include_directories",
    "sandbox",
];

/// Keys of `hub`, and the reason why one that is set has no effect on what connects to the hub.
const HUB_KEYS: [(&str, Option<&str>); 6] = [
    ("url", None),
    ("token", None),
    (
        "tls_skip_verify",
        Some("the hub's certificate is verified; `SSL_CERT_FILE` names one of your own"),
    ),
    ("reconnect_interval", Some(RECONNECTS)),
    ("max_reconnect_delay", Some(RECONNECTS)),
    (
        "send_buffer_size",
        Some("output waits for the hub, and none of it is dropped"),
    ),
];

const RECONNECTS: &str = "a connection that breaks is made again after 1 to 30 s";

/// The timeout of `generic-http` if the file has none, or 0.
const HTTP_TIMEOUT: &str = "60s";

/// The hub of an Amurg file, and the runtime that the file describes.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AmurgHub {
    /// `hub.url`: the address of the hub's WebSocket.
    pub url: Option<String>,
    /// `hub.token`, a secret.
    pub token: Option<String>,
    /// `runtime.id`: the id under which the hub knows the runtime.
    pub runtime_id: Option<String>,
    /// `runtime.org_id`: the organisation.
    pub org: Option<String>,
    /// The keys of `hub` without effect, one sentence each.
    pub notices: Vec<String>,
}

impl fmt::Debug for AmurgHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmurgHub")
            .field("url", &self.url)
            .field("runtime_id", &self.runtime_id)
            .field("org", &self.org)
            .finish_non_exhaustive()
    }
}

impl AmurgHub {
    /// Reads the hub of a file after [`without_unknown`].
    pub(super) fn from_file(file: &Value) -> Self {
        let text = |section: &str, key: &str| {
            let text = file.get(section)?.get(key)?.as_str()?;
            Some(text.to_owned()).filter(|text| !text.is_empty())
        };
        let is_set = |key: &str| {
            let value = file.get("hub").and_then(|hub| hub.get(key));
            value.is_some_and(|value| !value.is_null() && *value != false && *value != 0)
        };
        let unused = HUB_KEYS
            .iter()
            .filter_map(|(key, why)| why.filter(|_| is_set(key)).map(|why| (key, why)));
        Self {
            url: text("hub", "url"),
            token: text("hub", "token"),
            runtime_id: text("runtime", "id"),
            org: text("runtime", "org_id"),
            notices: unused
                .map(|(key, why)| no_effect("hub", key, why))
                .collect(),
        }
    }
}

/// Dialect of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Ours,
    Amurg,
}

impl Dialect {
    /// Amurg needs a `hub` in every file; this host has no use for one.
    pub(super) fn detect(file: &Value) -> Self {
        let mut members = file.as_object().into_iter().flatten();
        if members.any(|(key, value)| key.eq_ignore_ascii_case("hub") && value.is_object()) {
            Self::Amurg
        } else {
            Self::Ours
        }
    }
}

/// The file without the keys that Amurg passes over and nothing reads here, each noted.
pub(super) fn without_unknown(file: &Value, notices: &mut Vec<String>) -> Value {
    let mut file = file.clone();
    if let Some(file) = file.as_object_mut() {
        drop_unknown(file, "", &keys_of::<FileKeys>(), notices);
    }
    if let Some(hub) = file.get_mut("hub").and_then(Value::as_object_mut) {
        fold_keys(hub, |key| HUB_KEYS.iter().any(|(known, _)| *known == key));
    }
    if let Some(runtime) = file.get_mut("runtime").and_then(Value::as_object_mut) {
        let known = [keys_of::<RuntimeKeys>(), keys_of::<SharedKeys>()].concat();
        drop_unknown(runtime, "runtime", &known, notices);
        if let Some(timeout) = runtime.get_mut("default_timeout")
            && is_negative_duration(timeout)
        {
            *timeout = 0.into();
        }
    }
    let agents = file.get_mut("agents").and_then(Value::as_array_mut);
    for (index, agent) in agents.into_iter().flatten().enumerate() {
        if let Some(agent) = agent.as_object_mut() {
            of_agent(agent, &format!("agents[{index}]"), notices);
        }
    }
    file
}

fn of_agent(agent: &mut Map<String, Value>, at: &str, notices: &mut Vec<String>) {
    let mut known = [
        keys_of::<AgentKeys>(),
        keys_of::<SharedKeys>(),
        Profile::keys().into_iter().map(str::to_owned).collect(),
    ]
    .concat();
    let program = ["command", "args"];
    fold_keys(agent, |key| {
        known.iter().any(|known| known == key) || program.contains(&key)
    });
    for key in Profile::keys() {
        if let Some(own) = agent.get_mut(key).and_then(Value::as_object_mut) {
            fold_keys(own, |key| OWN_KEYS.contains(&key));
        }
    }
    match agent
        .get("profile")
        .and_then(Value::as_str)
        .and_then(Profile::of_name)
    {
        // Whether it is a plain program is decided later.
        None => known.extend(program.map(str::to_owned)),
        Some(profile) => {
            let own = profile.key().unwrap_or_default();
            for key in Profile::keys().into_iter().filter(|key| *key != own) {
                if agent
                    .shift_remove(key)
                    .is_some_and(|value| !value.is_null())
                {
                    let at = place(at, key);
                    notices.push(format!(
                        "`{at}` has no effect: an agent of profile `{profile}` reads `{own}`"
                    ));
                }
            }
        }
    }
    drop_unknown(agent, at, &known, notices);
    let parts = [
        ("limits", keys_of::<AmurgLimits>()),
        ("security", keys_of::<AmurgSecurity>()),
        ("external", keys_of::<CommandKeys>()),
    ];
    for (key, known) in parts {
        if let Some(part) = agent.get_mut(key).and_then(Value::as_object_mut) {
            drop_unknown(part, &place(at, key), &known, notices);
        }
    }
}

fn drop_unknown(
    object: &mut Map<String, Value>,
    at: &str,
    known: &[String],
    notices: &mut Vec<String>,
) {
    fold_keys(object, |key| known.iter().any(|known| known == key));
    object.retain(|key, _| {
        if known.iter().any(|known| known == key) || nearest(key, &RESTRICTING).is_some() {
            return true;
        }
        notices.push(unread(&place(at, &shown(key))));
        false
    });
}

/// Writes known keys in lower case, as Amurg reads a key in any case, unless the object has both.
fn fold_keys(object: &mut Map<String, Value>, is_known: impl Fn(&str) -> bool) {
    let has_capital = |key: &&String| key.contains(|c: char| c.is_ascii_uppercase());
    for key in object
        .keys()
        .filter(has_capital)
        .cloned()
        .collect::<Vec<_>>()
    {
        let folded = key.to_ascii_lowercase();
        if is_known(&key) || !is_known(&folded) || object.contains_key(&folded) {
            continue;
        }
        if let Some(value) = object.shift_remove(&key) {
            object.insert(folded, value);
        }
    }
}

/// Returns true for a duration below 0, which Amurg takes for none.
fn is_negative_duration(value: &Value) -> bool {
    match value {
        Value::String(text) => text
            .trim()
            .strip_prefix('-')
            .is_some_and(|text| parse_duration(text).is_ok()),
        value => value.as_f64().is_some_and(|seconds| seconds < 0.0),
    }
}

fn unread(at: &str) -> String {
    format!("`{at}` has no effect: nothing reads it")
}

/// Takes the key that an adapter has refused as unknown out of its configuration, and notes it.
/// Whether it was one.
pub(super) fn drop_refused(
    own: &mut Map<String, Value>,
    at: &str,
    error: &ConfigError,
    notices: &mut Vec<String>,
) -> bool {
    let Problem::UnknownKey { .. } = error.problem() else {
        return false;
    };
    let key = error
        .at()
        .strip_prefix(at)
        .and_then(|key| key.strip_prefix('.'));
    let is_own = key.is_some_and(|key| own.shift_remove(key).is_some());
    if is_own {
        notices.push(unread(error.at()));
    }
    is_own
}

/// Sets Amurg's defaults for keys that `runtime` leaves out or sets to 0. Our own key for a turn's
/// output has precedence.
pub(super) fn set_defaults(config: &mut Config, agent: &mut AgentConfig, says_turn_output: bool) {
    const MEBIBYTES: u64 = 10 * 1024 * 1024;
    config.max_sessions.get_or_insert(10);
    if !says_turn_output {
        agent.limits.max_turn_output.get_or_insert(MEBIBYTES);
    }
    if agent.limits.max_file_bytes == 0 {
        agent.limits.max_file_bytes = MEBIBYTES;
    }
}

/// Returns the differences for the agents of any Amurg file.
pub(super) fn differences(agents: &[AgentConfig]) -> impl Iterator<Item = String> {
    let any = |is: fn(&AgentConfig) -> bool| agents.iter().any(is);
    let homeless = any(|agent| {
        agent.command.work_dir.as_os_str().is_empty() && agent.profile.name() != "generic-http"
    });
    let home =
        "an agent without `work_dir` runs in the current directory; with Amurg, in the home folder";
    let short = any(|agent| !agent.inherit_env && agent.env_passthrough.is_empty());
    let environment = "agents get few variables; with Amurg, all of them: `env_passthrough` or `inherit_env` adds more";
    [(homeless, home), (short, environment)]
        .into_iter()
        .filter(|(is, _)| *is)
        .map(|(_, text)| text.to_owned())
}

/// The configuration of a built-in profile's adapter, while Amurg's words in it become its own.
pub(super) struct Own<'a> {
    pub(super) profile: &'a str,
    pub(super) keys: &'a mut Map<String, Value>,
    /// Place of the object.
    pub(super) at: &'a str,
    /// Place of the agent's `security`.
    pub(super) at_security: String,
    pub(super) notices: &'a mut Vec<String>,
}

impl Own<'_> {
    /// Translates `security`, and in a file of Amurg's also the words of the object, to the
    /// profile's words.
    pub(super) fn translate(&mut self, security: Option<&AmurgSecurity>, dialect: Dialect) {
        if dialect == Dialect::Amurg {
            self.keys.retain(|_, value| !value.is_null());
        }
        self.transport();
        let mode = security
            .and_then(|security| security.permission_mode.as_ref())
            .and_then(|As(mode)| *mode);
        self.mode(mode, dialect);
        if dialect == Dialect::Amurg {
            self.amurgs_own();
        }
        if let Some(security) = security {
            self.tools(security);
            if let (Some(As(cwd)), Some(own)) = (&security.cwd, self.keys.get_mut("work_dir"))
                && !cwd.is_empty()
            {
                *own = cwd.as_str().into();
            }
        }
    }

    /// An interactive terminal does not report the end of a turn, so there is one transport.
    fn transport(&mut self) {
        if self.profile != "claude-code" {
            return;
        }
        match self.text("transport") {
            "stream-json" => {}
            "tmux" => self.notices.push(format!(
                "`{}` has no effect: a terminal has no mark for the end of a turn, so this runs as `stream-json`",
                place(self.at, "transport")
            )),
            _ => return,
        }
        self.keys.shift_remove("transport");
    }

    /// The mode that `security` sets, else in a file of Amurg's the one in the object.
    fn mode(&mut self, set: Option<&'static str>, dialect: Dialect) {
        let key = match self.profile {
            "claude-code" => "permission_mode",
            "codex" | "gemini-cli" => "approval_mode",
            _ => "",
        };
        let (mode, at) = match set {
            Some(mode) => (mode.to_owned(), place(&self.at_security, "permission_mode")),
            None if dialect == Dialect::Amurg => (self.text(key).to_owned(), place(self.at, key)),
            None => {
                if UNASKED.contains(&self.text(key)) {
                    self.notices.push(runs_unasked(&place(self.at, key)));
                }
                return;
            }
        };
        let word = match (self.profile, mode.as_str()) {
            (_, "") => return,
            ("claude-code", mode) if UNASKED.contains(&mode) => PUBLISHED,
            ("claude-code", "strict") => "default",
            // No mode at all; Claude has one of this name, which decides by itself.
            ("claude-code", "auto") => "",
            ("codex", "skip") => "never",
            ("codex", "strict") => "untrusted",
            ("codex", "auto") => "on-request",
            ("gemini-cli", "skip" | "yolo") => "yolo",
            ("gemini-cli", "auto") => "auto_edit",
            ("github-copilot" | "kilo-code", "skip") => "",
            ("claude-code", mode) => mode,
            _ if set.is_none() => return,
            (profile, _) => {
                self.notices.push(format!(
                    "`{at}` has no effect: profile `{profile}` has no mode `{mode}`"
                ));
                return;
            }
        };
        if !key.is_empty() {
            self.keys.insert(key.to_owned(), word.into());
        }
        let is_unasked = UNASKED.contains(&mode.as_str()) || word == "yolo";
        if is_unasked {
            self.notices.push(runs_unasked(&at));
        }
        if is_unasked && matches!(self.profile, "gemini-cli" | "github-copilot" | "kilo-code") {
            self.keys.insert("dangerous".to_owned(), true.into());
        } else if set.is_some() {
            // The object does not undo what `security` asks for.
            self.keys.shift_remove("dangerous");
        }
    }

    /// Handles keys of the object that have a meaning only with Amurg.
    fn amurgs_own(&mut self) {
        match self.profile {
            "claude-code" if !self.text("system_prompt").is_empty() => {
                self.keys.entry("system_prompt_mode").or_insert("replace".into());
            }
            "codex" => {
                let approval = self.text("approval_mode");
                let sandbox = self.text("sandbox_mode");
                let has_approval = !approval.is_empty();
                let has_mode = !(approval.is_empty() && sandbox.is_empty());
                let unconfined = sandbox == "danger-full-access";
                if has_mode {
                    self.keys.shift_remove("full_auto");
                }
                if unconfined {
                    self.keys.insert("dangerous_full_access".to_owned(), true.into());
                    if !has_approval {
                        self.keys.insert("approval_mode".to_owned(), "on-request".into());
                    }
                    let at = place(self.at, "sandbox_mode");
                    self.notices.push(format!("`{at}`: this agent's commands run without Codex's sandbox"));
                }
            }
            "kilo-code" if self.keys.get("dangerous") != Some(&true.into()) => self.notices.push(format!(
                "`{}`: this agent asks before its tools run, which with Amurg it never does; `dangerous` lets them run unasked",
                self.at
            )),
            "generic-job" => self.wait("max_runtime"),
            "generic-http" => {
                self.wait("timeout");
                // There it is the time for the whole answer; here it is the longest silence.
                if self.keys.contains_key("base_url") {
                    let timeout = self.keys.get("timeout").cloned();
                    let timeout = timeout.unwrap_or_else(|| HTTP_TIMEOUT.into());
                    self.keys.entry("max_runtime").or_insert(timeout);
                }
            }
            _ => {}
        }
    }

    /// The lists of tools: an allow list replaces the profile's own, denials add up.
    fn tools(&mut self, security: &AmurgSecurity) {
        let (allowed, denied) = match self.profile {
            "claude-code" => (Some("allowed_tools"), Some("disallowed_tools")),
            "github-copilot" => (Some("allowed_tools"), Some("denied_tools")),
            _ => (None, None),
        };
        let paths = denied.filter(|_| self.profile == "github-copilot");
        let lists = [
            (
                "allowed_tools",
                &security.allowed_tools,
                allowed,
                TOOLS_ALLOWED,
            ),
            (
                "disallowed_tools",
                &security.disallowed_tools,
                denied,
                TOOLS_DENIED,
            ),
            ("denied_paths", &security.denied_paths, paths, PATHS),
        ];
        for (name, list, key, why) in lists {
            let Some(As(list)) = list.as_ref().filter(|As(list)| !list.is_empty()) else {
                continue;
            };
            let Some(key) = key else {
                self.notices.push(no_effect(&self.at_security, name, why));
                continue;
            };
            let said = match self.keys.get(key) {
                Some(Value::Array(said)) if Some(key) != allowed => said.clone(),
                _ => Vec::new(),
            };
            let more = list
                .iter()
                .map(|tool| Value::from(tool.as_str()))
                .filter(|tool| !said.contains(tool));
            self.keys
                .insert(key.to_owned(), said.iter().cloned().chain(more).collect());
        }
    }

    /// A duration as Go writes it; 0 and less are the profile's default.
    fn wait(&mut self, key: &str) {
        let wait = match self.keys.get(key) {
            Some(value) if is_negative_duration(value) => Some(std::time::Duration::ZERO),
            Some(Value::String(text)) => parse_duration(text).ok(),
            Some(Value::Number(seconds)) if seconds.as_f64() == Some(0.0) => {
                Some(std::time::Duration::ZERO)
            }
            _ => None,
        };
        match wait {
            Some(wait) if wait.is_zero() => drop(self.keys.shift_remove(key)),
            Some(wait) => drop(self.keys.insert(
                key.to_owned(),
                humantime::format_duration(wait).to_string().into(),
            )),
            None => {}
        }
    }

    /// The text at a key; an empty one where there is none.
    fn text(&self, key: &str) -> &str {
        self.keys
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// Notes the lists of `security` that an external adapter does not read.
pub(super) fn note_lists(security: &AmurgSecurity, at: &str, notices: &mut Vec<String>) {
    let mode = security
        .permission_mode
        .as_ref()
        .is_some_and(|As(mode)| mode.is_some());
    let is_filled = |list: &Option<As<super::form::List<super::form::Text>>>| {
        list.as_ref().is_some_and(|As(list)| !list.is_empty())
    };
    let all = [
        ("denied_paths", is_filled(&security.denied_paths), PATHS),
        (
            "allowed_tools",
            is_filled(&security.allowed_tools),
            TOOLS_ALLOWED,
        ),
        (
            "disallowed_tools",
            is_filled(&security.disallowed_tools),
            TOOLS_DENIED,
        ),
        (
            "permission_mode",
            mode,
            "the adapter decides what it asks for",
        ),
    ];
    notices.extend(
        all.iter()
            .filter(|(_, is, _)| *is)
            .map(|(name, _, why)| no_effect(at, name, why)),
    );
}

const TOOLS_ALLOWED: &str = "what is approved without asking is `permission.allow`";
const TOOLS_DENIED: &str = "what is denied without asking is `permission.deny`";
const PATHS: &str = "what a process may touch is not bounded by a list of paths; use a sandbox";

fn runs_unasked(at: &str) -> String {
    format!("`{at}`: every tool of this agent runs without asking; use a sandbox")
}

fn no_effect(at: &str, key: &str, why: &str) -> String {
    format!("`{}` has no effect: {why}", place(at, key))
}
