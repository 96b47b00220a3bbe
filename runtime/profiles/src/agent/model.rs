//! Which model a name means: the configuration's aliases, short names per provider, `provider/model` (census rows
//! O02 and O05).

use std::collections::BTreeMap;

/// A model and, where that is known, who runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Model {
    /// Who runs it.
    pub(crate) provider: Option<String>,
    /// What they call it.
    pub(crate) id: String,
}

impl Model {
    /// `provider/model`, or the model alone where no provider is known.
    pub(crate) fn full(&self) -> String {
        match &self.provider {
            Some(provider) => format!("{provider}/{}", self.id),
            None => self.id.clone(),
        }
    }
}

/// Short names that people use, and what each provider calls that model.
const SHORT: &[(&str, &[(&str, &str)])] = &[
    (
        "opus",
        &[
            ("anthropic", "claude-opus-5-5"),
            ("openrouter", "anthropic/claude-opus-5.5"),
            ("github-copilot", "claude-opus-5.5"),
        ],
    ),
    (
        "sonnet",
        &[
            ("anthropic", "claude-sonnet-5-5"),
            ("openrouter", "anthropic/claude-sonnet-5.5"),
            ("github-copilot", "claude-sonnet-5.5"),
        ],
    ),
    (
        "haiku",
        &[
            ("anthropic", "claude-haiku-5-5"),
            ("openrouter", "anthropic/claude-haiku-5.5"),
            ("github-copilot", "claude-haiku-5.5"),
        ],
    ),
    (
        "fable",
        &[
            ("anthropic", "claude-fable-5-2"),
            ("openrouter", "anthropic/claude-fable-5.2"),
            ("github-copilot", "claude-fable-5.2"),
        ],
    ),
];

/// Beginnings of a model's name that tell who made it.
const MAKERS: &[(&str, &str)] = &[
    ("claude-", "anthropic"),
    ("gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("codex-", "openai"),
    ("chatgpt-", "openai"),
    ("gemini-", "google"),
    ("grok-", "xai"),
    ("mistral-", "mistral"),
    ("devstral-", "mistral"),
    ("deepseek-", "deepseek"),
];

/// What a configured or asked-for name means by the configuration's `aliases`; a name that is none passes through. The
/// short names that the agent itself knows are left to it; for one that knows none there is [`expand`].
pub(crate) fn resolve(name: &str, aliases: &BTreeMap<String, String>) -> String {
    let name = name.trim();
    aliases.get(name).map_or(name, String::as_str).to_owned()
}

/// What this provider, or the one in front of the name, calls the model that a short name means. A name that is none
/// passes through.
pub(crate) fn expand(name: &str, provider: Option<&str>) -> String {
    let name = name.trim();
    let short = |provider: &str, name: &str| {
        let (_, providers) = SHORT.iter().find(|(short, _)| short.eq_ignore_ascii_case(name))?;
        providers.iter().find(|(known, _)| *known == provider).map(|(_, id)| (*id).to_owned())
    };
    if let Some(id) = provider.and_then(|provider| short(provider, name)) {
        return id;
    }
    // The provider stands in the name: `anthropic/sonnet`.
    match name.split_once('/') {
        Some((provider, rest)) => match short(provider, rest) {
            Some(id) => format!("{provider}/{id}"),
            None => name.to_owned(),
        },
        None => name.to_owned(),
    }
}

/// Splits `provider/model` at the first `/`. Without one the configured provider stands, else the one whose models are
/// called so, else none.
pub(crate) fn split(name: &str, configured: Option<&str>) -> Model {
    let configured = configured.filter(|provider| !provider.is_empty());
    match name.split_once('/') {
        Some((provider, id)) if !provider.is_empty() && !id.is_empty() => {
            Model { provider: Some(provider.to_owned()), id: id.to_owned() }
        }
        _ => {
            let provider = configured.or_else(|| maker(name)).map(str::to_owned);
            Model { provider, id: name.to_owned() }
        }
    }
}

/// Who makes the models whose names begin so.
pub(crate) fn maker(model: &str) -> Option<&'static str> {
    MAKERS.iter().find(|(beginning, _)| model.starts_with(beginning)).map(|(_, maker)| *maker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_what_the_table_says() {
        let aliases = BTreeMap::from([
            ("fast".to_owned(), "gpt-5.4-mini".to_owned()),
            ("opus".to_owned(), "mine".to_owned()),
        ]);
        for (name, meant) in [("fast", "gpt-5.4-mini"), (" opus ", "mine"), ("sonnet", "sonnet"), ("", "")] {
            assert_eq!(resolve(name, &aliases), meant);
        }
        for (name, provider, meant) in [
            ("opus", Some("anthropic"), "claude-opus-5-5"),
            (" Sonnet ", Some("anthropic"), "claude-sonnet-5-5"),
            ("haiku", Some("openrouter"), "anthropic/claude-haiku-5.5"),
            ("sonnet", Some("github-copilot"), "claude-sonnet-5.5"),
            ("sonnet", None, "sonnet"),
            ("sonnet", Some("openai"), "sonnet"),
            ("anthropic/sonnet", None, "anthropic/claude-sonnet-5-5"),
            ("openrouter/sonnet", None, "openrouter/anthropic/claude-sonnet-5.5"),
            ("unheard/of", Some("anthropic"), "unheard/of"),
            ("no-such-model", Some("anthropic"), "no-such-model"),
            ("", Some("anthropic"), ""),
        ] {
            assert_eq!(expand(name, provider), meant, "{name} {provider:?}");
        }
    }

    #[test]
    fn the_first_slash_parts_provider_and_model() {
        for (name, configured, provider, id) in [
            ("openrouter/anthropic/claude-x", None, Some("openrouter"), "anthropic/claude-x"),
            ("anthropic/claude-sonnet-4", Some("kilo"), Some("anthropic"), "claude-sonnet-4"),
            ("claude-sonnet-4", Some("kilo"), Some("kilo"), "claude-sonnet-4"),
            ("claude-sonnet-4", Some(""), Some("anthropic"), "claude-sonnet-4"),
            ("claude-sonnet-4", None, Some("anthropic"), "claude-sonnet-4"),
            ("gpt-5.5", None, Some("openai"), "gpt-5.5"),
            ("gemini-3-flash", None, Some("google"), "gemini-3-flash"),
            ("sonnet", None, None, "sonnet"),
            ("/x", None, None, "/x"),
            ("x/", None, None, "x/"),
            ("", None, None, ""),
        ] {
            let model = split(name, configured);
            assert_eq!((model.provider.as_deref(), model.id.as_str()), (provider, id), "{name}");
        }
        assert_eq!(split("a/b/c", None).full(), "a/b/c");
        assert_eq!(split("sonnet", None).full(), "sonnet");
    }
}
