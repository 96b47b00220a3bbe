//! An entry of `agents`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::agent::{AgentConfig, Command};
use super::amurg::{self, Dialect, Own};
use super::confinement::paths_from;
use super::env_value::EnvValue;
use super::error::ConfigError;
use super::form::{As, Variables};
use super::keys::{AgentKeys, AmurgSecurity, CommandKeys, OwnKeys, SharedKeys, Unused};
use super::profile::Profile;
use super::quantity::shown;
use super::read::{error_at, missing, nearest, object, place, read, read_both, take};
use super::read_file::{Base, Context};
use super::session_may::SessionMay;

/// The keys of the profiles that run any program.
const JOB: &str = "job";
const CLI: &str = "cli";

pub(super) fn read_agent(
    mut object: Map<String, Value>,
    at: &str,
    base: &Base,
    context: &mut Context<'_>,
) -> Result<AgentConfig, ConfigError> {
    let own = Profile::keys()
        .into_iter()
        .filter_map(|key| Some((key, object.shift_remove(key)?)));
    let mut own: Vec<_> = own.filter(|(_, value)| !value.is_null()).collect();
    plain_program(&mut object, &mut own, at, &mut context.notices);
    let (shared, mut keys): (SharedKeys, AgentKeys) = read_both(object, at, &Profile::keys())?;

    let As(id) = keys.id.take().ok_or_else(|| missing(at, "id"))?;
    let profile = read_profile(&own, &keys, at, context)?;
    let security = keys.security.take().map(|As(security)| security);
    translate(
        &mut own,
        &mut keys,
        &profile,
        security.as_ref(),
        at,
        context,
    );
    let (command, config) = read_program(own, &mut keys, &profile, at, context)?;
    let sdk = profile != Profile::External;
    let name = keys
        .name
        .take()
        .map(|As(name)| name)
        .filter(|name| !name.trim().is_empty());
    let name = name.unwrap_or_else(|| id.clone());
    let agent = AgentConfig {
        name,
        id,
        profile,
        command,
        config,
        sdk,
        ..base.agent.clone()
    };
    let mut base = Base {
        agent,
        confinement: base.confinement.clone(),
    };
    // Amurg's names first, so that ours have the last word.
    if let Some(As(limits)) = &keys.limits {
        let ours = &mut base.agent.limits;
        ours.max_sessions = limits
            .max_sessions
            .as_ref()
            .and_then(|As(most)| *most)
            .or(ours.max_sessions);
        ours.max_turn_output = limits
            .max_output_bytes
            .as_ref()
            .and_then(|As(most)| *most)
            .or(ours.max_turn_output);
    }
    base.set(shared, at, context.folder)?;
    let Base {
        mut agent,
        mut confinement,
    } = base;
    if let Some(As(all)) = keys.allow_session_override {
        if keys.session_may.is_some() {
            let at = place(at, "allow_session_override");
            return Err(ConfigError::invalid(
                at,
                "`session_may` is set too; keep one",
            ));
        }
        agent.session_may = if all {
            SessionMay::All
        } else {
            SessionMay::NONE
        };
    }
    keys.set(&mut agent);
    agent.file_roots = paths_from(context.folder, keys.file_roots.take()).unwrap_or_default();
    agent.allowed_dirs = paths_from(context.folder, keys.allowed_dirs.take()).unwrap_or_default();
    confinement.agree(&mut agent.allowed_domains, &place(at, "allowed_domains"))?;
    (agent.resources, agent.sandbox) = (confinement.resources, confinement.sandbox);
    read_amurg(keys, security, &mut agent, at, context);
    Ok(agent)
}

