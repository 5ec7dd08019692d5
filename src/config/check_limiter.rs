//! `RequestRateLimiter` as written to a limiter that decides.

use std::cell::RefCell;
use std::collections::BTreeMap;

use http::StatusCode;
use http::header::HeaderName;
use tollgate_filters::headers::HeaderNames;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::rule::{MOST, Rule, TokenBucket};
use tollgate_filters::limiter::store::OnStoreFailure;
use tollgate_filters::metering::{Dimensions, Period};
use tollgate_filters::request_rate_limiter::{ErrorBody, Settings};

use super::check_filters::{flag, header_name, status_of};
use super::check_key_resolver::one_key_resolver;
use super::de::canonical;
use super::definition::{Arg, Written};
use super::model::{RateLimiter, StoreKind};
use super::names::{LATER_ALGORITHMS, LATER_LIMITER};
use super::problem::{Sink, suggest};

/// Prefix of Spring's arguments for its Redis limiter.
const PREFIX: &str = "redis-rate-limiter.";

/// Arguments a limiter takes.
const ARGS: [&str; 18] = [
    "replenish-rate",
    "burst-capacity",
    "requested-tokens",
    "algorithm",
    "key-resolver",
    "status-code",
    "deny-empty-key",
    "empty-key-status",
    "store",
    "on-store-failure",
    "error-body",
    "include-headers",
    "remaining-header",
    "replenish-rate-header",
    "burst-capacity-header",
    "requested-tokens-header",
    "rate-limiter",
    "empty-key-status-code",
];

/// Settings that all limiters, and some other filters, of one file share.
pub(crate) struct Limits<'c> {
    pub(crate) key_resolvers: &'c BTreeMap<String, KeyResolver>,
    pub(crate) tokens: &'c super::check_jwt::Tokens,
    pub(crate) deny_empty_key: bool,
    pub(crate) empty_key_status: StatusCode,
    pub(crate) headers: HeaderNames,
    pub(crate) has_redis: bool,
    /// What `RequestCounter`s that share a `bucket` must agree on, by its name.
    pub(crate) counted: RefCell<BTreeMap<String, (Dimensions, Period)>>,
    pub(crate) original_status_header: Option<HeaderName>,
}

/// The limiter that `written` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(written: &Written, limits: &Limits<'_>, sink: &mut Sink) -> Option<RateLimiter> {
    let args = Args::new(written, sink)?;
    algorithm(&args, sink);
    let rule = rule(written, &args, sink);
    let settings = settings(written, &args, limits, sink);
    let store = match args.get("store") {
        None => None,
        Some(arg) => match canonical(&arg.value).as_str() {
            "memory" => Some(StoreKind::Memory),
            "redis" => {
                if !limits.has_redis {
                    sink.error(arg.origin, "`store: redis` without `redis:`")
                        .help("add `redis: {url: \"redis://127.0.0.1:6379\"}`");
                }
                Some(StoreKind::Redis)
            }
            _ => {
                sink.error(arg.origin, format!("expected memory or redis, found `{}`", arg.value));
                None
            }
        },
    };
    let on_store_failure = on_store_failure(written, &args, limits, store, sink);
    let ((rule, cost), settings) = (rule?, settings?);
    Some(RateLimiter { rule, settings: Settings { cost, ..settings }, store, on_store_failure })
}

/// Arguments by canonical name without prefix and index.
struct Args<'w>(Vec<(String, &'w Arg)>);

impl<'w> Args<'w> {
    fn new(written: &'w Written, sink: &mut Sink) -> Option<Self> {
        let mut args: Vec<(String, &'w Arg)> = Vec::new();
        for arg in &written.args {
            let Some(name) = &arg.name else {
                sink.error(arg.origin, "`RequestRateLimiter` has no shortcut form: Spring reads the arguments and limits nothing")
                    .help("write `name: RequestRateLimiter` and `args: {replenish-rate: 10, burst-capacity: 20, key-resolver: ip}`");
                return None;
            };
            let plain = name.strip_prefix(PREFIX);
            let bare = plain.unwrap_or(name);
            let bare = bare.split('[').next().unwrap_or(bare);
            if bare.starts_with("bucket4j-rate-limiter.") {
                sink.error(arg.origin.key(), "Bucket4j limiters cannot be used: they need a Java bean")
                    .help("`replenish-rate` and `burst-capacity` say the same: capacity is the burst, refill-tokens a second the rate");
                return None;
            }
            let Some(known) = ARGS.iter().find(|known| canonical(known) == canonical(bare)) else {
                unknown(arg, bare, sink);
                continue;
            };
            if sink.is_spring && plain.is_none() && ARGS[..3].contains(known) {
                sink.warn(
                    arg.origin.key(),
                    format!("Spring ignores `{name}` without the prefix `{PREFIX}`; here it holds"),
                )
                .help(format!("write `{PREFIX}{known}` for the same meaning in both"));
            }
            // Spring has two names for it.
            let known = if *known == "empty-key-status-code" { "empty-key-status" } else { known };
            if known != "key-resolver" && args.iter().any(|(name, _)| name == known) {
                sink.error(arg.origin.key(), format!("`{known}` is given twice"));
            }
            args.push((known.to_owned(), arg));
        }
        Some(Self(args))
    }

    fn get(&self, name: &str) -> Option<&'w Arg> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, arg)| *arg)
    }

