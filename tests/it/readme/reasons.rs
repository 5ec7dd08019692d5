//! The reason codes of the access log: the page lists those of the source, and no others.

use std::collections::BTreeSet;
use std::path::Path;

/// Starts of the expressions that name a reason code.
const MARKS: [&str; 8] = [
    "LocalReply { reason: ",
    "LocalReply::empty(",
    "refusal(",
    ".denial(",
    "reply(",
    "Reply::problem(",
    "Reply::detailed(",
    "(StatusCode::",
];
/// File whose string literals are all reason codes, if they have a hyphen.
const RECORD: &str = "record.rs";

fn add_literals(line: &str, needs_hyphen: bool, found: &mut BTreeSet<String>) {
    for literal in line.split('"').skip(1).step_by(2) {
        let is_code = literal.len() > 4 && literal.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        if is_code && (!needs_hyphen || literal.contains('-')) {
            found.insert(literal.to_owned());
        }
    }
}

fn scan(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            scan(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let (code, _) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((text.as_str(), ""));
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                if path.ends_with(RECORD) {
                    add_literals(line, true, found);
                } else if line.contains("Some(\"unreadable-head\")") || MARKS.iter().any(|mark| line.contains(mark)) {
                    add_literals(line, false, found);
                }
            }
        }
    }
}

#[test]
fn the_access_log_page_lists_every_reason_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    for folder in ["filters/src", "crates/proxy/src", "src/admin"] {
        scan(&root.join(folder), &mut found);
    }
    let page = std::fs::read_to_string(root.join("docs/reference/access-log.md")).unwrap();
    let (_, table) = page.split_once("## Reason codes").unwrap();
    let listed: BTreeSet<String> =
        table.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned())).collect();
    assert_eq!(listed, found);
}
