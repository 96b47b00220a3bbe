//! Authorization of messages over a network, by one total table of messages, scopes and agents. A
//! network client is not the operator: it names no path of this machine, and sets only those options
//! of a session that the agent's configuration allows.

use std::path::Path;

use trunkline_host::{AgentStatus, Host, config::AgentConfig};
use trunkline_protocol::{
    HostBody, HostMessage, HubBody, HubKind, HubMessage, Resume, SessionAttach, SessionId,
    SessionStart, SessionUpdate,
};
use trunkline_relay::MessageAuthorizer;

use crate::{
    auth::{caller::UNPROVEN, principal::Principal, token::Scope},
    gateway::Shared,
    http::{idempotency::is_keyed_id, problem::Problem},
};

/// Refusal of an answer to a permission by a token without `may_approve`.
const NO_APPROVAL: &str = "the token may not answer permissions; make one that may by \
     `trunkline token new --approve --scope control`";

/// Returns the reason why a principal without `may_approve` does not approve.
pub(crate) fn no_approval(principal: &Principal) -> &'static str {
    if principal.is_unproven() {
        UNPROVEN
    } else {
        NO_APPROVAL
    }
}

/// Decides which messages the bearer of a token may send.

#[derive(Debug)]
pub(crate) struct PrincipalAuthorizer {
    scope: Scope,
    may_approve: Result<(), &'static str>,
    /// Host with the agents whose configuration allows options.
    host: Host,
    hub: HubOrigin,
    /// True if the client sees the sessions of other clients.
    sees_all: bool,
    /// Agents whose folder the client must not choose; `None` for all.
    agents_with_folder: Option<Vec<String>>,
}

/// Origin of the messages of a hub. A session names folders from either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HubOrigin {
    /// A client of a network, which names no file and no conversation.
    Network,
    /// This daemon's own ACP agent, which stores the files that it names.
    OwnAcp,
}

impl PrincipalAuthorizer {
    /// Creates the rules for a principal; `None` for this user, who may send everything.
    pub(crate) fn for_principal(
        principal: &Principal,
        host: &Host,
        hub: HubOrigin,
    ) -> Option<Self> {
        match principal {
            Principal::User => None,
            Principal::Bearer(bearer) => Some(Self {
                scope: bearer.token.scope,
                may_approve: principal
                    .may_approve()
                    .then_some(())
                    .ok_or_else(|| no_approval(principal)),
                host: host.clone(),
                hub,
                sees_all: principal.visitor().is_none_or(|visitor| visitor.sees_all),
                agents_with_folder: principal.agents_with_folder().map(<[_]>::to_vec),
            }),
        }
    }

    /// Refuses a type of message whose scope the token lacks.
    fn require_scope(&self, needed: Scope, kind: &str) -> Result<(), String> {
        if self.scope >= needed {
            return Ok(());
        }
        let has = self.scope.as_str();
        let needs = needed.as_str();
        Err(format!(
            "the token has scope {has}, and {kind} needs {needs}"
        ))
    }

    /// Removes the folders and the conversation that a start may name, so that the rest can be
    /// checked. A client that may list an agent's own conversations continues one by its id, in an
    /// allowed folder.
    fn without_allowed(
        &self,
        start: &SessionStart,
        agent: Option<&str>,
    ) -> Result<SessionStart, String> {
        let mut start = start.clone();
        let by_id = |resume: &Resume| resume.params.is_none() && resume.fork.is_none();
        if self.hub == HubOrigin::OwnAcp
            && self.sees_all
            && start.resume.as_ref().is_some_and(by_id)
        {
            start.resume = None;
        }
        let config = agent
            .and_then(|id| self.host.agent(id))
            .map(|agent| agent.config.clone());
        if config
            .as_ref()
            .is_some_and(|config| self.has_any_folder(config))
        {
            return Ok(start);
        }
        // The home folder and `/` are no choice of an operator.
        let config = config.filter(|config| !config.needs_cwd);
        let is_allowed = |folder: &String| {
            let config = config.as_ref();
            config.is_some_and(|config| config.allows_dir(Path::new(folder)))
        };
        let cwd = start.cwd.take().into_iter().map(|cwd| ("cwd", cwd));
        let add_dirs = start.add_dirs.take().into_iter().flatten();
        let mut folders = cwd.chain(add_dirs.map(|dir| ("add_dirs", dir)));
        match folders.find(|(_, folder)| !is_allowed(folder)) {
            None => Ok(start),
            Some((name, folder)) => Err(format!(
                "{name} may not be set to {folder} by a client of the network: it is outside of the agent's \
                 `work_dir` and `allowed_dirs`"
            )),
        }
    }

