//! Environment variables that override keys of the file, as in Spring Boot: `SPRING_DATA_REDIS_HOST` for
//! `spring.data.redis.host`.
//!
//! Only Spring's own sections can be overridden. Other names may be set for another purpose: Kubernetes sets
//! `REDIS_PORT=tcp://…` for a service called redis.

use std::collections::HashSet;

use crate::form::Form;
use crate::source::indexed::Variables;
use crate::source::instances;
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

/// Variables that the checks of the listeners read: their errors are about the environment, not the file.
const PORTS: [&str; 2] = ["SERVER_PORT", "MANAGEMENT_SERVER_PORT"];

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
    let mut taken = Taken { env, first_final, literal: Literal::new(), variables: Vec::new() };
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
        if let Some(value) = taken.read_variable(&variable)
            && let Some(node) = add_missing(root, &steps)
        {
            node.kind = NodeKind::Scalar(value);
            taken.literal.insert(node.span.node);
            taken.variables.push(variable);
        }
    }
    if form == Form::Spring {
        taken.lists(root, arguments, diagnostics);
        let mut read = |name: &str| taken.read_variable(name).inspect(|_| taken.variables.push(name.to_owned()));
        let added = instances::add(root, &mut read);
        taken.literal.extend(added);
    }
    if !taken.variables.is_empty() {
        taken.variables.sort_unstable();
        taken.variables.dedup();
        diagnostics.note(root.span, format!("the environment overrides the file: {}", taken.variables.join(", ")));
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

struct Taken<'e> {
    env: &'e dyn Fn(&str) -> Option<String>,
    /// First file whose values the environment cannot override.
    first_final: Option<usize>,
    literal: Literal,
    variables: Vec<String>,
}

impl Taken<'_> {
    fn read_variable(&self, variable: &str) -> Option<String> {
        (self.env)(variable).filter(|_| !PORTS.contains(&variable))
    }

    fn is_final(&self, span: Span) -> bool {
        self.first_final.is_some_and(|first| span.file() >= first)
    }

    /// Adds `routes` and `default-filters`, which replace those of the file.
    fn lists(&mut self, root: &mut Node, arguments: &[&'static str], diagnostics: &mut Diagnostics) {
        for section in ["routes", "default-filters"] {
            for prefix in prefixes(section, Form::Spring).iter().filter(|prefix| !prefix.starts_with("TOLLGATE")) {
                let list_in_file = root.step(section).map(|node| node.span);
                let at = list_in_file.unwrap_or(root.span);
                if list_in_file.is_some_and(|span| self.is_final(span)) {
                    continue;
                }
                let Self { env, variables, .. } = self;
                let mut read_variable = |name: &str| env(name).inspect(|_| variables.push(name.to_owned()));
                let mut read = Variables { read: &mut read_variable, arguments, at, literal: Vec::new() };
                let list = if section == "routes" { read.routes(prefix) } else { read.shortcuts(prefix) };
                let literal = read.literal;
                let Some(list) = list else { continue };
                self.literal.extend(literal);
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
            NodeKind::Null | NodeKind::Scalar(_) => {
                if let Some(text) = self.read_variable(variable_so_far) {
                    node.kind = NodeKind::Scalar(text);
                    self.literal.insert(node.span.node);
                    self.variables.push(variable_so_far.to_owned());
                }
            }
            NodeKind::Seq(_) => {
                let Self { env, variables, .. } = self;
                let mut read_variable = |name: &str| env(name).inspect(|_| variables.push(name.to_owned()));
                let mut read =
                    Variables { read: &mut read_variable, arguments: &[], at: node.span, literal: Vec::new() };
                let list = read.scalars(variable_so_far);
                self.literal.extend(read.literal);
                if let Some(list) = list {
                    merge::report_environment(path, variable_so_far, (node, &list), diagnostics);
                    *node = list;
                }
            }
        }
    }
}

/// Returns the variable of a path: `SERVER_SSL_CLIENTAUTH` for `server.ssl.client-auth`.
pub(super) fn variable(path: &str) -> String {
    let letters = path.chars().filter(|letter| *letter != '-');
    letters.map(|letter| if letter == '.' { '_' } else { letter.to_ascii_uppercase() }).collect()
}
