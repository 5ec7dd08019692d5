//! Predicates: Spring's rules for ports and a `/` at the end, and arguments that Spring reads in another way.

use std::net::Ipv6Addr;

use crate::translate::Explicit;
use crate::translate::component::{Component, Condition, each_condition};
use crate::tree::find;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::{canonical, same_name};
use tollgate_document::yaml::{Node, NodeKind};

/// Predicates whose first argument is a list, with that argument, and another one.
const LISTS: [(&str, &str, &str); 5] = [
    ("Host", "patterns", ""),
    ("Method", "methods", ""),
    ("Path", "patterns", "matchTrailingSlash"),
    ("RemoteAddr", "sources", ""),
    ("XForwardedRemoteAddr", "sources", "maxTrustedIndex"),
];

/// `ignores_trailing_slash`: true for Spring Cloud Gateway up to 4.3.
pub(super) fn translate(
    root: &mut Node,
    ignores_trailing_slash: bool,
    explicit: &mut Explicit,
    diagnostics: &mut Diagnostics,
) {
    let (mut has_host, mut has_path) = (false, false);
    each_condition(root, &mut |condition| {
        let predicate = match condition {
            Condition::Predicate(predicate) => predicate,
            Condition::Joined(word, at) => {
                let message = format!("`{word}` exists only in Tollgate: Spring Cloud Gateway refuses it");
                diagnostics.warn(at.key(), message);
                return;
            }
        };
        let Some(component) = Component::read(predicate) else { return };
        has_host |= component.name == "Host";
        has_path |= component.name == "Path";
        report(&component, ignores_trailing_slash, diagnostics);
        let list = LISTS.iter().find(|(name, ..)| *name == component.name);
        if let Some(((_, list, other), args)) = list.zip(find(predicate, &["args"])) {
            merge_into_list(args, list, other);
        }
    });
    if has_host {
        let reason =
            "As in Spring, a `Host` pattern without a port matches hosts without one; Tollgate's default is any port.";
        explicit.add_missing(root, &["predicate", "host", "include-port"], "true", reason);
    }
    if ignores_trailing_slash && has_path {
        let reason = "As in Spring Cloud Gateway up to 4.3, a `/` at the end of a path is ignored.";
        explicit.add_missing(root, &["predicate", "path", "match-trailing-slash"], "true", reason);
    }
}

/// Reports arguments that Spring reads in another way.
fn report(component: &Component, ignores_trailing_slash: bool, diagnostics: &mut Diagnostics) {
    match component.name.as_str() {
        "Path" if !ignores_trailing_slash => {
            let flag = component.named("matchTrailingSlash").or(component.args.last());
            if flag.is_some_and(|flag| flag.value.trim() == "true") {
                diagnostics.note(component.at, "Spring Cloud Gateway 5 ignores `matchTrailingSlash`; here it applies");
            }
        }
        "RemoteAddr" | "XForwardedRemoteAddr" => {
            for arg in &component.args {
                let text = &arg.value;
                if arg.is("maxTrustedIndex") {
                    diagnostics
                        .warn(
                            arg.at.key(),
                            "Spring reads `maxTrustedIndex` as a source, which never matches; here it applies",
                        )
                        .help("in Spring it can only be set in Java");
                } else if text.parse::<Ipv6Addr>().is_ok() {
                    diagnostics
                        .warn(
                            arg.at,
                            format!("Spring reads `{text}` as the network `{text}/32`; here it is one address"),
                        )
                        .help(format!("`{text}/128` means one address in both"));
                }
            }
        }
        _ => {}
    }
}

/// Merges arguments into the argument `list`. Spring adds the values of all unknown names to it; our own form accepts its own
/// name only. The argument `other` follows it.
fn merge_into_list(args: &mut Node, list: &str, other: &str) {
    let NodeKind::Map(entries) = &mut args.kind else { return };
    let fits = |(key, _): &(String, Node)| {
        let (key, name) = (canonical(key.split('[').next().unwrap_or(key)), canonical(list));
        key == name || name.strip_suffix('s') == Some(&key) || key.starts_with("genkey")
    };
    let is_other = |(key, _): &(String, Node)| same_name(key, other);
    if entries.iter().all(|entry| fits(entry) || is_other(entry)) {
        return;
    }
    let span = args.span.again();
    let gathered = entries.extract_if(.., |entry| !is_other(entry)).flat_map(|(_, value)| match value.kind {
        NodeKind::Seq(items) => items,
        _ => vec![value],
    });
    let kind = NodeKind::Seq(gathered.collect());
    entries.insert(0, (list.to_owned(), Node { span, kind }));
}