    /// Returns the options of an agent's sessions that may be set now; none for an unknown agent.
    fn settings(&self, agent: Option<&str>) -> ListedOptions {
        let agent = agent.and_then(|id| self.host.agent(id));
        let Some(AgentStatus { config, .. }) = agent else {
            return ListedOptions(Vec::new());
        };
        let has_choice = self.has_any_folder(&config);
        let listed = config.network_options.names();
        ListedOptions(listed.chain(has_choice.then_some("cwd")).collect())
    }

    /// Returns `true` if a session of the agent may work in any folder.
    fn has_any_folder(&self, config: &AgentConfig) -> bool {
        let others = self.agents_with_folder.as_ref();
        others.is_some_and(|others| !others.contains(&config.id))
    }
}

/// Refuses an id that only this gateway gives to new sessions.
fn refuse_keyed_id(id: &SessionId) -> Result<(), String> {
    if is_keyed_id(id.as_str()) {
        return Err(format!(
            "the id {id} has the form of the sessions that an Idempotency-Key opens; choose another id"
        ));
    }
    Ok(())
}

/// Checks that a principal may send a message. A start or an update needs the agent of the session.
pub(crate) fn authorize(
    shared: &Shared,
    principal: &Principal,
    message: &HostMessage,
    agent: Option<&str>,
) -> Result<(), Problem> {
    let judged = PrincipalAuthorizer::for_principal(principal, &shared.host, HubOrigin::Network)
        .map_or(Ok(()), |table| table.authorize_host(message, agent));
    judged.map_err(Problem::forbidden)
}

/// Returns `true` if a principal may set the option of this name. The title counts as one, and so
/// does a name that the protocol does not know. The values of folders are checked with the message.
pub(crate) fn may_set(
    shared: &Shared,
    principal: &Principal,
    agent: &str,
    name: &str,
) -> Result<(), Problem> {
    let Some(table) =
        PrincipalAuthorizer::for_principal(principal, &shared.host, HubOrigin::Network)
    else {
        return Ok(());
    };
    table
        .settings(Some(agent))
        .refuse([(name, true)])
        .map_err(Problem::forbidden)
}

impl MessageAuthorizer for PrincipalAuthorizer {
    fn hear_host(&self, message: &HostMessage, agent: Option<&str>) -> Result<(), String> {
        if matches!(message.body, HostBody::SessionStart(_)) {
            refuse_keyed_id(&message.session_id)?;
        }
        self.authorize_host(message, agent)
    }

    fn hear_hub(&self, message: &HubMessage) -> Result<(), String> {
        match &message.body {
            HubBody::SessionAttach(SessionAttach {
                env, mcp_servers, ..
            }) => refuse_secrets(env.is_some(), mcp_servers.is_some()),
            HubBody::SessionFork(fork) => {
                self.require_scope(Scope::Control, HubKind::SessionFork.as_str())?;
                refuse_keyed_id(&message.session_id)?;
                refuse_secrets(fork.env.is_some(), fork.mcp_servers.is_some())
            }
            HubBody::SessionEdit(_) => {
                self.require_scope(Scope::Control, HubKind::SessionEdit.as_str())
            }
            // The rights of the visitor limit what is read, whatever role the client requests.
            HubBody::SessionDetach(_) | HubBody::SessionHistory(_) => Ok(()),
        }
    }
}

