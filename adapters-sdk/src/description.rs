//! Description of an adapter, in `session.ready` and for `--describe` ([ext.2], [ext.8]).

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use trunkline_protocol::{
    AdapterInfo, Capabilities, Command, Extensions, Mode, Model, SessionInfo, SessionStart,
    ToolsAsOutput,
};

/// The description of an adapter: its name, its capabilities, its options.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    name: String,
    version: Option<String>,
    use_when: Option<String>,
    avoid_when: Option<String>,
    extensions: Extensions,
    capabilities: Capabilities,
    honours: Vec<String>,
    models: Vec<Model>,
    modes: Vec<Mode>,
    commands: Vec<Command>,
    config_schema: Option<Value>,
    steerable: bool,
    tools: ToolsAsOutput,
    login_hint: Option<Arc<str>>,
}

/// Named after the program; every extension but `resume`.
impl Default for Description {
    fn default() -> Self {
        let program = std::env::current_exe().ok();
        let name = program
            .as_deref()
            .and_then(|path| path.file_stem())
            .map(|name| name.to_string_lossy());
        Self {
            name: name.map_or_else(|| "adapter".to_owned(), std::borrow::Cow::into_owned),
            version: None,
            use_when: None,
            avoid_when: None,
            extensions: Extensions::all() - Extensions::RESUME,
            capabilities: Capabilities {
                turn_completion: Some(true),
                ..Capabilities::default()
            },
            honours: Vec::new(),
            models: Vec::new(),
            modes: Vec::new(),
            commands: Vec::new(),
            config_schema: None,
            steerable: false,
            tools: ToolsAsOutput::No,
            login_hint: None,
        }
    }
}

