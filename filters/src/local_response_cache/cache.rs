//! The storage of cached responses: in memory, limited in bytes, shared by all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AGE, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, VARY};
use http::{Response, StatusCode};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::time::Instant;

use super::cache_control::{elements, set_lifetime};
use super::key::Key;
use super::policy;
use crate::cors::PolicyHeadersAdded;

/// The size of one shard, which has its own lock.
const SHARD_BYTES: u64 = 16 * 1024 * 1024;
/// Estimated memory of an entry besides its texts, in bytes.
const OVERHEAD: usize = 256;
/// Typical size of a response in bytes, for the capacity of tables.
const TYPICAL_BYTES: u64 = 16 * 1024;

/// Responses up to a total number of bytes. The least used ones are evicted first.
#[derive(Debug)]
pub struct ResponseCache {
    entries: Cache<Key, Entry, EntryWeighter>,
    max_bytes: u64,
    /// Bytes of bodies that are being copied.
    pending_bytes: AtomicUsize,
    generations: AtomicU64,
    stats: CacheStats,
}

/// Numbers of requests by outcome.
#[derive(Debug, Default)]
pub struct CacheStats {
    counts: [AtomicU64; CacheOutcome::ALL.len()],
}

tollgate_limiter::labelled! {
    /// The outcome of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CacheOutcome {
        /// The cache responded.
        Hit = "hit",
        /// The cache had no response.
        Miss = "miss",
        /// The cache responded after the upstream had confirmed the stored response.
        Revalidated = "revalidated",
        /// The request did not use the cache.
        Bypass = "bypass",
    }
}

#[derive(Clone, Debug)]
enum Entry {
    Resource(Arc<Resource>),
    Response(Arc<StoredResponse>),
}

/// A resource with stored responses. Once it is evicted, its responses are not found any more.
#[derive(Debug)]
pub(super) struct Resource {
    /// Changes when the resource is invalidated.
    pub(super) generation: u64,
    /// Request fields that distinguish responses.
    pub(super) vary: Box<[HeaderName]>,
}

/// A stored response.
#[derive(Clone, Debug)]
pub(super) struct StoredResponse {
    pub(super) generation: u64,
    pub(super) status: StatusCode,
    /// As sent by the upstream.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The lifetime, starting at `since`.
    pub(super) lifetime: Duration,
    pub(super) since: Instant,
    /// True if the headers of a CORS policy have been added.
    pub(super) has_policy_headers: bool,
}

#[derive(Clone, Debug)]
struct EntryWeighter;

impl Weighter<Key, Entry> for EntryWeighter {
    fn weight(&self, _: &Key, entry: &Entry) -> u64 {
        match entry {
            Entry::Resource(resource) => (OVERHEAD + resource.vary.len() * 32) as u64,
            Entry::Response(response) => response.weight(),
        }
    }
}

// === impl ResponseCache ===

