//! Files of API keys: an accepted key is found by its hash, and has an id that fits a header field.
//!
//! Input: a file, or an entry.

use std::collections::HashMap;

use tollgate_filters::api_key::{ApiKey, KeyTable};

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match KeyTable::parse(text) {
        Ok(table) => {
            let mut plans = HashMap::new();
            for (hash, key) in table.iter() {
                check(&key);
                assert_eq!(table.find(hash).as_ref(), Some(&key));
                assert_eq!(plans.entry(key.id.clone()).or_insert_with(|| key.plan.clone()), &key.plan);
            }
            assert_eq!(table.iter().count(), table.len());
        }
        Err(error) => assert!(!error.errors.is_empty() && error.errors.iter().all(|error| error.line > 0)),
    }
    if let Ok((key, _)) = ApiKey::parse(text) {
        check(&key);
    }
}

fn check(key: &ApiKey) {
    assert!((1..=128).contains(&key.id.len()) && key.id.bytes().all(|byte| byte.is_ascii_graphic()), "{key:?}");
}