impl Description {
    /// An adapter of this name and version.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: Some(version.into()),
            ..Self::default()
        }
    }

    /// Sets what the adapter is good for and what not, in a sentence each.
    #[must_use]
    pub fn use_when(self, use_when: impl Into<String>, avoid_when: impl Into<String>) -> Self {
        Self {
            use_when: Some(use_when.into()),
            avoid_when: Some(avoid_when.into()),
            ..self
        }
    }

    /// Leaves extensions out that the SDK would use.
    #[must_use]
    pub fn without(self, extensions: Extensions) -> Self {
        Self {
            extensions: self.extensions - extensions,
            ..self
        }
    }

    /// Declares that it can resume an earlier session: `session.start.resume` reaches `start`, and
    /// `sessions` is called.
    ///
    /// Declares the extension `resume` and the capability `resume_attach`. An adapter that reports
    /// the agent's own session id by [`Session::info`](crate::Session::info) sets the capability
    /// `native_session_ids` too, by [`Description::capabilities`], which comes first.
    #[must_use]
    pub fn resumes(mut self) -> Self {
        self.extensions |= Extensions::RESUME;
        self.capabilities.resume_attach = Some(true);
        self
    }

    /// Copies the agent's own conversation: `session.start.resume` with `fork` reaches `start`
    /// ([`Description::resumes`]).
    ///
    /// Declares the capability `forks_sessions`. The `session_params` of a turn's end have to name
    /// the end of that turn in the conversation: a copy has nothing of what follows it. Call it
    /// after [`Description::capabilities`].
    #[must_use]
    pub fn forks(mut self) -> Self {
        self.capabilities.forks_sessions = Some(true);
        self
    }

    /// Takes inputs during a turn, by [`Turn::next_steer`](crate::Turn::next_steer).
    #[must_use]
    pub fn steerable(self) -> Self {
        Self {
            steerable: true,
            ..self
        }
    }

    /// Names the options of `session.start` that it honours ([ext.7]). What restricts must be named
    /// only if it holds.
    #[must_use]
    pub fn honours<S: Into<String>>(mut self, options: impl IntoIterator<Item = S>) -> Self {
        self.honours.extend(options.into_iter().map(Into::into));
        self
    }

    /// Runs a tool with the input that an approval changes. Without it such an approval reaches the
    /// adapter as a denial.
    #[must_use]
    pub fn takes_updated_input(mut self) -> Self {
        self.capabilities.updated_input = Some(true);
        self
    }

    /// Sets the capabilities, replacing earlier declarations: call [`Description::resumes`] and
    /// [`Description::takes_updated_input`] after it.
    ///
    /// `native_session_ids` declares that [`Session::info`](crate::Session::info) reports the
    /// agent's own session id in each session. `turn_completion`, which a description has from the
    /// start, declares that the agent itself ends a turn, and not a period of silence. Without
    /// `updated_input` an approval that changes the tool's input reaches the adapter as a denial.
    #[must_use]
    pub fn capabilities(self, capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            ..self
        }
    }

    /// Names the models that may be chosen.
    #[must_use]
    pub fn models(self, models: Vec<Model>) -> Self {
        Self { models, ..self }
    }

    /// Names the modes that may be chosen.
    #[must_use]
    pub fn modes(self, modes: Vec<Mode>) -> Self {
        Self { modes, ..self }
    }

    /// Names the commands that it understands in an input.
    #[must_use]
    pub fn commands(self, commands: Vec<Command>) -> Self {
        Self { commands, ..self }
    }

    /// Gives the JSON Schema of its configuration.
    /// [`Program::configured`](crate::Program::configured) does so itself.
    #[cfg(feature = "schema")]
    #[must_use]
    pub fn config<C: schemars::JsonSchema>(self) -> Self {
        Self {
            config_schema: Some(schemars::schema_for!(C).to_value()),
            ..self
        }
    }

    /// Sends calls of tools and their results as JSON on channel `tool` to hosts without `events` ([ext.3]).
    #[must_use]
    pub fn tools_as_output(self) -> Self {
        Self {
            tools: ToolsAsOutput::Yes,
            ..self
        }
    }

    /// Sets the login hint: a variable to set or a command to run. It is added to each failure of
    /// category `auth` that ends a turn or a session and does not contain it already.
    #[must_use]
    pub fn login_hint(self, hint: impl Into<String>) -> Self {
        Self {
            login_hint: Some(hint.into().into()),
            ..self
        }
    }

    pub(crate) fn how_to_log_in(&self) -> Option<Arc<str>> {
        self.login_hint.clone()
    }

    pub(crate) fn extensions(&self) -> Extensions {
        self.extensions
    }

    pub(crate) fn is_steerable(&self) -> bool {
        self.steerable
    }

    pub(crate) fn has_updated_input(&self) -> bool {
        self.capabilities.updated_input == Some(true)
    }

    pub(crate) fn tools(&self) -> ToolsAsOutput {
        self.tools
    }

    pub(crate) fn max_sessions(&self) -> Option<u64> {
        self.capabilities.max_sessions
    }

    /// Returns the content of `session.ready`; `own` takes precedence.
    pub(crate) fn greeting(&self, options: &SessionStart, own: SessionInfo) -> SessionInfo {
        let mut input_modes = vec!["queue".to_owned()];
        if self.steerable {
            input_modes.push("steer".to_owned());
        }
        SessionInfo {
            adapter: own.adapter.or_else(|| {
                Some(AdapterInfo {
                    name: self.name.clone(),
                    version: self.version.clone(),
                })
            }),
            capabilities: own.capabilities.or_else(|| Some(self.capabilities.clone())),
            input_modes: own.input_modes.or(Some(input_modes)),
            options_applied: Some(with_folder(
                own.options_applied.unwrap_or_else(|| self.applied(options)),
                options,
            )),
            models: own.models.or_else(|| non_empty(&self.models)),
            modes: own.modes.or_else(|| non_empty(&self.modes)),
            commands: own.commands.or_else(|| non_empty(&self.commands)),
            ..own
        }
    }

    /// Returns the requested options that are honoured.
    fn applied(&self, options: &SessionStart) -> Vec<String> {
        let asked = serde_json::to_value(options).unwrap_or_default();
        let is_asked = |name: &&String| {
            asked
                .get(name.as_str())
                .is_some_and(|value| !value.is_null())
        };
        self.honours.iter().filter(is_asked).cloned().collect()
    }

    /// Returns the output of `--describe`.
    pub(crate) fn printed(&self, config_schema: Option<Value>) -> Printed<'_> {
        Printed {
            name: &self.name,
            version: self.version.as_deref(),
            protocol: trunkline_protocol::PROTOCOL,
            models: &self.models,
            capabilities: &self.capabilities,
            extensions: self.extensions.to_names(),
            options: &self.honours,
            config_schema: self.config_schema.clone().or(config_schema),
            use_when: self.use_when.as_deref(),
            dont_use_when: self.avoid_when.as_deref(),
        }
    }
}

fn non_empty<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}

/// Adds what the SDK honours by itself: files go into the exchange folder where the host names one
/// ([file.6], [ext.7]).
fn with_folder(mut applied: Vec<String>, options: &SessionStart) -> Vec<String> {
    let folder = "exchange_dir";
    let honoured = options
        .exchange_dir
        .as_deref()
        .is_some_and(|path| Path::new(path).is_absolute());
    if honoured && !applied.iter().any(|name| name == folder) {
        applied.push(folder.to_owned());
    }
    applied
}

/// The shape of `--describe`'s answer.
#[derive(Serialize)]
pub(crate) struct Printed<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    protocol: u32,
    models: &'a [Model],
    capabilities: &'a Capabilities,
    extensions: Vec<String>,
    options: &'a [String],
    config_schema: Option<Value>,
    use_when: Option<&'a str>,
    dont_use_when: Option<&'a str>,
}
