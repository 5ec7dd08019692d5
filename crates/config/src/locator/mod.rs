//! `discovery.locator`: routes of the services that the registries know.
//!
//! The routes are those of Spring Cloud Gateway: each service has a path, and its expressions are evaluated as far as they
//! are plain, that is texts and `serviceId` joined by `+`. The file is checked again with these routes behind its own, so that
//! they get default filters and all the rest.

mod expression;

use std::collections::BTreeSet;

use serde::Deserialize;

use self::expression::{Expression, split};
use crate::de;
use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::{Diagnostics, Format, SourceText};
use crate::yaml::key::canonical;
use crate::yaml::{Node, NodeKind, Places, Span};

/// Most services that get a route.
const MAX_SERVICES: usize = 2000;
/// Longest name of a service that gets a route.
const MAX_NAME: usize = 128;

/// `discovery.locator`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct RawLocator {
    enabled: Option<bool>,
    lower_case_service_id: Option<bool>,
    route_id_prefix: Option<String>,
    url_expression: Option<Spanned<String>>,
    include_expression: Option<Spanned<String>>,
    predicates: Option<NodeRef>,
    filters: Option<NodeRef>,
}

/// Routes of the services that the registries know.
#[derive(Clone, Debug)]
pub struct Locator {
    text: SourceText,
}

impl Locator {
    pub(crate) fn new(text: &SourceText) -> Self {
        let mut text = text.clone();
        // They are added again.
        text.files.retain(|file| !matches!(file.format, Format::Json | Format::Argument));
        Self { text }
    }

    /// Returns the file that the locator stands in.
    pub(crate) fn text(&self) -> SourceText {
        self.text.clone()
    }
}

/// Adds a route for each of `services` to `root` if the locator is enabled. Returns true in that case. Reports expressions
/// that are not plain.
pub(crate) fn add_routes(
    root: &mut Node,
    services: &BTreeSet<String>,
    places: &mut Places,
    diagnostics: &mut Diagnostics,
) -> bool {
    let node = root.step("discovery").and_then(|node| node.step("locator"));
    let Some(node) = node.cloned() else { return false };
    let (raw, _) = de::read::<RawLocator>(&node, diagnostics);
    if raw.enabled != Some(true) {
        return false;
    }
    let template = Template::read(&raw, &node, diagnostics);
    let Some(template) = template else { return true };
    let is_lower = raw.lower_case_service_id == Some(true);
    let names: BTreeSet<String> = services
        .iter()
        .filter(|name| is_name(name))
        .map(|name| if is_lower { name.to_lowercase() } else { name.clone() })
        .collect();
    let mut made = Vec::new();
    for service in names.iter().take(MAX_SERVICES) {
        made.push(template.route(service, node.span, places));
    }
    if let Some(routes) = section_list(root, places) {
        routes.append(&mut made);
    }
    true
}

/// Returns true for a name that may stand in a path and in a URI.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    begins && name.len() <= MAX_NAME && name.bytes().all(fits) && !name.contains("..")
}

/// Returns the list `routes` of the file, which is added if it is missing.
fn section_list<'n>(root: &'n mut Node, places: &mut Places) -> Option<&'n mut Vec<Node>> {
    let span = places.again(root.span);
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

/// Route of a service.
struct Template {
    prefix: String,
    uri: Expression,
    /// Name and arguments of predicates.
    predicates: Vec<LocatedEntry>,
    filters: Vec<LocatedEntry>,
}

impl Template {
    /// Reads the settings; `None` after an error.
    fn read(raw: &RawLocator, node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        if let Some(include) = &raw.include_expression
            && include.value.trim() != "true"
        {
            diagnostics
                .error(include.span, format!("`include-expression: {}` is not supported", include.value.trim()))
                .help("remove it: every service of the registries gets a route");
            return None;
        }
        let default = |text: &str| Spanned { value: text.to_owned(), span: node.span };
        let uri = raw.url_expression.clone().unwrap_or_else(|| default("'lb://'+serviceId"));
        let uri = Expression::read(&uri, diagnostics)?;
        let defaults = |name: &str, args: &[(&str, &str)]| {
            let args = args
                .iter()
                .map(|(key, text)| Some(((*key).to_owned(), Expression::parse(text)?)))
                .collect::<Option<_>>();
            args.map(|args| vec![(name.to_owned(), args)])
        };
        let predicates = match raw.predicates.and_then(|at| below(node, at)) {
            Some(list) => entries(list, diagnostics)?,
            None => defaults("Path", &[("pattern", "'/'+serviceId+'/**'")])?,
        };
        let filters = match raw.filters.and_then(|at| below(node, at)) {
            Some(list) => entries(list, diagnostics)?,
            None => defaults(
                "RewritePath",
                &[("regexp", "'/' + serviceId + '/?(?<remaining>.*)'"), ("replacement", "'/${remaining}'")],
            )?,
        };
        let prefix = raw.route_id_prefix.clone().unwrap_or_else(|| "ReactiveCompositeDiscoveryClient_".to_owned());
        Some(Self { prefix, uri, predicates, filters })
    }

