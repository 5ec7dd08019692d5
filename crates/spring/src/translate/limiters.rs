//! Limiters: Spring's defaults, and arguments that Spring reads in another way.

use crate::translate::Explicit;
use crate::translate::bucket4j;
use crate::translate::component::{Argument, Component, each_filter};
use crate::tree::find;
use tollgate_document::diagnostics::{Diagnostics, Missing, Section};
use tollgate_document::yaml::key::same_name;
use tollgate_document::yaml::{Node, NodeKind};

/// Filters that refuse requests without a key.
const NEED_KEYS: [&str; 3] = ["RequestRateLimiter", "ConcurrencyLimiter", "RequireToken"];
/// Section of the settings of all limiters.
const SETTINGS: [&str; 2] = ["filter", "request-rate-limiter"];
/// Spring's prefix of the arguments of its Redis limiter.
const PREFIX: &str = "redis-rate-limiter.";
/// Arguments that Spring ignores without that prefix.
const PREFIXED: [&str; 3] = ["replenish-rate", "burst-capacity", "requested-tokens"];

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let has_redis = find(root, &["redis"]).is_some();
    let defaults = Defaults {
        has_resolver: find(root, &["key-resolvers", "default"]).is_some(),
        denies_empty_key: find(root, &setting("deny-empty-key")).is_none_or(|node| !is_false(node.scalar())),
        allows: has_redis && find(root, &setting("on-store-failure")).is_none(),
    };
    note_several(root, diagnostics);
    let mut used = Vec::new();
    each_filter(root, &mut |filter| {
        let component = Component::read(filter).filter(|component| NEED_KEYS.contains(&component.name.as_str()));
        let Some(mut component) = component else { return };
        if is_limiter(&component) {
            let is_bucket4j = bucket4j::translate(filter, component.at, has_redis, explicit, diagnostics);
            if is_bucket4j && let Some(translated) = Component::read(filter) {
                component = translated;
            }
            Limiter { filter, component: &component, is_bucket4j }.translate(&defaults, explicit, diagnostics);
        }
        used.push(component.name);
    });
    if !used.is_empty() {
        let reason = "As in Spring, preflights of browsers need a key, too.";
        explicit.add_missing(root, &["preflights"], "by-key", reason);
    }
    let mut add = |key, value, reason| explicit.add_missing(root, &setting(key), value, reason);
    if used.iter().any(|name| name == NEED_KEYS[0]) {
        add("error-body", "empty", "As in Spring, denials have no body.");
        if has_redis {
            let reason = "As in Spring, requests pass while Redis is unreachable; `local` limits in memory meanwhile.";
            add("on-store-failure", "allow", reason);
        }
    }
}

fn setting(key: &str) -> [&str; 3] {
    let [filter, limiter] = SETTINGS;
    [filter, limiter, key]
}

fn is_false(text: Option<&str>) -> bool {
    text.is_some_and(|text| ["false", "no", "off"].contains(&text.trim().to_ascii_lowercase().as_str()))
}

/// Notes the routes with several limiters.
fn note_several(root: &Node, diagnostics: &mut Diagnostics) {
    let count = |list: Option<&Node>| match list.map(|list| &list.kind) {
        Some(NodeKind::Seq(filters)) => filters.iter().filter_map(Component::read).filter(is_limiter).count(),
        _ => 0,
    };
    let shared = count(root.step("default-filters"));
    let Some(NodeKind::Seq(routes)) = root.step("routes").map(|routes| &routes.kind) else { return };
    for (position, route) in routes.iter().enumerate() {
        let limiters = shared + count(route.step("filters"));
        if limiters > 1 {
            let id = route.step("id");
            let name = id.and_then(Node::scalar).map_or_else(|| format!("route-{position}"), |id| id.trim().to_owned());
            diagnostics.note(
                id.unwrap_or(route).span,
                format!(
                    "route `{name}` has {limiters} limiters, each with its own bucket; in Spring the settings of the last one \
                     apply to all"
                ),
            );
        }
    }
}

fn is_limiter(component: &Component) -> bool {
    component.name == NEED_KEYS[0]
}

/// Settings of the file for limiters without their own.
struct Defaults {
    /// True if `key-resolvers` has a `default`.
    has_resolver: bool,
    denies_empty_key: bool,
    /// True if requests pass while Redis is unreachable, without a setting.
    allows: bool,
}

/// A `RequestRateLimiter`.
struct Limiter<'l> {
    filter: &'l mut Node,
    component: &'l Component,
    /// True if its numbers were those of Bucket4j.
    is_bucket4j: bool,
}

