//! Key resolvers: the named ones under `key-resolvers:`, and those that limiters refer to.

use std::collections::{BTreeMap, HashMap};

use tollgate_filters::key_resolver::KeyResolver;

use crate::de::{Spanned, Subtree, canonical};
use crate::diagnostics::{Diagnostics, Missing, Reported, Section, reasons, yaml_key};
use crate::sections::api_keys::ApiKeySection;
use crate::sections::forwarding::Underscores;
use crate::sections::jwt::check::Tokens;
use crate::spring::proposals::{self, Proposal};
use crate::yaml::{Node, NodeKind, Span};

/// Treatment of requests that repeat the header, parameter or cookie of a key with another value.
#[word(Default)]
pub enum RepeatedKeys {
    /// The limiter refuses them.
    #[default]
    Refuse,
    /// The first value counts, and the others are not forwarded.
    First,
}

/// Treatment of preflights of browsers, which carry no key.
#[word(Default)]
pub(crate) enum Preflights {
    /// Counts those without a key by client address.
    #[default]
    ByAddress,
    /// Needs a key, as of other requests.
    ByKey,
}

/// Name of the resolver of limiters that name none.
const DEFAULT: &str = "default";

/// Key resolvers that the filters of a file can name.
pub(crate) struct KeyResolvers<'t> {
    named: BTreeMap<String, KeyResolver>,
    /// Names by their common form.
    spellings: HashMap<String, String>,
    tokens: &'t Tokens,
    pub(crate) api_keys: &'t ApiKeySection,
    underscores: Underscores,
}

impl<'t> KeyResolvers<'t> {
    /// Checks `key-resolvers:`.
    pub(crate) fn check(
        raw: &BTreeMap<String, Subtree>,
        (tokens, api_keys): (&'t Tokens, &'t ApiKeySection),
        underscores: Underscores,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let spellings = raw.keys().rev().map(|name| (canonical(name), name.clone())).collect();
        let mut resolvers = Self { named: BTreeMap::new(), spellings, tokens, api_keys, underscores };
        let mut resolver_by_name = BTreeMap::new();
        for (name, node) in raw {
            // One cannot name another.
            let parts: Vec<_> = parts(node).iter().filter_map(|part| resolvers.part(part, diagnostics).ok()).collect();
            let resolver = match parts.is_empty() {
                false => Some(KeyResolver::composite(parts)),
                // The error is reported; references to the name are not unknown.
                true => KeyResolver::parse("ip").ok(),
            };
            resolver_by_name.extend(resolver.map(|resolver| (name.clone(), resolver)));
        }
        resolvers.named = resolver_by_name;
        resolvers
    }

    /// Returns the resolver of limiters that name none: `default`.
    pub(crate) fn of_all(&self) -> Option<KeyResolver> {
        self.named.get(DEFAULT).cloned()
    }

