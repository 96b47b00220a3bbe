use super::*;

fn tokens(input: u64, output: u64) -> Tokens {
    Tokens {
        input: Some(input),
        output: Some(output),
        ..Tokens::default()
    }
}

#[track_caller]
fn costs(prices: &Prices, model: &str, tokens: Tokens, expected: f64) {
    let cost = prices.cost(model, tokens).expect(model);
    assert!(
        (cost - expected).abs() < 1e-9,
        "{model}: {cost}, not {expected}"
    );
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.json");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn the_built_in_table_is_valid_and_names_its_source() {
    let table: Table = serde_json::from_str(BUILT_IN).unwrap();
    assert!(table.source.contains("https://") && table.date.len() == 10);
    for (model, price) in &table.models {
        let price = price.expect(model);
        assert!(price.input > 0.0 && price.output >= price.input, "{model}");
        assert!(
            price.cache_read.is_none_or(|cached| cached < price.input),
            "{model}"
        );
        assert!(
            price.cache_write.is_none_or(|cached| cached > price.input),
            "{model}"
        );
    }
    assert_eq!(
        Prices::built_in().models.len(),
        table.models.len(),
        "two names are one"
    );
}

#[test]
fn cached_tokens_are_a_part_of_the_input() {
    let prices = Prices::built_in();
    let used = Tokens {
        cache_read: Some(600_000),
        cache_write: Some(100_000),
        ..tokens(1_000_000, 100_000)
    };
    costs(
        &prices,
        "claude-sonnet-4-5",
        used,
        0.3 * 3.0 + 0.6 * 0.3 + 0.1 * 3.75 + 0.1 * 15.0,
    );
    // More from the cache than was read is a mistake of the agent, never a negative cost.
    costs(
        &prices,
        "gpt-5",
        Tokens {
            cache_read: Some(5_000_000),
            ..tokens(1_000_000, 0)
        },
        0.125,
    );
    // No price for what goes into a cache: it is input.
    costs(
        &prices,
        "gpt-5",
        Tokens {
            cache_write: Some(1_000_000),
            ..tokens(1_000_000, 0)
        },
        1.25,
    );
}

#[test]
fn a_model_is_found_under_the_names_that_agents_give_it() {
    let prices = Prices::built_in();
    for name in [
        "claude-sonnet-4-5",
        "claude-sonnet-4.5",
        "Claude-Sonnet-4-5-20250929",
        "anthropic/claude-sonnet-4-5",
        "openrouter/anthropic/claude-sonnet-4.5",
        "claude-sonnet-4-5-latest",
        "claude-sonnet-4-5-2025-09-29",
    ] {
        costs(&prices, name, tokens(1_000_000, 0), 3.0);
    }
}

#[test]
fn what_is_not_known_costs_nothing_that_could_be_said() {
    let prices = Prices::built_in();
    for name in [
        "",
        "gpt",
        "gpt-5-huge",
        "gpt-5:free",
        "claude-sonnet-4-5[1m]",
        "-20250929",
        "é-20250929",
        "20",
    ] {
        assert_eq!(prices.cost(name, tokens(1, 1)), None, "{name}");
    }
    assert_eq!(
        prices.cost(
            "gpt-5",
            Tokens {
                output: None,
                ..tokens(1, 1)
            }
        ),
        None
    );
    assert_eq!(
        prices.cost(
            "gpt-5",
            Tokens {
                input: None,
                ..tokens(1, 1)
            }
        ),
        None
    );
}

#[test]
fn a_file_replaces_adds_and_removes() {
    let (_folder, path) = file(
        r#"{"source": "contract", "date": "2026-01-15", "models": {
            "GPT-5": {"input": 1, "output": 8}, "house": {"input": 0, "output": 0}, "o3": null}}"#,
    );
    let prices = Prices::built_in().with_file(&path).unwrap();
    costs(&prices, "gpt-5", tokens(1_000_000, 1_000_000), 9.0);
    costs(&prices, "house", tokens(7, 7), 0.0);
    assert_eq!(prices.cost("o3", tokens(1, 1)), None);
    costs(&prices, "o4-mini", tokens(1_000_000, 0), 1.1);
    assert_eq!((prices.source(), prices.date()), ("contract", "2026-01-15"));
}

#[test]
fn a_bad_file_is_refused_with_its_name_and_place() {
    let cases = [
        (
            r#"{"source": "s", "date": "d", "models": {"a": {"input": 1}}}"#,
            "missing field `output`",
        ),
        (
            r#"{"source": "s", "date": "d", "models": {"a": {"input": 1, "output": 2, "cash": 1}}}"#,
            "cash",
        ),
        (
            r#"{"source": "s", "date": "d", "models": {"a": {"input": -1, "output": 2}}}"#,
            "negative price: a",
        ),
        (r#"{"models": {}}"#, "missing field `source`"),
        ("[]", "invalid length 0"),
    ];
    for (text, expected) in cases {
        let (_folder, path) = file(text);
        let error = Prices::built_in().with_file(&path).unwrap_err();
        let cause = std::error::Error::source(&error)
            .map(ToString::to_string)
            .unwrap_or_default();
        let shown = format!("{error}: {cause}");
        assert!(
            shown.contains("prices.json") && shown.contains(expected),
            "{shown}"
        );
    }
    let (_folder, path) = file(&" ".repeat(1024 * 1024 + 1));
    assert!(matches!(
        Prices::built_in().with_file(&path),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(
        Prices::built_in().with_file(Path::new("/nowhere")),
        Err(Error::Read { .. })
    ));
}
