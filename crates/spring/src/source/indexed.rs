//! Lists in the environment: `SPRING_CLOUD_GATEWAY_ROUTES_0_ID` for `spring.cloud.gateway.routes[0].id`.
//!
//! As in Spring, a list in the environment replaces the whole list of the file. The environment is searched for known names
//! only, since it cannot be listed here.

use crate::source::environment::variable;
use tollgate_document::yaml::{Node, NodeKind, Span};

/// Most items of a list.
const MAX_ITEMS: usize = 1024;
/// Scalar fields of a route.
const ROUTE_FIELDS: [&str; 4] = ["id", "uri", "order", "enabled"];
/// Metadata of a route that have a meaning here.
const METADATA: [&str; 4] = ["response-timeout", "read-timeout", "body-timeout", "connect-timeout"];

/// Values of environment variables, as they are looked up.
pub(super) struct Variables<'v> {
    pub(super) read: &'v mut dyn FnMut(&str) -> Option<String>,
    /// Names of the arguments of predicates and filters.
    pub(super) arguments: &'v [&'static str],
    /// Place of the made nodes in diagnostics.
    pub(super) at: Span,
    /// Places of the values.
    pub(super) literal: Vec<u32>,
}

impl Variables<'_> {
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

    fn list(&mut self, prefix: &str, item: impl Fn(&mut Self, &str) -> Option<Node>) -> Option<Node> {
        let items: Vec<Node> = (0..MAX_ITEMS).map_while(|index| item(self, &format!("{prefix}_{index}"))).collect();
        (!items.is_empty()).then(|| self.node(NodeKind::Seq(items)))
    }

    fn fields(&mut self, prefix: &str, names: &[&str]) -> Vec<(String, Node)> {
        let field = |field: &&str| Some(((*field).to_owned(), self.scalar(&format!("{prefix}_{}", variable(field)))?));
        names.iter().filter_map(field).collect()
    }

    fn scalar(&mut self, variable: &str) -> Option<Node> {
        let value = (self.read)(variable)?;
        let node = self.node(NodeKind::Scalar(value));
        self.literal.push(node.span.node);
        Some(node)
    }

    fn node(&mut self, kind: NodeKind) -> Node {
        Node { span: self.at.again(), kind }
    }
}