    /// Returns the route of a service, placed at the locator.
    fn route(&self, service: &str, at: Span, places: &mut Places) -> Node {
        let list = |entries: &[(String, Vec<(String, Expression)>)], places: &mut Places| {
            let items = entries.iter().map(|(name, args)| {
                let args =
                    args.iter().map(|(key, value)| (key.clone(), scalar(value.value(service), at, places))).collect();
                let args = map(args, at, places);
                let name = scalar(name.clone(), at, places);
                map(vec![("name".to_owned(), name), ("args".to_owned(), args)], at, places)
            });
            let items = items.collect();
            Node { span: places.again(at), kind: NodeKind::Seq(items) }
        };
        let predicates = list(&self.predicates, places);
        let filters = list(&self.filters, places);
        let id = scalar(format!("{}{}", self.prefix, service), at, places);
        let uri = scalar(self.uri.value(service), at, places);
        let entries = [("id", id), ("uri", uri), ("predicates", predicates), ("filters", filters)];
        map(entries.into_iter().map(|(key, node)| (key.to_owned(), node)).collect(), at, places)
    }
}

fn scalar(text: String, at: Span, places: &mut Places) -> Node {
    Node { span: places.again(at), kind: NodeKind::Scalar(text) }
}

fn map(entries: Vec<(String, Node)>, at: Span, places: &mut Places) -> Node {
    Node { span: places.again(at), kind: NodeKind::Map(entries) }
}

/// Returns the node below `node` at that place.
fn below(node: &Node, at: NodeRef) -> Option<&Node> {
    if node.span.place == at.0.place {
        return Some(node);
    }
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().find_map(|(_, child)| below(child, at)),
        NodeKind::Seq(items) => items.iter().find_map(|child| below(child, at)),
        NodeKind::Null | NodeKind::Scalar(_) => None,
    }
}

/// Predicate or filter of a located route: its name, and its arguments by name.
type LocatedEntry = (String, Vec<(String, Expression)>);

/// Reads predicates or filters: `{name: Path, args: {pattern: "'/'+serviceId"}}` or `Path='/'+serviceId`.
fn entries(list: &Node, diagnostics: &mut Diagnostics) -> Option<Vec<LocatedEntry>> {
    let NodeKind::Seq(items) = &list.kind else {
        diagnostics.error(list.span, format!("expected a list, found {}", list.describe()));
        return None;
    };
    let mut read = Vec::with_capacity(items.len());
    for item in items {
        if let Some((name, arguments)) = item.scalar().and_then(|line| line.split_once('=')) {
            let mut args = Vec::new();
            for (at, text) in split(arguments, ',').into_iter().enumerate() {
                let text = Spanned { value: text, span: item.span };
                args.push((format!("_genkey_{at}"), Expression::read(&text, diagnostics)?));
            }
            read.push((name.trim().to_owned(), args));
            continue;
        }
        let (Some(name), args) = (item.step("name").and_then(Node::scalar), item.step("args")) else {
            diagnostics
                .error(item.span, "expected a name with arguments")
                .help("write it like `Path='/'+serviceId+'/**'`");
            return None;
        };
        let mut arguments = Vec::new();
        if let Some(Node { kind: NodeKind::Map(entries), .. }) = args {
            for (key, value) in entries {
                let text = Spanned { value: value.scalar().unwrap_or_default().to_owned(), span: value.span };
                arguments.push((key.clone(), Expression::read(&text, diagnostics)?));
            }
        }
        read.push((name.to_owned(), arguments));
    }
    Some(read)
}
