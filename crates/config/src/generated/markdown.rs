//! Markdown tables.

use std::fmt::Write as _;

use crate::filters::{Argument, ArgumentDoc, filters as entries};
use crate::generated::keys::{Key, Shape};
use crate::predicates::predicates as predicate_entries;

/// Returns the table of all keys by their paths, without sections.
pub(super) fn keys(keys: &[Key]) -> String {
    let mut out = "| Key | Default | Meaning |\n|---|---|---|\n".to_owned();
    rows("", keys, &mut out);
    out
}

fn rows(prefix: &str, keys: &[Key], out: &mut String) {
    for key in keys {
        let path = format!("{prefix}{}", key.name);
        match &key.shape {
            Shape::Value => {
                let mark = if key.needs_restart { " ¹" } else { "" };
                let literal = key.default.literal.as_ref().map(|literal| format!("`{literal}`")).unwrap_or_default();
                let default = cell(&format!("{literal}{}", key.default.words));
                writeln!(out, "| `{path}`{mark} | {default} | {} |", cell(&lower(&key.meaning))).unwrap();
            }
            Shape::Section(inner) => rows(&format!("{path}."), inner, out),
            Shape::Named(inner) => rows(&format!("{path}.NAME."), inner, out),
            Shape::List(inner) => rows(&format!("{path}[]."), inner, out),
        }
    }
}

/// Returns the table of filters by name. Filters with a heading of their own in `document` link to it.
pub(super) fn filters(document: &str) -> String {
    let mut out = "| Filter | Arguments | Does |\n|---|---|---|\n".to_owned();
    let mut entries: Vec<_> = entries().collect();
    entries.sort_by_key(|entry| entry.name);
    for entry in entries {
        let name = entry.name;
        let arguments = if document.contains(&format!("\n## Arguments of {name}\n")) {
            format!("[below](#arguments-of-{})", name.to_ascii_lowercase())
        } else {
            arguments(&entry.arguments())
        };
        writeln!(out, "| `{name}` | {arguments} | {} |", cell(&lower(entry.doc.trim_end_matches('.')))).unwrap();
    }
    out
}

/// Returns the table of predicates by name.
pub(super) fn predicates() -> String {
    let mut out = "| Predicate | Arguments | Holds when |\n|---|---|---|\n".to_owned();
    for entry in predicate_entries() {
        let doc = cell(&lower(entry.doc.trim_end_matches('.')));
        writeln!(out, "| `{}` | {} | {doc} |", entry.name, arguments(&listed(entry.args))).unwrap();
    }
    out
}

fn listed(arguments: &[Argument]) -> Vec<ArgumentDoc> {
    let doc = |argument: &Argument| ArgumentDoc { name: argument.name.to_owned(), doc: argument.doc.to_owned() };
    arguments.iter().map(doc).collect()
}

/// Returns one cell with the arguments in the order of the shortcut.
fn arguments(arguments: &[ArgumentDoc]) -> String {
    let each = arguments.iter().map(|argument| {
        let doc = argument.doc.trim_end_matches('.');
        let doc = if doc.is_empty() { String::new() } else { format!(": {}", lower(doc)) };
        format!("`{}`{doc}", argument.name)
    });
    cell(&each.collect::<Vec<_>>().join("<br>"))
}

/// Returns a sentence with a lowercase first letter, unless its first word is a name such as `HTTP`.
fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => first.to_lowercase().chain(letters).collect(),
        _ => sentence.to_owned(),
    }
}

/// Escapes a text for a cell of a table.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
