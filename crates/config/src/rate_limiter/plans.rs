//! `plans`, `plan-resolver` and `default-plan`.

use std::collections::HashMap;
use std::time::Duration;

use crate::de::units::parse_time;
use crate::diagnostics::{Diagnostics, suggest};
use crate::model::{PlanResolver, Plans, Rules};
use crate::rate_limiter::args::{Entry, Section};
use crate::rate_limiter::limit::{self, OF_EVERY_RULE, named};
use crate::rate_limiter::limits::Limits;
use crate::rate_limiter::rule::FIELDS;
use crate::sections::key_resolvers::one_key_resolver;
use crate::yaml::Span;

/// How long a plan read from Redis is remembered: long enough that Redis is asked seldom, short enough that a customer
/// who pays for more gets it while they watch.
const CACHE: Duration = Duration::from_secs(5);

/// The plans, if there are any: the outer `None` when `sink` knows what is wrong with them.
pub(super) fn plans(
    section: &Section<'_>,
    span: Span,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Option<Plans>> {
    let written = section.map("plans");
    if !section.has("plans") {
        for name in ["plan-resolver", "default-plan"] {
            if let Some(arg) = section.first(name) {
                diagnostics.error(arg.span.key(), format!("`{name}` without `plans`"))
                    .help("plans: {free: {replenish-rate: 1, burst-capacity: 5}, gold: {replenish-rate: 50, burst-capacity: 100}}");
                return None;
            }
        }
        return Some(None);
    }
    let names: Vec<String> = written.names().into_iter().map(str::to_owned).collect();
    let mut sets = Vec::with_capacity(names.len());
    let mut is_whole = !names.is_empty();
    if names.is_empty() {
        let at = section.first("plans").map_or(span, |arg| arg.span);
        diagnostics
            .error(at, "`plans` must be a map from names to rules")
            .help("plans: {free: {replenish-rate: 1, burst-capacity: 5}}");
    }
    for name in &names {
        match set(&written, name, span, limits, diagnostics) {
            Some(rules) => sets.push((name.clone(), rules)),
            None => is_whole = false,
        }
    }
    let resolver = resolver(section, &names, span, limits, diagnostics);
    let default = match section.get("default-plan", diagnostics) {
        None => None,
        Some(arg) => Some(known(&arg.value, &names, arg.span, diagnostics)?),
    };
    let resolver = resolver?;
    is_whole.then_some(Some(Plans { sets, resolver, default }))
}

/// One plan's rules.
fn set(
    plans: &Section<'_>,
    name: &str,
    span: Span,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Rules> {
    let scalar = plans.texts(name);
    if let [arg, ..] = scalar.as_slice() {
        if arg.value.trim() == "unlimited" {
            return Some(Rules::Several(Vec::new()));
        }
        diagnostics
            .error(arg.span, format!("plan `{name}` must be a map, or `unlimited`, found `{}`", arg.value))
            .help(format!("{name}: {{replenish-rate: 10, burst-capacity: 20}}"));
        return None;
    }
    if let Some(arg) = plans.nothing(name) {
        diagnostics
            .error(arg.span, format!("plan `{name}` says nothing"))
            .help(format!("{name}: {{replenish-rate: 10, burst-capacity: 20}}, or `{name}: unlimited`"));
        return None;
    }
    let section = plans.map(name);
    let span = section.at(span);
    named(name, "a plan's name", span.key(), diagnostics)?;
    let known: Vec<&str> = ["limits", "bucket"].into_iter().chain(FIELDS).chain(OF_EVERY_RULE).collect();
    section.check_names("a plan", &known, diagnostics);
    if section.has("limits") {
        crate::rate_limiter::beside_limits(&section, diagnostics)?;
        return limit::list(&section, span, limits, diagnostics);
    }
    limit::single(&section, span, limits, diagnostics).map(|limit| Rules::One(Box::new(limit)))
}

fn resolver(
    section: &Section<'_>,
    names: &[String],
    span: Span,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<PlanResolver> {
    let Some(first) = section.first("plan-resolver") else {
        let at = section.first("plans").map_or(span, |arg| arg.span);
        diagnostics.error(at, "`plans` without `plan-resolver`: nothing says who has which").help(
            "plan-resolver: \"header:X-Plan\", {table: {alice: gold}} by key, or {redis-hash: plans} by key in Redis",
        );
        return None;
    };
    if let [text] = section.texts("plan-resolver")[..] {
        return one_key_resolver(text, &limits.resolvers, diagnostics).map(PlanResolver::Request);
    }
    let map = section.map("plan-resolver");
    let table = map.table("table");
    if !table.is_empty() {
        map.check_names("`plan-resolver`", &["table"], diagnostics);
        let entry = |(key, arg): (&str, &crate::de::arg::Arg)| {
            known(&arg.value, names, arg.span, diagnostics).map(|plan| (key.to_owned(), plan))
        };
        let table: Vec<Option<(String, String)>> = table.into_iter().map(entry).collect();
        return table.into_iter().collect::<Option<HashMap<_, _>>>().map(PlanResolver::Table);
    }
    if map.has("redis-hash") {
        map.check_names("`plan-resolver`", &["redis-hash", "cache"], diagnostics);
        let key = map.get("redis-hash", diagnostics)?;
        if !limits.has_redis {
            diagnostics
                .error(key.span, "`redis-hash` without `redis:`")
                .help("add `redis: {url: \"redis://127.0.0.1:6379\"}`");
        }
        let cache = match map.get("cache", diagnostics) {
            None => CACHE,
            Some(arg) => match parse_time(&arg.value) {
                Ok(time) if time <= Duration::from_secs(3600) => time,
                Ok(_) => {
                    diagnostics.error(arg.span, "`cache` must be an hour at most: changes wait for it").help("5s");
                    return None;
                }
                Err(message) => {
                    diagnostics.error(arg.span, message);
                    return None;
                }
            },
        };
        return Some(PlanResolver::RedisHash { key: key.value.clone(), cache });
    }
    let names: Vec<&str> = map.entries().iter().map(|entry: &Entry<'_>| entry.name.as_str()).collect();
    diagnostics
        .error(first.span, format!("`plan-resolver` cannot be read: found {}", names.join(", ")))
        .help("\"header:X-Plan\", {table: {alice: gold}} or {redis-hash: plans}");
    None
}

fn known(name: &str, names: &[String], at: Span, diagnostics: &mut Diagnostics) -> Option<String> {
    let name = name.trim();
    let found = names.iter().find(|known| *known == name).cloned();
    if found.is_none() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        diagnostics.error(at, format!("there is no plan `{name}`")).help(suggest(name, &names));
    }
    found
}
