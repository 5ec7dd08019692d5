//! `upstreams.NAME.balance` and `.hash-by`: load balancing.

use tollgate_filters::key_resolver::KeyResolver;
use tollgate_routing::Predicate;

use crate::de::{Spanned, Subtree};
use crate::diagnostics::Diagnostics;
use crate::key_resolvers::KeyResolvers;
use crate::yaml::Span;

/// Load balancing.
#[word]
pub(crate) enum RawBalance {
    /// Two random endpoints; the one with fewer in-flight requests for its weight.
    LeastRequest,
    /// Each in turn, in proportion to its weight.
    RoundRobin,
    /// The same as `round-robin`, which always uses weights.
    Weighted,
    /// Random, in proportion to the weights.
    Random,
    /// The same endpoint for the same `hash-by`, while it is healthy.
    ConsistentHash,
}

/// Load balancing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// The less busy one of two random endpoints.
    LeastRequest,
    /// Each in turn.
    RoundRobin,
    /// Random.
    Random,
    /// The same endpoint for the same key.
    ConsistentHash(KeyResolver),
}

impl Balance {
    /// Returns the key resolver of consistent hashing.
    pub fn key_resolver(&self) -> Option<&KeyResolver> {
        match self {
            Self::ConsistentHash(resolver) => Some(resolver),
            Self::LeastRequest | Self::RoundRobin | Self::Random => None,
        }
    }
}

/// Checks `balance` and `hash-by`. Reports errors.
pub(super) fn check(
    (balance, hash_by): (Option<&Spanned<RawBalance>>, Option<&Subtree>),
    at: Span,
    key_resolvers: &KeyResolvers<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Balance> {
    let balance = match balance.map(|balance| balance.value) {
        None | Some(RawBalance::LeastRequest) => Balance::LeastRequest,
        Some(RawBalance::RoundRobin | RawBalance::Weighted) => Balance::RoundRobin,
        Some(RawBalance::Random) => Balance::Random,
        Some(RawBalance::ConsistentHash) => {
            let Some(node) = hash_by else {
                let at = balance.map_or(at, |balance| balance.span);
                diagnostics
                    .error(at, "`consistent-hash` needs `hash-by`, the key that is hashed")
                    .help("`hash-by: ip`, `\"header:X-User\"`, `\"cookie:session\"`, or a list of these");
                return None;
            };
            return key_resolvers.resolve_node(node, diagnostics).ok().map(Balance::ConsistentHash);
        }
    };
    if let Some(node) = hash_by {
        diagnostics
            .mistake(node.span.key(), "`hash-by` has no effect without `balance: consistent-hash`")
            .help("add `balance: consistent-hash`, or remove `hash-by`");
    }
    Some(balance)
}

/// Reports variables of `hash-by` that no pattern of the route sets.
pub(crate) fn report_missing_variables(
    resolver: &KeyResolver,
    predicates: &[Predicate],
    at: Span,
    diagnostics: &mut Diagnostics,
) {
    for name in resolver.variables() {
        if !predicates.iter().flat_map(Predicate::variable_names).any(|known| known == name) {
            diagnostics.mistake(at, format!("`hash-by` of this upstream uses the variable `{{{name}}}`, which no `Path` or `Host` of this route sets"))
                .help(format!("`Path=/{{{name}}}/**` sets it; without a value endpoints are chosen at random"));
        }
    }
}
