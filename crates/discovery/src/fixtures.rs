//! Arbitrary JSON for the tests of readers.

use proptest::prelude::*;
use serde_json::Value;

/// Generates JSON of any shape, with these keys among others.
pub(super) fn any_json(keys: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (1_i64..70_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&["a", "10.0.0.1", "UP", "passing", "true", "80", "\r\n", ""][..]).prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    let key = prop_oneof![9 => prop::sample::select(keys).prop_map(str::to_owned), 1 => ".*"];
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..8)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}