    /// Returns the resolver that `text` names: `"#{@name}"`, a name under `key-resolvers`, or `ip`, `header:X` and the
    /// like. Reports an unknown one.
    pub(crate) fn resolve(&self, text: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<KeyResolver, Reported> {
        let text = text.trim();
        if let Some(bean) = text.strip_prefix("#{").and_then(|rest| rest.strip_suffix('}')) {
            return self.bean(bean.trim().trim_start_matches('@'), at, diagnostics);
        }
        if let Some(named) = self.named.get(text) {
            return Ok(named.clone());
        }
        self.parse(text, at, diagnostics)
    }

    fn parse(&self, text: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<KeyResolver, Reported> {
        let resolver = KeyResolver::parse(text).map_err(|error| diagnostics.error(at, reasons(&error)).reported())?;
        report_dropped_header(&resolver, self.underscores, at, diagnostics);
        let resolver = self.tokens.bind(resolver, at, diagnostics);
        Ok(self.api_keys.bind(resolver, at, diagnostics))
    }

    /// Reads one part of an entry of `key-resolvers:`.
    fn part(&self, part: &Node, diagnostics: &mut Diagnostics) -> Result<KeyResolver, Reported> {
        let text = part.scalar().ok_or_else(|| report_not_a_resolver(part, diagnostics))?;
        self.parse(text, part.span, diagnostics)
    }

    /// Returns the resolver of requests with any valid token. Reports a file without `jwt`.
    pub(crate) fn any_token(&self, at: Span, diagnostics: &mut Diagnostics) -> Result<KeyResolver, Reported> {
        self.tokens.any(at, diagnostics)
    }

    /// Returns the resolver that `texts` name: one, or several that form one key. `None` if there are none.
    pub(crate) fn resolve_all(
        &self,
        texts: &[Spanned<String>],
        diagnostics: &mut Diagnostics,
    ) -> Result<Option<KeyResolver>, Reported> {
        // All are resolved, so that all errors are reported.
        let parts: Vec<_> = texts.iter().map(|text| self.resolve(&text.value, text.span, diagnostics)).collect();
        let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok((!parts.is_empty()).then(|| KeyResolver::composite(parts)))
    }

    /// Returns the resolver that the scalar or list `node` names.
    pub(crate) fn resolve_node(&self, node: &Node, diagnostics: &mut Diagnostics) -> Result<KeyResolver, Reported> {
        let resolvers: Result<Vec<_>, _> = parts(node)
            .iter()
            .map(|part| match part.scalar() {
                Some(text) => self.resolve(text, part.span, diagnostics),
                None => Err(report_not_a_resolver(part, diagnostics)),
            })
            .collect();
        resolvers.map(KeyResolver::composite)
    }

    fn bean(&self, name: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<KeyResolver, Reported> {
        let resolver = self.named.get(name).or_else(|| self.named.get(self.spellings.get(&canonical(name))?));
        if let Some(resolver) = resolver {
            return Ok(resolver.clone());
        }
        let near = diagnostics.closest(name, self.named.keys().map(String::as_str));
        let Proposal { value, comment } = proposals::resolver(name);
        let reason = if comment.is_empty() { String::new() } else { format!(" ({comment})") };
        let help = match near {
            Some(near) => format!("did you mean `#{{@{near}}}`?"),
            None => format!("define it at the top level: `key-resolvers: {{{}: {value}}}`{reason}", yaml_key(name)),
        };
        let message = format!("key resolver `{name}` is a Java bean of your application, which Tollgate cannot run");
        let missing =
            Missing { section: Section::KeyResolvers, name: name.to_owned(), value, comment: comment.to_owned() };
        Err(diagnostics.error(at, message).missing(missing).reported_with(help))
    }
}

fn parts(node: &Node) -> &[Node] {
    match &node.kind {
        NodeKind::Seq(items) => items,
        _ => std::slice::from_ref(node),
    }
}

/// Warns of a header that no client can send, because its name has a `_`.
fn report_dropped_header(resolver: &KeyResolver, underscores: Underscores, at: Span, diagnostics: &mut Diagnostics) {
    let outcome = match underscores {
        Underscores::Allow => return,
        Underscores::Drop => "dropped",
        Underscores::Reject => "refused",
    };
    if let Some(name) = resolver.headers().into_iter().find(|name| name.as_str().contains('_')) {
        let hyphens = name.as_str().replace('_', "-");
        diagnostics
            .warn(at, format!("no request has the header `{name}`: headers with `_` in their name are {outcome}"))
            .help(format!("`header:{hyphens}`, or `headers: {{underscores: allow}}` at the top level"));
    }
}

fn report_not_a_resolver(part: &Node, diagnostics: &mut Diagnostics) -> Reported {
    diagnostics
        .error(part.span, format!("expected a key resolver, found {}", part.describe()))
        .reported_with("write `ip`, `\"header:X-User\"`, or a list of these")
}
