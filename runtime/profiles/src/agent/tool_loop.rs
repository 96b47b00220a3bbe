#[derive(Debug, Default)]
pub(crate) struct ToolLoop;
pub(crate) enum Verdict {
    Fine,
    Warn(String),
    Block(String),
}
impl ToolLoop {
    pub(crate) fn saw(&mut self, _: &str, _: &serde_json::Value) -> Verdict {
        Verdict::Fine
    }
}
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToolLoopAction {
    #[default]
    Off,
    Warn,
    End,
}
