//! Any text gives either a configuration or errors with positions: never a panic, never a hang.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use tollgate_config::{Report, parse};

/// Longer texts find no more errors and are much slower.
const MAX_BYTES: usize = 16 * 1024;

fn env(name: &str) -> Option<String> {
    ["REDIS_HOST", "ORDERS_URL"].contains(&name).then(|| "http://host${".to_owned())
}

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(bytes) else { return Corpus::Reject };
    if text.len() > MAX_BYTES {
        return Corpus::Reject;
    }
    match parse("fuzzed.yaml", text, &env) {
        Ok(loaded) => have_places(&loaded.notes, text),
        Err(problems) => {
            assert!(problems.has_errors(), "refused without an error: {problems}");
            have_places(&problems, text);
        }
    }
    Corpus::Keep
});

/// Line breaks of YAML.
const BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

fn have_places(problems: &Report, text: &str) {
    let height = text.matches(BREAKS).count() + 1;
    for problem in problems.list() {
        let is_good = (1..=height).contains(&problem.line) && problem.column >= 1 && !problem.message.trim().is_empty();
        assert!(is_good, "a problem without a place: {problem:?}");
    }
}
