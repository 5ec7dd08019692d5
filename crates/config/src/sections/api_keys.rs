//! `api-keys:`: API keys that are verified.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_bounded_file::MAX_API_KEY_BYTES;
use tollgate_filters::api_key::{ApiKeySource, KeyTable, Settings};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::rule::{Rule, TokenBucket};

use crate::de::{Or, Ranged, Spanned, Texts, Time, secs};
use crate::diagnostics::{Diagnostics, Reported, reasons};
#[cfg(test)]
use crate::sections::StringOrList;
use crate::sections::files;
use crate::sections::tls::files::both_given;
use crate::spec::header_name;
use crate::yaml::Span;

/// Verification of API keys, for `ApiKey` and the key resolver `api-key`.
#[section]
pub(crate) struct RawApiKeys {
    /// Places of keys in requests: `header:NAME`, `bearer`, `query:NAME`, or a list. Default `header:X-Api-Key`.
    #[cfg_attr(test, schemars(with = "StringOrList", example = &["header:X-Api-Key", "bearer"]))]
    pub(crate) from: Texts,
    /// File with the hashes of keys, read with the configuration. Required, unless `redis-hash` is set.
    #[cfg_attr(test, schemars(example = &"keys.yaml"))]
    pub(crate) file: Option<Spanned<String>>,
    /// Redis hash with the entries of keys, in place of a file: each field is the hash of a key, each value its entry as JSON. Default: none.
    #[cfg_attr(test, schemars(example = &"api-keys"))]
    pub(crate) redis_hash: Option<Spanned<String>>,
    /// Time for which an entry of Redis is used without another look-up: changes take effect after it.
    pub(crate) cache: Or<Ranged<Time, 1, { secs(3_600) }>, { secs(5) }>,
    /// Time for which known keys are used while Redis is unreachable. Other keys get 503.
    pub(crate) keep: Or<Time, { secs(600) }>,
    /// Limit of guesses by client address: requests with an unknown key, or with several different ones. Beyond it they get 429.
    pub(crate) unknown_limit: UnknownLimit,
    /// Header that tells upstreams the id of the key. That of a client is removed. Default `X-Api-Key-Id`.
    pub(crate) id_header: Option<Spanned<String>>,
}

/// Limit of guesses.
#[section]
pub(crate) struct UnknownLimit {
    /// Guesses per second.
    pub(crate) replenish_rate: Or<NonZeroU32, 1>,
    /// Guesses at once.
    pub(crate) burst_capacity: Or<NonZeroU32, 10>,
}

/// Verification of API keys.
#[derive(Clone, Debug)]
pub struct ApiKeys {
    /// Places of keys.
    pub settings: Arc<Settings>,
    /// Store of keys.
    pub store: ApiKeyStore,
    /// Limit of guesses by client address.
    pub unknown_limit: Rule,
    /// Place of `file` or `redis-hash`.
    at: Span,
}

/// Store of API keys.
#[derive(Clone, Debug)]
pub enum ApiKeyStore {
    /// Keys of a file.
    File(Arc<KeyTable>),
    /// Keys of a Redis hash.
    Redis {
        /// Name of the hash.
        hash: Arc<str>,
        /// Time for which an entry is used without another look-up.
        cache: Duration,
        /// Time for which a known key is used while Redis is unreachable.
        keep: Duration,
    },
}

/// The section, for filters and key resolvers.
pub(crate) struct ApiKeySection {
    /// True if the file has a section `api-keys`, valid or not.
    is_given: bool,
    pub(crate) keys: Option<ApiKeys>,
}

// === impl ApiKeySection ===

impl ApiKeySection {
    /// Checks the section and reads its file.
    pub(crate) fn check(raw: Option<&Spanned<RawApiKeys>>, has_redis: bool, diagnostics: &mut Diagnostics) -> Self {
        Self { is_given: raw.is_some(), keys: raw.and_then(|raw| keys(raw, has_redis, diagnostics).ok()) }
    }

    /// Adds the places of keys to `resolver` if it needs them. `at` is its place.
    pub(crate) fn bind(&self, resolver: KeyResolver, at: Span, diagnostics: &mut Diagnostics) -> KeyResolver {
        match &self.keys {
            Some(keys) => resolver.with_api_keys(&keys.settings),
            None => {
                if !self.is_given && resolver.needs_api_keys() {
                    report_absent(at, "`api-key`", diagnostics);
                }
                resolver
            }
        }
    }

    /// Returns the places of keys for the filter at `at`. Those of an invalid section are the default.
    pub(crate) fn settings(&self, at: Span, diagnostics: &mut Diagnostics) -> Result<Arc<Settings>, Reported> {
        match &self.keys {
            Some(keys) => Ok(Arc::clone(&keys.settings)),
            None if self.is_given => Ok(Arc::default()),
            None => Err(report_absent(at, "`ApiKey`", diagnostics)),
        }
    }
}

fn report_absent(at: Span, name: &str, diagnostics: &mut Diagnostics) -> Reported {
    diagnostics.error(at, format!("{name} needs a section `api-keys` with the keys that are valid")).reported_with(
        "add at the top level: `api-keys: {file: keys.yaml}`; in an `application.yml`, below `tollgate:`",
    )
}

