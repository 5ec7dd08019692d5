//! Checks one `RequestRateLimiter` of the file, and builds the limiter.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tollgate_limiter::rule::{Calendar, Quota, Rule};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::LockedStore;

use crate::de::same_name;
use crate::diagnostics::{Diagnostics, Reported, yaml_key};
use crate::rate_limiter::args::LimiterArgs;
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::model::{Atomicity, Limit, RateLimiter, Rules, StoreKind};
use crate::rate_limiter::value_enums::UpstreamHeadersWord;
use crate::rate_limiter::{Naming, access, plans, rules, shared_settings, store, when};
use crate::spec::{FilterSpec, Shortcut};
use crate::spring::limiter_bean;
use crate::yaml::{Node, NodeKind, Span};

/// Spring's section for the arguments of its Redis limiter.
const SECTION: &str = "redis-rate-limiter";

/// Arguments of a limiter, for messages.
pub(crate) const EXAMPLE: &str = "{replenish-rate: 10, burst-capacity: 20, key-resolver: ip}";

/// Returns the limiter that `spec` describes. Reports errors.
pub(crate) fn check(
    spec: &FilterSpec<'_>,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<RateLimiter, Reported> {
    report_bucket4j(spec, diagnostics)?;
    when::report_empty(spec, diagnostics);
    let mut tree = spec.tree(Shortcut::None(EXAMPLE), &[], diagnostics)?;
    if tree.get(SECTION).is_some() {
        lift_section(tree.to_mut());
    }
    let shapes = check_shapes(&tree, diagnostics);
    if shapes.is_err()
        && let NodeKind::Map(entries) = &mut tree.to_mut().kind
    {
        entries.retain(|(key, _)| !["limits", "plans"].iter().any(|name| same_name(name, key)));
    }
    let args: LimiterArgs = spec.read_tree(&tree, diagnostics);
    if let (Err(reported), false) = (check_bean(&args, diagnostics), args.rule.replenish_rate.is_given()) {
        // The rate comes from the missing bean. The settings are checked to report a missing key resolver in the same run.
        let _ = shared_settings::settings(&args, context, diagnostics);
        return Err(reported);
    }
    let rules = shapes.and_then(|()| rules::rules(&args, spec.span, context, diagnostics));
    let plans = shapes.and_then(|()| plans::plans(&args, context, diagnostics));
    let settings = shared_settings::settings(&args, context, diagnostics);
    let storage = store::storage(&args, spec.span, context, diagnostics);
    let bucket = match args.bucket.checked()? {
        None => Ok(None),
        Some(name) => rules::identifier(&name.value, "`bucket`", name.span, diagnostics).map(Some),
    };
    let (rules, plans, settings, storage) = (rules?, plans?, settings?, storage?);
    let mut limiter = RateLimiter {
        rules,
        plans,
        bucket: None,
        settings,
        replaces_upstream_headers: args.upstream_headers.or(UpstreamHeadersWord::Keep)? == UpstreamHeadersWord::Replace,
        store: storage.kind,
        on_store_failure: storage.on_failure,
        gateways: storage.gateways,
        atomicity: storage.atomicity,
        lease: None,
    };
    let has_quota = limiter.limits().any(|limit| limit.rule.algorithm().spec().prepaid);
    if has_quota && !args.on_store_failure.is_given() && context.settings.on_store_failure.is_none() {
        // A prepaid total must not be granted again by each gateway without Redis.
        limiter.on_store_failure = OnStoreFailure::Deny;
    }
    check_lock(&args, spec.span, &limiter, context, diagnostics);
    let in_redis = context.has_redis && limiter.store != Some(StoreKind::Memory);
    limiter.lease = store::lease(&args, &limiter.atomicity, in_redis, limiter.limits(), diagnostics)?;
    limiter.bucket = bucket?;
    limiter.normalize_ids();
    if in_redis {
        store::warn_of_small_shares(&limiter, args.gateways.span().unwrap_or(spec.span), diagnostics);
    }
    access::report_impossible(&args, &limiter, diagnostics);
    access::warn_of_missing_user(&limiter, &args, spec.span, diagnostics);
    let bucket_at = args.bucket.span().unwrap_or(spec.span);
    report_own_bucket_of_a_rule(&limiter, bucket_at, diagnostics);
    warn_of_mixed_keys(&limiter, bucket_at, context, diagnostics);
    warn_of_shared_keys(&limiter, args.plans.span().unwrap_or(spec.span), diagnostics);
    if !(is_default(&args) && context.key_resolvers.of_all().is_some()) {
        warn_of_principal(&limiter, &args, spec.span, diagnostics);
    }
    Ok(limiter)
}

