//! `discovery.locator`: routes of the services that the registries know.
//!
//! The routes are those of Spring Cloud Gateway: an expression selects services, and others make the path, the URI and the
//! arguments. As in Spring, `lower-case-service-id` changes the name only in predicates and filters. The file is checked again
//! with these routes after its own, so that default filters and other settings apply to them.

mod expression;
mod template;

use std::collections::BTreeMap;

use self::template::Template;
use crate::de::{self, Flag, Spanned, Subtree};
use crate::diagnostics::{Diagnostics, Format, SourceText};
use crate::yaml::key::canonical;
use crate::yaml::{Node, NodeKind};

/// Maximum number of services that get a route.
pub const MAX_LOCATED_SERVICES: usize = 2000;
/// Longest name of a service that gets a route.
const MAX_NAME: usize = 128;

/// Metadata of an instance.
pub type Metadata = BTreeMap<String, String>;

/// Services by name, with the metadata of their instances if [`Locator::uses_metadata`].
pub type Services = BTreeMap<String, Vec<Metadata>>;

/// `discovery.locator`.
#[section]
struct RawLocator {
    enabled: Flag<false>,
    lower_case_service_id: Flag<false>,
    route_id_prefix: Option<String>,
    url_expression: Option<Spanned<String>>,
    include_expression: Option<Spanned<String>>,
    predicates: Option<Subtree>,
    filters: Option<Subtree>,
}

/// Routes of the services that the registries know.
#[derive(Clone, Debug)]
pub struct Locator {
    text: SourceText,
    uses_metadata: bool,
}

impl Locator {
    pub(crate) fn new(text: &SourceText, uses_metadata: bool) -> Self {
        let mut text = text.clone();
        // They are added again.
        text.files.retain(|file| !matches!(file.format, Format::Json | Format::Argument));
        Self { text, uses_metadata }
    }

    /// Returns the file that the locator stands in.
    pub(crate) fn text(&self) -> SourceText {
        self.text.clone()
    }

    /// Returns true if its expressions depend on the metadata of instances.
    pub fn uses_metadata(&self) -> bool {
        self.uses_metadata
    }
}

/// Returns a service for a trial of the routes.
pub(crate) fn example() -> Services {
    Services::from([("service".to_owned(), vec![Metadata::new()])])
}

/// Adds a route for each of `services` to `root`, and for each service that the file itself lists, if the locator is enabled.
/// Returns in that case whether its expressions depend on metadata. Reports all expressions that are not plain.
pub(crate) fn add_routes(root: &mut Node, services: &Services, diagnostics: &mut Diagnostics) -> Option<bool> {
    let node = root.step("discovery").and_then(|node| node.step("locator"))?;
    let (raw, _) = de::read::<RawLocator>(node, diagnostics);
    if !raw.enabled.get() {
        return None;
    }
    let Some(template) = Template::read(&raw, node.span, diagnostics) else { return Some(false) };
    let mut services = services.clone();
    services.extend(listed(root));
    let names = services.iter().filter(|(name, _)| is_name(name));
    let mut made: Vec<Node> =
        names.filter_map(|(name, instances)| template.route(name, instances)).take(MAX_LOCATED_SERVICES).collect();
    if let Some(routes) = section_list(root) {
        routes.append(&mut made);
    }
    Some(template.uses_metadata())
}

/// Returns the services of `discovery.client.simple.instances`.
fn listed(root: &Node) -> Services {
    let steps = ["discovery", "client", "simple", "instances"];
    let node = steps.iter().try_fold(root, |node, step| node.step(step));
    let Some(Node { kind: NodeKind::Map(entries), .. }) = node else { return Services::new() };
    let is_off = root.step("discovery").and_then(|node| node.step("enabled")?.scalar()) == Some("false");
    let metadata = |instance: &Node| match instance.step("metadata").map(|node| &node.kind) {
        Some(NodeKind::Map(entries)) => {
            entries.iter().filter_map(|(key, value)| Some((key.clone(), value.scalar()?.to_owned()))).collect()
        }
        _ => Metadata::new(),
    };
    let instances = |node: &Node| match &node.kind {
        NodeKind::Seq(items) => items.iter().map(metadata).collect(),
        _ => Vec::new(),
    };
    entries.iter().filter(|_| !is_off).map(|(name, node)| (name.clone(), instances(node))).collect()
}

/// Returns true for a name that may stand in a path and in a URI.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    begins && name.len() <= MAX_NAME && name.bytes().all(fits) && !name.contains("..")
}

/// Returns the list `routes` of the file, which is added if it is missing.
fn section_list(root: &mut Node) -> Option<&mut Vec<Node>> {
    let span = root.span.again();
    let NodeKind::Map(entries) = &mut root.kind else { return None };
    let at = entries.iter().position(|(key, _)| canonical(key) == "routes").unwrap_or_else(|| {
        entries.push(("routes".to_owned(), Node { span, kind: NodeKind::Null }));
        entries.len() - 1
    });
    let node = &mut entries[at].1;
    if matches!(node.kind, NodeKind::Null) {
        node.kind = NodeKind::Seq(Vec::new());
    }
    match &mut node.kind {
        NodeKind::Seq(list) => Some(list),
        _ => None,
    }
}
