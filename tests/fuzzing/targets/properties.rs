//! Files of properties: any bytes give either a configuration or errors with positions.

use tollgate_config::{Report, parse};

/// Longer files find no more errors and are much slower.
const MAX_BYTES: usize = 2048;

pub fn run(bytes: &[u8]) {
    if bytes.len() > MAX_BYTES {
        return;
    }
    // ISO-8859-1, as Spring Boot reads these files.
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    match parse("fuzzed.properties", &text, &|_| None) {
        Ok(loaded) => have_places(&loaded.notes, &text),
        Err(report) => {
            assert!(report.has_errors(), "refused without an error: {report}");
            have_places(&report, &text);
        }
    }
}

/// Panics if a diagnostic stands outside of the text.
fn have_places(report: &Report, text: &str) {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.split('\n').collect();
    for problem in report.list() {
        let width = problem.line.checked_sub(1).and_then(|line| lines.get(line)).map(|line| line.chars().count());
        let is_inside = width.is_some_and(|width| (1..=width + 1).contains(&problem.column));
        assert!(is_inside && !problem.message.trim().is_empty(), "a problem without a place: {problem:?}");
    }
}
