//! Where answers are kept: in memory, up to so many bytes, for every thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AGE, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, VARY};
use http::{Response, StatusCode};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::time::Instant;

use super::directives::{elements, restate};
use super::key::Key;
use super::rules;
use super::stats::CacheStats;
use crate::cors::PolicyHeadersAdded;

/// A cache of this size and more is several, each under a lock of its own.
const SHARD_BYTES: u64 = 16 * 1024 * 1024;
/// What something kept takes up besides its texts.
const OVERHEAD: usize = 256;
/// The usual size of an answer, for the size of tables.
const USUAL_BYTES: u64 = 16 * 1024;

/// Answers, kept up to a number of bytes. What was asked for least goes first.
#[derive(Debug)]
pub struct ResponseCache {
    kept: Cache<Key, Kept, Weight>,
    max_bytes: u64,
    /// Bytes of answers that are still on their way.
    on_the_way: AtomicUsize,
    generations: AtomicU64,
    stats: CacheStats,
}

#[derive(Clone, Debug)]
enum Kept {
    Resource(Arc<Resource>),
    Answer(Arc<Answer>),
}

/// A resource of which answers may be kept. When it goes, none of them is found any more.
#[derive(Debug)]
pub(super) struct Resource {
    /// Told apart from what was known of it before it changed.
    pub(super) generation: u64,
    /// By which fields of the request its answers differ.
    pub(super) vary: Box<[HeaderName]>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) generation: u64,
    pub(super) status: StatusCode,
    /// As the upstream gave them.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// How long it is fresh, from `since` on.
    pub(super) lifetime: Duration,
    pub(super) since: Instant,
    /// It has the headers of a grant (CORS) already.
    pub(super) granted: bool,
}

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<Key, Kept> for Weight {
    fn weight(&self, _: &Key, kept: &Kept) -> u64 {
        match kept {
            Kept::Resource(resource) => (OVERHEAD + resource.vary.len() * 32) as u64,
            Kept::Answer(answer) => answer.weight(),
        }
    }
}

// === impl ResponseCache ===

impl ResponseCache {
    /// An empty cache that holds up to `max_bytes` bytes, headers included, and as many of answers that are still on
    /// their way. One answer may have all of it, in a cache of 32 MiB and more about 16 MiB.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        let shards = (max_bytes / SHARD_BYTES).clamp(1, 16);
        let shards = if shards.is_power_of_two() { shards } else { shards.next_power_of_two() / 2 };
        let items = (max_bytes / USUAL_BYTES).clamp(64, 1 << 20);
        let (shards, items) = (usize::try_from(shards).unwrap_or(1), usize::try_from(items).unwrap_or(64));
        let mut options = OptionsBuilder::new();
        options.shards(shards).estimated_items_capacity(items).weight_capacity(max_bytes);
        let kept = match options.build() {
            Ok(options) => {
                Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default())
            }
            // Only without a capacity.
            Err(_) => Cache::with_weighter(items, max_bytes, Weight),
        };
        Self {
            kept,
            max_bytes,
            on_the_way: AtomicUsize::new(0),
            generations: AtomicU64::new(0),
            stats: CacheStats::default(),
        }
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> &CacheStats {
        &self.stats
    }

    /// Bytes that are kept.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.kept.weight()
    }

    /// Bytes that one answer may have, headers included.
    pub(super) fn max_answer_bytes(&self) -> u64 {
        // What quick_cache admits of a shard.
        self.kept.shard_capacity() / 100 * 97
    }

    /// What is known of `resource`.
    pub(super) fn resource(&self, resource: &Key) -> Option<Arc<Resource>> {
        match self.kept.get(resource)? {
            Kept::Resource(resource) => Some(resource),
            Kept::Answer(_) => None,
        }
    }

    /// Notes that an answer of `resource` is on its way, so that one who changes it meanwhile is noticed. Its answers differ
    /// by the fields `by` in any case.
    pub(super) fn expect(&self, resource: &Key, by: &[HeaderName]) -> Arc<Resource> {
        if let Some(known) = self.resource(resource) {
            return known;
        }
        let generation = self.generations.fetch_add(1, Relaxed);
        let new = Arc::new(Resource { generation, vary: by.into() });
        self.kept.insert(*resource, Kept::Resource(Arc::clone(&new)));
        new
    }

    /// By which fields answers of `resource` differ, now that one has come with `headers`; `None` when the resource was
    /// changed since it was [expected](Self::expect).
    pub(super) fn vary(&self, resource: &Key, expected: &Resource, headers: &HeaderMap) -> Option<Arc<Resource>> {
        let known = self.resource(resource).filter(|known| known.generation == expected.generation)?;
        let mut vary = known.vary.to_vec();
        for name in elements(headers, &VARY) {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            if !vary.contains(&name) {
                vary.push(name);
            }
        }
        if vary.len() == known.vary.len() {
            return Some(known);
        }
        vary.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let new = Arc::new(Resource { generation: known.generation, vary: vary.into() });
        self.kept.replace(*resource, Kept::Resource(Arc::clone(&new)), false).ok()?;
        Some(new)
    }

    /// Forgets every answer of `resource`.
    pub(super) fn forget(&self, resource: &Key) {
        self.kept.remove(resource);
    }

    /// The answer kept under `key`, if it is of the resource as it is now.
    pub(super) fn answer(&self, key: &Key, generation: u64) -> Option<Arc<Answer>> {
        match self.kept.get(key)? {
            Kept::Answer(answer) if answer.generation == generation => Some(answer),
            _ => None,
        }
    }

    /// Keeps `answer` under `key`, if its resource has not been changed since.
    pub(super) fn keep(&self, resource: &Key, key: Key, answer: Answer) {
        if self.resource(resource).is_some_and(|known| known.generation == answer.generation) {
            self.kept.insert(key, Kept::Answer(Arc::new(answer)));
        }
    }

    /// Room for so many bytes more of answers on their way; give it [back](Self::release).
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        let before = self.on_the_way.fetch_add(bytes, Relaxed);
        let fits = (before.saturating_add(bytes)) as u64 <= self.max_bytes;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    pub(super) fn release(&self, bytes: usize) {
        self.on_the_way.fetch_sub(bytes, Relaxed);
    }
}

// === impl Answer ===

impl Answer {
    /// Bytes that it takes up.
    pub(super) fn weight(&self) -> u64 {
        let headers: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
        (OVERHEAD + headers + self.body.len()) as u64
    }

    /// How long it is still fresh.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.lifetime.saturating_sub(now.saturating_duration_since(self.since))
    }

    /// The answer for a client whose request has the fields `asked`.
    pub(super) fn response<R: From<Bytes>>(&self, asked: &HeaderMap, is_head: bool, now: Instant) -> Response<R> {
        let is_known = rules::is_known(asked, self.status, &self.headers);
        let body = if is_known || is_head { Bytes::new() } else { self.body.clone() };
        let mut response = Response::new(R::from(body));
        *response.status_mut() = if is_known { StatusCode::NOT_MODIFIED } else { self.status };
        let mut headers = self.headers.clone();
        restate(&mut headers, self.left(now));
        let age = rules::age(&self.headers) + now.saturating_duration_since(self.since);
        let _ = headers.try_insert(AGE, HeaderValue::from(age.as_secs()));
        if is_known {
            rules::without_body(&mut headers);
        } else {
            let _ = headers.try_insert(CONTENT_LENGTH, HeaderValue::from(self.body.len()));
        }
        *response.headers_mut() = headers;
        if self.granted {
            response.extensions_mut().insert(PolicyHeadersAdded);
        }
        response
    }
}
