//! Load balancer of one route on one worker.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use fastrand::Rng;
use http::Request;
use tollgate_filters::context::Attempts;
use tollgate_filters::key_resolver::KeyBuf;

use crate::upstream::balance::endpoint::{AttemptFailure, Endpoint};
use crate::upstream::balance::endpoint_set::WeightedEndpoint;
use crate::upstream::balance::policy::{RoundRobin, Selectable, hash, highest, least_request, random};
use crate::upstream::balance::upstream::Upstream;
use crate::upstream::error::ForwardError;
use crate::upstream::pick::{Outcome, Pick};
use crate::upstream::pool::Pool;
use tollgate_config::{Balance, Ejection, EndpointAddress};

/// Load balancer over the endpoints of an upstream, for one route on one worker.
pub struct Balancer {
    upstream: Arc<Upstream>,
    balance: Balance,
    ejection: Option<Ejection>,
    use404: bool,
    pool_of: Box<PoolOf>,
    view: RefCell<Rc<View>>,
    rng: RefCell<Rng>,
}

/// Returns the connection pool of an endpoint.
type PoolOf = dyn Fn(&EndpointAddress) -> Rc<Pool>;

/// Snapshot of the upstream with this worker's pools and round-robin state.
#[derive(Debug, Default)]
struct View {
    version: u64,
    healthy: Vec<PriorityTier>,
    ejected: Vec<PriorityTier>,
}

/// Candidates of one priority.
#[derive(Debug)]
struct PriorityTier {
    candidates: Vec<Rc<Candidate>>,
    round_robin: RefCell<RoundRobin>,
}

/// Endpoint that may be selected.
#[derive(Debug)]
struct Candidate {
    endpoint: Arc<Endpoint>,
    weight: u32,
    pool: Rc<Pool>,
}

/// Attempt of a request at an endpoint.
///
/// It is dropped when the response body has ended, when the tunnel has closed, or when no response will come.
#[derive(Debug)]
pub struct BalancedAttempt {
    balancer: Rc<Balancer>,
    candidate: Rc<Candidate>,
    context: SelectionContext,
}

/// Data of a request that a selection depends on.
#[derive(Clone, Debug)]
struct SelectionContext {
    /// Hash of the request's key, under consistent hashing.
    key: Option<u64>,
    /// Endpoints that this attempt has tried.
    tried: Vec<u64>,
    /// Endpoints of earlier attempts.
    attempts: Option<Attempts>,
}

impl Balancer {
    /// Creates a balancer over `upstream`. `pool_of` returns the pool of an endpoint. If `use404` is true, requests
    /// without an available endpoint get 404 instead of 503.
    pub fn new(
        upstream: Arc<Upstream>,
        settings: &tollgate_config::Upstream,
        use404: bool,
        pool_of: impl Fn(&EndpointAddress) -> Rc<Pool> + 'static,
    ) -> Rc<Self> {
        Rc::new(Self {
            upstream,
            balance: settings.balance.clone(),
            ejection: settings.ejection.clone(),
            use404,
            pool_of: Box::new(pool_of),
            view: RefCell::default(),
            rng: RefCell::default(),
        })
    }

    /// Selects an endpoint for `request`, if possible one that no earlier attempt has tried.
    ///
    /// # Errors
    /// No endpoint is available.
    pub fn pick<B>(self: &Rc<Self>, request: &Request<B>) -> Result<Pick, ForwardError> {
        let key = match &self.balance {
            Balance::ConsistentHash(resolver) => resolver.resolve(request, &mut KeyBuf::new()).map(hash),
            Balance::LeastRequest | Balance::RoundRobin | Balance::Random => None,
        };
        let context =
            SelectionContext { key, tried: Vec::new(), attempts: request.extensions().get::<Attempts>().cloned() };
        let view = self.view();
        let untried = |candidate: &Rc<Candidate>| !context.has_tried(candidate);
        let candidate = self
            .select(&view.healthy, &context, untried)
            .or_else(|| self.select(&view.healthy, &context, |_| true))
            .or_else(|| self.select(&view.ejected, &context, untried))
            .or_else(|| self.select(&view.ejected, &context, |_| true));
        match candidate {
            Some(candidate) => Ok(self.start(candidate, context)),
            None => {
                self.upstream.stats().unavailable.fetch_add(1, Relaxed);
                Err(ForwardError::NoEndpoint { as_not_found: self.use404 })
            }
        }
    }

    fn start(self: &Rc<Self>, candidate: Rc<Candidate>, context: SelectionContext) -> Pick {
        if let Some(attempts) = &context.attempts {
            attempts.note(candidate.identity());
        }
        candidate.endpoint.request_started();
        let pool = Rc::clone(&candidate.pool);
        Pick { pool, attempt: Some(Box::new(BalancedAttempt { balancer: Rc::clone(self), candidate, context })) }
    }

