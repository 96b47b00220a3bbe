use trunkline_sdk::{Category, Error};
pub(crate) fn classify(_text: &str, _http: Option<u16>) -> Category {
    Category::Other
}
pub(crate) fn failed(text: impl Into<String>, http: Option<u16>) -> Error {
    let text = text.into();
    of(classify(&text, http), text, http)
}
pub(crate) fn of(category: Category, text: impl Into<String>, _http: Option<u16>) -> Error {
    Error::new(category, text)
}
