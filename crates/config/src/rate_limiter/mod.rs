//! `RequestRateLimiter` as written to a limiter that decides.

mod args;
mod lease;
mod limit;
mod limits;
mod plans;
pub(crate) mod raw;
mod rule;
mod settings;
mod store;

use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::LockedStore;

use self::args::{Entry, Section};
pub(crate) use self::limits::Limits;
pub(crate) use self::settings::{families, throw_on_limit};
use crate::de::canonical;
use crate::diagnostics::Diagnostics;
use crate::model::{Atomicity, Limit, RateLimiter, Rules, StoreKind};
use crate::spring::spec::Written;
use crate::yaml::Span;

/// Prefix of Spring's arguments for its Redis limiter.
const PREFIX: &str = "redis-rate-limiter.";

/// Those that Spring ignores without it.
const PREFIXED: [&str; 3] = ["replenish-rate", "burst-capacity", "requested-tokens"];

/// Arguments a limiter takes besides the fields of rules.
const ARGS: [&str; 33] = [
    "limits",
    "plans",
    "plan-resolver",
    "default-plan",
    "key-resolver",
    "bucket",
    "mode",
    "enforce-percent",
    "would-deny-header",
    "exempt",
    "block",
    "block-status",
    "on-limit",
    "throw-on-limit",
    "status-code",
    "error-body",
    "body",
    "deny-empty-key",
    "empty-key-status",
    "empty-key-status-code",
    "store",
    "on-store-failure",
    "gateways",
    "atomicity",
    "lock",
    "lease",
    "headers",
    "include-headers",
    "remaining-header",
    "replenish-rate-header",
    "burst-capacity-header",
    "requested-tokens-header",
    "rate-limiter",
];

/// The limiter that `written` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(written: &Written, limits: &Limits<'_>, diagnostics: &mut Diagnostics) -> Option<RateLimiter> {
    let section = section(written, diagnostics)?;
    let of_rules = rule::FIELDS.into_iter().chain(limit::OF_EVERY_RULE);
    let known: Vec<&str> = of_rules.chain(ARGS).collect();
    section.check_names("", &known, diagnostics);
    bean(&section, diagnostics);
    let rules = rules(&section, written, limits, diagnostics);
    let plans = plans::plans(&section, written.span, limits, diagnostics);
    let settings = settings::settings(&section, limits, diagnostics);
    let store = store::store(&section, written.span, limits, diagnostics);
    let bucket = shared(&section, diagnostics);
    let (rules, plans, settings) = (rules?, plans?, settings?);
    let (store, mut on_store_failure, gateways, atomicity) = store?;
    let every = || {
        let sets = plans.iter().flat_map(|plans| &plans.sets).map(|(_, rules)| rules);
        std::iter::once(&rules).chain(sets).flat_map(Rules::limits)
    };
    let has_stock = every().any(|limit| matches!(limit.rule, Rule::Quota(_)));
    if has_stock && !section.has("on-store-failure") && !diagnostics.is_spring {
        // What was sold once must not be given out again by each gateway that cannot ask.
        on_store_failure = OnStoreFailure::Deny;
    }
    check_lock(&section, written.span, &atomicity, every(), diagnostics);
    if limits.has_cluster && store != Some(StoreKind::Memory) && atomicity != Atomicity::Script {
        let at = section.first("atomicity").map_or(written.span, |arg| arg.span);
        diagnostics
            .error(at, "`atomicity: lock` needs one server: a cluster has no lock for all of its nodes")
            .help("remove it: in a cluster each decision is one script on one node");
    }
    let in_redis = limits.has_redis && store != Some(StoreKind::Memory);
    let lease = lease::lease(&section, &atomicity, in_redis, every(), diagnostics)?;
    let bucket = bucket?;
    let limiter = RateLimiter { rules, plans, bucket, settings, store, on_store_failure, gateways, atomicity, lease };
    nobody(&limiter, &section, written, diagnostics);
    Some(limiter)
}

/// Under a lock only windows are decided, which are a counter or a log that one can read and write.
fn check_lock<'l>(
    section: &Section<'_>,
    span: Span,
    atomicity: &Atomicity,
    mut limits: impl Iterator<Item = &'l Limit>,
    diagnostics: &mut Diagnostics,
) {
    let at = section.first("atomicity").map_or(span, |arg| arg.span);
    if *atomicity != Atomicity::Script
        && let Some(limit) = limits.find(|limit| !LockedStore::supports(&limit.rule))
    {
        diagnostics
            .error(at, format!("`{}` cannot be decided under a lock", limit.rule.algorithm().as_str()))
            .help("`atomicity: lock` goes with `fixed-window` and `sliding-window-counter`");
    }
}

