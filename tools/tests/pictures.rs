//! Compares the pictures in `docs/limiters/` with the decisions of the limiters.

#![allow(clippy::unwrap_used, missing_docs)]

use tollgate_tools::plots;

#[test]
fn pictures_in_docs_match_the_limiters_decisions() {
    for (name, picture) in plots::all().unwrap() {
        let committed = std::fs::read_to_string(plots::folder().join(name)).unwrap();
        assert!(committed == picture, "{name} is out of date; run `cargo run -p tollgate-tools --bin plot-limiters`");
        assert!(committed.len() < 40 * 1024, "{name} has {} bytes", committed.len());
    }
}