impl Limiter<'_> {
    fn translate(mut self, defaults: &Defaults, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
        if !self.is_bucket4j {
            self.report_rates(diagnostics);
        }
        if defaults.allows && self.arg("on-store-failure").is_none() && self.value("store") != Some("memory") {
            diagnostics
                .note(self.component.at, "while Redis is unreachable every request passes, as in Spring")
                .help("`on-store-failure: local` limits in memory meanwhile");
        }
        if self.arg("replenish-rate").is_some() && self.arg("burst-capacity").is_none() {
            explicit.add_missing(self.filter, &["args", "burst-capacity"], "1", "Spring's default, whatever the rate.");
        }
        // The numbers of a bean are missing, too.
        let has_numbers = self.arg("rate-limiter").is_none() || self.arg("replenish-rate").is_some();
        let has_one_rule = self.arg("limits").or(self.arg("plans")).is_none();
        if !defaults.has_resolver && has_numbers && has_one_rule {
            self.name_resolver(defaults, explicit, diagnostics);
        }
    }

    /// Returns the argument `name`, or its first part, with or without Spring's prefix.
    fn arg(&self, name: &str) -> Option<&Argument> {
        let is_prefixed = |arg: &&Argument| {
            let rest = arg.name.as_deref().and_then(|written| written.strip_prefix(PREFIX));
            rest.is_some_and(|rest| same_name(rest, name))
        };
        self.component.named(name).or_else(|| self.component.args.iter().find(is_prefixed))
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.arg(name).map(|arg| arg.value.trim())
    }

    /// Names the key that Spring uses without `key-resolver` and without a bean.
    fn name_resolver(&mut self, defaults: &Defaults, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
        const PATH: [&str; 2] = ["args", "key-resolver"];
        let reason = "Spring takes the only KeyResolver bean of the application; without one, it counts by the user.";
        if !explicit.add_missing(self.filter, &PATH, "principal", reason) {
            return;
        }
        let denies_empty_key = match self.value("deny-empty-key") {
            None => defaults.denies_empty_key,
            value => !is_false(value),
        };
        let outcome = if denies_empty_key { "is refused without a key" } else { "passes unlimited" };
        diagnostics
            .warn(self.component.at, format!("without `key-resolver` Spring takes the only KeyResolver bean of the application, which cannot be seen here: every request {outcome}"))
            .missing(Missing {
                section: Section::KeyResolvers,
                name: "default".to_owned(),
                value: "ip".to_owned(),
                comment: "the KeyResolver bean of the application; without one, Spring counts by the user".to_owned(),
            })
            .help("name what the bean reads: `key-resolvers: {default: ip}` limits each address, `\"header:X-Api-Key\"` each key");
        // The check would say it again.
        if let Some(resolver) = find(self.filter, &PATH) {
            diagnostics.mute(resolver.span);
        }
    }

    /// Reports numbers that Spring ignores, refuses or does not enforce.
    fn report_rates(&self, diagnostics: &mut Diagnostics) {
        for name in PREFIXED {
            let Some(arg) = self.component.named(name) else { continue };
            let written = arg.name.as_deref().unwrap_or_default();
            let message = format!("Spring ignores `{written}` without the prefix `{PREFIX}`; here it applies");
            diagnostics
                .warn(arg.at.key(), message)
                .help(format!("write `{PREFIX}{name}` for the same meaning in both"));
        }
        let Some(rate) = self.arg("replenish-rate") else { return };
        if let Some(factor) = factor_to_whole(rate.value.trim()) {
            diagnostics
                .error(rate.at, "`replenishRate` is a whole number in Spring")
                .help(format!("multiply rate, burst and `requestedTokens` by {factor}, which admits the same"));
        }
        let Ok(rate) = rate.value.trim().parse::<u64>() else { return };
        let burst = self.arg("burst-capacity");
        let is_per_second = self.arg("period").or(self.arg("replenish-period")).is_none();
        let capacity = burst.map_or(Some(1), |burst| burst.value.trim().parse::<u64>().ok());
        if let Some(capacity) = capacity.filter(|burst| is_per_second && *burst > 0 && burst.saturating_mul(2) < rate) {
            diagnostics
                .warn(
                    burst.map_or(self.component.at, |burst| burst.at),
                    format!(
                        "Spring limits nothing with a burst of {capacity} and a rate of {rate}, since its bucket expires at once; \
                         here both apply"
                    ),
                )
                .help("a `burst-capacity` of at least `replenish-rate` means the same in both");
        }
    }
}

/// Returns the smallest number by which a number with a fraction is to be multiplied to be whole.
fn factor_to_whole(number: &str) -> Option<u64> {
    let digits = number.split_once('.')?.1.trim_end_matches('0');
    let scale = 10_u64.checked_pow(digits.len().try_into().ok()?)?;
    let (mut divisor, mut rest) = (scale, digits.parse::<u64>().ok()?);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    Some(scale / divisor)
}
