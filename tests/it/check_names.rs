//! `tollgate check`: names of upstreams without an address.

use std::path::Path;

use serde_json::Value;

use crate::support::gateway::run;

#[test]
fn a_name_without_an_address_is_a_warning_at_its_place_unless_offline() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/check/upstream-without-address.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let file = file.to_str().unwrap();
    let (code, out, err) = run(&["check", file]);
    assert_eq!(code, Some(0), "the warnings change no exit code: {err}");
    assert!(out.ends_with(": ok, 4 routes\n"), "{out}");
    // A resolver without a reply has one warning for both names.
    let is_silent = err.contains("no reply from the resolver about `orders.invalid` and 1 more within 2s");
    for expected in text.lines().map_while(|line| line.strip_prefix("# expect: ")) {
        assert!(is_silent || err.contains(expected), "no `{expected}` in\n{err}");
    }
    let names = if is_silent { 1 } else { 2 };
    assert_eq!(err.matches(": warning: ").count(), names, "each name once: {err}");
    assert!(err.contains("`--offline` skips this check"), "{err}");
    let (_, json, _) = run(&["check", "--json", file]);
    let result: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(result["diagnostics"].as_array().unwrap().len(), names, "{json}");
    let (code, _, err) = run(&["check", "--offline", file]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}