impl PrincipalAuthorizer {
    /// Checks a message whose session has an id that the gateway accepts.
    fn authorize_host(&self, message: &HostMessage, agent: Option<&str>) -> Result<(), String> {
        let needed = match &message.body {
            HostBody::SessionStart(_)
            | HostBody::UserInput(_)
            | HostBody::FileInput(_)
            | HostBody::SessionUpdate(_)
            | HostBody::Stop(_)
            | HostBody::PermissionResponse(_)
            | HostBody::InputResponse(_)
            | HostBody::SessionClose(_) => Scope::Control,
            HostBody::FlowPause(_)
            | HostBody::FlowResume(_)
            | HostBody::Ping(_)
            | HostBody::SessionsList(_)
            | HostBody::AgentsList(_) => Scope::Observe,
        };
        self.require_scope(needed, message.body.kind().as_str())?;
        match &message.body {
            HostBody::SessionStart(start) => self
                .settings(agent)
                .start(&self.without_allowed(start, agent)?),
            HostBody::SessionUpdate(update) => self.settings(agent).update(update),
            HostBody::FileInput(_) if self.hub == HubOrigin::OwnAcp => Ok(()),
            HostBody::FileInput(_) => Err(
                "a path of this machine is not taken from a network: give the file by PUT \
                     /v1/sessions/ID/files, and its SHA-256 with the input"
                    .to_owned(),
            ),
            HostBody::PermissionResponse(_) if self.may_approve.is_err() => {
                self.may_approve.map_err(str::to_owned)
            }
            // The scope decides.
            _ => Ok(()),
        }
    }
}

/// Refuses what an attach or a fork may have, and a network may not set.
fn refuse_secrets(env: bool, mcp_servers: bool) -> Result<(), String> {
    ListedOptions(Vec::new()).refuse([("env", env), ("mcp_servers", mcp_servers)])
}

