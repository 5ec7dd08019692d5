//! Lists in the environment: `SPRING_CLOUD_GATEWAY_ROUTES_0_ID` for `spring.cloud.gateway.routes[0].id`, and
//! `SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_ORDERS_0_URI` for an instance of Spring's simple discovery client.
//!
//! As in Spring, a list in the environment replaces the whole list of the file. The environment is searched for known names
//! only, since it cannot be listed here: the services with instances are those that routes or the file name.

use std::collections::BTreeSet;

use crate::source::Env;
use crate::source::environment::{Literal, variable};
use crate::tree::{add_missing, take};
use tollgate_document::yaml::{Node, NodeKind, Span};

/// Most items of a list.
const MAX_ITEMS: usize = 1024;
/// Scalar fields of a route.
const ROUTE_FIELDS: [&str; 4] = ["id", "uri", "order", "enabled"];
/// Metadata of a route that have a meaning here.
const METADATA: [&str; 4] = ["response-timeout", "read-timeout", "body-timeout", "connect-timeout"];

/// Path of the instances below the root.
const INSTANCES: [&str; 4] = ["discovery", "client", "simple", "instances"];
/// Fields of an instance.
const INSTANCE_FIELDS: [&str; 4] = ["uri", "host", "port", "secure"];

/// Variables that the checks of the listeners read: their errors are about the environment, not the file.
const PORTS: [&str; 2] = ["SERVER_PORT", "MANAGEMENT_SERVER_PORT"];

/// Variables of the environment that set values, as they are looked up.
pub(super) struct Variables<'e> {
    pub(super) env: Env<'e>,
    /// Names of the arguments of predicates and filters.
    pub(super) arguments: &'e [&'static str],
    /// First file whose values the environment cannot override.
    pub(super) first_final: Option<usize>,
    /// Place of the made nodes in diagnostics.
    pub(super) at: Span,
    /// Places of the values.
    pub(super) literal: Literal,
    /// Names of those that are set.
    pub(super) used: Vec<String>,
}

impl Variables<'_> {
    pub(super) fn read(&mut self, variable: &str) -> Option<String> {
        let value = (self.env)(variable).filter(|_| !PORTS.contains(&variable))?;
        self.used.push(variable.to_owned());
        Some(value)
    }

    /// Returns the routes of variables that begin with `prefix`; `None` without any.
    pub(super) fn routes(&mut self, prefix: &str) -> Option<Node> {
        self.list(prefix, |variables, prefix| {
            let mut fields = variables.fields(prefix, &ROUTE_FIELDS);
            for list in ["predicates", "filters"] {
                let items = variables.shortcuts(&format!("{prefix}_{}", variable(list)));
                fields.extend(items.map(|items| (list.to_owned(), items)));
            }
            let metadata = variables.fields(&format!("{prefix}_METADATA"), &METADATA);
            if !metadata.is_empty() {
                fields.push(("metadata".to_owned(), variables.node(NodeKind::Map(metadata))));
            }
            (!fields.is_empty()).then(|| variables.node(NodeKind::Map(fields)))
        })
    }

    /// Returns the predicates or filters of variables that begin with `prefix`: shortcuts, or names with arguments.
    pub(super) fn shortcuts(&mut self, prefix: &str) -> Option<Node> {
        self.list(prefix, |variables, prefix| {
            if let Some(shortcut) = variables.scalar(prefix) {
                return Some(shortcut);
            }
            let mut fields = variables.fields(prefix, &["name"]);
            if fields.is_empty() {
                return None;
            }
            let mut arguments = Vec::new();
            for argument in variables.arguments {
                let prefix = format!("{prefix}_ARGS_{}", variable(argument));
                let value = variables.scalar(&prefix).or_else(|| variables.scalars(&prefix));
                arguments.extend(value.map(|value| ((*argument).to_owned(), value)));
            }
            if !arguments.is_empty() {
                fields.push(("args".to_owned(), variables.node(NodeKind::Map(arguments))));
            }
            Some(variables.node(NodeKind::Map(fields)))
        })
    }

    /// Returns the plain values of variables that begin with `prefix`.
    pub(super) fn scalars(&mut self, prefix: &str) -> Option<Node> {
        self.list(prefix, |variables, prefix| variables.scalar(prefix))
    }

    /// Adds the instances of services to `root`.
    pub(super) fn add_instances(&mut self, root: &mut Node) {
        self.at = root.span;
        let mut names = BTreeSet::new();
        if let Some(routes) = root.get("routes") {
            targets(routes, &mut names);
        }
        let services = root.at(&INSTANCES).and_then(Node::entries).unwrap_or_default();
        names.extend(services.iter().map(|(name, _)| name.clone()));
        for name in names {
            let letters = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_');
            let letters: String = letters.map(|letter| letter.to_ascii_uppercase()).collect();
            let prefix = format!("SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_{letters}");
            let instances = self.list(&prefix, |variables, prefix| {
                let fields = variables.fields(prefix, &INSTANCE_FIELDS);
                (!fields.is_empty()).then(|| variables.node(NodeKind::Map(fields)))
            });
            let Some(instances) = instances else { continue };
            let path = [&INSTANCES[..], &[name.as_str()]].concat();
            take(root, &path);
            if let Some(node) = add_missing(root, &path) {
                node.kind = instances.kind;
            }
        }
    }

    fn list(&mut self, prefix: &str, item: impl Fn(&mut Self, &str) -> Option<Node>) -> Option<Node> {
        let items: Vec<Node> = (0..MAX_ITEMS).map_while(|index| item(self, &format!("{prefix}_{index}"))).collect();
        (!items.is_empty()).then(|| self.node(NodeKind::Seq(items)))
    }

    fn fields(&mut self, prefix: &str, names: &[&str]) -> Vec<(String, Node)> {
        let field = |field: &&str| Some(((*field).to_owned(), self.scalar(&format!("{prefix}_{}", variable(field)))?));
        names.iter().filter_map(field).collect()
    }

    fn scalar(&mut self, variable: &str) -> Option<Node> {
        let value = self.read(variable)?;
        let node = self.node(NodeKind::Scalar(value));
        self.literal.insert(node.span.node);
        Some(node)
    }

    fn node(&mut self, kind: NodeKind) -> Node {
        Node { span: self.at.again(), kind }
    }
}

/// Collects the services of `lb:` targets.
fn targets(node: &Node, names: &mut BTreeSet<String>) {
    match &node.kind {
        NodeKind::Scalar(text) => {
            for (at, _) in text.match_indices("lb:") {
                let Some((_, rest)) = text[at..].split_once("//") else { continue };
                let end = rest.find(|letter: char| "/,:?# ".contains(letter)).unwrap_or(rest.len());
                names.insert(rest[..end].to_owned());
            }
        }
        NodeKind::Seq(items) => items.iter().for_each(|item| targets(item, names)),
        NodeKind::Map(entries) => entries.iter().for_each(|(_, value)| targets(value, names)),
        NodeKind::Null => {}
    }
}