fn keys(raw: &Spanned<RawApiKeys>, has_redis: bool, diagnostics: &mut Diagnostics) -> Result<ApiKeys, Reported> {
    let (at, raw) = (raw.span.key(), &raw.value);
    let default = Settings::default();
    // All are checked, so that all errors are reported.
    let sources: Vec<_> = raw.from.items().iter().map(|text| source(text, diagnostics)).collect();
    let id_header = match &raw.id_header {
        Some(name) => header_name(&name.value, name.span, diagnostics),
        None => Some(default.id_header),
    };
    let store = store(raw, at, has_redis, diagnostics);
    let sources = sources.into_iter().collect::<Result<Vec<_>, _>>()?;
    let sources = if sources.is_empty() { default.sources } else { sources };
    let Some(id_header) = id_header else { return Err(diagnostics.error(at, "`id-header` is no header").reported()) };
    let (rate, burst) = (raw.unknown_limit.replenish_rate.get(), raw.unknown_limit.burst_capacity.get());
    let unknown_limit = TokenBucket::per_second(u32::from(rate).into(), u32::from(burst).into())
        .map_err(|error| diagnostics.error(at, reasons(&error)).reported())?;
    Ok(ApiKeys {
        settings: Arc::new(Settings { sources, id_header }),
        store: store?,
        unknown_limit: unknown_limit.into(),
        at: raw.file.as_ref().or(raw.redis_hash.as_ref()).map_or(at, |key| key.span),
    })
}

/// Returns the store: the file or the hash in Redis.
fn store(raw: &RawApiKeys, at: Span, has_redis: bool, diagnostics: &mut Diagnostics) -> Result<ApiKeyStore, Reported> {
    match (&raw.file, &raw.redis_hash) {
        (Some(file), None) => table(file, diagnostics).map(|table| ApiKeyStore::File(Arc::new(table))),
        (None, Some(hash)) if hash.value.trim().is_empty() => {
            Err(diagnostics.error(hash.span, "`redis-hash` must name a hash, found nothing").reported_with("api-keys"))
        }
        (None, Some(hash)) if !has_redis => {
            let error = diagnostics.error(hash.span, "`redis-hash` without `redis:`");
            Err(error.reported_with("add `redis: {url: \"redis://127.0.0.1:6379\"}`"))
        }
        (None, Some(hash)) => {
            Ok(ApiKeyStore::Redis { hash: hash.value.trim().into(), cache: raw.cache.get(), keep: raw.keep.get() })
        }
        (Some(file), Some(hash)) => Err(both_given(hash.span, ("file", "redis-hash"), file.span, diagnostics)),
        (None, None) => {
            let error = diagnostics.error(at, "`api-keys` needs `file` or `redis-hash`, the store of the keys' hashes");
            Err(error.reported_with("`file: keys.yaml`; `tollgate keys new --id alice` prints a key and its entry"))
        }
    }
}

fn source(text: &Spanned<String>, diagnostics: &mut Diagnostics) -> Result<ApiKeySource, Reported> {
    ApiKeySource::parse(&text.value).ok_or_else(|| {
        diagnostics
            .error(text.span, format!("`{}` is no place of API keys", text.value))
            .reported_with("`header:X-Api-Key`, `bearer` for `Authorization: Bearer …`, or `query:api_key`")
    })
}

/// Reads the file, which must be valid.
fn table(file: &Spanned<String>, diagnostics: &mut Diagnostics) -> Result<KeyTable, Reported> {
    let path = Path::new(file.value.trim());
    let name = path.display();
    let bytes = files::read(path, MAX_API_KEY_BYTES, format_args!("the API keys {name}"), file.span, diagnostics)?;
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(diagnostics.error(file.span, format!("the API keys {name} are not UTF-8")).reported());
    };
    let table = KeyTable::parse(&text)
        .map_err(|error| diagnostics.error(file.span, format!("cannot use the API keys {name}: {error}")).reported())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let expired = table.expiring(0, now.saturating_add(1));
    if expired > 0 {
        let keys = if expired == 1 { "key has" } else { "keys have" };
        diagnostics
            .warn(file.span, format!("{expired} API {keys} expired in {name}"))
            .help("remove the entries, or give them a later `expires`");
    }
    Ok(table)
}

// === impl ApiKeys ===

impl ApiKeys {
    /// Warns of names of keys that do not exist: of routes, whose ids are `routes`, and of plans. `plans` are those of limiters
    /// that read the plan of a key.
    pub(crate) fn warn_of_unknown_names(
        &self,
        routes: &HashSet<&str>,
        plans: &HashSet<&str>,
        diagnostics: &mut Diagnostics,
    ) {
        let ApiKeyStore::File(table) = &self.store else { return };
        if let Some(unknown) = table.routes().find(|named| !routes.contains(named)) {
            diagnostics
                .warn(self.at, format!("API keys name the route `{unknown}`, which does not exist"))
                .help("`routes` of a key are ids of routes");
        }
        if let Some(unknown) = table.plans().iter().find(|named| !plans.contains(&***named)) {
            diagnostics
                .warn(self.at, format!("API keys have the plan `{unknown}`, which no limiter with `plan-resolver: api-key` has"))
                .help("correct the plan of the keys, or add it to `plans` of a limiter: until then, they count without a plan");
        }
    }
}
