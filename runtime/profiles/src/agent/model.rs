//! Resolves the name of a model: the configuration's aliases, short names per provider,
//! `provider/model` (census rows O02 and O05).

use std::collections::BTreeMap;

use crate::agents;

/// A model and its provider, if that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Model {
    /// Provider.
    pub(crate) provider: Option<String>,
    /// The provider's name of the model.
    pub(crate) id: String,
}

impl Model {
    /// Returns `provider/model`, or just the model if no provider is known.
    pub(crate) fn full(&self) -> String {
        match &self.provider {
            Some(provider) => format!("{provider}/{}", self.id),
            None => self.id.clone(),
        }
    }
}

/// Short names that people use, and what Anthropic calls those models.
const SHORT: [(&str, &str); 3] = [
    ("opus", "claude-opus-5-5"),
    ("sonnet", "claude-sonnet-5-5"),
    ("haiku", "claude-haiku-5-5"),
];

/// Prefixes of model names that identify the maker.
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

/// The names of the variables that choose the model of a profile's agent.
pub(crate) fn variables(profile: &str) -> impl Iterator<Item = &'static str> + use<> {
    let known = agents::by_name(profile).map(|file| &file.model_variables);
    let names = known
        .into_iter()
        .flat_map(|known| [&known.model, &known.provider]);
    names.filter_map(|name| name.as_deref())
}

