//! Tables of Markdown.

use std::fmt::Write as _;

use crate::filters::{Entry, filters as entries};
use crate::generated::keys::{Key, Shape, split};
use crate::predicates::predicates as predicate_entries;
use crate::spec::Shortcut;
use tollgate_routing::PredicateArgument;

/// One key with its path.
pub(super) struct KeyRow {
    /// The path, such as `upstreams.NAME.health.path`.
    pub(super) path: String,
    default: String,
    meaning: String,
    needs_restart: bool,
}

/// All keys by their paths, sections left out.
pub(super) fn key_rows(keys: &[Key]) -> Vec<KeyRow> {
    let mut found = Vec::new();
    rows("", keys, &mut found);
    found
}

fn rows(prefix: &str, keys: &[Key], found: &mut Vec<KeyRow>) {
    for key in keys {
        let path = format!("{prefix}{}", key.name);
        match &key.shape {
            Shape::Value => {
                let default = key.default.cell();
                found.push(KeyRow { path, default, meaning: key.meaning.clone(), needs_restart: key.needs_restart });
            }
            Shape::Section(inner) => rows(&format!("{path}."), inner, found),
            Shape::Named(inner) => rows(&format!("{path}.NAME."), inner, found),
            Shape::List(inner) => rows(&format!("{path}[]."), inner, found),
        }
    }
}

/// Returns the table of some keys.
pub(super) fn key_table<'r>(rows: impl Iterator<Item = &'r KeyRow>) -> String {
    let mut out = "| Key | Default | Meaning |\n|---|---|---|\n".to_owned();
    for row in rows {
        let mark = if row.needs_restart { " ¹" } else { "" };
        writeln!(out, "| `{}`{mark} | {} | {} |", row.path, cell(&row.default), cell(&lower(&row.meaning))).unwrap();
    }
    out
}

/// Returns the list of filters by name, with links to their pages.
pub(super) fn filter_list() -> String {
    let mut out = "| Filter | Does |\n|---|---|\n".to_owned();
    let mut entries: Vec<_> = entries().collect();
    entries.sort_by_key(|entry| entry.name);
    for Entry { name, doc, .. } in entries {
        writeln!(out, "| [`{name}`]({name}.md) | {} |", cell(&lower(doc.trim_end_matches('.')))).unwrap();
    }
    out
}

/// Returns the purpose of a filter, and one row per argument.
pub(super) fn filter_page(name: &str, is_in_spring: bool) -> String {
    let entry = entries().find(|entry| entry.name == name).unwrap_or_else(|| panic!("no filter is called `{name}`"));
    let mut out = entry.doc.to_owned();
    if !is_in_spring {
        out.push_str(" Spring Cloud Gateway does not have this filter.");
    }
    out.push('\n');
    let arguments = entry.arguments();
    if !arguments.is_empty() {
        out.push_str("\n| Argument | Default | Meaning |\n|---|---|---|\n");
        for argument in arguments {
            let (meaning, default) = split(&argument.doc);
            let meaning = cell(&lower(meaning.trim_end_matches('.')));
            writeln!(out, "| `{}` | {} | {meaning} |", argument.name, cell(&default.cell())).unwrap();
        }
    }
    out
}

/// Returns the first page of a filter: its generated part, and an example with values of the arguments' types.
pub(super) fn new_filter_page(entry: &Entry, is_in_spring: bool) -> String {
    let name = entry.name;
    let values: Vec<String> = match entry.args.shortcut {
        Shortcut::All | Shortcut::List => entry.arguments().into_iter().map(|argument| argument.example).collect(),
        Shortcut::Some(_) | Shortcut::ListAndFlag | Shortcut::None(_) => Vec::new(),
    };
    let shortcut = if values.is_empty() { name.to_owned() } else { format!("{name}={}", values.join(",")) };
    format!(
        "# {name}\n\n<!-- generated: filter {name} -->\n{}<!-- /generated -->\n\n## Example\n\n```yaml\nroutes:\n  - id: \
         orders\n    uri: http://127.0.0.1:9000\n    predicates: [Path=/orders/**]\n    filters:\n      - {shortcut}\n```\n",
        filter_page(name, is_in_spring)
    )
}

#[test]
fn a_new_page_of_a_filter_has_its_arguments_and_an_example() {
    let entry = entries().find(|entry| entry.name == "SetStatus").unwrap();
    let page = new_filter_page(entry, true);
    assert!(page.starts_with("# SetStatus\n\n<!-- generated: filter SetStatus -->\n"), "{page}");
    assert!(page.contains("| `status` |") && page.contains("      - SetStatus=429\n```\n"), "{page}");
}

/// Returns the table of predicates by name.
pub(super) fn predicates() -> String {
    let mut out = "| Predicate | Arguments | Holds when |\n|---|---|---|\n".to_owned();
    for entry in predicate_entries() {
        let doc = cell(&lower(entry.doc.trim_end_matches('.')));
        writeln!(out, "| `{}` | {} | {doc} |", entry.name, arguments(entry.args)).unwrap();
    }
    out
}

/// Arguments in the order of the shortcut, as one cell.
fn arguments(arguments: &[PredicateArgument]) -> String {
    let each = arguments.iter().map(|argument| {
        let doc = argument.doc.trim_end_matches('.');
        let doc = if doc.is_empty() { String::new() } else { format!(": {}", lower(doc)) };
        format!("`{}`{doc}", argument.name)
    });
    cell(&each.collect::<Vec<_>>().join("<br>"))
}

/// A sentence as it goes on behind a colon: its first letter small, unless its first word is a name such as `HTTP`.
fn lower(sentence: &str) -> String {
    if ["Spring", "Java", "Redis"].iter().any(|name| sentence.starts_with(name)) {
        return sentence.to_owned();
    }
    let mut letters = sentence.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => first.to_lowercase().chain(letters).collect(),
        _ => sentence.to_owned(),
    }
}

/// A text that is one cell of a table.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
