//! Layer that looks up the keys of requests.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_limiter::store::StoreReply;
use tower::Service;

use super::guesses::Guesses;
use super::remote::{Found, RemoteKeys};
use super::usage::{CountDenial, KeyUsage, fingerprint, now};
use crate::api_key::{ApiKey, Identity, KeyHash, KeyTable, Refusal, Settings, hash};
use crate::filter::{Filter, FilterLayer};
use crate::repeated::Repeated;
use crate::response_filter::MapResponse;
use crate::wait::{Admitted, HeldRequest};

/// Wraps services in the look-up of keys. See the [module](super).
pub type IdentifyLayer = FilterLayer<Arc<Identifier>>;

/// Looks up the keys of requests, and counts guesses and the use of keys.
#[derive(Clone, Debug)]
pub struct Identifier {
    settings: Arc<Settings>,
    store: KeyStore,
    guesses: Guesses,
    usage: Arc<KeyUsage>,
}

/// Store of keys.
#[derive(Clone, Debug)]
pub enum KeyStore {
    /// Keys of a file.
    Table(Arc<KeyTable>),
    /// Keys of a remote store.
    Remote(RemoteKeys),
    /// A store that cannot be reached.
    Unavailable,
}

/// Identity of a request, and the fingerprint of its key if it is known.
type Identified = (Identity, Option<u64>);

/// Result of a look-up.
type LookUp = StoreReply<Identified>;

/// Request that waits for the store.
pub struct WaitingRequest<S, B> {
    wait: Pin<Box<dyn Future<Output = Identified> + Send>>,
    request: Request<B>,
    inner: S,
    usage: Arc<KeyUsage>,
}

// === impl IdentifyLayer ===

impl IdentifyLayer {
    /// Creates a layer whose services share `identifier`.
    #[must_use]
    pub fn new(identifier: Identifier) -> Self {
        Self(Arc::new(identifier))
    }
}

// === impl Identifier ===

impl Identifier {
    /// Creates an identifier of keys in `store`.
    #[must_use]
    pub fn new(settings: Arc<Settings>, store: KeyStore, guesses: Guesses) -> Self {
        Self { settings, store, guesses, usage: Arc::default() }
    }

    /// Counts the use of keys in `usage`.
    #[must_use]
    pub fn counting(mut self, usage: Arc<KeyUsage>) -> Self {
        self.usage = usage;
        self
    }

    fn look_up<B>(self: &Arc<Self>, request: &Request<B>) -> LookUp {
        let key = match self.settings.keys(request) {
            Repeated::Absent => return LookUp::Ready((Identity::Absent, None)),
            Repeated::Differing => return self.guessed(request, Refusal::Differing),
            Repeated::One(key) => key,
        };
        let hash = hash(&key);
        let remote = match &self.store {
            KeyStore::Table(table) => {
                return match table.find(&hash) {
                    Some(key) => LookUp::Ready(self.known(Arc::new(key), &hash)),
                    None => self.guessed(request, Refusal::Unknown),
                };
            }
            KeyStore::Unavailable => return LookUp::Ready((Identity::Refused(Refusal::Unavailable), None)),
            KeyStore::Remote(remote) => remote,
        };
        let was_known = match remote.find(&hash) {
            Found::Known(key) => return LookUp::Ready(self.known(key, &hash)),
            Found::Unknown => return self.guessed(request, Refusal::Unknown),
            Found::Stale(was_known) => was_known,
        };
        let (remote, guesser, this) = (remote.clone(), self.guesses.guesser(request), Arc::clone(self));
        LookUp::Pending(Box::pin(async move {
            match remote.fetch(hash, was_known, &this.guesses, &guesser).await {
                Ok(key) => this.known(key, &hash),
                Err(refusal) => (Identity::Refused(refusal), None),
            }
        }))
    }

    /// Counts a request with a known key.
    fn known(&self, key: Arc<ApiKey>, hash: &KeyHash) -> Identified {
        let (now, print) = (now(), fingerprint(hash));
        self.usage.count(print, now);
        (key.identity(now), Some(print))
    }

    /// Counts a guess. The request is refused for `refusal`, or for too many guesses.
    fn guessed<B>(&self, request: &Request<B>, refusal: Refusal) -> LookUp {
        let limited = self.guesses.take(&self.guesses.guesser(request)).err();
        LookUp::Ready((Identity::Refused(limited.unwrap_or(refusal)), None))
    }
}

impl<S, B, R> Filter<S, B> for Arc<Identifier>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Body = B;
    type Response = Response<R>;
    type Future = Admitted<WaitingRequest<S, B>>;

    fn call(&self, request: Request<B>, inner: &mut S) -> Self::Future {
        // A route may have forwarded the request to this one, after it has removed the key.
        if request.extensions().get::<Identity>().is_some() {
            return Admitted::Forwarded { inner: MapResponse::new(inner.call(request), None) };
        }
        match self.look_up(&request) {
            LookUp::Ready(identified) => {
                Admitted::Forwarded { inner: forward(request, identified, inner, &self.usage) }
            }
            LookUp::Pending(wait) => {
                // The clone may not be ready, so the request takes the ready service.
                let clone = inner.clone();
                let inner = std::mem::replace(inner, clone);
                Admitted::wait(WaitingRequest { wait, request, inner, usage: Arc::clone(&self.usage) })
            }
        }
    }
}

/// Calls `inner` with the identity of the request.
fn forward<S: Service<Request<B>>, B>(
    mut request: Request<B>,
    (identity, print): Identified,
    inner: &mut S,
    usage: &Arc<KeyUsage>,
) -> MapResponse<S::Future, Option<CountDenial>> {
    request.extensions_mut().insert(identity);
    let counted = print.map(|print| CountDenial(Arc::clone(usage), print));
    MapResponse::new(inner.call(request), counted)
}

impl<S, B, R> HeldRequest for WaitingRequest<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Outcome = Identified;
    type Response = Response<R>;
    type Future = MapResponse<S::Future, Option<CountDenial>>;

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Identified> {
        self.wait.as_mut().poll(cx)
    }

    fn resume(mut self: Box<Self>, identified: Identified) -> ControlFlow<Response<R>, Self::Future> {
        ControlFlow::Continue(forward(self.request, identified, &mut self.inner, &self.usage))
    }
}

crate::opaque_debug!(WaitingRequest<S, B>);
