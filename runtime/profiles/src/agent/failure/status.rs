//! HTTP statuses: their meaning, and their position in a text.

use std::sync::LazyLock;

use regex::Regex;
use trunkline_sdk::Category;

/// Returns the category of a status by itself. A 404 concerns the model if the text does.
pub(super) fn category(status: u16, text: &str) -> Option<Category> {
    Some(match status {
        401 | 403 => Category::Auth,
        402 => Category::Billing,
        404 if text.to_ascii_lowercase().contains("model") => Category::ModelNotFound,
        408 | 504 => Category::Timeout,
        413 => Category::ContextExhausted,
        429 => Category::RateLimit,
        503 | 529 => Category::Overloaded,
        _ => return None,
    })
}

/// Returns the status in a text: beside a word such as `status`, `error` or `HTTP`, before its own
/// name, or as the whole text. A number that counts something is none.
pub(super) fn in_text(text: &str) -> Option<u16> {
    static STATUS: LazyLock<Regex> = LazyLock::new(|| {
        let before = r#"(?:\b(?:https?(?:/[\d.]+)?|status|status_?code|code|errors?|rejected|failed with)\b["'\]:=\s(\[#]{1,4})"#;
        let number = "([45][0-9]{2})";
        let after = r"\s+(?:too many|unauthorized|forbidden|payment|not found|request timeout|payload too|service unavail|gateway|internal|bad gateway|overloaded)";
        #[expect(clippy::expect_used, reason = "a constant")]
        Regex::new(&format!(
            r"(?i){before}{number}\b|\b{number}{after}|^\s*{number}\s*$"
        ))
        .expect("a constant")
    });
    let found = STATUS.captures(text)?;
    found.iter().skip(1).flatten().next()?.as_str().parse().ok()
}
