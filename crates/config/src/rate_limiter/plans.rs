//! `plans`, `plan-resolver` and `default-plan`.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::de::{Given, Spanned};
use crate::diagnostics::{Diagnostics, Reported};
use crate::rate_limiter::args::{LimiterArgs, PlanArgs, PlanResolverArgs, PlanTableArgs};
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::model::{PlanResolver, Plans, Rules};
use crate::rate_limiter::rules::{identifier, one_or_list};
use crate::yaml::Span;

/// Time for which a plan from Redis is cached: long enough to save calls, short enough that a new plan is noticed.
const CACHE: Duration = Duration::from_secs(5);
/// Upper bound of `cache`, and so of the time until a change of plan takes effect.
const LONGEST_CACHE: Duration = Duration::from_secs(3600);

/// Checks the plans. Returns `None` if there are none.
pub(super) fn plans(
    args: &LimiterArgs,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Option<Plans>, Reported> {
    let Some(plans) = args.plans.checked()? else {
        let stray = [("plan-resolver", args.plan_resolver.span()), ("default-plan", args.default_plan.span())];
        let Some((name, at)) = stray.into_iter().find_map(|(name, span)| Some((name, span?))) else {
            return Ok(None);
        };
        let help =
            "plans: {free: {replenish-rate: 1, burst-capacity: 5}, gold: {replenish-rate: 50, burst-capacity: 100}}";
        return Err(diagnostics.error(at.key(), format!("`{name}` without `plans`")).reported_with(help));
    };
    let names: Vec<&str> = plans.value.0.iter().map(|(name, _)| name.as_str()).collect();
    // All are checked, so that all errors are reported.
    let sets: Vec<_> = plans
        .value
        .0
        .iter()
        .map(|(name, plan)| Ok((name.clone(), set(name, plan, plans.span, context, diagnostics)?)))
        .collect();
    let resolver = resolver(args, plans.span, &names, context, diagnostics);
    let default = match args.default_plan.checked()? {
        None => None,
        Some(plan) => Some(existing(plan, (&names.iter().copied().collect(), &names), diagnostics)?),
    };
    let resolver = resolver?;
    let sets = sets.into_iter().collect::<Result<_, Reported>>()?;
    Ok(Some(Plans { sets, resolver, default }))
}

/// Returns the rules of one plan.
fn set(
    name: &str,
    plan: &Given<PlanArgs>,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Rules, Reported> {
    let example = format!("{name}: {{replenish-rate: 10, burst-capacity: 20}}");
    let Some(plan) = plan.checked()? else {
        let error = diagnostics.error(at, format!("plan `{name}` is empty"));
        return Err(error.reported_with(format!("{example}, or `{name}: unlimited`")));
    };
    let args = match &plan.value {
        PlanArgs::Scalar(text) if text.value.trim() == "unlimited" => return Ok(Rules::Several(Vec::new())),
        PlanArgs::Scalar(text) => {
            let message = format!("plan `{name}` must be a map or `unlimited`, found `{}`", text.value);
            return Err(diagnostics.error(text.span, message).reported_with(example));
        }
        PlanArgs::Map(args) => args,
    };
    identifier(name, "a plan's name", plan.span.key(), diagnostics)?;
    one_or_list((&args.rule, &args.limits, &args.bucket), plan.span, context, diagnostics)
}

fn resolver(
    args: &LimiterArgs,
    plans_at: Span,
    names: &[&str],
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<PlanResolver, Reported> {
    let Some(resolver) = args.plan_resolver.checked()? else {
        let help = "plan-resolver: \"header:X-Plan\", api-key, {table: {alice: gold}} by key, or {redis-hash: plans} by key in Redis";
        let error = diagnostics.error(plans_at, "`plans` without `plan-resolver`, the source of a request's plan");
        return Err(error.reported_with(help));
    };
    let text = match &resolver.value {
        PlanResolverArgs::Scalar(text) => Some(text),
        PlanResolverArgs::Seq(texts) => texts.first().filter(|_| texts.len() == 1),
        PlanResolverArgs::Map(map) => return by_key(map, resolver.span, names, context, diagnostics),
    };
    match text {
        Some(text) => {
            let resolver = context.key_resolvers.resolve(&text.value, text.span, diagnostics)?;
            Ok(PlanResolver::Request(resolver.of_plan()))
        }
        None => Err(report_no_resolver(resolver.span, diagnostics)),
    }
}

/// Returns the resolver that reads plans from a table in the file or from a hash in Redis.
fn by_key(
    args: &PlanTableArgs,
    at: Span,
    names: &[&str],
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<PlanResolver, Reported> {
    if let Some(table) = args.table.checked()? {
        if let Some(span) = args.redis_hash.span().or(args.cache.span()) {
            diagnostics
                .mistake(span.key(), "`table` cannot be combined with `redis-hash` or `cache`")
                .help("remove one");
        }
        // All are checked, so that all errors are reported.
        let known: HashSet<&str> = names.iter().copied().collect();
        let plans: Vec<Result<(String, String), Reported>> = table
            .value
            .iter()
            .map(|(key, plan)| Ok((key.clone(), existing(plan, (&known, names), diagnostics)?)))
            .collect();
        return plans.into_iter().collect::<Result<HashMap<_, _>, _>>().map(PlanResolver::Table);
    }
    let Some(key) = args.redis_hash.checked()? else { return Err(report_no_resolver(at, diagnostics)) };
    if !context.has_redis {
        diagnostics
            .error(key.span, "`redis-hash` without `redis:`")
            .help("add `redis: {url: \"redis://127.0.0.1:6379\"}`");
    }
    let cache = match args.cache.checked()? {
        None => CACHE,
        Some(cache) if cache.value.0 <= LONGEST_CACHE => cache.value.0,
        Some(cache) => {
            let message = "`cache` must be at most 1h: a change of plan takes effect after that time";
            return Err(diagnostics.error(cache.span, message).reported_with("5s"));
        }
    };
    Ok(PlanResolver::RedisHash { key: key.value.clone(), cache })
}

fn report_no_resolver(at: Span, diagnostics: &mut Diagnostics) -> Reported {
    diagnostics
        .error(at, "`plan-resolver` is neither a key resolver nor a map with `table` or `redis-hash`")
        .reported_with("\"header:X-Plan\", {table: {alice: gold}} or {redis-hash: plans}")
}

/// Returns the name of an existing plan, or reports an unknown one.
fn existing(
    plan: &Spanned<String>,
    (known, names): (&HashSet<&str>, &[&str]),
    diagnostics: &mut Diagnostics,
) -> Result<String, Reported> {
    let name = plan.value.trim();
    if !known.contains(name) {
        let error = diagnostics.error(plan.span, format!("unknown plan `{name}`"));
        let reported = error.reported();
        error.suggest(name, names);
        return Err(reported);
    }
    Ok(name.to_owned())
}