impl ResponseCache {
    /// Creates an empty cache of up to `max_bytes` bytes, headers included, and as many bytes for bodies that are being
    /// copied. One response may take all of it; in a cache of 32 MiB or more, about 16 MiB.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        let shards = (max_bytes / SHARD_BYTES).clamp(1, 16);
        let shards = if shards.is_power_of_two() { shards } else { shards.next_power_of_two() / 2 };
        let items = (max_bytes / TYPICAL_BYTES).clamp(64, 1 << 20);
        let (shards, items) = (usize::try_from(shards).unwrap_or(1), usize::try_from(items).unwrap_or(64));
        let mut options = OptionsBuilder::new();
        options.shards(shards).estimated_items_capacity(items).weight_capacity(max_bytes);
        let entries = match options.build() {
            Ok(options) => {
                Cache::with_options(options, EntryWeighter, DefaultHashBuilder::default(), DefaultLifecycle::default())
            }
            // The options are invalid only without a capacity.
            Err(_) => Cache::with_weighter(items, max_bytes, EntryWeighter),
        };
        Self {
            entries,
            max_bytes,
            pending_bytes: AtomicUsize::new(0),
            generations: AtomicU64::new(0),
            stats: CacheStats::default(),
        }
    }

    /// Returns the maximum size of all entries in bytes.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> &CacheStats {
        &self.stats
    }

    /// Returns the size of the stored entries in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.weight()
    }

    /// Returns the maximum size of one response in bytes, headers included.
    pub(super) fn max_response_bytes(&self) -> u64 {
        // quick_cache admits items of up to 97 % of a shard.
        self.entries.shard_capacity() / 100 * 97
    }

    /// Returns the entry of `resource`.
    pub(super) fn resource(&self, resource: &Key) -> Option<Arc<Resource>> {
        match self.entries.get(resource)? {
            Entry::Resource(resource) => Some(resource),
            Entry::Response(_) => None,
        }
    }

    /// Returns the entry of `resource`; creates it with the fields `vary` if it is missing. If the resource is invalidated
    /// before its response arrives, the generation of the entry changes.
    pub(super) fn register(&self, resource: &Key, vary: &[HeaderName]) -> Arc<Resource> {
        if let Some(entry) = self.resource(resource) {
            return entry;
        }
        let generation = self.generations.fetch_add(1, Relaxed);
        let new = Arc::new(Resource { generation, vary: vary.into() });
        self.entries.insert(*resource, Entry::Resource(Arc::clone(&new)));
        new
    }

    /// Adds the fields in `Vary` of a response with `headers` to the entry of `resource`, and returns the entry. `None` if
    /// the resource has been invalidated since it was [registered](Self::register).
    pub(super) fn update_vary(
        &self,
        resource: &Key,
        registered: &Resource,
        headers: &HeaderMap,
    ) -> Option<Arc<Resource>> {
        let entry = self.resource(resource).filter(|entry| entry.generation == registered.generation)?;
        let mut vary = entry.vary.to_vec();
        for name in elements(headers, &VARY) {
            let name = HeaderName::from_bytes(name).ok()?;
            if !vary.contains(&name) {
                vary.push(name);
            }
        }
        if vary.len() == entry.vary.len() {
            return Some(entry);
        }
        vary.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let new = Arc::new(Resource { generation: entry.generation, vary: vary.into() });
        self.entries.replace(*resource, Entry::Resource(Arc::clone(&new)), false).ok()?;
        Some(new)
    }

    /// Invalidates all responses of `resource`.
    pub(super) fn invalidate(&self, resource: &Key) {
        self.entries.remove(resource);
    }

    /// Returns the response under `key` if it belongs to this generation of its resource.
    pub(super) fn response(&self, key: &Key, generation: u64) -> Option<Arc<StoredResponse>> {
        match self.entries.get(key)? {
            Entry::Response(response) if response.generation == generation => Some(response),
            _ => None,
        }
    }

    /// Stores `response` under `key`, unless its resource has been invalidated.
    pub(super) fn insert(&self, resource: &Key, key: Key, response: StoredResponse) {
        if self.resource(resource).is_some_and(|entry| entry.generation == response.generation) {
            self.entries.insert(key, Entry::Response(Arc::new(response)));
        }
    }

    /// Reserves memory for copied bodies, to be [released](Self::release) later. Returns false if the limit is exceeded.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        let before = self.pending_bytes.fetch_add(bytes, Relaxed);
        let fits = (before.saturating_add(bytes)) as u64 <= self.max_bytes;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    pub(super) fn release(&self, bytes: usize) {
        self.pending_bytes.fetch_sub(bytes, Relaxed);
    }
}

// === impl StoredResponse ===

impl StoredResponse {
    /// Returns the size in bytes.
    pub(super) fn weight(&self) -> u64 {
        let headers: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
        (OVERHEAD + headers + self.body.len()) as u64
    }

    /// Returns the remaining lifetime; zero if the response is stale.
    pub(super) fn remaining_lifetime(&self, now: Instant) -> Duration {
        self.lifetime.saturating_sub(now.saturating_duration_since(self.since))
    }

    /// Returns the age, as the upstream stated it and since then.
    pub(super) fn age(&self, now: Instant) -> Duration {
        policy::age(&self.headers) + now.saturating_duration_since(self.since)
    }

    /// Creates the response to a request with the fields `request`.
    pub(super) fn response<R: From<Bytes>>(&self, request: &HeaderMap, is_head: bool, now: Instant) -> Response<R> {
        let is_not_modified = policy::is_not_modified(request, self.status, &self.headers);
        let body = if is_not_modified || is_head { Bytes::new() } else { self.body.clone() };
        let mut response = Response::new(R::from(body));
        *response.status_mut() = if is_not_modified { StatusCode::NOT_MODIFIED } else { self.status };
        let mut headers = self.headers.clone();
        set_lifetime(&mut headers, self.remaining_lifetime(now));
        let _ = headers.try_insert(AGE, HeaderValue::from(self.age(now).as_secs()));
        if is_not_modified {
            policy::remove_body_headers(&mut headers);
        } else {
            let _ = headers.try_insert(CONTENT_LENGTH, HeaderValue::from(self.body.len()));
        }
        *response.headers_mut() = headers;
        if self.has_policy_headers {
            response.extensions_mut().insert(PolicyHeadersAdded);
        }
        response
    }
}

// === impl CacheStats ===

impl CacheStats {
    /// Returns the number of requests with this outcome.
    #[must_use]
    pub fn count(&self, outcome: CacheOutcome) -> u64 {
        self.counts[outcome as usize].load(Relaxed)
    }

    pub(super) fn observe(&self, outcome: CacheOutcome) {
        self.counts[outcome as usize].fetch_add(1, Relaxed);
    }
}
