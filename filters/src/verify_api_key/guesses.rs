//! Guesses of keys: a bucket of each client address.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::{Check, Decision, Store as _};
use tollgate_limiter::verdict::Outcome;

use crate::api_key::Refusal;
use crate::key_resolver::{KeyBuf, KeyResolver};

/// Addresses whose guesses are counted: 4 MB when full.
const MAX_ADDRESSES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99_999);

/// Limit of guesses by client address, as `ip`: IPv6 by /64.
#[derive(Clone, Debug)]
pub struct Guesses {
    store: Arc<MemoryStore>,
    rule: Rule,
    address: KeyResolver,
}

/// Client whose guesses are counted.
pub(super) struct Guesser(Box<[u8]>);

/// Time at which a guess was counted, to take it back.
pub(super) struct Guess(u64);

impl Guesses {
    /// Creates a store of guesses, which outlives a configuration.
    #[must_use]
    pub fn store() -> Arc<MemoryStore> {
        Arc::new(MemoryStore::new(MAX_ADDRESSES))
    }

    /// Limits guesses by `rule`, counted in `store`.
    #[must_use]
    pub fn new(store: Arc<MemoryStore>, rule: Rule) -> Self {
        Self { store, rule, address: KeyResolver::client_ip() }
    }

    /// Returns the client of `request`. Requests without a known address count as one client.
    pub(super) fn guesser<B>(&self, request: &Request<B>) -> Guesser {
        Guesser(self.address.resolve(request, &mut KeyBuf::new()).unwrap_or_default().into())
    }

    /// Counts a guess.
    ///
    /// # Errors
    /// The client has no guess left.
    pub(super) fn take(&self, guesser: &Guesser) -> Result<Guess, Refusal> {
        let Decision::Ready(verdict) = self.store.decide(&[self.check(guesser)], &[]) else { return Ok(Guess(0)) };
        match verdict.outcome {
            Outcome::Allowed => Ok(Guess(verdict.counted_at_us)),
            Outcome::Denied { retry_after } | Outcome::StoreUnavailable { retry_after } => {
                Err(Refusal::Limited(retry_after))
            }
            Outcome::NeverAdmitted => Err(Refusal::Limited(Duration::MAX)),
        }
    }

    /// Takes back a guess.
    pub(super) fn give_back(&self, guesser: &Guesser, guess: &Guess) {
        self.store.settle(self.check(guesser), -1, guess.0);
    }

    fn check<'a>(&'a self, guesser: &'a Guesser) -> Check<'a> {
        Check { key: BucketKey { scope: "api-keys", id: &guesser.0 }, rule: &self.rule, cost: 1 }
    }
}
