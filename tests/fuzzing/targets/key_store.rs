//! Key stores and trust stores. A store that opens has the same contents each time; no other one harms.

use tollgate_key_store::{certificates, identity};

/// Password of the corpus.
const PASSWORD: &str = "changeit";

pub fn run(input: &[u8]) {
    let found = identity(input, PASSWORD, None);
    if let Ok(found) = &found {
        assert!(!found.key.is_empty() && !found.chain.is_empty());
        assert!(certificates(input, PASSWORD).is_ok(), "its certificate is trusted");
    }
    assert_eq!(identity(input, PASSWORD, None), found, "reading twice differs");
    let _ = identity(input, PASSWORD, Some("web"));
}
