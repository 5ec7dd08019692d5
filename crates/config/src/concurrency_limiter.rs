//! `ConcurrencyLimiter` as written to a limiter that grants slots.

use std::time::Duration;

use http::StatusCode;
use tollgate_filters::concurrency_limiter::{HeaderNames, Settings};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::ErrorBody;
use tollgate_limiter::concurrency::{Concurrency, ConcurrencyError};
use tollgate_limiter::store::OnStoreFailure;

use crate::de::arg::Arg;
use crate::de::canonical;
use crate::de::units::parse_time;
use crate::de::values::{flag, header_name, refusal_of};
use crate::diagnostics::{Diagnostics, suggest};
use crate::model::{ConcurrencyLimiter, StoreKind};
use crate::rate_limiter::Limits;
use crate::sections::key_resolvers::one_key_resolver;
use crate::spring::spec::Written;

/// Arguments that it takes.
const ARGS: [&str; 13] = [
    "limit",
    "lease",
    "renew-every",
    "key-resolver",
    "status-code",
    "deny-empty-key",
    "empty-key-status",
    "store",
    "on-store-failure",
    "error-body",
    "include-headers",
    "limit-header",
    "remaining-header",
];

/// The limiter that `written` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(
    written: &Written,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<ConcurrencyLimiter> {
    let args = Args::new(written, diagnostics)?;
    let rule = rule(written, &args, diagnostics);
    let settings = settings(written, &args, limits, diagnostics);
    let store = args.one_of("store", &[("memory", StoreKind::Memory), ("redis", StoreKind::Redis)], diagnostics);
    if let Some(arg) = args.get("store").filter(|_| store == Some(StoreKind::Redis) && !limits.has_redis) {
        diagnostics
            .error(arg.span, "`store: redis` without `redis:`")
            .help("add `redis: {url: \"redis://127.0.0.1:6379\"}`");
    }
    let failures = [("local", OnStoreFailure::Local), ("allow", OnStoreFailure::Allow), ("deny", OnStoreFailure::Deny)];
    let on_store_failure = args.one_of("on-store-failure", &failures, diagnostics).unwrap_or_default();
    Some(ConcurrencyLimiter { rule: rule?, settings: settings?, store, on_store_failure })
}

/// Arguments by their name as in [`ARGS`], without an index.
struct Args<'w>(Vec<(&'static str, &'w Arg)>);

impl<'w> Args<'w> {
    fn new(written: &'w Written, diagnostics: &mut Diagnostics) -> Option<Self> {
        let mut args: Vec<(&'static str, &'w Arg)> = Vec::with_capacity(written.args.len());
        for arg in &written.args {
            let Some(name) = &arg.name else {
                diagnostics
                    .error(arg.span, "`ConcurrencyLimiter` has no shortcut form")
                    .help("write `name: ConcurrencyLimiter` and `args: {limit: 10, key-resolver: ip}`");
                return None;
            };
            let bare = name.split('[').next().unwrap_or(name);
            let Some(known) = ARGS.iter().find(|known| canonical(known) == canonical(bare)) else {
                diagnostics
                    .mistake(arg.span.key(), format!("`ConcurrencyLimiter` has no argument `{bare}`"))
                    .help(suggest(bare, &ARGS));
                continue;
            };
            if *known != "key-resolver" && args.iter().any(|(name, _)| name == known) {
                diagnostics.error(arg.span.key(), format!("`{known}` is given twice"));
            }
            args.push((known, arg));
        }
        written.check_empty(&ARGS, diagnostics);
        Some(Self(args))
    }

    fn get(&self, name: &str) -> Option<&'w Arg> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, arg)| *arg)
    }

    /// The argument as one of a few words; `None` when it is not given or is none of them, which `sink` then knows.
    fn one_of<T: Clone>(&self, name: &str, words: &[(&str, T)], diagnostics: &mut Diagnostics) -> Option<T> {
        let arg = self.get(name)?;
        let found = words.iter().find(|(word, _)| *word == canonical(&arg.value));
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            diagnostics.error(arg.span, format!("expected one of {}, found `{}`", words.join(", "), arg.value));
        }
        found.map(|(_, value)| value.clone())
    }

    fn time(&self, name: &str, diagnostics: &mut Diagnostics) -> Result<Option<Duration>, ()> {
        let Some(arg) = self.get(name) else { return Ok(None) };
        parse_time(&arg.value).map(Some).map_err(|message| {
            diagnostics.error(arg.span, message);
        })
    }
}

