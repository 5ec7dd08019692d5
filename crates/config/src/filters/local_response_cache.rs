//! `LocalResponseCache`.

use std::time::Duration;

use tollgate_filters::local_response_cache::{self, NoCache};

use crate::de::spanned::Spanned;
use crate::de::units::{Size, Time, parse_size, parse_time};
use crate::diagnostics::Diagnostics;
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::{Filter, FilterPosition, ResponseCache};
use crate::filters::raw::{RawCachePosition, RawLocalResponseCache, RawNoCacheStrategy};
use crate::spec::argument::{Argument, ArgumentType};
use crate::spec::values::above_zero;

/// Spring's default for `LocalResponseCache`.
const DEFAULT_TIME_TO_LIVE: Duration = Duration::from_secs(300);
/// Room for four thousand responses of 16 KB. Spring's cache is unbounded.
const DEFAULT_CACHE_SIZE: u64 = 64 * 1024 * 1024;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "LocalResponseCache",
    doc: "Caches responses to GET in memory, at its position in the list, or with `position: first` before all other filters.",
    args: Arguments::Listed(&[
        Argument::new(
            "timeToLive",
            "Upper bound of the freshness lifetime. Default: `filter.local-response-cache.time-to-live`.",
        )
        .of(ArgumentType::Duration),
        Argument::new("size", "Capacity in bytes. Default: `filter.local-response-cache.size`.").of(ArgumentType::Size),
    ]),
    check: response_cache,
}];

fn response_cache(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [time_to_live, size] = input.arguments(diagnostics);
    let raw = &input.context.filter.local_response_cache;
    let mut cache = cache_for_all(raw, diagnostics);
    cache.is_shared = false;
    if let Some(arg) = time_to_live {
        let time = parse_time(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok()?;
        let time = Spanned { value: Time(time), span: arg.span };
        cache.settings = settings(raw, Some(time), diagnostics);
    }
    if let Some(arg) = size {
        let size = parse_size(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok()?;
        cache.max_bytes = above_zero(Some(&Spanned { value: Size(size), span: arg.span }), 0, diagnostics);
    }
    Some(Filter::LocalResponseCache(cache))
}

/// Returns the cache that routes without their own share.
pub(crate) fn cache_for_all(raw: &RawLocalResponseCache, diagnostics: &mut Diagnostics) -> ResponseCache {
    ResponseCache {
        settings: settings(raw, raw.time_to_live, diagnostics),
        max_bytes: above_zero(raw.size.as_ref(), DEFAULT_CACHE_SIZE, diagnostics),
        position: match raw.position {
            RawCachePosition::Listed => FilterPosition::Listed,
            RawCachePosition::First => FilterPosition::First,
        },
        is_shared: true,
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
