//! Keys of a remote store, with a cache that outlives a configuration.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::guesses::{Guesser, Guesses};
use crate::api_key::KeyHash;
use crate::api_key::{ApiKey, Refusal};
use crate::digest_cache::Cache;

/// Keys that are cached at least: 20 MB.
const KNOWN_CAPACITY: usize = 100_000;
/// Unknown keys that are cached at least. They are kept apart so that a flood of them evicts no known key.
const UNKNOWN_CAPACITY: usize = 20_000;

/// Remote store of keys.
pub trait KeyFetcher: Send + Sync {
    /// Fetches the entry of the key with `hash`, within a deadline.
    fn fetch(&self, hash: &KeyHash) -> Pin<Box<dyn Future<Output = Fetched> + Send>>;
}

/// Reply of a remote store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The entry, in YAML or JSON.
    Entry(String),
    /// There is no such key.
    Absent,
    /// The store did not reply.
    Unavailable,
}

/// Keys that a remote store has returned, and keys that it does not have.
#[derive(Debug)]
pub struct RemoteCache {
    known: Cache<Cached>,
    unknown: Cache<Instant>,
    in_flight: Mutex<HashMap<KeyHash, Arc<OnceCell<Reply>>>>,
}

/// Key, and the time at which it was fetched.
#[derive(Clone, Debug)]
struct Cached {
    key: Arc<ApiKey>,
    at: Instant,
    /// True if the next request looks it up again.
    is_stale: bool,
}

/// Reply that requests with one key share.
#[derive(Clone, Debug)]
enum Reply {
    Known(Arc<ApiKey>),
    Unknown,
    Unavailable,
}

/// Request that waits for the reply of a call. When the call has ended, or no request waits any more, later requests make
/// a call of their own.
struct InFlight<'c> {
    cache: &'c RemoteCache,
    hash: KeyHash,
    reply: Arc<OnceCell<Reply>>,
}

/// Remote store of keys behind its cache.
#[derive(Clone)]
pub struct RemoteKeys {
    /// Store of this thread.
    pub fetcher: Arc<dyn KeyFetcher>,
    /// Cache of the process.
    pub cache: Arc<RemoteCache>,
    /// Time for which an entry is used without another look-up.
    pub cache_for: Duration,
    /// Time for which a known key is used while the store is unavailable.
    pub keep: Duration,
}

/// State of a key in the cache.
pub(super) enum Found {
    Known(Arc<ApiKey>),
    Unknown,
    /// It must be fetched. The key was known before, or was not.
    Stale(bool),
}

impl std::fmt::Debug for RemoteKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteKeys")
            .field("cache_for", &self.cache_for)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

impl Default for RemoteCache {
    fn default() -> Self {
        let (known, unknown) = (Cache::new(KNOWN_CAPACITY), Cache::new(UNKNOWN_CAPACITY));
        Self { known, unknown, in_flight: Mutex::default() }
    }
}

impl RemoteCache {
    /// Makes the next request with the key look it up again, since its entry has changed.
    pub fn refresh(&self, hash: &KeyHash) {
        if let Some(cached) = self.known.get(hash) {
            self.known.insert(*hash, Cached { is_stale: true, ..cached });
        }
    }
}

impl<'c> InFlight<'c> {
    fn join(cache: &'c RemoteCache, hash: KeyHash) -> Self {
        Self { cache, hash, reply: Arc::clone(cache.in_flight.lock().entry(hash).or_default()) }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.cache.in_flight.lock();
        // The map has one reference, and this is another.
        let is_last = Arc::strong_count(&self.reply) == 2;
        if (is_last || self.reply.initialized())
            && in_flight.get(&self.hash).is_some_and(|current| Arc::ptr_eq(current, &self.reply))
        {
            in_flight.remove(&self.hash);
        }
    }
}

impl RemoteKeys {
    /// Returns the state of the key with `hash` in the cache.
    pub(super) fn find(&self, hash: &KeyHash) -> Found {
        let is_fresh = |at: Instant| at.elapsed() < self.cache_for;
        match self.cache.known.get(hash) {
            Some(Cached { key, at, is_stale: false }) if is_fresh(at) => return Found::Known(key),
            Some(_) => return Found::Stale(true),
            None => {}
        }
        match self.cache.unknown.get(hash) {
            Some(at) if is_fresh(at) => Found::Unknown,
            _ => Found::Stale(false),
        }
    }