/// Options of a session that may be set. Each field is named, so that a new one of the protocol is
/// decided here; it is refused unless it can be listed.
struct ListedOptions(Vec<&'static str>);

/// Refuses the options of a message that are set and not listed. The fields in brackets are free.
macro_rules! refuse_unlisted {
    ($settings:expr, $message:expr, $type:ident [$($free:ident)*] $($option:ident)*) => {{
        let $type { $($free: _,)* $($option,)* } = $message;
        $settings.refuse([$((stringify!($option), $option.is_some())),*])
    }};
}

impl ListedOptions {
    fn start(&self, start: &SessionStart) -> Result<(), String> {
        refuse_unlisted!(
            self, start,
            SessionStart [protocol extensions max_line agent_id user_id task_id run_id iteration]
            model mode reasoning_effort resume role variables cwd add_dirs exchange_dir temperature
            system_prompt system_prompt_mode permission_mode allowed_tools denied_tools
            allowed_domains max_turns max_cost_usd max_tokens turn_timeout_ms inactivity_timeout_ms
            output_schema mcp_servers skills env extra_args
        )
    }

    fn update(&self, update: &SessionUpdate) -> Result<(), String> {
        refuse_unlisted!(
            self, update,
            SessionUpdate [] model mode reasoning_effort permission_mode allowed_tools denied_tools
            options
        )
    }

    /// Refuses the first option that is set and not listed.
    fn refuse<const N: usize>(&self, options: [(&str, bool); N]) -> Result<(), String> {
        let Some((name, _)) = options
            .into_iter()
            .find(|(name, is_set)| *is_set && !self.0.contains(name))
        else {
            return Ok(());
        };
        Err(match self.0.split_last() {
            None => format!("{name} may not be set from a network"),
            Some((last, [])) => format!("{name} may not be set from a network; {last} may"),
            Some((last, others)) => {
                format!(
                    "{name} may not be set from a network; {} and {last} may",
                    others.join(", ")
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use trunkline_host::config::{NetworkOption, NetworkOptions};

    use super::*;

    /// Agents that allow the default options to a network, none, and all that can be listed.
    fn table(scope: Scope) -> PrincipalAuthorizer {
        let mut host = Host::builder().agent(AgentConfig::external("usual", "none"));
        for (id, options) in [("strict", &[][..]), ("open", &NetworkOption::ALL)] {
            let mut agent = AgentConfig::external(id, "none");
            agent.network_options = NetworkOptions::listed(options.iter().copied());
            host = host.agent(agent);
        }
        PrincipalAuthorizer {
            scope,
            may_approve: Ok(()),
            host: host.build().unwrap(),
            hub: HubOrigin::Network,
            sees_all: true,
            agents_with_folder: None,
        }
    }

    fn says(scope: Scope, line: &str) -> Result<(), String> {
        let table = table(scope);
        match HostMessage::parse(line) {
            Ok(message) => table.hear_host(&message, Some("usual")),
            Err(_) => table.hear_hub(&HubMessage::parse(line).unwrap()),
        }
    }

    /// Every form of an answer to a permission; a question needs only the scope.
    #[test]
    fn a_permission_is_answered_only_by_a_token_that_may_approve() {
        for scope in [Scope::Observe, Scope::Control, Scope::Admin] {
            for members in [
                r#""approved":true"#,
                r#""approved":false"#,
                r#""approved":true,"always_allow":true"#,
                r#""approved":true,"option_id":"always""#,
                r#""approved":true,"updated_input":{}"#,
            ] {
                let line = format!(
                    r#"{{"type":"permission.response","session_id":"s","request_id":"r",{members}}}"#
                );
                let answer = HostMessage::parse(&line).unwrap();
                let mut table = table(scope);
                let may = table.hear_host(&answer, None).is_ok();
                assert_eq!(may, scope >= Scope::Control, "{scope:?} {line}");
                table.may_approve = Err(NO_APPROVAL);
                let refused = table.hear_host(&answer, None).unwrap_err();
                let command = refused.contains("trunkline token new --approve");
                assert_eq!(command, scope >= Scope::Control, "{refused}");
            }
            let mut table = table(scope);
            table.may_approve = Err(NO_APPROVAL);
            let line = r#"{"type":"input.response","session_id":"s","request_id":"r","values":{}}"#;
            let answer = table.hear_host(&HostMessage::parse(line).unwrap(), None);
            assert_eq!(answer.is_ok(), scope >= Scope::Control, "{scope:?}");
        }
    }

    #[test]
    fn each_message_needs_its_scope_and_sets_nothing_of_this_machine() {
        const CONTROL: &str = "the token has scope";
        for (line, observe, control) in [
            (r#"{"type":"session.start","session_id":"s"}"#, CONTROL, ""),
            (
                r#"{"type":"session.start","session_id":"s","model":"m","mode":"x","reasoning_effort":"y"}"#,
                CONTROL,
                "",
            ),
            (
                r#"{"type":"session.start","session_id":"s","cwd":"/"}"#,
                CONTROL,
                "cwd",
            ),
            (
                r#"{"type":"session.start","session_id":"s","env":{}}"#,
                CONTROL,
                "env",
            ),
            (
                r#"{"type":"session.start","session_id":"s","extra_args":[]}"#,
                CONTROL,
                "extra_args",
            ),
            (
                r#"{"type":"session.start","session_id":"s","exchange_dir":"/x"}"#,
                CONTROL,
                "exchange_dir",
            ),
            (
                r#"{"type":"session.start","session_id":"s","resume":{}}"#,
                CONTROL,
                "resume",
            ),
            (
                r#"{"type":"session.start","session_id":"s","permission_mode":"x"}"#,
                CONTROL,
                "permission_mode",
            ),
            (
                r#"{"type":"user.input","session_id":"s","content":"x"}"#,
                CONTROL,
                "",
            ),
            (
                r#"{"type":"file.input","session_id":"s","file_path":"/etc/passwd"}"#,
                CONTROL,
                "a path",
            ),
            (
                r#"{"type":"session.update","session_id":"s","model":"m"}"#,
                CONTROL,
                "",
            ),
            (
                r#"{"type":"session.update","session_id":"s","allowed_tools":[]}"#,
                CONTROL,
                "allowed_tools",
            ),
            (r#"{"type":"stop","session_id":"s"}"#, CONTROL, ""),
            (r#"{"type":"session.close","session_id":"s"}"#, CONTROL, ""),
            (
                r#"{"type":"permission.response","session_id":"s","request_id":"r","approved":true}"#,
                CONTROL,
                "",
            ),
            (
                r#"{"type":"permission.response","session_id":"s","request_id":"r","updated_input":{}}"#,
                CONTROL,
                "",
            ),
            (
                r#"{"type":"input.response","session_id":"s","request_id":"r","cancelled":true}"#,
                CONTROL,
                "",
            ),
            (r#"{"type":"flow.pause","session_id":"s"}"#, "", ""),
            (r#"{"type":"flow.resume","session_id":"s"}"#, "", ""),
            (r#"{"type":"ping","session_id":"","nonce":"n"}"#, "", ""),
            (
                r#"{"type":"agents.list","session_id":"","request_id":"r"}"#,
                "",
                "",
            ),
            (
                r#"{"type":"sessions.list","session_id":"","request_id":"r"}"#,
                "",
                "",
            ),
            (
                r#"{"type":"session.attach","session_id":"s","after":0}"#,
                "",
                "",
            ),
            (
                r#"{"type":"session.attach","session_id":"s","after":0,"env":{"A":"b"}}"#,
                "env",
                "env",
            ),
            (
                r#"{"type":"session.attach","session_id":"s","after":0,"mcp_servers":[]}"#,
                "mcp",
                "mcp",
            ),
            (r#"{"type":"session.detach","session_id":"s"}"#, "", ""),
            (
                r#"{"type":"session.history","session_id":"s","request_id":"r"}"#,
                "",
                "",
            ),
            (
                r#"{"type":"session.edit","session_id":"s","request_id":"r","archived":true}"#,
                "control",
                "",
            ),
            (
                r#"{"type":"session.fork","session_id":"s","source":"a"}"#,
                "control",
                "",
            ),
            (
                r#"{"type":"session.fork","session_id":"s","source":"a","env":{"A":"b"}}"#,
                "control",
                "env",
            ),
            (
                r#"{"type":"session.fork","session_id":"s","source":"a","mcp_servers":[]}"#,
                "control",
                "mcp",
            ),
        ] {
            for (scope, refused) in [
                (Scope::Observe, observe),
                (Scope::Control, control),
                (Scope::Admin, control),
            ] {
                match says(scope, line) {
                    Ok(()) => assert_eq!(refused, "", "{scope:?} {line}"),
                    Err(why) => {
                        assert!(
                            !refused.is_empty() && why.contains(refused),
                            "{scope:?} {line}: {why}"
                        )
                    }
                }
            }
        }
    }

    #[test]
    fn no_token_takes_the_id_of_a_session_that_a_key_opens() {
        let id = "key-0123456789abcdef0123456789abcdef";
        for line in [
            format!(r#"{{"type":"session.start","session_id":"{id}"}}"#),
            format!(r#"{{"type":"session.fork","session_id":"{id}","source":"s"}}"#),
        ] {
            for scope in [Scope::Control, Scope::Admin] {
                let refused = says(scope, &line).unwrap_err();
                assert!(refused.contains("choose another id"), "{refused}");
                assert_eq!(says(scope, &line.replace("key-", "key_")), Ok(()));
            }
        }
        let input = format!(r#"{{"type":"user.input","session_id":"{id}","content":"x"}}"#);
        assert_eq!(says(Scope::Control, &input), Ok(()));
    }

    /// Folders that no configuration allows are refused: a sibling, a parent, and a link that leads
    /// out.
    #[tokio::test]
    async fn folders_are_those_that_the_agent_may_work_in_and_only_where_they_may_be_named() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        for folder in ["in/deep", "work", "out"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("out"), root.join("in/link")).unwrap();
        let mut agent = AgentConfig::external("a", "none");
        agent.command.work_dir = root.join("work");
        agent.allowed_dirs = vec![root.join("in")];
        let mut at_home = AgentConfig::external("at-home", "none");
        at_home.command.work_dir = root.join("work");
        at_home.needs_cwd = true;
        let host = Host::builder().agent(agent).agent(at_home);
        let host = host.build().unwrap();
        let mut table = PrincipalAuthorizer {
            scope: Scope::Control,
            may_approve: Err(NO_APPROVAL),
            host,
            hub: HubOrigin::OwnAcp,
            sees_all: false,
            agents_with_folder: None,
        };
        let says = |table: &PrincipalAuthorizer, agent, name: &str, value: serde_json::Value| {
            let line = serde_json::json!({"type": "session.start", "session_id": "s", name: value})
                .to_string();
            table.hear_host(&HostMessage::parse(&line).unwrap(), agent)
        };
        for (folder, may) in [
            ("in", true),
            ("in/deep", true),
            ("work", true),
            ("in/link", false),
            ("in/../out", false),
            ("in/gone", false),
            ("out", false),
            ("", false),
        ] {
            let folder = root.join(folder);
            for (name, value) in [
                ("cwd", serde_json::json!(folder)),
                ("add_dirs", serde_json::json!([folder])),
            ] {
                assert_eq!(
                    says(&table, Some("a"), name, value.clone()).is_ok(),
                    may,
                    "{name} {folder:?}"
                );
                assert!(says(&table, Some("gone"), name, value.clone()).is_err());
                assert!(says(&table, Some("at-home"), name, value.clone()).is_err());
                assert!(says(&table, None, name, value).is_err());
            }
        }
        assert!(
            says(
                &table,
                Some("a"),
                "exchange_dir",
                serde_json::json!(root.join("in"))
            )
            .is_err()
        );
        let file = r#"{"type":"file.input","session_id":"s","file_path":"/f"}"#;
        let file = HostMessage::parse(file).unwrap();
        assert!(table.hear_host(&file, Some("a")).is_ok());
        table.scope = Scope::Observe;
        assert!(table.hear_host(&file, Some("a")).is_err());
        table.scope = Scope::Control;
        // A client that may list an agent's own conversations names one by its id.
        let by_id = serde_json::json!({"native_session_id": "n", "history": true});
        assert!(says(&table, Some("a"), "resume", by_id.clone()).is_err());
        table.sees_all = true;
        assert!(says(&table, Some("a"), "resume", by_id.clone()).is_ok());
        for (name, value) in [
            ("params", serde_json::json!({"cwd": "/"})),
            ("fork", serde_json::json!(true)),
        ] {
            let mut more = by_id.clone();
            more[name] = value;
            assert!(says(&table, Some("a"), "resume", more).is_err(), "{name}");
        }
        // Another hub of a network names the same folders, and neither files nor conversations.
        table.hub = HubOrigin::Network;
        assert!(says(&table, Some("a"), "resume", by_id).is_err());
        assert!(table.hear_host(&file, Some("a")).is_err());
        for (folder, may) in [("in", true), ("out", false)] {
            let folder = serde_json::json!(root.join(folder));
            assert_eq!(says(&table, Some("a"), "cwd", folder).is_ok(), may);
        }
    }

    /// Every option of a session, by agent. An option that no agent allows cannot be listed.
    #[tokio::test]
    async fn what_may_be_set_differs_between_agents_and_some_is_never() {
        let table = table(Scope::Control);
        let start = |name: &str, value: &str| {
            format!(r#"{{"type":"session.start","session_id":"s","{name}":{value}}}"#)
        };
        for (name, value, usual, open) in [
            ("model", r#""m""#, true, true),
            ("mode", r#""m""#, true, true),
            ("reasoning_effort", r#""m""#, true, true),
            ("permission_mode", r#""m""#, false, true),
            ("temperature", "1", false, true),
            ("system_prompt", r#""m""#, false, true),
            ("system_prompt_mode", r#""append""#, false, true),
            ("denied_tools", "[]", false, true),
            ("allowed_domains", "[]", false, true),
            ("max_turns", "1", false, true),
            ("max_cost_usd", "1", false, true),
            ("max_tokens", "1", false, true),
            ("turn_timeout_ms", "1", false, true),
            ("inactivity_timeout_ms", "1", false, true),
            ("resume", "{}", false, false),
            ("role", r#""m""#, false, false),
            ("variables", "{}", false, false),
            ("cwd", r#""/""#, false, false),
            ("add_dirs", r#"["/"]"#, false, false),
            ("exchange_dir", r#""/""#, false, false),
            ("allowed_tools", "[]", false, false),
            ("output_schema", "{}", true, true),
            ("mcp_servers", "[]", false, false),
            ("skills", "[]", false, false),
            ("env", "{}", false, false),
            ("extra_args", "[]", false, false),
            ("options", "{}", false, false),
        ] {
            for (agent, may) in [
                (Some("usual"), usual),
                (Some("open"), open),
                (Some("strict"), false),
                (None, false),
                (Some("gone"), false),
            ] {
                for kind in ["session.start", "session.update"] {
                    let line = start(name, value).replace("session.start", kind);
                    let message = HostMessage::parse(&line).unwrap();
                    let is_there = message.to_line().len()
                        > HostMessage::parse(&start("x", "1").replace("session.start", kind))
                            .unwrap()
                            .to_line()
                            .len();
                    let is_of_start = name != "options";
                    assert!(
                        is_there || (kind == "session.start") != is_of_start,
                        "{line}"
                    );
                    let said = table.hear_host(&message, agent);
                    assert_eq!(said.is_ok(), may || !is_there, "{agent:?} {line} {said:?}");
                    assert!(
                        said.is_ok()
                            || said
                                .unwrap_err()
                                .starts_with(&format!("{name} may not be set"))
                    );
                }
            }
        }
    }
}
