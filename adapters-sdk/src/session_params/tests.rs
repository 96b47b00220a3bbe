use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(native: Option<&str>, params: &Value) -> Result<Option<SessionParams>, UnreadableParams> {
    let native_session_id = native.map(str::to_owned);
    SessionParams::read(&Resume {
        native_session_id,
        params: Json::from_serialize(params).ok(),
        ..Resume::default()
    })
}

#[test]
fn what_names_no_conversation_is_nothing_or_refused() {
    assert_eq!(SessionParams::read(&Resume::default()), Ok(None));
    for nothing in [json!(null), json!({}), json!("")] {
        assert_eq!(read(None, &nothing), Ok(None));
        assert_eq!(read(Some(""), &nothing), Ok(None));
        assert_eq!(read(Some("a"), &nothing), Ok(Some(SessionParams::new("a"))));
    }
    for (odd, why) in [
        (json!([1]), "not an object"),
        (json!(7), "not an object"),
        (json!(true), "not an object"),
        (json!({ "native_session_id": 7 }), "no `native_session_id`"),
        (
            json!({ "session_id": "", "cwd": "/srv" }),
            "no `native_session_id`",
        ),
    ] {
        let refused = read(None, &odd).unwrap_err().to_string();
        assert!(refused.contains(why), "{odd}: {refused}");
        assert_eq!(
            read(Some("a"), &odd).unwrap().unwrap().native_session_id,
            "a",
            "the id alone is enough"
        );
    }
}

#[test]
fn the_id_stands_in_any_of_its_forms() {
    let named = Ok(Some(SessionParams::new("a")));
    assert_eq!(read(None, &json!("a")), named);
    for name in IDS {
        assert_eq!(read(None, &json!({ name: "a" })), named, "{name}");
    }
    let several = json!({ "sessionId": "b", "native_session_id": "a", "session": 7 });
    assert_eq!(read(None, &several), named, "the first of the known names");
}

#[test]
fn parameters_of_another_conversation_say_nothing() {
    let kept = json!({ "native_session_id": "a", "cwd": "/srv", "cost_usd": 1.5 });
    assert_eq!(read(Some("b"), &kept), Ok(Some(SessionParams::new("b"))));
    let params = read(Some("a"), &kept).unwrap().unwrap();
    assert_eq!(
        (params.cwd.as_deref(), &params.more["cost_usd"]),
        (Some("/srv"), &json!(1.5))
    );
    let without_id = read(Some("a"), &json!({ "cwd": "/srv" })).unwrap().unwrap();
    assert_eq!(
        (
            without_id.native_session_id.as_str(),
            without_id.cwd.as_deref()
        ),
        ("a", Some("/srv"))
    );
}

#[test]
fn what_is_not_known_is_kept_as_it_is() {
    let written = json!({ "native_session_id": "a", "workspace_id": "w", "repo": { "url": "u", "ref": "r" } });
    let params = read(None, &written).unwrap().unwrap();
    assert_eq!(params.to_json().unwrap().to::<Value>().unwrap(), written);
    assert_eq!(SessionParams::default().to_json(), None);
}

#[test]
fn a_person_reads_the_display_id_else_the_id() {
    assert_eq!(SessionParams::new("a").display_id(), "a");
    for name in DISPLAY_IDS {
        let params = read(None, &json!({ "session": "a", name: "parser work" }))
            .unwrap()
            .unwrap();
        assert_eq!(params.display_id(), "parser work");
    }
}

#[test]
fn a_conversation_fits_its_own_directory_alone() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let link = folder.path().join("link");
    std::fs::create_dir(&place).unwrap();
    std::os::unix::fs::symlink(&place, &link).unwrap();
    let params = SessionParams {
        cwd: place.to_str().map(str::to_owned),
        ..SessionParams::new("a")
    };
    assert_eq!(params.check_cwd(&link), Ok(()));
    assert_eq!(SessionParams::new("a").check_cwd(&link), Ok(()));
    let why = params.check_cwd(folder.path()).unwrap_err().to_string();
    assert!(why.contains(place.to_str().unwrap()), "{why}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let name = prop_oneof![
            prop::sample::select(IDS.as_slice()).prop_map(str::to_owned),
            prop::sample::select(DISPLAY_IDS.as_slice()).prop_map(str::to_owned),
            Just(CWD.to_owned()),
            "[a-z]{1,6}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        id in ".{1,40}",
        cwd in prop::option::of("/.{0,40}"),
        display_id in prop::option::of(".{1,40}"),
        more in prop::collection::hash_map("own_[a-z]{1,6}", any_json(), 0..4),
    ) {
        let more = more.into_iter().collect();
        let params = SessionParams { native_session_id: id, cwd, display_id, more };
        let resume = Resume { params: params.to_json(), ..Resume::default() };
        prop_assert_eq!(SessionParams::read(&resume), Ok(Some(params)));
    }

    #[test]
    fn whatever_stands_there_is_read_or_refused(params in any_json(), named in prop::option::of("[a-c]?")) {
        let is_named = named.as_deref().is_some_and(|id| !id.is_empty());
        match read(named.as_deref(), &params) {
            Ok(Some(params)) => {
                prop_assert!(!params.native_session_id.is_empty());
                let again = Resume { params: params.to_json(), ..Resume::default() };
                prop_assert_eq!(SessionParams::read(&again), Ok(Some(params)));
            }
            Ok(None) | Err(_) => prop_assert!(!is_named),
        }
    }
}
