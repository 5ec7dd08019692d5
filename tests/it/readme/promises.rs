//! The page of promises names only tests that exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::{file, root};

const PAGE: &str = "docs/design/promises.md";

/// Collects the names of the test functions below `folder`.
fn collect_tests(folder: &Path, tests: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() && !path.ends_with("target") {
            collect_tests(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            tests.extend(tests_of(&std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Returns the names of the functions with a test attribute. Those that do not run by themselves are left out.
fn tests_of(source: &str) -> Vec<String> {
    let (mut is_test, mut names) = (false, Vec::new());
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_test = false;
        }
        let Some((before, rest)) = line.split_once("fn ") else { continue };
        if is_test && (before.is_empty() || before.ends_with(' ')) {
            names.push(rest.split(['(', '<']).next().unwrap_or_default().to_owned());
        }
        is_test = false;
    }
    names
}

/// Returns the rows of the tables of the page: first cell, last cell.
fn rows(page: &str) -> Vec<(String, String)> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let tables = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("|---"));
    let rows = tables.map(cells).filter(|cells| cells.last().is_some_and(|last| last != "Tests"));
    rows.map(|cells| (cells[0].clone(), cells.last().cloned().unwrap_or_default())).collect()
}

#[test]
fn every_promise_names_tests_that_exist() {
    let mut tests = BTreeSet::new();
    for folder in ["crates", "filters", "src", "tests"] {
        collect_tests(&root().join(folder), &mut tests);
    }
    assert!(tests.contains("every_promise_names_tests_that_exist") && tests.len() > 500, "{}", tests.len());
    let (page, steps) = (file(PAGE), file(".ci/run"));
    let rows = rows(&page);
    for (promise, shown_by) in &rows {
        let names: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "`{promise}` names no test");
        for name in names {
            let exists = match shown_by.starts_with("CI: ") {
                true => steps.contains(&format!("step '{name}'")),
                false => tests.contains(name),
            };
            assert!(exists, "`{promise}` names `{name}`, which does not exist");
        }
    }
    for number in 1..=12 {
        let row = format!("P{number} ");
        assert_eq!(rows.iter().filter(|(promise, _)| promise.starts_with(&row)).count(), 1, "P{number}");
    }
    assert!(rows.len() >= 80, "{} rows", rows.len());
}