/// Reports arguments of Bucket4j in our own form.
fn report_bucket4j(spec: &FilterSpec<'_>, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    let is_bucket4j = |name: &String| name.starts_with("bucket4j-rate-limiter");
    let Some(arg) = spec.args.iter().find(|arg| arg.name.as_ref().is_some_and(is_bucket4j)) else { return Ok(()) };
    let error = diagnostics.error(arg.span.key(), "arguments of Bucket4j are read in an application.yml only");
    Err(error.reported_with("write `replenish-rate` (refill-tokens), `period`, `burst-capacity` (capacity) and `refill`; `tollgate migrate` translates an application.yml"))
}

/// Moves the arguments in Spring's section to the others.
fn lift_section(tree: &mut Node) {
    let NodeKind::Map(entries) = &mut tree.kind else { return };
    while let Some(at) = entries.iter().position(|(key, _)| key == SECTION) {
        let NodeKind::Map(inner) = &entries[at].1.kind else { return };
        let inner = inner.clone();
        entries.splice(at..=at, inner);
    }
}

/// Reports `limits` and `plans` that are empty or of another shape.
fn check_shapes(tree: &Node, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    let is_empty = |node: &Node| match &node.kind {
        NodeKind::Null => true,
        NodeKind::Seq(items) => items.is_empty(),
        NodeKind::Map(entries) => entries.is_empty(),
        NodeKind::Scalar(_) => false,
    };
    let limits = "limits: [{name: second, replenish-rate: 10, burst-capacity: 20}]";
    for (name, example) in [("limits", limits), ("plans", "plans: {free: {replenish-rate: 1, burst-capacity: 5}}")] {
        if let Some(node) = tree.step(name).filter(|node| is_empty(node)) {
            return Err(diagnostics.error(node.span, format!("`{name}` is empty")).reported_with(example));
        }
    }
    let Some(node) = tree.step("limits") else { return Ok(()) };
    let stray = match &node.kind {
        NodeKind::Seq(items) => items.iter().find(|item| !matches!(item.kind, NodeKind::Map(_) | NodeKind::Null)),
        _ => Some(node),
    };
    match stray {
        Some(stray) => Err(diagnostics.error(stray.span, "`limits` must be a list of maps").reported_with(limits)),
        None => Ok(()),
    }
}

/// Reports a `rate-limiter` bean other than Spring's own.
fn check_bean(args: &LimiterArgs, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    let Some(bean) = args.rate_limiter.spanned() else { return Ok(()) };
    if matches!(bean.value.trim(), "#{@redisRateLimiter}" | "#{redisRateLimiter}") {
        return Ok(());
    }
    let error = diagnostics
        .error(bean.span, format!("rate limiter `{}` is a Java bean, which Tollgate cannot run", bean.value.trim()));
    Err(match limiter_bean::name(&bean.value) {
        Some(name) => {
            let missing = limiter_bean::missing(name, args.rule.replenish_rate.is_given());
            let help = format!(
                "name its numbers in a stand-in: `filter-beans: {{{}: {}}}`; or remove `rate-limiter` and write `replenish-rate`, `burst-capacity` and `requested-tokens`",
                yaml_key(name),
                missing.value
            );
            error.missing(missing).reported_with(help)
        }
        None => error
            .reported_with("remove `rate-limiter` and write `replenish-rate`, `burst-capacity` and `requested-tokens`"),
    })
}

/// Reports algorithms and servers that `atomicity: lock` does not support.
fn check_lock(
    args: &LimiterArgs,
    at: Span,
    limiter: &RateLimiter,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) {
    if limiter.atomicity == Atomicity::Script {
        return;
    }
    let at = args.atomicity.span().unwrap_or(at);
    let unsupported = |limit: &&Limit| !LockedStore::supports(&limit.rule);
    if let Some(limit) = limiter.limits().find(unsupported) {
        diagnostics
            .error(at, format!("`{}` is not supported by `atomicity: lock`", limit.rule.algorithm().as_str()))
            .help("`atomicity: lock` supports `fixed-window`, `sliding-window-log` and `sliding-window-counter`");
    }
    if context.has_cluster && limiter.store != Some(StoreKind::Memory) {
        diagnostics
            .error(at, "`atomicity: lock` needs one server: a cluster has no lock over all its nodes")
            .help("remove it: in a cluster each decision is one script on one node");
    }
}

