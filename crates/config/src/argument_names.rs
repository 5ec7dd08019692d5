//! Names of arguments, as variables of the environment spell them without capitals.

use crate::filters::{self, Arguments};
use crate::predicates::predicates;

/// Returns the names of the arguments of predicates and filters.
pub(crate) fn all() -> Vec<&'static str> {
    let mut names: Vec<&str> = LONG_ARGUMENTS.to_vec();
    names.extend(predicates().iter().flat_map(|entry| entry.args.iter().map(|argument| argument.name)));
    for filter in filters::filters() {
        if let Arguments::Listed(arguments) = filter.args {
            names.extend(arguments.iter().map(|argument| argument.name));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Arguments of Spring's filters that have no shortcut.
const LONG_ARGUMENTS: [&str; 19] = [
    "redis-rate-limiter.replenishRate",
    "redis-rate-limiter.burstCapacity",
    "redis-rate-limiter.requestedTokens",
    "key-resolver",
    "rate-limiter",
    "deny-empty-key",
    "empty-key-status",
    "status-code",
    "name",
    "fallbackUri",
    "statusCodes",
    "retries",
    "series",
    "statuses",
    "methods",
    "exceptions",
    "backoff.firstBackoff",
    "backoff.maxBackoff",
    "backoff.factor",
];
