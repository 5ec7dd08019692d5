//! Environment variables that override keys of the file, as in Spring Boot: `SPRING_DATA_REDIS_HOST` for
//! `spring.data.redis.host`.
//!
//! Only Spring's own sections can be overridden. Other names may be set for another purpose: Kubernetes sets
//! `REDIS_PORT=tcp://…` for a service called redis.

use std::collections::HashSet;

use crate::Form;
use crate::source::indexed::Variables;
use crate::source::merge;
use crate::tree::{add, add_missing, take};
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::canonical;
use tollgate_document::yaml::{Node, NodeKind, Span};

/// Keys that a variable can set even if the file does not have them.
const SETTABLE_IF_ABSENT: [&str; 22] = [
    "server.address",
    "server.ssl.enabled",
    "server.ssl.certificate",
    "server.ssl.certificate-private-key",
    "server.ssl.trust-certificate",
    "server.ssl.client-auth",
    "management.server.address",
    "redis.url",
    "redis.host",
    "redis.port",
    "redis.username",
    "redis.password",
    "redis.database",
    "redis.timeout",
    "consul.host",
    "consul.port",
    "consul.token",
    "eureka.client.service-url.defaultZone",
    "nacos.discovery.server-addr",
    "nacos.discovery.username",
    "nacos.discovery.password",
    "nacos.discovery.namespace",
];

/// Numbers of nodes with values from environment variables. Their `${` is text, not a placeholder: a value may be a password.
pub type Literal = HashSet<u32>;

/// Overrides values of the `sections` in `root`, unless they are of the files from `first_final` on, and reports the
/// variables that did so.
pub fn overlay(
    root: &mut Node,
    env: &dyn Fn(&str) -> Option<String>,
    (sections, arguments): (&[&str], &[&'static str]),
    (form, first_final): (Form, Option<usize>),
    diagnostics: &mut Diagnostics,
) -> Literal {
    let mut taken = Variables { env, arguments, first_final, at: root.span, literal: Literal::new(), used: Vec::new() };
    let section_names: HashSet<String> = sections.iter().map(|name| canonical(name)).collect();
    if let NodeKind::Map(sections) = &mut root.kind {
        for (name, section) in sections.iter_mut().filter(|(name, _)| section_names.contains(&canonical(name))) {
            for prefix in prefixes(name, form) {
                taken.over(section, name, &prefix, diagnostics);
            }
        }
    }
    for path in SETTABLE_IF_ABSENT {
        let steps: Vec<&str> = path.split('.').collect();
        let Some(prefix) = prefixes(steps[0], form).pop() else { continue };
        let variable = format!("{prefix}_{}", variable(&steps[1..].join(".")));
        if env(&variable).is_some()
            && let Some(node) = add_missing(root, &steps)
        {
            taken.set(node, &variable);
        }
    }
    if form == Form::Spring {
        taken.lists(root, diagnostics);
        taken.add_instances(root);
    }
    if !taken.used.is_empty() {
        taken.used.sort_unstable();
        taken.used.dedup();
        diagnostics.note(root.span, format!("the environment overrides the file: {}", taken.used.join(", ")));
    }
    taken.literal
}

/// Returns the prefixes of the variables of a section.
fn prefixes(section: &str, form: Form) -> Vec<String> {
    let name = variable(section);
    match name.as_str() {
        "SERVER" | "MANAGEMENT" => vec![name],
        _ if form == Form::Own => Vec::new(),
        "REDIS" => vec!["SPRING_DATA_REDIS".to_owned()],
        "EUREKA" => vec![name],
        "NACOS" => vec!["SPRING_CLOUD_NACOS".to_owned()],
        "CONSUL" => vec!["SPRING_CLOUD_CONSUL".to_owned()],
        _ => [
            "TOLLGATE",
            "SPRING_CLOUD_GATEWAY",
            "SPRING_CLOUD_GATEWAY_SERVER_WEBFLUX",
            "SPRING_CLOUD_GATEWAY_SERVER_WEBMVC",
            "SPRING_CLOUD_GATEWAY_MVC",
        ]
        .map(|root| format!("{root}_{name}"))
        .to_vec(),
    }
}

impl Variables<'_> {
    fn is_final(&self, span: Span) -> bool {
        self.first_final.is_some_and(|first| span.file() >= first)
    }

    /// Adds `routes` and `default-filters`, which replace those of the file.
    fn lists(&mut self, root: &mut Node, diagnostics: &mut Diagnostics) {
        for section in ["routes", "default-filters"] {
            for prefix in prefixes(section, Form::Spring).iter().filter(|prefix| !prefix.starts_with("TOLLGATE")) {
                let list_in_file = root.step(section).map(|node| node.span);
                if list_in_file.is_some_and(|span| self.is_final(span)) {
                    continue;
                }
                self.at = list_in_file.unwrap_or(root.span);
                let list = if section == "routes" { self.routes(prefix) } else { self.shortcuts(prefix) };
                let Some(list) = list else { continue };
                if let Some(old) = root.step(section) {
                    merge::report_environment(section, prefix, (old, &list), diagnostics);
                }
                take(root, &[section]);
                add(root, &[section], list);
            }
        }
    }

    /// Overrides every scalar below `node`, the value of `path`, and lists of scalars as a whole.
    fn over(&mut self, node: &mut Node, path: &str, variable_so_far: &str, diagnostics: &mut Diagnostics) {
        if self.is_final(node.span) && !matches!(node.kind, NodeKind::Map(_)) {
            return;
        }
        match &mut node.kind {
            NodeKind::Map(entries) => {
                for (key, value) in entries {
                    let variable = format!("{variable_so_far}_{}", variable(key));
                    self.over(value, &format!("{path}.{key}"), &variable, diagnostics);
                }
            }
            NodeKind::Null | NodeKind::Scalar(_) => self.set(node, variable_so_far),
            NodeKind::Seq(_) => {
                self.at = node.span;
                if let Some(list) = self.scalars(variable_so_far) {
                    merge::report_environment(path, variable_so_far, (node, &list), diagnostics);
                    *node = list;
                }
            }
        }
    }

    /// Gives `node` the value of `variable`, if that is set.
    fn set(&mut self, node: &mut Node, variable: &str) {
        if let Some(text) = self.read(variable) {
            node.kind = NodeKind::Scalar(text);
            self.literal.insert(node.span.node);
        }
    }
}

/// Returns the variable of a path: `SERVER_SSL_CLIENTAUTH` for `server.ssl.client-auth`.
pub(super) fn variable(path: &str) -> String {
    let letters = path.chars().filter(|letter| *letter != '-');
    letters.map(|letter| if letter == '.' { '_' } else { letter.to_ascii_uppercase() }).collect()
}