/// Makes a plain program of an agent that names one under a profile that is not known: the profile
/// of its object, else `generic-job`. What else is wrong with the agent is found later.
fn plain_program(
    object: &mut Map<String, Value>,
    own: &mut Vec<(&'static str, Value)>,
    at: &str,
    notices: &mut Vec<String>,
) {
    let Some(name) = object
        .get("profile")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
    else {
        return;
    };
    if Profile::of_name(name).is_some() {
        return;
    }
    let name = name.to_owned();
    let names_program = |of: &Map<String, Value>| {
        of.get("command")
            .and_then(Value::as_str)
            .is_some_and(|command| !command.is_empty())
    };
    let key = match own.as_slice() {
        [] => {
            let keys = ["command", "args"].into_iter();
            let program: Map<_, _> = keys
                .filter_map(|key| object.shift_remove_entry(key))
                .collect();
            let config = object.get("config").and_then(Value::as_object);
            if names_program(&program) {
                own.push((JOB, Value::Object(program)));
            } else if !program.is_empty() || !config.is_some_and(names_program) {
                return;
            }
            JOB
        }
        [(key @ (JOB | CLI), of)] if of.as_object().is_some_and(names_program) => *key,
        _ => return,
    };
    let Some(plain) = Profile::of_key(key) else {
        return;
    };
    let near = nearest(&name, &Profile::names())
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    notices.push(format!(
        "`{}`: `{}` is not a built-in profile, so its `command` runs as a plain program, by `{plain}`{near}",
        place(at, "profile"),
        shown(&name)
    ));
    object.insert("profile".to_owned(), Value::from(plain.name()));
}

/// Returns the profile by name; without a name, the one whose object is present. An object of
/// another profile is refused, because it would be ignored.
fn read_profile(
    own: &[(&'static str, Value)],
    keys: &AgentKeys,
    at: &str,
    context: &Context<'_>,
) -> Result<Profile, ConfigError> {
    let profile = match (&keys.profile, own) {
        (Some(As(name)), _) => Profile::of_name(name).ok_or_else(|| {
            ConfigError::invalid(place(at, "profile"), no_profile(name, &context.agents))
        })?,
        (None, [(key, _)]) => return Ok(Profile::of_key(key).unwrap_or(Profile::External)),
        (None, _) => return Err(missing(at, "profile")),
    };
    match own.iter().find(|(key, _)| Some(*key) != profile.key()) {
        None => Ok(profile),
        Some((key, _)) => {
            let reads = profile.key().unwrap_or_default();
            let why = format!("an agent of profile `{profile}` reads `{reads}`, not `{key}`");
            Err(ConfigError::invalid(place(at, key), why))
        }
    }
}

/// Returns the error for a name that is no profile: it lists the profiles, and the agents, since
/// one may have been meant.
fn no_profile(name: &str, agents: &[String]) -> String {
    let what = if agents.iter().any(|id| id == name) {
        "an agent, not a profile"
    } else {
        "not a profile"
    };
    let near = nearest(name, &Profile::names())
        .map(|near| format!("did you mean `{near}`? "))
        .unwrap_or_default();
    let shown = shown(name);
    let profiles = Profile::names().join(", ");
    format!(
        "`{shown}` is {what}; {near}profiles: {profiles}; agents: {}",
        agents.join(", ")
    )
}

/// Reads the program and the configuration that it receives.
fn read_program(
    mut own: Vec<(&'static str, Value)>,
    keys: &mut AgentKeys,
    profile: &Profile,
    at: &str,
    context: &mut Context<'_>,
) -> Result<(Command, Option<Value>), ConfigError> {
    let key = profile.key().unwrap_or_default();
    let at_own = place(at, key);
    let own = own.pop().map(|(_, value)| value);
    let mut config = keys.config.take().map(|As(config)| Value::Object(config));
    let mut command = Command::default();
    let own_env = match (profile, own) {
        (Profile::External, own) => {
            let own = own.ok_or_else(|| missing(at, key))?;
            let mut program: CommandKeys = read(&own, &at_own, &[])?;
            program.set(&mut command);
            if command.command.is_empty() {
                return Err(missing(&at_own, "command"));
            }
            program.env
        }
        (Profile::BuiltIn(_), Some(_)) if config.is_some() => {
            let why = format!(
                "an agent of profile `{profile}` has its configuration in `{key}`; keep one"
            );
            return Err(ConfigError::invalid(place(at, "config"), why));
        }
        (Profile::BuiltIn(name), own) => {
            let at_config = if config.is_some() {
                place(at, "config")
            } else {
                at_own.clone()
            };
            let mut own_env = None;
            if let Some(own) = own {
                let mut own = object(&own, &at_own)?.clone();
                // Two of the adapter's keys are shared: `work_dir` sets where files may be, and
                // `env` may name places, which only the host reads. The adapter finds the variables
                // in its environment, and its file holds no secret.
                own_env = take::<OwnKeys>(&mut own, &at_own)?.env;
                command.work_dir = own
                    .get("work_dir")
                    .and_then(Value::as_str)
                    .map(PathBuf::from)
                    .unwrap_or_default();
                config = Some(Value::Object(own));
            }
            check(name, &mut config, &at_config, context)?;
            own_env
        }
    };
    let own_env = variables(own_env, context.folder);
    if keys.env.is_some() && !own_env.is_empty() {
        return Err(ConfigError::invalid(
            place(at, "env"),
            format!("`{key}.env` is set too; keep one"),
        ));
    }
    command.env = variables(keys.env.take(), context.folder);
    command.env.extend(own_env);
    Ok((command, config))
}

/// Translates Amurg's words in the object of a built-in profile, and those in `security`, to the
/// profile's words.
fn translate(
    own: &mut Vec<(&'static str, Value)>,
    keys: &mut AgentKeys,
    profile: &Profile,
    security: Option<&AmurgSecurity>,
    at: &str,
    context: &mut Context<'_>,
) {
    let (Profile::BuiltIn(name), Some(key)) = (profile, profile.key()) else {
        return;
    };
    let mut made = Map::new();
    let (object, at_own) = match (own.first_mut(), &mut keys.config) {
        (Some((_, own)), _) => (own.as_object_mut(), place(at, key)),
        (None, Some(As(config))) => (Some(config), place(at, "config")),
        (None, None) => (Some(&mut made), place(at, key)),
    };
    let Some(object) = object else { return };
    let at_security = place(at, "security");
    let notices = &mut context.notices;
    let mut translated = Own {
        profile: name,
        keys: object,
        at: &at_own,
        at_security,
        notices,
    };
    translated.translate(security, context.dialect);
    if !made.is_empty() {
        own.push((key, Value::Object(made)));
    }
}

/// Checks what a built-in profile's adapter gets. In a file of Amurg's, keys that it does not know are noted.
fn check(
    name: &str,
    config: &mut Option<Value>,
    at: &str,
    context: &mut Context<'_>,
) -> Result<(), ConfigError> {
    loop {
        let read = (context.check)(name, config.as_ref().unwrap_or(&Value::Object(Map::new())));
        let Err(refused) = read else { return Ok(()) };
        let error = error_at(at, &refused, &["env"]);
        let own = config.as_mut().and_then(Value::as_object_mut);
        let own = own.filter(|_| context.dialect == Dialect::Amurg);
        if !own.is_some_and(|own| amurg::drop_refused(own, at, &error, &mut context.notices)) {
            return Err(error);
        }
    }
}

/// Variables, whose files are meant from `folder`.
fn variables(env: Option<As<Variables>>, folder: &Path) -> BTreeMap<String, EnvValue> {
    let mut env = env.map(|As(env)| env).unwrap_or_default();
    for value in env.values_mut() {
        if let EnvValue::FromFile(file) = value {
            *file = folder.join(&file);
        }
    }
    env
}

/// Amurg's own sections of an agent. What has a meaning here applies; what restricts and is not
/// applied is reported.
fn read_amurg(
    keys: AgentKeys,
    security: Option<AmurgSecurity>,
    agent: &mut AgentConfig,
    at: &str,
    context: &mut Context<'_>,
) {
    keys.unused(at, &mut context.notices);
    if let Some(As(limits)) = keys.limits {
        limits.unused(&place(at, "limits"), &mut context.notices);
    }
    let Some(security) = security else { return };
    let at = place(at, "security");
    security.unused(&at, &mut context.notices);
    if agent.profile == Profile::External {
        amurg::note_lists(&security, &at, &mut context.notices);
    }
    agent.env_passthrough.extend(
        security
            .env_whitelist
            .into_iter()
            .flat_map(|As(names)| names),
    );
    if let Some(As(cwd)) = security.cwd.filter(|As(cwd)| !cwd.is_empty()) {
        agent.command.work_dir = PathBuf::from(cwd);
    }
}
