//! Address of requests.

use reqwest::Url;
use serde::Deserialize;

use super::super::template::{OF_TURN, Template, ValuePosition, Values};

/// A URL with placeholders behind its host.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "String", description = "", extend("format" = "uri")))]
pub(crate) struct Address {
    template: Template,
    /// Number of segments of the path.
    segments: usize,
}

/// Shows nothing: it may hold a password or a key.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Address(..)")
    }
}

impl Address {
    /// The URL of one request. A value such as `..` would lead elsewhere.
    pub(crate) fn render(&self, values: &Values) -> Result<Url, String> {
        let url = Url::parse(&self.template.render(values, ValuePosition::Url));
        let url = url.map_err(|error| format!("no URL: {error}"))?;
        if segments(&url) != self.segments {
            return Err("another path: a value is `.` or `..`".to_owned());
        }
        Ok(url)
    }

    pub(crate) fn template(&self) -> &Template {
        &self.template
    }

    /// The parts that are the same for any values: user, password, and the fixed fields of the query.
    pub(crate) fn fixed(&self) -> Option<(Url, Vec<(String, String)>)> {
        let [one, other] = samples(&self.template).ok()?;
        let others: Vec<_> = other.query_pairs().into_owned().collect();
        let fields = one
            .query_pairs()
            .into_owned()
            .filter(|field| others.contains(field))
            .collect();
        Some((one, fields))
    }
}

/// The URL with two values, which differ.
fn samples(template: &Template) -> Result<[Url; 2], String> {
    let read = |sample| {
        let values = Values::from(OF_TURN.map(|name| (name, sample)));
        Url::parse(&template.render(&values, ValuePosition::Url))
            .map_err(|error| format!("no URL: {error}"))
    };
    Ok([read("a")?, read("b")?])
}

fn segments(url: &Url) -> usize {
    url.path_segments().map_or(0, Iterator::count)
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("`base_url` is empty: it is the address of all requests".to_owned());
        }
        let template = Template::parse(text.trim())?;
        let [one, other] = samples(&template)?;
        if !matches!(one.scheme(), "http" | "https") {
            return Err("no URL of http or https".to_owned());
        }
        let origins = (one.origin(), one.username(), one.password());
        if origins != (other.origin(), other.username(), other.password()) {
            return Err("a placeholder is in the host; it is allowed only after it".to_owned());
        }
        Ok(Self {
            template,
            segments: segments(&one),
        })
    }
}
