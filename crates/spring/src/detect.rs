//! Form of a configuration: Spring's `application.yml` or our own.
//!
//! Files decide by their sections. Only if no file does, properties outside of the files decide: a variable of the
//! environment may be meant for another program.

use crate::Form;
use crate::normalize::AT_TOP;
use crate::source::documents::{self, Document};
use tollgate_document::diagnostics::{Diagnostics, SourceText};
use tollgate_document::yaml::key::canonical;
use tollgate_document::yaml::{Node, NodeKind, Span};

/// Properties that are in an `application.yml` only, by their names in lower-case letters.
const DECISIVE: [&str; 2] = ["springcloudgateway", "springconfig"];
/// Variables of the environment for such properties that the gateway reads.
const DECISIVE_VARIABLES: [&str; 4] =
    ["SPRING_CONFIG_LOCATION", "SPRING_CONFIG_ADDITIONAL_LOCATION", "SPRING_CONFIG_IMPORT", "SPRING_CONFIG_NAME"];
/// Variables that have a route.
const ROUTES: [&str; 4] = [
    "SPRING_CLOUD_GATEWAY_ROUTES_0_ID",
    "SPRING_CLOUD_GATEWAY_ROUTES_0_URI",
    "SPRING_CLOUD_GATEWAY_SERVER_WEBFLUX_ROUTES_0_ID",
    "SPRING_CLOUD_GATEWAY_SERVER_WEBFLUX_ROUTES_0_URI",
];

/// Returns the form that `documents` of files decide: Spring's if one has a `spring:` section, otherwise our own if one
/// has a section that an `application.yml` does not have at its top level, and Spring's if one has a `logging:` section. `None`
/// if all others may be in both forms.
pub(crate) fn of_files<'n>(documents: impl Iterator<Item = &'n Node>, sections: &[&str]) -> Option<Form> {
    let (mut form, mut has_logging) = (None, false);
    for document in documents {
        let NodeKind::Map(entries) = &document.kind else { continue };
        if entries.iter().any(|(key, value)| has_spring(key, value)) {
            return Some(Form::Spring);
        }
        if entries.iter().any(|(key, _)| is_own_section(key, sections)) {
            form = Some(Form::Own);
        }
        has_logging |= entries.iter().any(|(key, _)| key == "logging" || key.starts_with("logging."));
    }
    form.or(has_logging.then_some(Form::Spring))
}

/// Returns the form that properties outside of the files decide: the names of the command line, `json` and the
/// environment.
pub(crate) fn of_properties<'n>(
    mut names: impl Iterator<Item = &'n str>,
    mut json: impl Iterator<Item = &'n Node>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Form {
    let is_spring = names.any(is_decisive)
        || json.any(|node| has_decisive("", node))
        || DECISIVE_VARIABLES.iter().chain(&ROUTES).any(|name| env(name).is_some_and(|value| !value.is_empty()));
    if is_spring { Form::Spring } else { Form::Own }
}

/// Reports the sections of our own form in a part of a folder that has Spring's form by another part: none of them would be
/// read.
pub(crate) fn report_mixed(
    documents: &[Document],
    text: &SourceText,
    sections: &[&str],
    diagnostics: &mut Diagnostics,
) {
    let form_of = |document: &Document| of_files(std::iter::once(&document.node), sections);
    for own_document in documents.iter().filter(|document| form_of(document) == Some(Form::Own)) {
        let Some(folder) = text.folder_of(own_document.id.file) else { continue };
        let is_of_spring =
            |other: &&Document| text.folder_of(other.id.file) == Some(folder) && form_of(other) == Some(Form::Spring);
        let (Some(spring), NodeKind::Map(entries)) = (documents.iter().find(is_of_spring), &own_document.node.kind)
        else {
            continue;
        };
        if let Some((name, section)) = entries.iter().find(|(name, _)| is_own_section(name, sections)) {
            diagnostics
                .error(
                    section.span.key(),
                    format!("`{name}` is of Tollgate's own form, and another file of the folder has Spring's"),
                )
                .beside(": it begins at", spring.node.span)
                .help(
                    "the files of a folder have one form: `tollgate migrate FILE` turns Spring's into Tollgate's own",
                );
        }
    }
}

/// Reports properties of the environment that have no effect on files in our own form.
pub(crate) fn report_ignored(env: &dyn Fn(&str) -> Option<String>, diagnostics: &mut Diagnostics) {
    let json = documents::json(env).map(|_| documents::JSON);
    let routes = ROUTES.iter().any(|name| env(name).is_some()).then_some("SPRING_CLOUD_GATEWAY_ROUTES_0_…");
    for name in json.into_iter().chain(routes) {
        diagnostics.note(Span::ROOT, format!("{name} has no effect: the files have Tollgate's own form"));
    }
}

/// Returns true for an entry with settings below `spring`. Imports and profiles do not count: our own form has them too.
fn has_spring(key: &str, value: &Node) -> bool {
    let is_ours = |key: &str| ["config", "profiles"].contains(&key.split('.').next().unwrap_or(key));
    match (key, &value.kind) {
        ("spring", NodeKind::Map(entries)) => entries.iter().any(|(key, _)| !is_ours(key)),
        _ => key.strip_prefix("spring.").is_some_and(|rest| !is_ours(rest)),
    }
}

fn is_own_section(key: &str, sections: &[&str]) -> bool {
    let name = canonical(key.split(['.', '[']).next().unwrap_or(key));
    let has = |names: &[&str]| names.iter().any(|section| canonical(section) == name);
    has(sections) && !has(&AT_TOP)
}

fn is_decisive(name: &str) -> bool {
    let letters: String = canonical(name).chars().filter(|c| *c != '.').collect();
    DECISIVE.iter().any(|start| letters.starts_with(start))
}

fn has_decisive(path: &str, node: &Node) -> bool {
    let NodeKind::Map(entries) = &node.kind else { return is_decisive(path) };
    entries.iter().any(|(key, value)| has_decisive(&format!("{path}.{key}"), value))
}
