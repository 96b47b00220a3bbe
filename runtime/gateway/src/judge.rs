//! What may be said over a network: one total table, of messages and scopes. A network peer is not the operator: it
//! names no path of this machine, and sets of a session only what is harmless.

use std::sync::Arc;

use trunkline_protocol::{
    HostBody, HostMessage, HubBody, HubMessage, PermissionResponse, SessionAttach, SessionStart,
    SessionUpdate,
};
use trunkline_relay::Judge;

use crate::{pass::Pass, problem::Problem, token::Scope};

/// The options of a session that a network peer may set.
pub(crate) const OPTIONS: [&str; 3] = ["model", "mode", "reasoning_effort"];

/// Judges what the bearer of a token says.
#[derive(Debug)]
pub(crate) struct Table(pub(crate) Scope);

impl Table {
    /// The table for who asks. `None`: this user may say all.
    pub(crate) fn of(pass: &Pass) -> Option<Arc<dyn Judge>> {
        match pass {
            Pass::User => None,
            Pass::Bearer(bearer) => Some(Arc::new(Self(bearer.token.scope))),
        }
    }
}

/// Whether who asks may say a message.
pub(crate) fn judge(pass: &Pass, message: &HostMessage) -> Result<(), Problem> {
    match pass {
        Pass::User => Ok(()),
        Pass::Bearer(bearer) => Table(bearer.token.scope).hear_host(message).map_err(Problem::forbidden),
    }
}

impl Judge for Table {
    fn hear_host(&self, message: &HostMessage) -> Result<(), String> {
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
        if self.0 < needed {
            let kind = message.body.kind();
            let (has, needs) = (self.0.as_str(), needed.as_str());
            return Err(format!("a token of scope {has} may not say {}: it needs {needs}", kind.as_str()));
        }
        match &message.body {
            HostBody::SessionStart(start) => start_is_harmless(start),
            HostBody::SessionUpdate(update) => update_is_harmless(update),
            HostBody::FileInput(_) => {
                Err("a path of this machine is not taken from a network: give the file by PUT \
                     /v1/sessions/ID/files, and its SHA-256 with the input"
                    .to_owned())
            }
            HostBody::PermissionResponse(PermissionResponse { updated_input: Some(_), .. }) => {
                Err("updated_input may not be set from a network".to_owned())
            }
            HostBody::UserInput(_)
            | HostBody::PermissionResponse(_)
            | HostBody::Stop(_)
            | HostBody::InputResponse(_)
            | HostBody::SessionClose(_)
            | HostBody::FlowPause(_)
            | HostBody::FlowResume(_)
            | HostBody::Ping(_)
            | HostBody::SessionsList(_)
            | HostBody::AgentsList(_) => Ok(()),
        }
    }

    fn hear_hub(&self, message: &HubMessage) -> Result<(), String> {
        match &message.body {
            HubBody::SessionAttach(SessionAttach { env, mcp_servers, .. }) => {
                refuse([("env", env.is_some()), ("mcp_servers", mcp_servers.is_some())])
            }
            // What is seen is the visitor's alone, and an observer hears, whatever role it asks for.
            HubBody::SessionDetach(_) | HubBody::SessionHistory(_) => Ok(()),
        }
    }
}

/// Each field is named: one that is added to the protocol has to be decided on here.
fn start_is_harmless(start: &SessionStart) -> Result<(), String> {
    let SessionStart {
        protocol: _,
        extensions: _,
        max_line: _,
        agent_id: _,
        user_id: _,
        task_id: _,
        run_id: _,
        iteration: _,
        model: _,
        mode: _,
        reasoning_effort: _,
        resume,
        role,
        variables,
        cwd,
        add_dirs,
        exchange_dir,
        temperature,
        system_prompt,
        system_prompt_mode,
        permission_mode,
        allowed_tools,
        denied_tools,
        allowed_domains,
        max_turns,
        max_cost_usd,
        mcp_servers,
        skills,
        env,
        extra_args,
    } = start;
    refuse([
        ("resume", resume.is_some()),
        ("role", role.is_some()),
        ("variables", variables.is_some()),
        ("cwd", cwd.is_some()),
        ("add_dirs", add_dirs.is_some()),
        ("exchange_dir", exchange_dir.is_some()),
        ("temperature", temperature.is_some()),
        ("system_prompt", system_prompt.is_some()),
        ("system_prompt_mode", system_prompt_mode.is_some()),
        ("permission_mode", permission_mode.is_some()),
        ("allowed_tools", allowed_tools.is_some()),
        ("denied_tools", denied_tools.is_some()),
        ("allowed_domains", allowed_domains.is_some()),
        ("max_turns", max_turns.is_some()),
        ("max_cost_usd", max_cost_usd.is_some()),
        ("mcp_servers", mcp_servers.is_some()),
        ("skills", skills.is_some()),
        ("env", env.is_some()),
        ("extra_args", extra_args.is_some()),
    ])
}

