//! Asking the user for values.

use std::collections::BTreeMap;

use trunkline_protocol::{FieldKind, InputRequest, InputResponse, Json, QuestionField, RequestId};

/// A question to the user. To a host without `questions` it is shown as text and counts as
/// cancelled ([ext.3]).
#[derive(Debug, Clone, Default)]
pub struct Question {
    prompt: String,
    fields: Vec<QuestionField>,
    expires_at: Option<String>,
}

impl Question {
    /// A question; without fields one text is asked for.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            ..Self::default()
        }
    }

    /// Asks for a value of this kind.
    #[must_use]
    pub fn ask_for(self, id: impl Into<String>, label: impl Into<String>, kind: FieldKind) -> Self {
        self.field(QuestionField {
            id: id.into(),
            label: Some(label.into()),
            kind: Some(kind),
            ..QuestionField::default()
        })
    }

    /// Adds a field with all its details.
    #[must_use]
    pub fn field(mut self, field: QuestionField) -> Self {
        self.fields.push(field);
        self
    }

    /// Sets the time at which the agent gives up, in RFC 3339.
    #[must_use]
    pub fn expires_at(mut self, time: impl Into<String>) -> Self {
        self.expires_at = Some(time.into());
        self
    }

    pub(crate) fn into_request(self, request_id: RequestId) -> InputRequest {
        InputRequest {
            request_id,
            prompt: self.prompt,
            fields: (!self.fields.is_empty()).then_some(self.fields),
            expires_at: self.expires_at,
        }
    }
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Answer {
    /// The values by field id.
    pub values: BTreeMap<String, Json>,
    cancelled: bool,
}

impl Answer {
    /// Returns true if there is no answer: withdrawn, stopped, closed, or the host cannot ask.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// The text of a field; of the only one where there is one.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<String> {
        self.values.get(field).and_then(|value| value.to().ok())
    }

    pub(crate) fn cancelled() -> Self {
        Self {
            cancelled: true,
            ..Self::default()
        }
    }

    pub(crate) fn from_response(response: InputResponse) -> Self {
        // Neither values nor `cancelled` is not an answer either (section 11.6).
        match response.values {
            Some(values) if response.cancelled != Some(true) => Self {
                values,
                cancelled: false,
            },
            _ => Self::cancelled(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_says_nothing_is_cancelled() {
        let answer = |values: Option<&str>, cancelled| {
            let values = values.map(|text| {
                [("a".to_owned(), Json::from_serialize(text).unwrap())]
                    .into_iter()
                    .collect()
            });
            Answer::from_response(InputResponse {
                request_id: RequestId::new("i").unwrap(),
                values,
                cancelled,
            })
        };
        assert!(answer(None, None).is_cancelled());
        assert!(answer(Some("x"), Some(true)).is_cancelled());
        let answered = answer(Some("x"), None);
        assert_eq!(
            (answered.is_cancelled(), answered.text("a").as_deref()),
            (false, Some("x"))
        );
    }
}
