//! Properties of Spring that have no effect here, each with its replacement or the reason.
//!
//! In an `application.yml` they are reported and ignored. In our own form they are errors, but those of `resilience4j`.
//! A `*` in a path is any name. Properties of an application that placeholders in the gateway's settings name are not reported as
//! skipped.

mod table;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use self::table::Meaning::{self, Nothing, Off, Only};
use crate::source::dotted;
use crate::source::expansion::closed_placeholders;
use crate::source::placeholder::of_maven;
use crate::tree::is_empty;
use tollgate_document::diagnostics::{Diagnostics, Severity, UnknownKey};
use tollgate_document::yaml::key::{canonical, same_name};
use tollgate_document::yaml::{NameIndex, Node, NodeKind};

pub use self::table::PROPERTIES;

/// Entry of the table, by its steps.
type Entry = (Vec<&'static str>, Meaning);

/// Returns the entries of the table with the first step of `path`.
fn entries(path: &[&str]) -> &'static [Entry] {
    static BY_FIRST_STEP: LazyLock<HashMap<String, Vec<Entry>>> = LazyLock::new(|| {
        let mut table = HashMap::<String, Vec<Entry>>::new();
        for (path, meaning) in PROPERTIES {
            let steps: Vec<&str> = path.split('.').collect();
            table.entry(canonical(steps.first().unwrap_or(&""))).or_default().push((steps, *meaning));
        }
        table
    });
    path.first().and_then(|first| BY_FIRST_STEP.get(&canonical(first))).map_or(&[], Vec::as_slice)
}

/// Reports the key `unknown` of an `application.yml` below `root`, whose names are in `index`. Returns false if the table does
/// not have it.
pub fn explain(unknown: &UnknownKey, root: &Node, index: &mut NameIndex, diagnostics: &mut Diagnostics) -> bool {
    let mut path: Vec<&str> = unknown.path.iter().map(String::as_str).collect();
    if !names(&path, path.len()) && meaning(&path).is_none() {
        return false;
    }
    let Some(node) = index.follow(root, &path) else { return false };
    let mut meanings = Vec::new();
    let is_known = gather(&mut path, node, &mut meanings);
    if is_known {
        meanings.into_iter().for_each(|(name, meaning, node)| report(&name, meaning, node, diagnostics));
    }
    is_known
}

/// Collects the entries of the table at and below `path`. Returns false if the table lacks one of the keys.
fn gather<'n>(path: &mut Vec<&'n str>, node: &'n Node, into: &mut Vec<(String, Meaning, &'n Node)>) -> bool {
    if let NodeKind::Map(entries) = &node.kind
        && names(path, path.len() + 1)
    {
        return entries.iter().all(|(key, value)| {
            path.push(key);
            let is_known = gather(path, value, into);
            path.pop();
            is_known
        });
    }
    let meaning = meaning(path);
    into.extend(meaning.map(|meaning| (spelled(path), meaning, node)));
    meaning.is_some()
}

/// Returns true if the table has an entry of at least `steps` steps that is `path`, or lies below it.
pub(crate) fn names(path: &[&str], steps: usize) -> bool {
    entries(path).iter().any(|(entry, _)| entry.len() >= steps && begins(entry, path))
}

/// Reports the property `name` at `node`.
fn report(name: &str, meaning: Meaning, node: &Node, diagnostics: &mut Diagnostics) {
    let at = node.span.key();
    // A circuit breaker's file may also be read by an application in Java.
    let severity = if name.starts_with("resilience4j.") { Severity::Note } else { Severity::Error };
    match meaning {
        Off(_) if node.is_text("false") => {}
        Only(value, ..) if node.is_text(value) => {}
        Nothing(why) | Off(why) => diagnostics.unused(severity, at, format!("`{name}` has no effect here")).help(why),
        Only(_, lacking, instead) => {
            diagnostics.mistake(at, format!("`{name}` has no effect: {lacking}")).ineffective().help(instead)
        }
    }
}

/// Returns the longest entry that `path` equals or is below.
fn meaning(path: &[&str]) -> Option<Meaning> {
    let matching = entries(path).iter().filter(|(start, _)| begins(path, start));
    matching.max_by_key(|(start, _)| start.len()).map(|(_, meaning)| *meaning)
}

