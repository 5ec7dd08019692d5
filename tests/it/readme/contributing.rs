//! CONTRIBUTING.md: the paths that it names exist, and the diffs that it shows fit the code.

use super::{blocks, file, root};

const PAGE: &str = "CONTRIBUTING.md";

#[test]
fn every_path_in_contributing_exists() {
    let page = file(PAGE);
    let quoted = page.split('`').skip(1).step_by(2);
    let paths: Vec<&str> = quoted.filter(|text| text.contains('/') && !text.contains([' ', '<', '{', '\n'])).collect();
    assert!(paths.len() > 10, "{paths:?}");
    for path in paths {
        assert!(root().join(path.trim_end_matches("/**")).exists(), "{PAGE} names {path}");
    }
}

/// Returns a line of a diff that the file must have.
fn unchanged_or_removed(line: &str) -> Option<&str> {
    line.strip_prefix([' ', '-']).filter(|_| !line.starts_with("--- "))
}

#[test]
fn the_context_of_every_diff_stands_in_its_file() {
    let mut lines = 0;
    for (_, diff) in blocks(&file(PAGE), "diff") {
        let mut current = None;
        for line in diff.lines() {
            if let Some(path) = line.strip_prefix("+++ ") {
                // A new file has no context.
                current = std::fs::read_to_string(root().join(path)).ok().map(|text| (path.to_owned(), text));
                assert!(current.is_some() || diff.contains("--- /dev/null"), "{PAGE}: no file {path}");
            } else if let (Some(context), Some((path, text))) = (unchanged_or_removed(line), &current) {
                assert!(text.lines().any(|line| line == context), "{PAGE}: {path} has no line `{context}`");
                lines += 1;
            }
        }
    }
    assert!(lines >= 8, "{lines} lines of context");
}