/// Returns true if the limiter names no key resolver.
fn is_default(args: &LimiterArgs) -> bool {
    args.key_resolver.spanned().is_none_or(|texts| texts.value.items().is_empty())
}

/// Reports a list in which the limiter's bucket belongs to two rules: to one without a name, and to one that names it.
fn report_own_bucket_of_a_rule(limiter: &RateLimiter, at: Span, diagnostics: &mut Diagnostics) {
    let Some(bucket) = &limiter.bucket else { return };
    let plans = limiter.plans.iter().flat_map(|plans| &plans.sets).map(|(_, rules)| rules);
    let route = "route".into();
    let naming = Naming { route: &route, number: 1, limiter };
    let has_it =
        |rules: &Rules| naming.named(None, rules).iter().filter(|named| *named.scope == *naming.scope()).count() > 1;
    if std::iter::once(&limiter.rules).chain(plans).any(has_it) {
        diagnostics
            .error(
                at,
                format!("bucket `{bucket}` belongs to a rule of the list too: a request would be counted in it twice"),
            )
            .help("give the rule another bucket, or each other rule a name");
    }
}

/// Warns of shared buckets whose limiters read their keys from different parts of requests.
fn warn_of_mixed_keys(limiter: &RateLimiter, at: Span, context: &LimiterContext<'_>, diagnostics: &mut Diagnostics) {
    let shared = &limiter.settings.key_resolver;
    let of_rule =
        |limit: &'_ Limit| Some((limit.bucket.clone()?, limit.key_resolver.as_ref().unwrap_or(shared).clone()));
    let buckets = limiter.limits().filter_map(of_rule).chain(limiter.bucket.clone().map(|name| (name, shared.clone())));
    let mut resolver_by_bucket = context.bucket_resolvers.borrow_mut();
    for (name, resolver) in buckets {
        match resolver_by_bucket.get(&name) {
            Some(other) if *other != resolver => diagnostics
                .warn(at, format!("bucket `{name}` is shared by keys of `{resolver}` and of `{other}`: equal texts are one key"))
                .help("use one `key-resolver` for all limiters of a bucket: a client that can choose one key could use up the other"),
            Some(_) => {}
            None => drop(resolver_by_bucket.insert(name, resolver)),
        }
    }
}

/// Warns of rules that plans count on one key, but not side by side: of different algorithms, or with too many periods.
fn warn_of_shared_keys(limiter: &RateLimiter, at: Span, diagnostics: &mut Diagnostics) {
    let route = "route".into();
    let all = Naming { route: &route, number: 1, limiter }.all();
    let mut periods: BTreeMap<&str, HashSet<Option<&Calendar>>> = BTreeMap::new();
    let mut algorithms: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for named in &all {
        algorithms.entry(&*named.scope).or_default().insert(named.limit.rule.algorithm().as_str());
        let Rule::Quota(quota) = &named.limit.rule else { continue };
        periods.entry(&*named.scope).or_default().insert(quota.reset());
    }
    if periods.values().any(|calendars| calendars.len() > Quota::MAX_CALENDARS) {
        diagnostics
            .warn(at, "more than four different `reset` count on one key: four are kept, so that the others may deny too early")
            .help("give the quotas of some plans a `bucket` of their own");
    }
    if let Some(mixed) = algorithms.values().find(|names| names.len() > 1) {
        let names = mixed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        diagnostics
            .warn(at, format!("plans limit by different algorithms ({names}), which count apart: a client whose plan changes gets the limit of each"))
            .help("use one algorithm in all plans; different limits, rates and windows share what was spent");
    }
}

/// Warns that the default resolver never finds a user: no filter here authenticates.
fn warn_of_principal(limiter: &RateLimiter, args: &LimiterArgs, at: Span, diagnostics: &mut Diagnostics) {
    let has_only_own = limiter.plans.is_none() && limiter.limits().all(|limit| limit.key_resolver.is_some());
    let resolver = args.key_resolver.spanned().and_then(|texts| texts.value.items().first());
    let outcome = if limiter.settings.deny_empty_key { "is refused without a key" } else { "passes unlimited" };
    let (at, wanted) = match resolver {
        None if has_only_own => return,
        None => (at, "without `key-resolver` the key is `principal`, the authenticated user"),
        Some(text) if text.value.trim() == "principal" => (text.span, "`principal` is the authenticated user"),
        Some(_) => return,
    };
    diagnostics
        .warn(at, format!("{wanted}, and no filter authenticates: every request {outcome}"))
        .help("`key-resolver: ip` limits each address, `\"header:X-Api-Key\"` each key");
}
