//! Warnings of keys and plans that depend on a user: no filter authenticates one.

use crate::diagnostics::Diagnostics;
use crate::rate_limiter::args::LimiterArgs;
use crate::rate_limiter::model::{PlanResolver, Plans, RateLimiter};
use crate::yaml::Span;

const HELP: &str =
    "`ip` limits each address, `\"header:X-Api-Key\"` each key, `jwt:CLAIM` each user of a verified token";

/// Warns of rules and plans that read the user. `key-resolver: principal` alone, Spring's default, is reported elsewhere.
pub(super) fn warn_of_missing(limiter: &RateLimiter, args: &LimiterArgs, at: Span, diagnostics: &mut Diagnostics) {
    let key_resolver_texts = args.key_resolver.spanned().filter(|texts| !texts.value.items().is_empty());
    let is_plain =
        key_resolver_texts.is_some_and(|texts| matches!(texts.value.items(), [one] if one.value.trim() == "principal"));
    let shared = key_resolver_texts
        .filter(|_| !is_plain && limiter.settings.key_resolver.needs_principal())
        .map(|texts| texts.span);
    let rule_resolvers = limiter.limits().filter_map(|limit| limit.key_resolver.as_ref());
    let rule_places =
        rule_resolvers.filter(|resolver| resolver.needs_principal()).map(|_| args.limits.span().unwrap_or(at));
    if let Some(at) = shared.into_iter().chain(rule_places).next() {
        warn_of_key(limiter.settings.deny_empty_key, at, diagnostics);
    }
    if let Some(Plans { resolver: PlanResolver::Request(resolver), .. }) = &limiter.plans
        && resolver.needs_principal()
    {
        diagnostics
            .warn(
                args.plan_resolver.span().unwrap_or(at),
                "the plan is that of `principal`, the authenticated user, and no filter authenticates: no request has a plan",
            )
            .help(HELP);
    }
}

/// Warns of a key that contains the user.
pub(crate) fn warn_of_key(denies_empty_key: bool, at: Span, diagnostics: &mut Diagnostics) {
    let outcome = if denies_empty_key { "every request is refused without a key" } else { "it limits no request" };
    diagnostics
        .warn(
            at,
            format!("the key contains `principal`, the authenticated user, and no filter authenticates: {outcome}"),
        )
        .help(HELP);
}