    fn number(&self, name: &str, sink: &mut Sink) -> Result<Option<u64>, ()> {
        let Some(arg) = self.get(name) else { return Ok(None) };
        arg.value.trim().parse().ok().filter(|number| *number <= MOST).map(Some).ok_or_else(|| {
            sink.error(arg.origin, format!("`{name}` must be a whole number up to {MOST}, found `{}`", arg.value))
                .help("for less than one a second let each request cost more: rate 1, requested-tokens 60 and burst 60 are one a minute");
        })
    }
}

fn unknown(arg: &Arg, name: &str, sink: &mut Sink) {
    let first = name.split(['.', '[']).next().unwrap_or(name);
    if LATER_LIMITER.iter().any(|later| canonical(later) == canonical(first)) {
        let harmless = canonical(first) == "throwonlimit" && arg.value.trim() == "false";
        if !harmless {
            sink.error(arg.origin.key(), format!("`{first}` of a limiter is not supported yet")).help("remove it");
        }
    } else {
        sink.mistake(arg.origin.key(), format!("`RequestRateLimiter` has no argument `{name}`"))
            .help(suggest(name, &ARGS[..17]));
    }
}

fn algorithm(args: &Args<'_>, sink: &mut Sink) {
    if let Some(arg) = args.get("algorithm")
        && canonical(&arg.value) != "tokenbucket"
    {
        let later = LATER_ALGORITHMS.iter().any(|name| canonical(name) == canonical(&arg.value));
        let message = if later {
            format!("algorithm `{}` is not supported yet", arg.value)
        } else {
            format!("unknown algorithm `{}`", arg.value)
        };
        sink.error(arg.origin, message).help("use `token-bucket`");
    }
    if let Some(arg) = args.get("rate-limiter")
        && !matches!(arg.value.trim(), "#{@redisRateLimiter}" | "#{redisRateLimiter}")
    {
        sink.error(arg.origin, format!("rate limiter `{}` cannot be used: it is a Java bean", arg.value))
            .help("remove `rate-limiter` and give `replenish-rate`, `burst-capacity` and `requested-tokens`");
    }
}

fn rule(written: &Written, args: &Args<'_>, sink: &mut Sink) -> Option<(Rule, u64)> {
    let rate = args.number("replenish-rate", sink);
    let burst = args.number("burst-capacity", sink);
    let cost = args.number("requested-tokens", sink);
    let (rate, burst, cost) = (rate.ok()?, burst.ok()?, cost.ok()?);
    let Some(rate) = rate else {
        sink.error(written.origin, "`RequestRateLimiter` needs `replenish-rate`: tokens a second")
            .help("args: {replenish-rate: 10, burst-capacity: 20, key-resolver: ip}");
        return None;
    };
    if burst.is_none() && rate > 1 && !sink.is_spring {
        sink.warn(written.origin, "`burst-capacity` is not given and is 1, as in Spring: no two requests at once")
            .help(format!("`burst-capacity: {rate}` lets one second's worth through at once"));
    }
    let (burst, cost) = (burst.unwrap_or(1), cost.unwrap_or(1));
    if cost == 0 {
        let at = args.get("requested-tokens").map_or(written.origin, |arg| arg.origin);
        sink.error(at, "`requested-tokens` must be at least 1, got 0");
        return None;
    }
    let rule = match TokenBucket::per_second(rate, burst) {
        Ok(rule) => Rule::TokenBucket(rule),
        Err(error) => {
            let at = args.get("replenish-rate").map_or(written.origin, |arg| arg.origin);
            sink.error(at, error.to_string());
            return None;
        }
    };
    let at = args.get("burst-capacity").map_or(written.origin, |arg| arg.origin);
    if burst == 0 {
        sink.warn(at, "`burst-capacity: 0` denies every request");
    } else if cost > burst {
        sink.warn(at, format!("no request can ever pass: each takes {cost} tokens, the bucket holds {burst}"))
            .help("raise `burst-capacity` to at least `requested-tokens`");
    } else if sink.is_spring && burst * 2 < rate {
        sink.warn(at, format!("Spring limits nothing with a burst of {burst} and a rate of {rate}, its bucket expires at once; here both hold"))
            .help("a `burst-capacity` of at least `replenish-rate` means the same in both");
    }
    Some((rule, cost))
}

