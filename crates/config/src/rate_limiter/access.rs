//! `exempt` and `block`, lists of key ids and networks; their entries that match no request, and keys that no request has for lack of
//! an authenticated user.

use ipnet::IpNet;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::AccessList;
use tollgate_routing::network;

use crate::de::{Given, Spanned, Texts};
use crate::diagnostics::Diagnostics;
use crate::rate_limiter::args::{LimiterArgs, PlanResolverArgs};
use crate::rate_limiter::model::{PlanResolver, Plans, RateLimiter};
use crate::sections::forwarding::trusted_proxies::looks_like_address;
use crate::yaml::Span;

/// Help for a text that should be a network.
const NETWORKS: &str =
    "`10.0.0.7`, `10.0.0.0/8`, `2001:db8::/32`; ranges are networks; `key:…` for a key that looks like one";

/// Entry of a list.
enum Entry<'t> {
    Network(IpNet),
    Key(&'t str),
}

impl<'t> Entry<'t> {
    /// Reads an entry. A text that looks like an address is a network unless it starts with `key:`.
    fn of(text: &'t str) -> Self {
        match network(text) {
            Some(network) => Self::Network(network),
            None => Self::Key(text.strip_prefix("key:").unwrap_or(text)),
        }
    }
}

fn items(texts: &Given<Texts>) -> &[Spanned<String>] {
    texts.value().map_or(&[][..], Texts::items)
}

/// Returns the list `texts`. Reports entries that are neither networks nor keys.
pub(super) fn list(texts: &Given<Texts>, diagnostics: &mut Diagnostics) -> AccessList {
    let (mut keys, mut networks): (Vec<String>, Vec<IpNet>) = (Vec::new(), Vec::new());
    for item in items(texts) {
        let text = item.value.trim();
        match Entry::of(text) {
            Entry::Network(network) => networks.push(network.trunc()),
            Entry::Key(key) => match wrong_network(text) {
                Some(message) => diagnostics.error(item.span, message).help(NETWORKS),
                None => keys.push(key.to_owned()),
            },
        }
    }
    AccessList::new(keys, networks)
}

/// Returns the error of a text that is a network by mistake.
fn wrong_network(text: &str) -> Option<String> {
    match text.split_once('/').filter(|(address, _)| network(address).is_some()) {
        Some((address, _)) => Some(format!("`{text}` is not a network: the prefix does not fit `{address}`")),
        None => looks_like_address(text).then(|| format!("`{text}` is neither an address nor a network")),
    }
}

/// Warns of an `exempt` network that contains all addresses.
pub(super) fn report_all_exempt(exempt: &Given<Texts>, diagnostics: &mut Diagnostics) {
    let is_whole = |item: &&Spanned<String>| network(&item.value).is_some_and(|network| network.prefix_len() == 0);
    for item in items(exempt).iter().filter(is_whole) {
        diagnostics
            .warn(item.span, format!("`{}` exempts every address: the limits do not apply", item.value.trim()))
            .help("list the networks of your own services, such as `10.0.0.0/8`");
    }
}

/// Reports keys of both lists, and of the table of plans, that no request has: no key resolver returns them.
pub(super) fn report_impossible(args: &LimiterArgs, limiter: &RateLimiter, diagnostics: &mut Diagnostics) {
    let shared_resolver = &limiter.settings.key_resolver;
    // The key itself may be a secret, which a message does not show.
    let mut check = |key: &str, (number, list): (usize, &str), at: Span, resolvers: &[&KeyResolver]| {
        if !resolvers.iter().any(|resolver| resolver.can_return(&resolver.normal_id(key.as_bytes()))) {
            diagnostics
                .mistake(at, format!("no request has key {number} of `{list}`, by `{shared_resolver}`"))
                .help(remedy(shared_resolver));
        }
    };
    let of_rules = limiter.limits().filter_map(|limit| limit.key_resolver.as_ref());
    let all: Vec<&KeyResolver> = std::iter::once(shared_resolver).chain(of_rules).collect();
    // The keys of single rules make no client exempt: clients may choose them.
    for (name, list, resolvers) in [("exempt", &args.exempt, &all[..1]), ("block", &args.block, &all[..])] {
        for (number, item) in (1..).zip(items(list)) {
            if let (Entry::Key(key), None) = (Entry::of(item.value.trim()), wrong_network(item.value.trim())) {
                check(key, (number, name), item.span, resolvers);
            }
        }
    }
    if let Some(PlanResolverArgs::Map(map)) = args.plan_resolver.value()
        && let Some(table) = map.table.value()
    {
        let keys = (1..).zip(table.iter());
        keys.for_each(|(number, (key, plan))| check(key, (number, "table"), plan.span.key(), &all[..1]));
    }
}

/// Returns the form of keys of `resolver`.
fn remedy(resolver: &KeyResolver) -> &'static str {
    match resolver.to_string().as_str() {
        list if list.contains(',') => "a list has one key, with each part behind its length: `3:bob6:orders`",
        "path" => "a path begins with `/`, and has no `/` at its end",
        "host" => "a host is in lower case, without a port",
        ip if ip.starts_with("ip") => NETWORKS,
        _ => "remove it",
    }
}

/// Help for a key that contains the user.
const KEYS: &str =
    "`ip` limits each address, `\"header:X-Api-Key\"` each key, `jwt:CLAIM` each user of a verified token";

/// Warns of rules and plans that read the user. `key-resolver: principal` alone, Spring's default, is reported elsewhere.
pub(super) fn warn_of_missing_user(limiter: &RateLimiter, args: &LimiterArgs, at: Span, diagnostics: &mut Diagnostics) {
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
            .help(KEYS);
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
        .help(KEYS);
}
