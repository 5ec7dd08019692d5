//! `LocalResponseCache`.

use std::time::Duration;

use tollgate_filters::local_response_cache::{self, NoCache};

use crate::de::{Size, Spanned, Time};
use crate::diagnostics::Diagnostics;
use crate::filters::for_all_routes::{CachePosition, RawLocalResponseCache, RawNoCacheStrategy};
use crate::filters::model::{Filter, FilterPosition, ResponseCache};
use crate::filters::row::{Arguments, Entry};
use crate::spec::{Shortcut, above_zero};

/// Spring's default for `LocalResponseCache`.
const DEFAULT_TIME_TO_LIVE: Duration = Duration::from_secs(300);
/// Size of a cache that is set once all caches are known.
pub(crate) const UNSET_SIZE: u64 = 0;

/// Arguments of `LocalResponseCache`.
#[arguments]
struct LocalResponseCacheArgs {
    /// Upper bound of the freshness lifetime. Default: `filter.local-response-cache.time-to-live`.
    time_to_live: Option<Spanned<Time>>,
    /// Capacity in bytes. Default: `filter.local-response-cache.size`.
    size: Option<Spanned<Size>>,
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "LocalResponseCache",
    doc: "Caches responses to GET in memory, at its position in the list, or with `position: first` before all other filters.",
    args: Arguments::of::<LocalResponseCacheArgs>(Shortcut::All),
    check: |input, diagnostics| {
        let args: LocalResponseCacheArgs = input.read(diagnostics)?;
        let raw = &input.context.filter.local_response_cache;
        let mut cache = cache_for_all(raw, diagnostics);
        cache.is_shared = false;
        if args.time_to_live.is_some() {
            cache.settings = settings(raw, args.time_to_live, diagnostics);
        }
        cache.max_bytes = above_zero(args.size.as_ref(), cache.max_bytes, diagnostics);
        Ok(Filter::LocalResponseCache(cache))
    },
}];

/// Returns the cache that routes without their own share.
pub(crate) fn cache_for_all(raw: &RawLocalResponseCache, diagnostics: &mut Diagnostics) -> ResponseCache {
    ResponseCache {
        settings: settings(raw, raw.time_to_live, diagnostics),
        max_bytes: above_zero(raw.size.as_ref(), UNSET_SIZE, diagnostics),
        position: match raw.position.0 {
            CachePosition::Listed => FilterPosition::Listed,
            CachePosition::First => FilterPosition::First,
        },
        is_shared: true,
        status_name: None,
        identity: 0,
    }
}

fn settings(
    raw: &RawLocalResponseCache,
    time: Option<Spanned<Time>>,
    diagnostics: &mut Diagnostics,
) -> local_response_cache::Settings {
    if let Some(time) = time.filter(|time| time.value.0 < Duration::from_secs(1)) {
        diagnostics
            .error(time.span, "must be at least 1s, the unit of `max-age`")
            .help("remove the filter to cache nothing");
    }
    let no_cache = match raw.request.no_cache_strategy {
        None | Some(RawNoCacheStrategy::Revalidate) => NoCache::Revalidate,
        Some(RawNoCacheStrategy::SkipUpdateCacheEntry) => NoCache::Bypass,
        Some(RawNoCacheStrategy::UpdateCacheEntry) => NoCache::Update,
    };
    let time_to_live = time.map_or(DEFAULT_TIME_TO_LIVE, |time| time.value.0);
    local_response_cache::Settings::new(time_to_live).on_no_cache(no_cache)
}