fn update_is_harmless(update: &SessionUpdate) -> Result<(), String> {
    let SessionUpdate {
        model: _,
        mode: _,
        reasoning_effort: _,
        permission_mode,
        allowed_tools,
        denied_tools,
    } = update;
    refuse([
        ("permission_mode", permission_mode.is_some()),
        ("allowed_tools", allowed_tools.is_some()),
        ("denied_tools", denied_tools.is_some()),
    ])
}

fn refuse<const N: usize>(options: [(&str, bool); N]) -> Result<(), String> {
    match options.into_iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(forbidden_option(name)),
        None => Ok(()),
    }
}

pub(crate) fn forbidden_option(name: &str) -> String {
    format!("{name} may not be set from a network; {} and title may", OPTIONS.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(scope: Scope, line: &str) -> Result<(), String> {
        let table = Table(scope);
        match HostMessage::parse(line) {
            Ok(message) => table.hear_host(&message),
            Err(_) => table.hear_hub(&HubMessage::parse(line).unwrap()),
        }
    }

    #[test]
    fn each_message_needs_its_scope_and_sets_nothing_of_this_machine() {
        const CONTROL: &str = "may not say";
        for (line, observe, control) in [
            (r#"{"type":"session.start","session_id":"s"}"#, CONTROL, ""),
            (
                r#"{"type":"session.start","session_id":"s","model":"m","mode":"x","reasoning_effort":"y"}"#,
                CONTROL,
                "",
            ),
            (r#"{"type":"session.start","session_id":"s","cwd":"/"}"#, CONTROL, "cwd"),
            (r#"{"type":"session.start","session_id":"s","env":{}}"#, CONTROL, "env"),
            (r#"{"type":"session.start","session_id":"s","extra_args":[]}"#, CONTROL, "extra_args"),
            (r#"{"type":"session.start","session_id":"s","exchange_dir":"/x"}"#, CONTROL, "exchange_dir"),
            (r#"{"type":"session.start","session_id":"s","resume":{}}"#, CONTROL, "resume"),
            (
                r#"{"type":"session.start","session_id":"s","permission_mode":"x"}"#,
                CONTROL,
                "permission_mode",
            ),
            (r#"{"type":"user.input","session_id":"s","content":"x"}"#, CONTROL, ""),
            (r#"{"type":"file.input","session_id":"s","file_path":"/etc/passwd"}"#, CONTROL, "a path"),
            (r#"{"type":"session.update","session_id":"s","model":"m"}"#, CONTROL, ""),
            (r#"{"type":"session.update","session_id":"s","allowed_tools":[]}"#, CONTROL, "allowed_tools"),
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
                "updated_input",
            ),
            (r#"{"type":"input.response","session_id":"s","request_id":"r","cancelled":true}"#, CONTROL, ""),
            (r#"{"type":"flow.pause","session_id":"s"}"#, "", ""),
            (r#"{"type":"flow.resume","session_id":"s"}"#, "", ""),
            (r#"{"type":"ping","session_id":"","nonce":"n"}"#, "", ""),
            (r#"{"type":"agents.list","session_id":"","request_id":"r"}"#, "", ""),
            (r#"{"type":"sessions.list","session_id":"","request_id":"r"}"#, "", ""),
            (r#"{"type":"session.attach","session_id":"s","after":0}"#, "", ""),
            (r#"{"type":"session.attach","session_id":"s","after":0,"env":{"A":"b"}}"#, "env", "env"),
            (r#"{"type":"session.attach","session_id":"s","after":0,"mcp_servers":[]}"#, "mcp", "mcp"),
            (r#"{"type":"session.detach","session_id":"s"}"#, "", ""),
            (r#"{"type":"session.history","session_id":"s","request_id":"r"}"#, "", ""),
        ] {
            for (scope, refused) in
                [(Scope::Observe, observe), (Scope::Control, control), (Scope::Admin, control)]
            {
                match says(scope, line) {
                    Ok(()) => assert_eq!(refused, "", "{scope:?} {line}"),
                    Err(why) => {
                        assert!(!refused.is_empty() && why.contains(refused), "{scope:?} {line}: {why}")
                    }
                }
            }
        }
    }
}
