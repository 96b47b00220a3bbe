pub(crate) fn resolve(name: &str, _: &std::collections::BTreeMap<String, String>) -> String {
    name.to_owned()
}
