use std::collections::BTreeSet;

use trunkline_host::config::Profile;
use trunkline_profiles::PROFILES;

#[test]
fn the_host_knows_every_built_in_adapter() {
    let known: BTreeSet<_> = Profile::built_in().map(|(name, _)| name).collect();
    let built: BTreeSet<_> = PROFILES.iter().map(|profile| profile.name).collect();
    assert_eq!(built.len(), PROFILES.len(), "a name is there twice");
    assert!(built.is_subset(&known), "{built:?} {known:?}");
}

#[test]
fn each_key_belongs_to_one_built_in_adapter() {
    let keys: BTreeSet<_> = Profile::built_in().map(|(_, key)| key).collect();
    assert_eq!(keys.len(), Profile::built_in().count());
    for (name, key) in Profile::built_in() {
        assert_eq!(Profile::of_name(name).and_then(|profile| profile.key()), Some(key));
    }
}