/// Returns true if `path` begins with `start`.
fn begins(path: &[&str], start: &[&str]) -> bool {
    path.len() >= start.len() && path.iter().zip(start).all(|(step, wanted)| *wanted == "*" || same_name(step, wanted))
}

/// Returns the property as it is written in an `application.yml`.
fn spelled(path: &[&str]) -> String {
    let path = path.join(".");
    match path.split_once('.') {
        Some(("redis", _)) => format!("spring.data.{path}"),
        Some(("loadbalancer" | "discovery", _)) => format!("spring.cloud.{path}"),
        _ => path,
    }
}

/// Sections that Spring has too: their unknown keys are Spring's, unless they resemble one of ours.
const SHARED_SECTIONS: [&str; 8] =
    ["server", "management", "redis", "httpclient", "consul", "eureka", "nacos", "kubernetes"];
/// Spring's keys that resemble one of ours.
const SPRINGS_KEYS: [&str; 5] =
    ["deregister", "eurekaconnectionidletimeoutseconds", "healthcheckurl", "homepageurl", "statuspageurl"];

/// Returns true for an unknown key of a shared section that resembles none of ours.
pub fn is_springs(unknown: &UnknownKey, diagnostics: &Diagnostics) -> bool {
    let section = unknown.path.first().map_or("", String::as_str).to_ascii_lowercase();
    let name = unknown.path.last().map_or("", String::as_str);
    let is_known = SPRINGS_KEYS.contains(&canonical(name).as_str());
    SHARED_SECTIONS.contains(&section.as_str())
        && (is_known || diagnostics.closest(name, unknown.fields.iter().copied()).is_none())
}

/// Removes from `whole` the properties that `settings` need, directly or by other properties.
pub(super) fn drop_used(whole: &mut Node, settings: &Node) {
    let (mut names, mut index, mut used) = (Vec::new(), NameIndex::relaxed(), HashSet::new());
    collect(settings, &mut names);
    while let Some(name) = names.pop() {
        let steps = dotted::split(&name);
        // A placeholder for one item of a list uses the whole list.
        let steps: Vec<&str> = steps.iter().map(String::as_str).take_while(|step| !step.starts_with('[')).collect();
        let node = index.follow(whole, &steps).filter(|_| !steps.is_empty());
        if let Some(node) = node.filter(|node| used.insert(node.span.node)) {
            collect(node, &mut names);
        }
    }
    if let NodeKind::Map(sections) = &mut whole.kind {
        sections.retain_mut(|(_, section)| {
            let was_empty = is_empty(section);
            !used.contains(&section.span.node) && {
                remove(section, &used);
                was_empty || !is_empty(section)
            }
        });
    }
}

/// Removes the values below `node` with the numbers `used`.
fn remove(node: &mut Node, used: &HashSet<u32>) {
    if let NodeKind::Map(entries) = &mut node.kind {
        entries.retain(|(_, value)| !used.contains(&value.span.node));
        entries.iter_mut().for_each(|(_, value)| remove(value, used));
    }
}

/// Collects the names in the placeholders below `node`.
fn collect(node: &Node, into: &mut Vec<String>) {
    match &node.kind {
        NodeKind::Null => {}
        NodeKind::Scalar(text) => {
            for (start, end) in closed_placeholders(text) {
                let inside = &text[start..end];
                // No property has a name with a placeholder.
                let before_inner = inside.split_once("${").map_or(inside, |(before, _)| before);
                let name = match before_inner.split_once(':') {
                    Some((name, _)) => name.trim(),
                    None if before_inner.len() == inside.len() => inside.trim(),
                    None => continue,
                };
                into.extend((!name.is_empty()).then(|| name.to_owned()));
            }
            into.extend(of_maven(text, "uri").map(|placeholder| placeholder.name.to_owned()));
        }
        NodeKind::Seq(items) => items.iter().for_each(|item| collect(item, into)),
        NodeKind::Map(entries) => entries.iter().for_each(|(_, value)| collect(value, into)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_entry_counts_in_any_spelling() {
        let found = |path: &[&str]| format!("{:?}", meaning(path));
        assert!(found(&["server", "compression", "enabled"]).contains("Only"));
        assert!(found(&["server", "compression", "mimeTypes"]).contains("Nothing"));
        assert!(found(&["handlerMapping", "order"]).contains("Nothing"));
        assert_eq!(found(&["server", "port"]), "None");
        assert_eq!(found(&["server"]), "None");
    }
}