fn rule(written: &Written, args: &Args<'_>, diagnostics: &mut Diagnostics) -> Option<Concurrency> {
    let (lease, renew_every) = (args.time("lease", diagnostics), args.time("renew-every", diagnostics));
    let Some(limit) = args.get("limit") else {
        diagnostics
            .error(written.span, "`ConcurrencyLimiter` needs `limit`: requests of a key at once")
            .help("args: {limit: 10, key-resolver: ip}");
        return None;
    };
    let Ok(number) = limit.value.trim().parse::<u64>() else {
        diagnostics.error(limit.span, format!("`limit` must be a whole number, found `{}`", limit.value));
        return None;
    };
    let (lease, renew_every) = (lease.ok()?.unwrap_or(Concurrency::LEASE), renew_every.ok()?);
    let at = |name| args.get(name).map_or(written.span, |arg| arg.span);
    match Concurrency::new(number, lease, renew_every) {
        Ok(rule) => {
            if rule.renew_every() > lease / 2 {
                diagnostics
                    .warn(at("renew-every"), "one renewal that fails lets the lease end while its request goes on")
                    .help(format!("a third of `lease`, {:?}, is the default", lease / 3));
            }
            Some(rule)
        }
        Err(error) => {
            let name = match error {
                ConcurrencyError::BadLease => "lease",
                ConcurrencyError::RenewedTooLate => "renew-every",
                _ => "limit",
            };
            diagnostics.error(at(name), error.to_string());
            None
        }
    }
}

fn settings(
    written: &Written,
    args: &Args<'_>,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Settings> {
    let key_resolver = key_resolver(written, args, limits, diagnostics);
    let deny_empty_key = flag(args.get("deny-empty-key"), limits.deny_empty_key, diagnostics);
    let status = match args.get("status-code") {
        None => Some(StatusCode::TOO_MANY_REQUESTS),
        Some(arg) => refusal_of(arg, diagnostics),
    };
    let empty_key_status = match args.get("empty-key-status") {
        None => Some(limits.empty_key_status),
        Some(arg) => refusal_of(arg, diagnostics),
    };
    let bodies = [("problem", ErrorBody::Problem), ("empty", ErrorBody::Empty)];
    let error_body = args.one_of("error-body", &bodies, diagnostics).unwrap_or_default();
    let include = flag(args.get("include-headers"), true, diagnostics)?;
    let mut headers = HeaderNames { include, ..HeaderNames::default() };
    for (name, header) in [("limit-header", &mut headers.limit), ("remaining-header", &mut headers.remaining)] {
        if let Some(arg) = args.get(name) {
            *header = header_name(&arg.value, arg.span, diagnostics)?;
        }
    }
    Some(Settings {
        key_resolver: key_resolver?,
        status: status?,
        deny_empty_key: deny_empty_key?,
        empty_key_status: empty_key_status?,
        headers,
        error_body,
    })
}

/// There is no default: Spring's, `principal`, would refuse everyone as long as nobody logs in here.
fn key_resolver(
    written: &Written,
    args: &Args<'_>,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<KeyResolver> {
    let listed = args.0.iter().filter(|(name, _)| *name == "key-resolver");
    let mut parts =
        listed.map(|(_, arg)| one_key_resolver(arg, &limits.resolvers, diagnostics)).collect::<Option<Vec<_>>>()?;
    if parts.len() > 1 {
        return Some(KeyResolver::composite(parts));
    }
    if parts.is_empty() {
        diagnostics
            .error(written.span, "`ConcurrencyLimiter` needs `key-resolver`: whose requests")
            .help("`key-resolver: ip` limits each address, `\"header:X-Api-Key\"` each key, `route` all together");
    }
    parts.pop()
}
