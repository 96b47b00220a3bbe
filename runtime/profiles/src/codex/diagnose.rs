//! What `--diagnose` checks.

use trunkline_sdk::Check;

use super::Settings;

pub(super) async fn checks(settings: &Settings) -> Vec<Check> {
    let _ = settings;
    vec![Check::info("start", "the adapter starts")]
}