/// Spring's default resolver wants a user, and no filter here establishes one yet.
fn nobody(written: &Written, args: &Args<'_>, deny_empty_key: Option<bool>, sink: &mut Sink) {
    let (at, wanted) = match args.get("key-resolver") {
        None => (written.origin, "without `key-resolver` it is `principal`, the user that is logged in"),
        Some(arg) if arg.value.trim() == "principal" => (arg.origin, "`principal` is the user that is logged in"),
        Some(_) => return,
    };
    let outcome = if deny_empty_key == Some(false) { "passes unlimited" } else { "is refused for want of a key" };
    sink.warn(at, format!("{wanted}, and nobody logs in here: every request {outcome}"))
        .help("`key-resolver: ip` limits each address, `\"header:X-Api-Key\"` each key");
}

fn settings(written: &Written, args: &Args<'_>, limits: &Limits<'_>, sink: &mut Sink) -> Option<Settings> {
    let key_resolver = key_resolver(args, limits, sink);
    let deny_empty_key = flag(args.get("deny-empty-key"), limits.deny_empty_key, sink);
    nobody(written, args, deny_empty_key, sink);
    let status = match args.get("status-code") {
        None => Some(StatusCode::TOO_MANY_REQUESTS),
        Some(arg) => status_of(arg, sink),
    };
    let empty_key_status = match args.get("empty-key-status") {
        None => Some(limits.empty_key_status),
        Some(arg) => status_of(arg, sink),
    };
    let error_body = match args.get("error-body").map(|arg| (arg, canonical(&arg.value))) {
        None if sink.is_spring => Some(ErrorBody::Empty),
        None => Some(ErrorBody::Problem),
        Some((_, body)) if body == "empty" => Some(ErrorBody::Empty),
        Some((_, body)) if body == "problem" => Some(ErrorBody::Problem),
        Some((arg, _)) => {
            sink.error(arg.origin, format!("expected problem or empty, found `{}`", arg.value));
            None
        }
    };
    let mut headers = limits.headers.clone();
    headers.include = flag(args.get("include-headers"), headers.include, sink)?;
    for (name, header) in [
        ("remaining-header", &mut headers.remaining),
        ("replenish-rate-header", &mut headers.replenish_rate),
        ("burst-capacity-header", &mut headers.burst_capacity),
        ("requested-tokens-header", &mut headers.requested_tokens),
    ] {
        if let Some(arg) = args.get(name) {
            *header = header_name(&arg.value, arg.origin, sink)?;
        }
    }
    Some(Settings {
        key_resolver: key_resolver?,
        status: status?,
        deny_empty_key: deny_empty_key?,
        empty_key_status: empty_key_status?,
        headers,
        error_body: error_body?,
        ..Settings::default()
    })
}

fn key_resolver(args: &Args<'_>, limits: &Limits<'_>, sink: &mut Sink) -> Option<KeyResolver> {
    let listed: Vec<&Arg> = args.0.iter().filter(|(name, _)| name == "key-resolver").map(|(_, arg)| *arg).collect();
    let mut parts = Vec::with_capacity(listed.len());
    for arg in &listed {
        parts.push(one_key_resolver(arg, limits, sink)?);
    }
    match (parts.len(), parts.pop()) {
        (0, _) | (_, None) => KeyResolver::parse("principal").ok(),
        (1, Some(only)) => Some(only),
        (_, Some(last)) => {
            parts.push(last);
            Some(KeyResolver::composite(parts))
        }
    }
}

fn on_store_failure(
    written: &Written,
    args: &Args<'_>,
    limits: &Limits<'_>,
    store: Option<StoreKind>,
    sink: &mut Sink,
) -> OnStoreFailure {
    let Some(arg) = args.get("on-store-failure") else {
        if !sink.is_spring {
            return OnStoreFailure::Local;
        }
        if limits.has_redis && store != Some(StoreKind::Memory) {
            sink.info(written.origin, "while Redis is out of reach every request passes, as in Spring")
                .help("`on-store-failure: local` limits in memory meanwhile");
        }
        return OnStoreFailure::Allow;
    };
    match canonical(&arg.value).as_str() {
        "local" => OnStoreFailure::Local,
        "allow" => OnStoreFailure::Allow,
        "deny" => OnStoreFailure::Deny,
        _ => {
            sink.error(arg.origin, format!("expected local, allow or deny, found `{}`", arg.value));
            OnStoreFailure::Local
        }
    }
}
