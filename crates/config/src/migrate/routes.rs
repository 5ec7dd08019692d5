//! Rewrites routes and filters in our own form. Spring's implicit defaults become explicit settings.

use crate::migrate::Rewriting;
use crate::migrate::print::{Item, Value};
use crate::spring::names::SKIP;
use crate::yaml::{Node, NodeKind};

/// Spring's prefix of its limiter's arguments.
const PREFIX: &str = "redis-rate-limiter";

impl Rewriting<'_> {
    pub(super) fn routes(&self, node: Node) -> Item {
        let mut item = self.empty_item(node.span);
        let NodeKind::Seq(nodes) = node.kind else { return item };
        let routes = nodes.into_iter().enumerate();
        item.value = Value::Seq(routes.map(|(position, node)| self.route(position, node)).collect());
        item
    }

    fn route(&self, position: usize, node: Node) -> Item {
        let mut item = self.empty_item(node.span);
        let mut fields = match node.kind {
            NodeKind::Scalar(line) => {
                item.note("Was written on one line.");
                one_line(&line)
            }
            NodeKind::Map(entries) => {
                let mut fields = Vec::with_capacity(entries.len());
                for (key, node) in entries {
                    if let Some(why) = self.ineffective(node.span) {
                        item.left_out(&key, &why);
                        continue;
                    }
                    let field = match key.as_str() {
                        "filters" => self.filters(node, true),
                        "uri" => self.uri(node),
                        _ => self.item(node),
                    };
                    fields.push((key, field));
                }
                fields
            }
            _ => return item,
        };
        if !fields.iter().any(|(key, _)| key == "id") {
            item.note("Had no id; this one is from its position.");
            fields.insert(0, ("id".to_owned(), Item::scalar(format!("route-{position}"))));
        }
        item.value = Value::Map(fields);
        item
    }

    /// Rewrites `uri` without its path, which is ignored.
    fn uri(&self, node: Node) -> Item {
        let mut item = self.item(node);
        if let Value::Scalar(text) = &mut item.value
            && let Some(end) = ignored_path(text)
        {
            let path = text.split_off(end);
            item.left_out(&path, "it is ignored");
        }
        item
    }

    /// Rewrites a list of filters: those of a route, or the default filters. A filter of a route that has no effect is left
    /// out, unless others would move: the gateway merges the route's and the default filters by position.
    pub(super) fn filters(&self, node: Node, is_of_route: bool) -> Item {
        let mut item = self.empty_item(node.span);
        let NodeKind::Seq(nodes) = node.kind else { return item };
        let last = nodes.len().saturating_sub(1);
        let mut kept = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.into_iter().enumerate() {
            if node.scalar() == Some(SKIP) {
                if !is_of_route || at + 1 < self.default_filters {
                    let mut skip = Item::scalar(SKIP);
                    skip.note("Keeps the position of a filter that is left out: the lists are merged by position.");
                    kept.push(skip);
                }
                continue;
            }
            let name = node.get("name");
            let why = self
                .ineffective(name.map_or(node.span, |name| name.span))
                .filter(|_| is_of_route && (at == last || at + 1 >= self.default_filters));
            let written = name.unwrap_or(&node).scalar().unwrap_or_default();
            match why {
                Some(why) => item.left_out(written, &why),
                None => kept.push(self.filter(node)),
            }
        }
        item.value = Value::Seq(kept);
        item
    }

    fn filter(&self, node: Node) -> Item {
        let span = node.span;
        let is_limiter =
            node.get("name").and_then(Node::scalar).is_some_and(|name| name.trim() == "RequestRateLimiter");
        let mut item = self.item(node);
        if let Value::Scalar(text) = &mut item.value {
            // From the first argument without effect on, none has an effect.
            let extra = self.facts.ineffective.range((span.node, 1)..=(span.node, u8::MAX)).next();
            if let Some(((_, argument), why)) = extra {
                *text = without_arguments(text, usize::from(*argument) - 1);
                let why = why.clone();
                item.note(format!("Changed: {why}."));
            }
        }
        if is_limiter && let Value::Map(fields) = &mut item.value {
            fields.iter_mut().filter(|(key, _)| key == "args").for_each(|(_, args)| Self::limiter(args));
        }
        item
    }

    /// Rewrites the arguments of a limiter: removes the prefix.
    fn limiter(args: &mut Item) {
        let Value::Map(entries) = &mut args.value else { return };
        let mut plain = Vec::with_capacity(entries.len());
        for (key, item) in entries.drain(..) {
            match (key.as_str(), item) {
                (PREFIX, Item { value: Value::Map(inner), notes, .. }) => {
                    let first = plain.len();
                    plain.extend(inner.into_iter().map(|(key, item)| (kebab(&key), item)));
                    if let Some((_, item)) = plain.get_mut(first) {
                        item.notes.splice(0..0, notes);
                    }
                }
                (key, item) => plain.push((kebab(key.strip_prefix("redis-rate-limiter.").unwrap_or(key)), item)),
            }
        }
        *entries = plain;
    }
}

/// Returns the fields of a route on one line: `id=uri,Predicate=arg,Predicate=arg`.
fn one_line(line: &str) -> Vec<(String, Item)> {
    let (id, rest) = line.split_once('=').unwrap_or((line, ""));
    let mut tokens = rest.split(',').map(str::trim).filter(|token| !token.is_empty());
    let uri = tokens.next().unwrap_or_default();
    let predicates = tokens.map(Item::scalar).collect();
    vec![
        ("id".to_owned(), Item::scalar(id.trim())),
        ("uri".to_owned(), Item::scalar(uri)),
        ("predicates".to_owned(), Item::plain(Value::Seq(predicates))),
    ]
}

/// Returns the index at which the ignored path of `uri` begins.
fn ignored_path(uri: &str) -> Option<usize> {
    let (scheme, rest) = uri.split_once("://")?;
    if scheme.eq_ignore_ascii_case("lb") && !rest.contains("${") {
        // The ports of `lb://` targets are those of their endpoints.
        return Some(scheme.len() + 3 + rest.find([':', '/', '?', '#'])?);
    }
    let is_server = ["http", "https", "ws", "wss"].iter().any(|known| known.eq_ignore_ascii_case(scheme));
    if !is_server || rest.contains("${") {
        return None;
    }
    let path = rest.find(['/', '?', '#']).filter(|at| &rest[*at..] != "/")?;
    Some(scheme.len() + 3 + path)
}

/// Returns a shortcut with its first `count` arguments only.
fn without_arguments(text: &str, count: usize) -> String {
    let Some((name, args)) = text.split_once('=') else { return text.to_owned() };
    let kept: Vec<&str> = args.split(',').map(str::trim).take(count).filter(|arg| !arg.is_empty()).collect();
    if kept.is_empty() { name.trim().to_owned() } else { format!("{}={}", name.trim(), kept.join(", ")) }
}

/// Returns the kebab-case form of a name: `replenish-rate` for `replenishRate` and `replenish_rate`.
fn kebab(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut was_small = false;
    for letter in name.chars() {
        match letter {
            '_' => out.push('-'),
            letter if letter.is_ascii_uppercase() => {
                if was_small {
                    out.push('-');
                }
                out.push(letter.to_ascii_lowercase());
            }
            letter => out.push(letter),
        }
        was_small = letter.is_ascii_lowercase() || letter.is_ascii_digit();
    }
    out
}
