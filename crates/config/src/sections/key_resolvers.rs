//! Key resolvers: named ones under `key-resolvers:`, and the one that a limiter asks for.

use std::collections::BTreeMap;

use tollgate_filters::key_resolver::KeyResolver;

use crate::de::arg::Arg;
use crate::de::canonical;
use crate::de::nodes::Nodes;
use crate::de::spanned::NodeRef;
use crate::diagnostics::{Diagnostics, closest, reasons};
use crate::sections::jwt::check::Tokens;
use crate::yaml::{Kind, Node};

/// The key resolvers of a file: named ones, and the tokens that `jwt:` resolvers verify.
#[derive(Clone, Copy)]
pub(crate) struct KeyResolvers<'c> {
    pub(crate) named: &'c BTreeMap<String, KeyResolver>,
    pub(crate) tokens: &'c Tokens,
}

/// Checks `key-resolvers:`.
pub(crate) fn key_resolvers(
    raw: &BTreeMap<String, NodeRef>,
    nodes: &Nodes<'_>,
    tokens: &Tokens,
    diagnostics: &mut Diagnostics,
) -> BTreeMap<String, KeyResolver> {
    let mut resolvers = BTreeMap::new();
    for (name, whole) in raw {
        let Some(node) = nodes.get(*whole) else { continue };
        let parts: &[Node] = match &node.kind {
            Kind::Seq(items) => items,
            _ => std::slice::from_ref(node),
        };
        let mut parsed = Vec::with_capacity(parts.len());
        for part in parts {
            match part.scalar().map(KeyResolver::parse) {
                Some(Ok(resolver)) => parsed.push(tokens.bind(resolver, part.span, diagnostics)),
                Some(Err(error)) => drop(diagnostics.error(part.span, reasons(&error))),
                None => diagnostics
                    .error(part.span, format!("expected a key resolver, found {}", part.describe()))
                    .help("write `ip`, `\"header:X-User\"`, or a list of such"),
            }
        }
        match (parsed.len(), parsed.pop()) {
            (1, Some(only)) => drop(resolvers.insert(name.clone(), only)),
            (_, Some(last)) => {
                parsed.push(last);
                resolvers.insert(name.clone(), KeyResolver::composite(parsed));
            }
            // The problem is reported; the name must not be called unknown as well.
            (_, None) => drop(KeyResolver::parse("ip").map(|stand_in| resolvers.insert(name.clone(), stand_in))),
        }
    }
    resolvers
}

/// The resolver that one text means: `"#{@name}"`, a name, or `ip`, `header:X` and the like.
pub(crate) fn one_key_resolver(
    arg: &Arg,
    resolvers: &KeyResolvers<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<KeyResolver> {
    let text = arg.value.trim();
    if let Some(inside) = text.strip_prefix("#{").and_then(|rest| rest.strip_suffix('}')) {
        let name = inside.trim().trim_start_matches('@');
        let found = resolvers.named.iter().find(|(known, _)| *known == name || canonical(known) == canonical(name));
        if found.is_none() {
            let near = closest(name, resolvers.named.keys().map(String::as_str));
            diagnostics.error(arg.span, format!("key resolver `{name}` is a Java bean of your application, which Tollgate cannot run"))
                .help(match near {
                    Some(near) => format!("did you mean `#{{@{near}}}`?"),
                    None => format!("say what it does at the top level of this file: `key-resolvers: {{{name}: ip}}`, or `\"header:X-User\"` and the like"),
                });
        }
        return found.map(|(_, resolver)| resolver.clone());
    }
    if let Some(named) = resolvers.named.get(text) {
        return Some(named.clone());
    }
    match KeyResolver::parse(text) {
        Ok(resolver) => Some(resolvers.tokens.bind(resolver, arg.span, diagnostics)),
        Err(error) => {
            diagnostics.error(arg.span, reasons(&error));
            None
        }
    }
}
