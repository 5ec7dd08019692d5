//! Settings of a cache.

use std::time::Duration;

/// The lifetime of cached responses, and the effect of `no-cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    pub(super) time_to_live: Duration,
    pub(super) no_cache: NoCache,
}

/// The effect of requests that want a fresh response, as browsers send them for a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoCache {
    /// `no-cache` bypasses the cache, and `max-age` has no effect: Spring's `skip-update-cache-entry`.
    Bypass,
    /// `no-cache` replaces the stored response, and `max-age` has no effect: Spring's `update-cache-entry`.
    Update,
    /// `no-cache` and `max-age=0` revalidate the stored response, `max-age=N` one that is `N` seconds old (RFC 9111 §5.2.1).
    Revalidate,
}

// === impl Settings ===

impl Settings {
    /// Responses are fresh for at most `time_to_live`. Spring's default is 5 minutes. Requests for a fresh response
    /// [revalidate](NoCache::Revalidate).
    #[must_use]
    pub fn new(time_to_live: Duration) -> Self {
        Self { time_to_live, no_cache: NoCache::Revalidate }
    }

    /// Sets the effect of requests for a fresh response.
    #[must_use]
    pub fn on_no_cache(self, no_cache: NoCache) -> Self {
        Self { no_cache, ..self }
    }
}