    fn select(
        &self,
        tiers: &[PriorityTier],
        context: &SelectionContext,
        allowed: impl Fn(&Rc<Candidate>) -> bool,
    ) -> Option<Rc<Candidate>> {
        tiers.iter().find_map(|tier| {
            let candidates = &tier.candidates;
            let rng = &mut *self.rng.borrow_mut();
            let index = match (&self.balance, context.key) {
                (Balance::LeastRequest, _) => least_request(candidates, &allowed, rng),
                (Balance::RoundRobin, _) => tier.round_robin.borrow_mut().next(candidates, &allowed),
                (Balance::ConsistentHash(_), Some(key)) => highest(key, candidates, &allowed),
                // A request without a key may go to any endpoint.
                (Balance::ConsistentHash(_), None) | (Balance::Random, _) => random(candidates, &allowed, rng),
            };
            index.map(|index| Rc::clone(&candidates[index]))
        })
    }

    /// Returns this worker's view of the latest snapshot.
    fn view(&self) -> Rc<View> {
        // The version is read before the snapshot: at worst, a newer snapshot is read twice.
        let version = self.upstream.version();
        let mut view = self.view.borrow_mut();
        if view.version != version {
            let snapshot = self.upstream.snapshot();
            let tiers = |tiers: &[Vec<WeightedEndpoint>]| tiers.iter().map(|endpoints| self.tier(endpoints)).collect();
            let (healthy, ejected) = (tiers(&snapshot.healthy), tiers(&snapshot.ejected));
            *view = Rc::new(View { version, healthy, ejected });
        }
        Rc::clone(&view)
    }

    fn tier(&self, endpoints: &[WeightedEndpoint]) -> PriorityTier {
        let candidate = |weighted: &WeightedEndpoint| {
            let endpoint = Arc::clone(&weighted.endpoint);
            let pool = (self.pool_of)(endpoint.address());
            Rc::new(Candidate { endpoint, weight: weighted.weight, pool })
        };
        let first = self.rng.borrow_mut().usize(..endpoints.len().max(1));
        let round_robin = RefCell::new(RoundRobin::starting_at(endpoints.len(), first));
        PriorityTier { candidates: endpoints.iter().map(candidate).collect(), round_robin }
    }
}

impl SelectionContext {
    fn has_tried(&self, candidate: &Rc<Candidate>) -> bool {
        let identity = candidate.identity();
        self.tried.contains(&identity) || self.attempts.as_ref().is_some_and(|attempts| attempts.tried(identity))
    }
}

impl BalancedAttempt {
    /// Reports the result as soon as it is known, and again if the response body ends early. `error` describes a failure.
    pub(in crate::upstream) fn report(&self, outcome: Outcome, error: Option<&ForwardError>) {
        let endpoint = &self.candidate.endpoint;
        match outcome {
            Outcome::ClientFailed => {}
            Outcome::Response(_) => endpoint.attempts().responded(),
            failure @ (Outcome::ConnectFailed | Outcome::Disconnected | Outcome::TimedOut) => {
                let error = error.map_or_else(|| failure.to_string(), ForwardError::chain);
                endpoint.attempts().failed(AttemptFailure { at: SystemTime::now(), error });
            }
        }
        let Some(ejection) = &self.balancer.ejection else { return };
        match outcome {
            Outcome::ClientFailed => {}
            Outcome::Response(status) if !ejection.fails(status) => endpoint.reset_failures(),
            Outcome::Response(_) | Outcome::ConnectFailed | Outcome::Disconnected | Outcome::TimedOut => {
                // If the ejection is not possible, it is tried again after as many failures, not at each of them.
                if endpoint.count_failure().is_multiple_of(ejection.consecutive_failures.get().get()) {
                    self.balancer.upstream.eject(endpoint, ejection);
                }
            }
        }
    }

    /// Selects another endpoint for the same request, to which no attempt has gone yet; `None` if there is none.
    pub(in crate::upstream) fn another(&self) -> Option<Pick> {
        let mut context = self.context.clone();
        context.tried.push(self.candidate.identity());
        let view = self.balancer.view();
        let untried = |candidate: &Rc<Candidate>| !context.has_tried(candidate);
        let candidate = self.balancer.select(&view.healthy, &context, untried);
        let candidate = candidate.or_else(|| self.balancer.select(&view.ejected, &context, untried));
        Some(self.balancer.start(candidate?, context))
    }

    /// Waits until the endpoint leaves the list of its upstream.
    pub(in crate::upstream) async fn removed(&self) {
        self.candidate.endpoint.removed().await;
    }
}

impl Drop for BalancedAttempt {
    fn drop(&mut self) {
        self.candidate.endpoint.request_ended();
    }
}

impl Selectable for Rc<Candidate> {
    fn weight(&self) -> u32 {
        self.weight
    }

    fn in_flight(&self) -> u32 {
        self.endpoint.in_flight()
    }

    fn identity(&self) -> u64 {
        self.endpoint.identity()
    }
}

impl fmt::Debug for Balancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Balancer").field("upstream", self.upstream.name()).field("balance", &self.balance).finish()
    }
}

#[cfg(test)]
mod tests;
