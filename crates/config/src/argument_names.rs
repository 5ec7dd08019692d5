//! Names of arguments, as variables of the environment spell them without capitals.

use crate::filters;
use crate::predicates::predicates;
use crate::rate_limiter::args::rule_names;
use crate::spec::tree::Shortcut;

/// Returns the names of the arguments of predicates and filters.
pub(crate) fn all() -> Vec<&'static str> {
    let mut names: Vec<&str> = PREFIXED.iter().chain(rule_names()).copied().collect();
    names.extend(predicates().iter().flat_map(|entry| entry.args.iter().map(|argument| argument.name)));
    for filter in filters::filters() {
        names.extend((filter.args.names)());
        if let Shortcut::Some(positions) = filter.args.shortcut {
            names.extend(positions);
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Arguments of `RequestRateLimiter` under Spring's prefix.
const PREFIXED: [&str; 3] =
    ["redis-rate-limiter.replenishRate", "redis-rate-limiter.burstCapacity", "redis-rate-limiter.requestedTokens"];
