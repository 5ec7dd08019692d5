//! `plans`, `plan-resolver` and `default-plan`.

use std::collections::HashMap;
use std::time::Duration;

use super::args::{Entry, Section};
use super::limit::{self, OF_EVERY_RULE, named};
use super::rule::FIELDS;
use super::{Limits, PlanResolver, Plans, Rules};
use crate::check_key_resolver::one_key_resolver;
use crate::problem::{Sink, suggest};
use crate::units::parse_time;
use crate::yaml::Origin;

/// How long a plan read from Redis is remembered: long enough that Redis is asked seldom, short enough that a customer
/// who pays for more gets it while they watch.
const CACHE: Duration = Duration::from_secs(5);

/// The plans, if there are any: the outer `None` when `sink` knows what is wrong with them.
pub(super) fn plans(
    section: &Section<'_>,
    origin: Origin,
    limits: &Limits<'_>,
    sink: &mut Sink,
) -> Option<Option<Plans>> {
    let written = section.map("plans");
    if !section.has("plans") {
        for name in ["plan-resolver", "default-plan"] {
            if let Some(arg) = section.first(name) {
                sink.error(arg.origin.key(), format!("`{name}` without `plans`"))
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
        let at = section.first("plans").map_or(origin, |arg| arg.origin);
        sink.error(at, "`plans` must be a map from names to rules")
            .help("plans: {free: {replenish-rate: 1, burst-capacity: 5}}");
    }
    for name in &names {
        match set(&written, name, origin, limits, sink) {
            Some(rules) => sets.push((name.clone(), rules)),
            None => is_whole = false,
        }
    }
    let resolver = resolver(section, &names, origin, limits, sink);
    let default = match section.get("default-plan", sink) {
        None => None,
        Some(arg) => Some(known(&arg.value, &names, arg.origin, sink)?),
    };
    let resolver = resolver?;
    is_whole.then_some(Some(Plans { sets, resolver, default }))
}

/// One plan's rules.
fn set(plans: &Section<'_>, name: &str, origin: Origin, limits: &Limits<'_>, sink: &mut Sink) -> Option<Rules> {
    let scalar = plans.texts(name);
    if let [arg, ..] = scalar.as_slice() {
        if arg.value.trim() == "unlimited" {
            return Some(Rules::Several(Vec::new()));
        }
        sink.error(arg.origin, format!("plan `{name}` must be a map, or `unlimited`, found `{}`", arg.value))
            .help(format!("{name}: {{replenish-rate: 10, burst-capacity: 20}}"));
        return None;
    }
    if let Some(arg) = plans.nothing(name) {
        sink.error(arg.origin, format!("plan `{name}` says nothing"))
            .help(format!("{name}: {{replenish-rate: 10, burst-capacity: 20}}, or `{name}: unlimited`"));
        return None;
    }
    let section = plans.map(name);
    let origin = section.at(origin);
    named(name, "a plan's name", origin.key(), sink)?;
    let known: Vec<&str> = ["limits", "bucket"].into_iter().chain(FIELDS).chain(OF_EVERY_RULE).collect();
    section.check_names("a plan", &known, sink);
    if section.has("limits") {
        super::beside_limits(&section, sink)?;
        return limit::list(&section, origin, limits, sink);
    }
    limit::single(&section, origin, limits, sink).map(|limit| Rules::One(Box::new(limit)))
}

fn resolver(
    section: &Section<'_>,
    names: &[String],
    origin: Origin,
    limits: &Limits<'_>,
    sink: &mut Sink,
) -> Option<PlanResolver> {
    let Some(first) = section.first("plan-resolver") else {
        let at = section.first("plans").map_or(origin, |arg| arg.origin);
        sink.error(at, "`plans` without `plan-resolver`: nothing says who has which").help(
            "plan-resolver: \"header:X-Plan\", {table: {alice: gold}} by key, or {redis-hash: plans} by key in Redis",
        );
        return None;
    };
    if let [text] = section.texts("plan-resolver")[..] {
        return one_key_resolver(text, limits, sink).map(PlanResolver::Request);
    }
    let map = section.map("plan-resolver");
    let table = map.table("table");
    if !table.is_empty() {
        map.check_names("`plan-resolver`", &["table"], sink);
        let entry = |(key, arg): (&str, &crate::definition::Arg)| {
            known(&arg.value, names, arg.origin, sink).map(|plan| (key.to_owned(), plan))
        };
        let table: Vec<Option<(String, String)>> = table.into_iter().map(entry).collect();
        return table.into_iter().collect::<Option<HashMap<_, _>>>().map(PlanResolver::Table);
    }
    if map.has("redis-hash") {
        map.check_names("`plan-resolver`", &["redis-hash", "cache"], sink);
        let key = map.get("redis-hash", sink)?;
        if !limits.has_redis {
            sink.error(key.origin, "`redis-hash` without `redis:`")
                .help("add `redis: {url: \"redis://127.0.0.1:6379\"}`");
        }
        let cache = match map.get("cache", sink) {
            None => CACHE,
            Some(arg) => match parse_time(&arg.value) {
                Ok(time) if time <= Duration::from_secs(3600) => time,
                Ok(_) => {
                    sink.error(arg.origin, "`cache` must be an hour at most: changes wait for it").help("5s");
                    return None;
                }
                Err(message) => {
                    sink.error(arg.origin, message);
                    return None;
                }
            },
        };
        return Some(PlanResolver::RedisHash { key: key.value.clone(), cache });
    }
    let names: Vec<&str> = map.entries().iter().map(|entry: &Entry<'_>| entry.name.as_str()).collect();
    sink.error(first.origin, format!("`plan-resolver` cannot be read: found {}", names.join(", ")))
        .help("\"header:X-Plan\", {table: {alice: gold}} or {redis-hash: plans}");
    None
}

fn known(name: &str, names: &[String], at: Origin, sink: &mut Sink) -> Option<String> {
    let name = name.trim();
    let found = names.iter().find(|known| *known == name).cloned();
    if found.is_none() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        sink.error(at, format!("there is no plan `{name}`")).help(suggest(name, &names));
    }
    found
}