    /// Fetches the key with `hash`, one call for all requests that wait for it. A key that was not known needs a guess of
    /// the client that makes the call; a key that is found takes it back.
    ///
    /// # Errors
    /// The key does not count.
    pub(super) async fn fetch(
        &self,
        hash: KeyHash,
        was_known: bool,
        guesses: &Guesses,
        guesser: &Guesser,
    ) -> Result<Arc<ApiKey>, Refusal> {
        let mut has_guessed = false;
        let in_flight = InFlight::join(&self.cache, hash);
        let reply = in_flight.reply.get_or_try_init(async || {
            let guess = if was_known { None } else { Some(guesses.take(guesser)?) };
            has_guessed = guess.is_some();
            let reply = self.call(&hash).await;
            if let (Some(guess), Reply::Known(_) | Reply::Unavailable) = (&guess, &reply) {
                guesses.give_back(guesser, guess);
            }
            Ok(reply)
        });
        let reply = reply.await.cloned();
        drop(in_flight);
        match reply? {
            Reply::Known(key) => Ok(key),
            Reply::Unavailable => Err(Refusal::Unavailable),
            Reply::Unknown if has_guessed => Err(Refusal::Unknown),
            Reply::Unknown => guesses.take(guesser).and(Err(Refusal::Unknown)),
        }
    }

    /// Calls the store, and caches its reply.
    async fn call(&self, hash: &KeyHash) -> Reply {
        let entry = match self.fetcher.fetch(hash).await {
            Fetched::Entry(text) => read(&text, hash),
            Fetched::Absent => None,
            Fetched::Unavailable => {
                let kept = self.cache.known.get(hash).filter(|cached| cached.at.elapsed() < self.keep);
                return kept.map_or(Reply::Unavailable, |cached| Reply::Known(cached.key));
            }
        };
        match entry {
            Some(key) => {
                self.cache.known.insert(*hash, Cached { key: Arc::clone(&key), at: Instant::now(), is_stale: false });
                Reply::Known(key)
            }
            None => {
                self.cache.known.remove(hash);
                self.cache.unknown.insert(*hash, Instant::now());
                Reply::Unknown
            }
        }
    }
}

/// Reads the entry of a key. An invalid one is logged, without its text.
fn read(text: &str, hash: &KeyHash) -> Option<Arc<ApiKey>> {
    let error = match ApiKey::parse_of(hash, text) {
        Ok(key) => return Some(Arc::new(key)),
        Err(error) => error.message,
    };
    let [one, two, three, four, ..] = hash;
    let field = format!("{one:02x}{two:02x}{three:02x}{four:02x}…");
    tracing::warn!(field, error, "invalid api key entry in redis: the key is refused");
    None
}

#[cfg(feature = "redis")]
impl KeyFetcher for tollgate_limiter::store::redis::RedisHash {
    fn fetch(&self, hash: &KeyHash) -> Pin<Box<dyn Future<Output = Fetched> + Send>> {
        let value = self.get(&crate::api_key::hex(hash));
        Box::pin(async move {
            match value.await {
                Ok(Some(entry)) => Fetched::Entry(entry),
                Ok(None) => Fetched::Absent,
                Err(_) => Fetched::Unavailable,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::task::{Context, Waker};

    use tollgate_limiter::rule::TokenBucket;

    use super::*;

    /// Store that never replies.
    struct Silent;

    impl KeyFetcher for Silent {
        fn fetch(&self, _: &KeyHash) -> Pin<Box<dyn Future<Output = Fetched> + Send>> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn requests_that_disconnect_leave_no_call_behind() {
        let guesses = Guesses::new(Guesses::store(), TokenBucket::per_second(1, 10).unwrap().into());
        let guesser = guesses.guesser(&http::Request::new(()));
        let cache = Arc::new(RemoteCache::default());
        let keys = RemoteKeys {
            fetcher: Arc::new(Silent),
            cache: Arc::clone(&cache),
            cache_for: Duration::ZERO,
            keep: Duration::ZERO,
        };
        let waiting = || cache.in_flight.lock().len();
        let mut requests: Vec<_> = (0..2).map(|_| Box::pin(keys.fetch([7; 32], false, &guesses, &guesser))).collect();
        let context = &mut Context::from_waker(Waker::noop());
        requests.iter_mut().for_each(|request| assert!(request.as_mut().poll(context).is_pending()));
        assert_eq!(waiting(), 1);
        requests.pop();
        assert_eq!(waiting(), 1, "another request waits");
        requests.pop();
        assert_eq!(waiting(), 0);
    }
}
