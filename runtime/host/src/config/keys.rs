//! The keys of a configuration file, and of a policy.

use trunkline_process::Limits as Resources;
use trunkline_sandbox::Policy;

use super::Config;
use super::StopSteps;
use super::agent::{AgentConfig, Command};
use super::form::{
    Allowed, AmurgMode, Any, AnyObject, As, BackendWord, Bytes, BytesLimit, BytesOrNone,
    ContainmentWord, ContentWord, Count, CountOrNone, ExitWord, Extension, Failures, Filled, Flag,
    Id, Line, List, Location, LoopWord, Memory, Options, OverNetwork, Part, Positive, Processes,
    Reach, Reachable, RequiredWord, SandboxOrNone, Sessions, SomeMemory, Standby, SyncWord, Text,
    UnenforcedWord, UnmatchedWord, User, ValueOrPlace, Variable, Variables, Wait, WaitLimit,
    WebhookEvent,
};
use super::limits::Restart;
use super::read::place;

/// Keys that are read and have no effect.
pub(super) trait Unused {
    /// Notes the present ones, each with the reason.
    fn unused(&self, at: &str, notices: &mut Vec<String>);
}

/// An object of a file: each key with its form, and with the field that it sets (`=>`) or the
/// reason why it has no effect (after `;`), unless what it means is decided elsewhere. Another key
/// is an error; `null` equals absent.
macro_rules! keys {
    (@set $Name:ident [] $fields:tt) => {};
    (@set $Name:ident [$Target:ty] { $($key:ident $(=> $($slot:ident).+)?,)+ }) => {
        impl $Name {
            /// Sets the present values.
            pub(super) fn set(&mut self, target: &mut $Target) {
                $($(if let Some(As(value)) = self.$key.take() {
                    target.$($slot).+ = value.into();
                })?)+
            }
        }
    };
    ($($(#[$meta:meta])* $Name:ident $(for $Target:ty)? {
        $($(#[$doc:meta])* $key:ident: $Form:ty $(=> $($slot:ident).+)? $(; $why:literal)?,)+
    })+) => {$(
        $(#[$meta])*
        #[derive(serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub(super) struct $Name {
            $($(#[$doc])* $(#[doc = concat!("Without effect: ", $why, ".")])? pub(super) $key: Option<As<$Form>>,)+
        }

        impl Unused for $Name {
            fn unused(&self, _at: &str, _notices: &mut Vec<String>) {
                $($(if self.$key.is_some() {
                    _notices.push(format!("`{}` has no effect: {}", place(_at, stringify!($key)), $why));
                })?)+
            }
        }

        keys!(@set $Name [$($Target)?] { $($key $(=> $($slot).+)?,)+ });
    )+};
}

keys! {
    /// The configuration of trunkline: which agents there are, how each is run, and what each may.
    FileKeys {
        /// The schema of this file, for editors.
        #[serde(rename = "$schema")]
        #[allow(dead_code, reason = "for editors")]
        schema: Any,
        /// The agents.
        agents: List<AnyObject>,
        /// The agent of a session that names none; without it, the first.
        default_agent: Text,
        /// Settings of the whole host, and defaults for every agent that does not set its own.
        runtime: AnyObject,
        /// Addresses that get the changes of sessions from `trunkline up`.
        webhooks: List<Part<WebhookKeys>>,
        hub: Any; "this host is driven by its embedder",
    }

    /// An address that gets the changes of sessions, signed, without their content.
    WebhookKeys {
        /// Name in logs and metrics; unique in the file.
        name: Filled,
        /// Address for events, which are sent by POST: `https://`, or `http://` on this machine.
        url: Filled,
        /// The key of the signatures. May be the place that has it.
        secret: ValueOrPlace,
        /// The events that it gets. Without it, `request`, `turn.ended` and `session.failed`.
        events: List<WebhookEvent>,
        /// The agents whose sessions it gets. Without it, all.
        agents: List<Text>,
        /// True if `url` may be another machine without TLS.
        insecure: Flag,
    }

    /// Settings of the whole host, and defaults for every agent that does not set its own.
    RuntimeKeys for Config {
        /// Open sessions of the whole host; 0 is no limit.
        max_sessions: Sessions => max_sessions,
        /// Folder for records of live processes and the usage log. Without it, the user's state
        /// folder.
        state_dir: Location => state_dir,
        /// A further policy file that narrows sandboxes.
        policy: Location => policy,
        /// Folder for output that waits on disk until it is read. Without it, `/var/tmp`.
        spool_dir: Location => spool_dir,
        /// True if `run`, `chat` and `serve` keep a usage log.
        usage_log: Flag => usage_log,
        /// A file for every line between the host and its adapters, without secrets.
        wire_log: Location => wire_log,
        /// Logged part of each line.
        wire_log_content: ContentWord => wire_log_content,
        /// The size at which it becomes the older file.
        wire_log_bytes: Bytes => wire_log_bytes,
        /// A file of prices, for `trunkline agents usage`.
        prices: Location => prices,
        /// The folder of the journal that `serve`, `chat` and `sessions` use without `--journal`.
        journal: Location => journal,
        /// Durability of a stored entry: `normal` survives the end of the host; `full` also
        /// survives a power cut, and is slower.
        journal_sync: SyncWord => journal_sync,
        /// Time for which an inactive session stays in the journal; 0 is forever.
        journal_max_age: WaitLimit => journal_limits.max_age,
        /// Bytes of sessions that the journal keeps, files aside; beyond it the longest inactive
        /// go. 0 is no limit.
        journal_max_bytes: BytesLimit => journal_limits.max_bytes,
        /// Sessions that the journal keeps; beyond it the longest inactive go. 0 is no limit.
        journal_max_sessions: Sessions => journal_limits.max_sessions,
        /// Unread output of one turn in memory.
        mailbox: Memory => buffers.mailbox,
        /// Unread output of the host in memory.
        mailboxes: Memory => buffers.mailboxes,
        /// Output of an adapter on its way to disk; beyond it the host pauses reading.
        backlog: SomeMemory => buffers.backlog,
        /// Unread output of one turn on disk.
        spool: Bytes => buffers.spool,
        /// Unread output of the host on disk.
        spools: Bytes => buffers.spools,
        /// Copies of the files of one session.
        session_files: Bytes => buffers.session_files,
        /// Copies of all files of the host.
        host_files: Bytes => buffers.host_files,
        /// Amurg's name of `turn_timeout`; 0 means absent.
        default_timeout: WaitLimit,
        /// Amurg's name of `max_turn_output`; 0 means absent.
        max_output_bytes: BytesLimit,
        id: Any; "a host has no identity of its own",
        org_id: Any; "a host has no identity of its own",
        idle_timeout: Any; "a turn ends by `turn.complete`; see `inactivity_timeout`",
        log_level: Any; "what is logged is set when the program is started",
        file_storage_path: Any; "files are kept below `state_dir`",
        allow_remote_permission_skip: Any; "`session_may` of each agent lists what a session may set",
    }

    /// The keys of an agent, and of `runtime` for every agent that does not set its own.
    SharedKeys for AgentConfig {
        /// From the start of the process to its first message, while an input waits.
        start_timeout: Positive => timeouts.start,
        /// From an input to the end of its turn; 0 is no limit.
        turn_timeout: WaitLimit => timeouts.turn,
        /// Maximum silence of a session during a turn; 0 is no limit.
        inactivity_timeout: WaitLimit => timeouts.inactivity,
        /// Silence of a turn after which its user is informed; without it, half of
        /// `inactivity_timeout`; 0 is never.
        stall_after: Wait => timeouts.stall,
        /// Silence of the process after which it is sent a `ping`; 0 is never.
        ping_after: WaitLimit => timeouts.ping,
        /// From a `stop` to the end of the turn.
        stop_timeout: Wait => timeouts.stop,
        /// Time after which a waiting permission request is denied; 0 is the end of the turn.
        permission_timeout: WaitLimit => timeouts.permission,
        /// The waits of an orderly end of the process.
        shutdown: Part<ShutdownKeys>,
        /// The longest line, at least 1 MiB.
        max_line: Line => limits.max_line,
        /// Kept length of stderr.
        stderr_tail: Memory => limits.stderr_tail,
        /// The largest file, in either direction.
        max_file_bytes: Bytes => limits.max_file_bytes,
        /// Inputs that may wait in a session, and as many steers, updates and files together; more
        /// are refused as busy.
        queued_inputs: Count => limits.queued_inputs,
        /// Bytes that may wait for an adapter; more are refused as busy.
        outbox: SomeMemory => limits.outbox,
        /// Bytes of output of one turn; 0 is no limit.
        max_turn_output: BytesLimit => limits.max_turn_output,
        /// Bytes a second of one session's messages while a turn runs; 0 is no limit.
        max_output_rate: BytesLimit => limits.max_output_rate,
        /// Bytes of one session that may come at once, beyond `max_output_rate`.
        output_burst: Bytes => limits.output_burst,
        /// Permissions and questions of a session that may wait for an answer; more are denied.
        max_open_requests: Count => limits.max_open_requests,
        /// Action when the agent repeats the same tool calls.
        tool_loop: LoopWord => tool_loop,
        /// Restarts of a process that ended.
        restart: Part<RestartKeys>,
        /// Actions that are approved or denied without asking.
        permission: Part<PermissionKeys>,
        /// Containment of the process tree.
        containment: ContainmentWord => containment,
        /// Limits of the process tree.
        resources: Part<ResourceKeys>,
        /// Files and network that the process can see, write and reach; `none` is no sandbox.
        sandbox: SandboxOrNone,
    }

    /// An agent: its program and its rights.
    AgentKeys for AgentConfig {
        /// Id for sessions; unique in the file.
        id: Id,
        /// Name for people; without it, the id.
        name: Text,
        /// `external`, or the name of a built-in adapter. Without it, the profile whose object is
        /// present.
        profile: Text,
        /// Purpose of the agent.
        description: Text => description,
        /// Configuration that the process receives.
        config: AnyObject,
        /// Protocol extensions to offer; without it all, `[]` is the core only.
        extensions: List<Extension> => extensions,
        /// True if the process gets all variables of the host.
        inherit_env: Flag => inherit_env,
        /// Variables of the process. May also be in the profile's object.
        env: Variables,
        /// Variables of the host to pass on, by name.
        env_passthrough: List<Variable> => env_passthrough,
        /// True if a built-in profile's agent gets the host's variables with its credentials.
        pass_credentials: Flag => pass_credentials,
        /// Action for the sessions when the process ends.
        on_adapter_exit: ExitWord => on_adapter_exit,
        /// 1: its process is started with the host, before a session asks for it, and again when it
        /// has ended.
        standby: Standby => standby,
        /// Folders that files from the adapter may come from.
        file_roots: List<Location>,
        /// Folders that a session may choose.
        allowed_dirs: List<Location>,
        /// Domains that a session may choose; needs a `sandbox`.
        allowed_domains: List<Text> => allowed_domains,
        /// Action if the adapter does not apply a restriction of a session.
        unenforced: UnenforcedWord => unenforced,
        /// Options beyond the harmless ones that a session may set: a list, or `all`.
        session_may: Options => session_may,
        /// Options that a client over a network may set, among those that any session may set.
        network_options: List<OverNetwork> => network_options,
        /// The older name of `session_may`: all or nothing.
        allow_session_override: Flag,
        /// True if the program answers `--describe` and `--diagnose`.
        sdk: Flag => sdk,
        /// Open sessions of this agent; 0 is no limit.
        max_sessions: Sessions => limits.max_sessions,
        tags: Any; "an agent has a `description`",
        /// Limits as an Amurg file has them.
        limits: Part<AmurgLimits>,
        /// Security settings of an Amurg file.
        security: Part<AmurgSecurity>,
    }

    /// A program to start, without a shell.
    CommandKeys for Command {
        /// The program: a path, or a name that is looked up in PATH.
        command: Filled => command,
        /// Arguments.
        args: List<Text> => args,
        /// Working directory. Without it, the host's current directory.
        work_dir: Text => work_dir,
        /// Variables of its environment.
        env: Variables,
    }

    /// Keys of a built-in profile's object that the host reads.
    OwnKeys {
        /// Variables of the process. May also be in the agent itself.
        env: Variables,
    }

    /// Place of a variable's value, read when the process starts.
    PlaceKeys {
        /// A variable of the host.
        from_env: Variable,
        /// A file; one line break at its end is removed.
        from_file: Location,
    }

    /// Patterns such as `*`, `Bash` or `Bash(git log*)`, and what happens to what none matches.
    PermissionKeys {
        /// Decision for actions that no pattern matches.
        default: UnmatchedWord,
        /// Actions that are approved without asking.
        allow: List<Allowed>,
        /// Actions that are denied without asking.
        deny: List<Allowed>,
    }

    /// The waits of an orderly end of the process.
    ShutdownKeys for StopSteps {
        /// After the sessions were closed.
        close: Wait => close,
        /// After stdin was closed.
        eof: Wait => eof,
        /// After SIGTERM; then SIGKILL.
        term: Wait => term,
    }

    /// Restarts of a process that ended.
    RestartKeys for Restart {
        /// The first wait, doubled at each failure.
        base: Positive => base,
        /// The longest wait.
        cap: Positive => cap,
        /// Failed starts that make an agent `failed`.
        failures: Failures => failures,
        /// Time for which a failed start counts.
        window: Positive => window,
        /// When a `failed` agent is tried again.
        retry: Positive => retry,
    }

    /// Limits of the process tree; 0 and `none` are no limit of ours.
    ResourceKeys for Resources {
        /// The most processes.
        processes: CountOrNone => processes,
        /// The most open files of one process.
        open_files: CountOrNone => open_files,
        /// The most memory.
        memory: BytesOrNone => memory,
    }

    /// Files and network that the process can see, write and reach.
    SandboxKeys for Resources {
        /// Backend of the sandbox.
        backend: BackendWord,
        /// The image of podman or docker.
        image: Filled,
        /// Arguments of podman or docker itself.
        options: List<Text>,
        /// Readable paths, besides those that every process sees.
        read_only: List<Location>,
        /// Writable paths.
        writable: List<Location>,
        /// The reachable network. Without it, the agent's `allowed_domains`.
        network: Reach,
        /// User and group number inside, such as `1000:1000`.
        user: User,
        /// `memory` of `resources`.
        memory: BytesOrNone => memory,
        /// `processes` of `resources`.
        pids: CountOrNone => processes,
    }

    /// The reachable network.
    NetworkKeys {
        /// Names, addresses and ranges, such as `api.example.com`, `*.example.org` or `10.0.0.0/8:5432`.
        allow: List<Reachable>,
    }

    /// Limits as an Amurg file has them.
    AmurgLimits {
        /// Open sessions of this agent; 0 means absent.
        max_sessions: Sessions,
        session_timeout: Any; "a session lives until it is closed; see `turn_timeout`",
        /// Bytes of output of one turn; 0 means absent.
        max_output_bytes: BytesLimit,
        idle_timeout: Any; "a turn ends by `turn.complete`; see `inactivity_timeout`",
    }

    /// Security settings of an Amurg file.
    AmurgSecurity {
        allowed_paths: Any; "what a process may touch is not bounded by a list of paths; use a sandbox",
        /// Of `github-copilot`: tools that never run.
        denied_paths: List<Text>,
        /// Of `claude-code` and `github-copilot`: tools that run without asking, in place of the
        /// profile's own list.
        allowed_tools: List<Text>,
        /// Of `claude-code` and `github-copilot`: tools that never run, besides the profile's own list.
        disallowed_tools: List<Text>,
        /// Permission mode, which replaces the one of the profile's object: `skip`, `strict`,
        /// `auto`, `acceptEdits`, `bypassPermissions` or `plan`.
        permission_mode: AmurgMode,
        /// The working directory, in place of the profile's.
        cwd: Text,
        /// Variables of the host to pass on, by name.
        env_whitelist: List<Variable>,
    }

    /// The policy of an organisation.
    PolicyKeys for Policy {
        #[serde(rename = "$schema")]
        #[allow(dead_code, reason = "for editors")]
        schema: Any,
        sandbox: RequiredWord => sandbox_required,
        backends: List<BackendWord>,
        network: Reach => network,
        read_only: List<Location>,
        writable: List<Location>,
        images: List<Text> => images,
        options: List<Text> => options,
        memory: BytesLimit => memory,
        processes: Processes => processes,
        containment: ContainmentWord => containment,
        inherit_env: Flag,
    }
}
