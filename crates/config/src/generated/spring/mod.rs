//! The state of every setting of Spring Cloud Gateway, for `docs/reference/spring-properties.md`.
//!
//! `check` runs on an example of each setting, and its result is the state. So the document changes when a setting
//! begins to work or to be refused. Differences from Spring are notes beside the examples in [`tables`].

mod tables;

use std::fmt::Write as _;

use crate::diagnostics::{Diagnostic, Severity};
use crate::generated::markdown::cell;
use crate::load::parse;

/// One setting.
struct Entry {
    /// Name.
    name: &'static str,
    /// Example, for the place that its table adds.
    example: &'static str,
    /// Difference from Spring, if it works.
    note: &'static str,
}

const fn entry(name: &'static str, example: &'static str, note: &'static str) -> Entry {
    Entry { name, example, note }
}

/// Result of `check` for an example.
#[derive(Debug, PartialEq)]
enum State {
    Works,
    /// It works, with a note.
    Noted(String),
    NoEffect(String),
    Refused(String),
}

/// Returns the tables by the names that mark them in the document.
pub(super) fn tables() -> Vec<(&'static str, String)> {
    vec![
        ("properties below the root", table(tables::BELOW_ROOT, below_root)),
        ("properties outside", table(tables::OUTSIDE, outside)),
        ("routes", table(tables::ROUTES, str::to_owned)),
        ("predicates of Spring", table(tables::PREDICATES, predicate)),
        ("filters of Spring", table(tables::FILTERS, filter)),
    ]
}

/// Returns true if Spring Cloud Gateway has a filter called `name`.
pub(super) fn has_filter(name: &str) -> bool {
    tables::FILTERS.iter().any(|entry| entry.name == name)
}

const ROUTE: &str = "spring.cloud.gateway.server.webflux.routes: [\"a=http://a,Path=/**\"]\n";

fn below_root(example: &str) -> String {
    format!("spring.cloud.gateway.server.webflux.{example}\n{ROUTE}")
}

fn outside(example: &str) -> String {
    format!("{example}\n{ROUTE}")
}

fn predicate(example: &str) -> String {
    route(&format!("{{id: a, uri: 'http://a', predicates: [{example}]}}"))
}

fn filter(example: &str) -> String {
    let (route_filters, more) = example.split_once(" | ").unwrap_or((example, ""));
    let route =
        route(&format!("{{id: a, uri: 'http://a', predicates: ['Path=/{{id}}/**'], filters: [{route_filters}]}}"));
    format!("{route}{more}\n")
}

fn route(route: &str) -> String {
    format!("spring.cloud.gateway.server.webflux.routes: [{route}]\n")
}

fn table(entries: &[Entry], file: fn(&str) -> String) -> String {
    let mut out = "| Name | State | |\n|---|---|---|\n".to_owned();
    for Entry { name, example, note } in entries {
        // A setting without an example is not tried: it needs files of a deployment.
        let state = if example.is_empty() { State::Works } else { state(&file(example)) };
        let sentence = |text: &str| text.trim_end_matches('.').to_owned();
        let (word, text) = match state {
            State::Works if note.is_empty() => ("works", String::new()),
            State::Works => ("works", sentence(note)),
            State::Noted(text) => (
                "works",
                sentence(&[*note, &text].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")),
            ),
            State::NoEffect(text) => ("no effect", text),
            State::Refused(text) => ("refused", text),
        };
        writeln!(out, "| `{name}` | {word} | {} |", cell(&text)).unwrap();
    }
    out
}

/// Returns the state of the file `yaml`, without the diagnostics that every file gets.
fn state(yaml: &str) -> State {
    let (notes, is_refused) = match parse("a.yml", yaml, &|_| None) {
        Ok(loaded) => (loaded.notes, false),
        Err(problems) => (problems, true),
    };
    let about = |problem: &&Diagnostic| {
        let always = ["limits are kept in memory", "no filter authenticates"];
        !always.iter().any(|text| problem.message.contains(text))
    };
    let problems: Vec<&Diagnostic> = notes.list().iter().filter(about).collect();
    let worst = problems.iter().filter(|problem| problem.severity == Severity::Error || !is_refused);
    let Some(problem) = worst.min_by_key(|problem| problem.severity) else { return State::Works };
    // Lists of what is known, and advice that the word itself gives.
    let useless = ["did you mean", "known here", "remove it"];
    let help = problem.help.as_deref().filter(|help| !useless.iter().any(|start| help.starts_with(start)));
    let message = problem.message.split_once(" cannot be used: ").map_or(problem.message.as_str(), |(_, why)| why);
    let text = help.map_or_else(|| message.to_owned(), |help| format!("{message}: {help}"));
    let says = |signs: &[&str]| signs.iter().any(|sign| problem.message.contains(sign));
    match problem.severity {
        Severity::Error => State::Refused(text),
        _ if says(&["are skipped", "unknown key"]) => State::NoEffect("skipped, with a line that names it".to_owned()),
        _ if says(&["no effect", "not supported", "is not read", "is left out"]) => {
            State::NoEffect(help.unwrap_or(message).to_owned())
        }
        _ => State::Noted(text),
    }
}

#[test]
fn states_match_the_diagnostics() {
    assert_eq!(state(&filter("StripPrefix=1")), State::Works);
    assert!(matches!(state(&filter("SaveSession")), State::NoEffect(text) if text.contains("no session")));
    assert!(matches!(state(&outside("spring.data.redis.lettuce.pool.max-active: 8")), State::NoEffect(_)));
    assert!(matches!(state(&filter("'StripPrefix=1,2'")), State::Noted(_)));
}

#[test]
fn each_name_is_in_its_table_once() {
    for (name, table) in tables() {
        let mut names: Vec<&str> = table.lines().skip(2).filter_map(|line| line.split('`').nth(1)).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{name}");
    }
}