/// Returns the configured model, or the one in the variables that the profile reads, by `value`.
/// Empty: the agent chooses.
pub(crate) fn configured(
    model: &str,
    program: &str,
    value: impl Fn(&str) -> Option<String>,
) -> String {
    let known = agents::all()
        .map(|file| &file.model_variables)
        .find(|known| known.read_for.as_deref() == Some(program));
    let Some(known) = known.filter(|_| model.is_empty()) else {
        return model.to_owned();
    };
    let set = |name: &String| {
        value(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    };
    match (
        known.model.as_ref().and_then(set),
        known.provider.as_ref().and_then(set),
    ) {
        (Some(model), Some(provider)) if !model.starts_with(&format!("{provider}/")) => {
            format!("{provider}/{model}")
        }
        (model, _) => model.unwrap_or_default(),
    }
}

/// Resolves a configured or requested name by the configuration's `aliases`; any other name passes
/// through.
pub(crate) fn resolve(name: &str, aliases: &BTreeMap<String, String>) -> String {
    let name = name.trim();
    aliases.get(name).map_or(name, String::as_str).to_owned()
}

/// Splits `provider/model` at the first `/`. Without one, uses the configured provider, or the one
/// whose models have such names, or none. For agents that know no short names: Anthropic's are
/// written out.
pub(crate) fn split(name: &str, configured: Option<&str>) -> Model {
    let configured = configured.filter(|provider| !provider.is_empty());
    let mut model = match name.split_once('/') {
        Some((provider, id)) if !provider.is_empty() && !id.is_empty() => Model {
            provider: Some(provider.to_owned()),
            id: id.to_owned(),
        },
        _ => {
            let provider = configured.or_else(|| maker(name)).map(str::to_owned);
            Model {
                provider,
                id: name.to_owned(),
            }
        }
    };
    let short = SHORT
        .iter()
        .find(|(short, _)| short.eq_ignore_ascii_case(model.id.trim()));
    if let (Some("anthropic"), Some((_, id))) = (model.provider.as_deref(), short) {
        (*id).clone_into(&mut model.id);
    }
    model
}

/// Returns the maker of models with such a prefix.
pub(crate) fn maker(model: &str) -> Option<&'static str> {
    MAKERS
        .iter()
        .find(|(beginning, _)| model.starts_with(beginning))
        .map(|(_, maker)| *maker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_chooses_the_model_where_the_configuration_names_none() {
        for (program, model, set, chosen) in [
            (
                "codex",
                "",
                &[("CODEX_DEFAULT_MODEL", "gpt-5.5")][..],
                "gpt-5.5",
            ),
            (
                "codex",
                "gpt-5",
                &[("CODEX_DEFAULT_MODEL", "gpt-5.5")],
                "gpt-5",
            ),
            (
                "codex",
                "",
                &[("CODEX_DEFAULT_MODEL", " "), ("KILO_MODEL", "m")],
                "",
            ),
            // Claude reads its own.
            ("claude", "", &[("ANTHROPIC_MODEL", "opus")], ""),
            (
                "kilo",
                "",
                &[("KILO_MODEL", "x/m"), ("KILO_PROVIDER", "openrouter")],
                "openrouter/x/m",
            ),
            (
                "kilo",
                "",
                &[
                    ("KILO_MODEL", "openrouter/m"),
                    ("KILO_PROVIDER", "openrouter"),
                ],
                "openrouter/m",
            ),
            ("kilo", "", &[("KILO_MODEL", "m")], "m"),
            ("kilo", "", &[("KILO_PROVIDER", "openrouter")], ""),
            (
                "kilo",
                "a/b",
                &[("KILO_MODEL", "m"), ("KILO_PROVIDER", "openrouter")],
                "a/b",
            ),
        ] {
            let value = |name: &str| {
                set.iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(
                configured(model, program, value),
                chosen,
                "{program} {model} {set:?}"
            );
        }
    }

    #[test]
    fn names_mean_what_the_table_says() {
        let aliases = BTreeMap::from([
            ("fast".to_owned(), "gpt-5.4-mini".to_owned()),
            ("opus".to_owned(), "mine".to_owned()),
        ]);
        for (name, meant) in [
            ("fast", "gpt-5.4-mini"),
            (" opus ", "mine"),
            ("sonnet", "sonnet"),
            ("", ""),
        ] {
            assert_eq!(resolve(name, &aliases), meant);
        }
        for (name, provider, meant) in [
            ("opus", Some("anthropic"), "anthropic/claude-opus-5-5"),
            (" Sonnet ", Some("anthropic"), "anthropic/claude-sonnet-5-5"),
            ("anthropic/haiku", None, "anthropic/claude-haiku-5-5"),
            ("sonnet", Some("openai"), "openai/sonnet"),
            ("unheard/of", Some("anthropic"), "unheard/of"),
            (
                "no-such-model",
                Some("anthropic"),
                "anthropic/no-such-model",
            ),
        ] {
            assert_eq!(split(name, provider).full(), meant, "{name} {provider:?}");
        }
    }

    #[test]
    fn the_first_slash_parts_provider_and_model() {
        for (name, configured, provider, id) in [
            (
                "openrouter/anthropic/claude-x",
                None,
                Some("openrouter"),
                "anthropic/claude-x",
            ),
            (
                "anthropic/claude-sonnet-4",
                Some("kilo"),
                Some("anthropic"),
                "claude-sonnet-4",
            ),
            (
                "claude-sonnet-4",
                Some("kilo"),
                Some("kilo"),
                "claude-sonnet-4",
            ),
            (
                "claude-sonnet-4",
                Some(""),
                Some("anthropic"),
                "claude-sonnet-4",
            ),
            (
                "claude-sonnet-4",
                None,
                Some("anthropic"),
                "claude-sonnet-4",
            ),
            ("gpt-5.5", None, Some("openai"), "gpt-5.5"),
            ("gemini-3-flash", None, Some("google"), "gemini-3-flash"),
            ("sonnet", None, None, "sonnet"),
            ("/x", None, None, "/x"),
            ("x/", None, None, "x/"),
            ("", None, None, ""),
        ] {
            let model = split(name, configured);
            assert_eq!(
                (model.provider.as_deref(), model.id.as_str()),
                (provider, id),
                "{name}"
            );
        }
        assert_eq!(split("a/b/c", None).full(), "a/b/c");
        assert_eq!(split("sonnet", None).full(), "sonnet");
    }
}
