//! Environment variables that direct a program's requests to the bridge.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Returns the variables that make programs use the proxy on `127.0.0.1:port`.
///
/// Each name is set in both spellings, because programs disagree. `NO_PROXY` is empty, so that a
/// listed service on the host's loopback is reached through the proxy as well. Node from 22.21 and
/// 24.0 needs `NODE_USE_ENV_PROXY` to read the others. A program that ignores all of them has no
/// network.
pub fn proxy_variables(port: u16) -> BTreeMap<OsString, OsString> {
    let proxy = format!("http://127.0.0.1:{port}");
    let proxied = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ];
    let direct = ["NO_PROXY", "no_proxy"];
    let pairs = proxied.map(|name| (name, proxy.clone())).into_iter();
    pairs
        .chain(direct.map(|name| (name, String::new())))
        .chain([("NODE_USE_ENV_PROXY", "1".to_owned())])
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_names_the_bridge() {
        let variables = proxy_variables(3128);
        for name in [
            "HTTP_PROXY",
            "http_proxy",
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "all_proxy",
        ] {
            assert_eq!(
                variables[&OsString::from(name)],
                "http://127.0.0.1:3128",
                "{name}"
            );
        }
        assert_eq!(variables[&OsString::from("NO_PROXY")], "");
        assert_eq!(variables.len(), 9);
    }
}