/// The arguments by their names, Spring's prefix taken off.
fn section<'w>(written: &'w Written, diagnostics: &mut Diagnostics) -> Option<Section<'w>> {
    let mut section = Section::default();
    for arg in &written.args {
        let Some(name) = &arg.name else {
            diagnostics.error(arg.span, "`RequestRateLimiter` has no shortcut form: Spring reads the arguments and limits nothing")
                .help("write `name: RequestRateLimiter` and `args: {replenish-rate: 10, burst-capacity: 20, key-resolver: ip}`");
            return None;
        };
        let plain = name.strip_prefix(PREFIX);
        let bare = plain.unwrap_or(name);
        if bare.starts_with("bucket4j-rate-limiter.") {
            diagnostics.error(arg.span.key(), "Bucket4j limiters cannot be used: they need a Java bean")
                .help("`replenish-rate` and `burst-capacity` say the same: capacity is the burst, refill-tokens a second the rate");
            return None;
        }
        let entry = Entry::new(bare, arg);
        if let Some(known) =
            PREFIXED.iter().find(|known| diagnostics.is_spring && plain.is_none() && **known == canonical_kebab(bare))
        {
            diagnostics
                .warn(arg.span.key(), format!("Spring ignores `{name}` without the prefix `{PREFIX}`; here it holds"))
                .help(format!("write `{PREFIX}{known}` for the same meaning in both"));
        }
        section.push(entry);
    }
    for arg in &written.empty {
        let name = arg.name.as_deref().unwrap_or_default();
        section.push_empty(Entry::new(name.strip_prefix(PREFIX).unwrap_or(name), arg));
    }
    // It stands where the filter does.
    section.span = Some(written.span);
    Some(section)
}

/// The kebab-case name among [`PREFIXED`] that `name` spells, or itself.
fn canonical_kebab(name: &str) -> &str {
    PREFIXED.into_iter().find(|known| canonical(known) == canonical(name)).unwrap_or(name)
}

/// The filter's own rules: one, a list, or none where a plan stands in for them.
fn rules(
    section: &Section<'_>,
    written: &Written,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Rules> {
    for (name, example) in [
        ("limits", "limits: [{name: second, replenish-rate: 10, burst-capacity: 20}]"),
        ("plans", "plans: {free: {replenish-rate: 1, burst-capacity: 5}}"),
    ] {
        if let Some(arg) = section.nothing(name) {
            diagnostics.error(arg.span, format!("`{name}` holds nothing")).help(example);
            return None;
        }
    }
    if section.has("limits") {
        beside_limits(section, diagnostics)?;
        return limit::list(section, written.span, limits, diagnostics);
    }
    let of_rules: Vec<&str> = rule::FIELDS.into_iter().chain(limit::OF_EVERY_RULE).collect();
    let own = of_rules.iter().find_map(|field| section.first(field));
    if !section.has("plans") {
        let rules = limit::single(section, written.span, limits, diagnostics);
        return rules.map(|limit| Rules::One(Box::new(Limit { bucket: None, ..limit })));
    }
    match (own, section.first("default-plan")) {
        (Some(own), Some(_)) => {
            diagnostics
                .error(own.span.key(), "`default-plan` leaves nobody for the limiter's own rule")
                .help("remove one of the two");
            None
        }
        (Some(_), None) => {
            limit::single(section, written.span, limits, diagnostics).map(|limit| Rules::One(Box::new(limit)))
        }
        (None, Some(_)) => Some(Rules::Several(Vec::new())),
        (None, None) => {
            let at = section.first("plans").map_or(written.span, |arg| arg.span);
            diagnostics
                .error(at, "nothing says what holds for requests without a plan")
                .help("`default-plan: NAME`, or rules of the limiter's own beside `plans`");
            None
        }
    }
}

/// A rule's fields cannot stand beside a list of rules.
fn beside_limits(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Option<()> {
    let mut stray =
        rule::FIELDS.into_iter().chain(limit::OF_EVERY_RULE).filter_map(|field| Some((field, section.first(field)?)));
    let (field, arg) = match stray.next() {
        None => return Some(()),
        Some(stray) => stray,
    };
    diagnostics
        .error(arg.span.key(), format!("`{field}` stands beside `limits`: a rule's fields belong into the list"))
        .help("move it to the rule that it is for");
    None
}

/// `bucket` of the filter: checked for its rule where it has one.
fn shared(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Option<Option<String>> {
    match section.get("bucket", diagnostics) {
        None => Some(None),
        Some(arg) => limit::named(&arg.value, "`bucket`", arg.span, diagnostics).map(Some),
    }
}

fn bean(section: &Section<'_>, diagnostics: &mut Diagnostics) {
    if let Some(arg) = section.get("rate-limiter", diagnostics)
        && !matches!(arg.value.trim(), "#{@redisRateLimiter}" | "#{redisRateLimiter}")
    {
        diagnostics
            .error(arg.span, format!("rate limiter `{}` cannot be used: it is a Java bean", arg.value))
            .help("remove `rate-limiter` and give `replenish-rate`, `burst-capacity` and `requested-tokens`");
    }
}

/// Spring's default resolver wants a user, and no filter here establishes one yet.
fn nobody(limiter: &RateLimiter, section: &Section<'_>, written: &Written, diagnostics: &mut Diagnostics) {
    let by_rule_alone = limiter.plans.is_none() && limiter.limits().all(|limit| limit.key_resolver.is_some());
    let (at, wanted) = match section.first("key-resolver") {
        None if by_rule_alone => return,
        None => (written.span, "without `key-resolver` it is `principal`, the user that is logged in"),
        Some(arg) if arg.value.trim() == "principal" => (arg.span, "`principal` is the user that is logged in"),
        Some(_) => return,
    };
    let outcome = if limiter.settings.deny_empty_key { "is refused for want of a key" } else { "passes unlimited" };
    diagnostics
        .warn(at, format!("{wanted}, and nobody logs in here: every request {outcome}"))
        .help("`key-resolver: ip` limits each address, `\"header:X-Api-Key\"` each key");
}
