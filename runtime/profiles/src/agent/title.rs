pub(crate) fn tool_title(_: &str, _: Option<&serde_json::Value>) -> Option<String> {
    None
}
