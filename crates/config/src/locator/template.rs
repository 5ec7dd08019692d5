//! Route that the locator makes of a service.

use crate::de::Spanned;
use crate::diagnostics::Diagnostics;
use crate::locator::expression::{Expression, Subject, balanced};
use crate::locator::{Metadata, RawLocator};
use crate::yaml::{Node, NodeKind, Span};

/// Route of a service.
pub(super) struct Template {
    prefix: String,
    is_lower: bool,
    include: Option<Expression>,
    uri: Expression,
    predicates: Vec<LocatedEntry>,
    filters: Vec<LocatedEntry>,
    at: Span,
}

/// Predicate or filter of a located route: its name, and its arguments by name.
type LocatedEntry = (String, Vec<(String, Expression)>);

impl Template {
    /// Reads the settings, and reports all that cannot be used; `None` after an error.
    pub(super) fn read(raw: &RawLocator, at: Span, diagnostics: &mut Diagnostics) -> Option<Self> {
        let mark = diagnostics.mark();
        let include = raw.include_expression.as_ref();
        let include = include.filter(|include| !include.value.trim().eq_ignore_ascii_case("true"));
        let include = include.map(|include| Expression::read(include, diagnostics));
        let default = || Spanned { value: "'lb://'+serviceId".to_owned(), span: at };
        let uri = Expression::read_uri(&raw.url_expression.clone().unwrap_or_else(default), diagnostics);
        let predicates = match &raw.predicates {
            Some(list) => entries(list, diagnostics),
            None => defaults("Path", &[("pattern", "'/'+serviceId+'/**'")]),
        };
        let filters = match &raw.filters {
            Some(list) => entries(list, diagnostics),
            None => defaults(
                "RewritePath",
                &[("regexp", "'/' + serviceId + '/?(?<remaining>.*)'"), ("replacement", "'/${remaining}'")],
            ),
        };
        let prefix = raw.route_id_prefix.clone().unwrap_or_else(|| "ReactiveCompositeDiscoveryClient_".to_owned());
        if diagnostics.has_errors_since(mark) {
            return None;
        }
        let is_lower = raw.lower_case_service_id.get();
        Some(Self { prefix, is_lower, include: include.flatten(), uri: uri?, predicates, filters, at })
    }

    /// Returns true if a route depends on the metadata of instances.
    pub(super) fn uses_metadata(&self) -> bool {
        let arguments = self.predicates.iter().chain(&self.filters).flat_map(|(_, arguments)| arguments);
        let expressions = arguments.map(|(_, expression)| expression).chain(&self.include).chain([&self.uri]);
        expressions.into_iter().any(Expression::uses_metadata)
    }

    /// Returns the route of a service, placed at the locator. `None` if the locator does not include the service, or if one of
    /// its expressions has no value. Of several instances that are included, the metadata of the last one count.
    pub(super) fn route(&self, service: &str, instances: &[Metadata]) -> Option<Node> {
        let none = [Metadata::new()];
        let mut instances: Vec<&Metadata> = if self.uses_metadata() { instances } else { &none }.iter().collect();
        // Registries list instances in any order.
        instances.sort_unstable();
        let is_included = |metadata: &&&Metadata| {
            let subject = Subject { service, metadata };
            self.include.as_ref().is_none_or(|include| include.is_true(subject))
        };
        let metadata = instances.iter().rfind(is_included)?;
        let uri = balanced(&self.uri.text(Subject { service, metadata })?, service)?;
        let lower = if self.is_lower { service.to_lowercase() } else { service.to_owned() };
        let subject = Subject { service: &lower, metadata };
        let predicates = self.list(&self.predicates, subject)?;
        let filters = self.list(&self.filters, subject)?;
        let at = self.at;
        let id = scalar(format!("{}{service}", self.prefix), at);
        let uri = scalar(uri, at);
        let entries = [("id", id), ("uri", uri), ("predicates", predicates), ("filters", filters)];
        Some(map(entries.into_iter().map(|(key, node)| (key.to_owned(), node)).collect(), at))
    }

    fn list(&self, entries: &[LocatedEntry], subject: Subject<'_>) -> Option<Node> {
        let mut items = Vec::with_capacity(entries.len());
        for (name, args) in entries {
            let mut values = Vec::with_capacity(args.len());
            for (key, value) in args {
                values.push((key.clone(), scalar(value.text(subject)?, self.at)));
            }
            let args = map(values, self.at);
            let name = scalar(name.clone(), self.at);
            items.push(map(vec![("name".to_owned(), name), ("args".to_owned(), args)], self.at));
        }
        Some(Node { span: self.at.again(), kind: NodeKind::Seq(items) })
    }
}

/// Returns an entry of Spring's defaults.
fn defaults(name: &str, args: &[(&str, &str)]) -> Vec<LocatedEntry> {
    let args = args.iter().filter_map(|(key, text)| Some(((*key).to_owned(), Expression::parse(text)?)));
    vec![(name.to_owned(), args.collect())]
}

/// Splits arguments at commas outside of quotes and brackets.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut quote, mut depth) = (None, 0_usize);
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) => quote = (letter != open).then_some(open),
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            (None, _) => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts
}

fn scalar(text: String, at: Span) -> Node {
    Node { span: at.again(), kind: NodeKind::Scalar(text) }
}

fn map(entries: Vec<(String, Node)>, at: Span) -> Node {
    Node { span: at.again(), kind: NodeKind::Map(entries) }
}

/// Reads predicates or filters: `{name: Path, args: {pattern: "'/'+serviceId"}}` or `Path='/'+serviceId`. Reports all errors.
fn entries(list: &Node, diagnostics: &mut Diagnostics) -> Vec<LocatedEntry> {
    let NodeKind::Seq(items) = &list.kind else {
        diagnostics.error(list.span, format!("expected a list, found {}", list.describe()));
        return Vec::new();
    };
    let mut read = Vec::with_capacity(items.len());
    for item in items {
        if let Some((name, arguments)) = item.scalar().and_then(|line| line.split_once('=')) {
            let texts = split(arguments).into_iter().map(|value| Spanned { value, span: item.span }).enumerate();
            let args = texts.map(|(at, text)| (format!("_genkey_{at}"), text));
            read.push((name.trim().to_owned(), arguments_of(args, diagnostics)));
            continue;
        }
        let (Some(name), args) = (item.step("name").and_then(Node::scalar), item.step("args")) else {
            diagnostics
                .error(item.span, "expected a name with arguments")
                .help("write it like `Path='/'+serviceId+'/**'`");
            continue;
        };
        let mut arguments = Vec::new();
        args.into_iter().for_each(|args| flatten("", args, &mut arguments));
        read.push((name.to_owned(), arguments_of(arguments.into_iter(), diagnostics)));
    }
    read
}

/// Adds the arguments below `node` under their dotted names, as Spring binds a map of texts.
fn flatten(path: &str, node: &Node, into: &mut Vec<(String, Spanned<String>)>) {
    match &node.kind {
        NodeKind::Map(entries) => {
            for (key, value) in entries {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, into);
            }
        }
        _ => {
            let value = node.scalar().unwrap_or_default().to_owned();
            into.push((path.to_owned(), Spanned { value, span: node.span }));
        }
    }
}

/// Reads the expressions of arguments. Reports all that are not plain.
fn arguments_of(
    args: impl Iterator<Item = (String, Spanned<String>)>,
    diagnostics: &mut Diagnostics,
) -> Vec<(String, Expression)> {
    args.filter_map(|(key, text)| Some((key, Expression::read(&text, diagnostics)?))).collect()
}
