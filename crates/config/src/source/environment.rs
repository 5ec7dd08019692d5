//! Environment variables that override keys of the file, as Spring Boot lets them: `SPRING_DATA_REDIS_HOST` for
//! `spring.data.redis.host`.
//!
//! Only Spring's own sections can be overridden, since any other name may be in the environment by chance: Kubernetes
//! puts `REDIS_PORT=tcp://…` there for a service called redis.

use std::collections::HashSet;

use crate::diagnostics::Diagnostics;
use crate::yaml::key::canonical;
use crate::yaml::{Kind, Node, Places};

/// What can be set where the file does not say it, by its place among our sections.
const UNSAID: [&str; 14] = [
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
];

/// Read where the listeners are checked: problems of theirs are the environment's, not the file's.
const PORTS: [&str; 2] = ["SERVER_PORT", "MANAGEMENT_SERVER_PORT"];

/// Places whose value is taken as it is: it may be a password with `${` in it.
pub(crate) type Literal = HashSet<u32>;

/// Lays the variables over our sections in `root`, and tells `sink` which of them.
pub(crate) fn overlay(
    root: &mut Node,
    env: &dyn Fn(&str) -> Option<String>,
    places: &mut Places,
    diagnostics: &mut Diagnostics,
) -> Literal {
    let mut taken = Taken { env, literal: Literal::new(), variables: Vec::new() };
    if let Kind::Map(sections) = &mut root.kind {
        for (name, section) in sections {
            for prefix in prefixes(name, diagnostics.is_spring) {
                taken.over(section, &prefix);
            }
        }
    }
    for path in UNSAID {
        let steps: Vec<&str> = path.split('.').collect();
        let Some(prefix) = prefixes(steps[0], diagnostics.is_spring).pop() else { continue };
        let variable = format!("{prefix}_{}", variable(&steps[1..].join(".")));
        if let Some(value) = taken.given(&variable)
            && let Some(place) = add(root, &steps, value, places)
        {
            taken.literal.insert(place);
            taken.variables.push(variable);
        }
    }
    if !taken.variables.is_empty() {
        taken.variables.sort_unstable();
        diagnostics.info(root.span, format!("the environment overrides the file: {}", taken.variables.join(", ")));
    }
    taken.literal
}

/// What the variables of a section begin with.
fn prefixes(section: &str, is_spring: bool) -> Vec<String> {
    let name = variable(section);
    match name.as_str() {
        "SERVER" | "MANAGEMENT" => vec![name],
        _ if !is_spring => Vec::new(),
        "REDIS" => vec!["SPRING_DATA_REDIS".to_owned()],
        _ => vec![format!("SPRING_CLOUD_GATEWAY_{name}"), format!("SPRING_CLOUD_GATEWAY_SERVER_WEBFLUX_{name}")],
    }
}

struct Taken<'e> {
    env: &'e dyn Fn(&str) -> Option<String>,
    literal: Literal,
    variables: Vec<String>,
}

impl Taken<'_> {
    fn given(&self, variable: &str) -> Option<String> {
        (self.env)(variable).filter(|_| !PORTS.contains(&variable))
    }

    /// Overrides every plain value below `node`. Lists are left alone: a variable would replace the whole of one.
    fn over(&mut self, node: &mut Node, variable_so_far: &str) {
        match &mut node.kind {
            Kind::Map(entries) => {
                for (key, value) in entries {
                    self.over(value, &format!("{variable_so_far}_{}", variable(key)));
                }
            }
            Kind::Null | Kind::Scalar(_) => {
                if let Some(text) = self.given(variable_so_far) {
                    node.kind = Kind::Scalar(text);
                    self.literal.insert(node.span.place);
                    self.variables.push(variable_so_far.to_owned());
                }
            }
            Kind::Seq(_) => {}
        }
    }
}

/// `server.ssl.client-auth` as a variable: `SERVER_SSL_CLIENTAUTH`.
fn variable(path: &str) -> String {
    let letters = path.chars().filter(|letter| *letter != '-');
    letters.map(|letter| if letter == '.' { '_' } else { letter.to_ascii_uppercase() }).collect()
}

/// Adds a key that is not there and returns its place; `None` where it is.
fn add(node: &mut Node, steps: &[&str], value: String, places: &mut Places) -> Option<u32> {
    let (first, rest) = steps.split_first()?;
    let span = node.span;
    if matches!(node.kind, Kind::Null) {
        node.kind = Kind::Map(Vec::new());
    }
    let Kind::Map(entries) = &mut node.kind else { return None };
    let at = entries.iter().position(|(key, _)| canonical(key) == canonical(first));
    if rest.is_empty() {
        if at.is_some() {
            return None;
        }
        let span = places.again(span);
        entries.push(((*first).to_owned(), Node { span, kind: Kind::Scalar(value) }));
        return Some(span.place);
    }
    let at = at.unwrap_or_else(|| {
        entries.push(((*first).to_owned(), Node { span: places.again(span), kind: Kind::Map(Vec::new()) }));
        entries.len() - 1
    });
    add(&mut entries[at].1, rest, value, places)
}
