//! One worker's way to an upstream: chooses endpoints, and tells what became of requests.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fastrand::Rng;
use http::Request;
use tollgate_filters::context::Attempts;
use tollgate_filters::key_resolver::KeyBuf;

use crate::upstream::balance::endpoint::Endpoint;
use crate::upstream::balance::endpoint_set::Member;
use crate::upstream::balance::policy::{RoundRobin, Selectable, hash, highest, least_request, random};
use crate::upstream::balance::upstream::Upstream;
use crate::upstream::error::ForwardError;
use crate::upstream::pick::{Attempt, Outcome, Pick};
use crate::upstream::pool::Pool;
use tollgate_config::{Balance, Ejection, EndpointAddress};

/// Chooses among the endpoints of an upstream for one route on one worker.
pub struct Balancer {
    upstream: Arc<Upstream>,
    balance: Balance,
    ejection: Option<Ejection>,
    use404: bool,
    pool_of: Box<PoolOf>,
    view: RefCell<Rc<View>>,
    rng: RefCell<Rng>,
}

/// Finds the connections to an endpoint.
type PoolOf = dyn Fn(&EndpointAddress) -> Rc<Pool>;

/// A snapshot as this worker sees it: with its connections, and its round_robin.
#[derive(Debug, Default)]
struct View {
    version: u64,
    healthy: Vec<PriorityTier>,
    ejected: Vec<PriorityTier>,
}

/// RouteEndpoints of one priority.
#[derive(Debug)]
struct PriorityTier {
    candidates: Vec<Rc<Candidate>>,
    round_robin: RefCell<RoundRobin>,
}

/// An endpoint that may be chosen.
#[derive(Debug)]
struct Candidate {
    endpoint: Arc<Endpoint>,
    weight: u32,
    pool: Rc<Pool>,
}

/// A request under way to an endpoint.
#[derive(Debug)]
struct InFlight {
    balancer: Rc<Balancer>,
    candidate: Rc<Candidate>,
    context: SelectionContext,
}

/// What a choice is made for.
#[derive(Clone, Debug)]
struct SelectionContext {
    /// Whose request it is, under consistent hashing.
    key: Option<u64>,
    /// Where this attempt has been before.
    tried: Vec<u64>,
    /// Where earlier attempts went.
    attempts: Option<Attempts>,
}

impl Balancer {
    /// A balancer over `upstream` as `settings` say, whose endpoints' connections `pool_of` finds. `use404`: where nobody
    /// lives, the client is told that there is no such thing.
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

    /// An endpoint for `request`: none that an earlier attempt went to, while another lives.
    ///
    /// # Errors
    /// Nobody lives.
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
            .choose(&view.healthy, &context, untried)
            .or_else(|| self.choose(&view.healthy, &context, |_| true))
            .or_else(|| self.choose(&view.ejected, &context, untried))
            .or_else(|| self.choose(&view.ejected, &context, |_| true));
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
        candidate.endpoint.begin();
        let pool = Rc::clone(&candidate.pool);
        Pick { pool, attempt: Some(Box::new(InFlight { balancer: Rc::clone(self), candidate, context })) }
    }

    fn choose(
        &self,
        tiers: &[PriorityTier],
        context: &SelectionContext,
        may: impl Fn(&Rc<Candidate>) -> bool,
    ) -> Option<Rc<Candidate>> {
        tiers.iter().find_map(|tier| {
            let candidates = &tier.candidates;
            let rng = &mut *self.rng.borrow_mut();
            let at = match (&self.balance, context.key) {
                (Balance::LeastRequest, _) => least_request(candidates, &may, rng),
                (Balance::RoundRobin, _) => tier.round_robin.borrow_mut().next(candidates, &may),
                (Balance::ConsistentHash(_), Some(key)) => highest(key, candidates, &may),
                // A request without a key is as good anywhere.
                (Balance::ConsistentHash(_), None) | (Balance::Random, _) => random(candidates, &may, rng),
            };
            at.map(|at| Rc::clone(&candidates[at]))
        })
    }

    /// The latest snapshot as this worker sees it.
    fn view(&self) -> Rc<View> {
        // Read before the snapshot, so that at worst a newer one is looked at twice.
        let version = self.upstream.version();
        let mut view = self.view.borrow_mut();
        if view.version != version {
            let snapshot = self.upstream.snapshot();
            let tiers = |tiers: &[Vec<Member>]| tiers.iter().map(|members| self.tier(members)).collect();
            let (healthy, ejected) = (tiers(&snapshot.healthy), tiers(&snapshot.ejected));
            *view = Rc::new(View { version, healthy, ejected });
        }
        Rc::clone(&view)
    }

    fn tier(&self, members: &[Member]) -> PriorityTier {
        let candidate = |member: &Member| {
            let endpoint = Arc::clone(&member.endpoint);
            let pool = (self.pool_of)(endpoint.address());
            Rc::new(Candidate { endpoint, weight: member.weight, pool })
        };
        let first = self.rng.borrow_mut().usize(..members.len().max(1));
        let round_robin = RefCell::new(RoundRobin::starting(members.len(), first));
        PriorityTier { candidates: members.iter().map(candidate).collect(), round_robin }
    }
}

impl SelectionContext {
    fn has_tried(&self, candidate: &Rc<Candidate>) -> bool {
        let identity = candidate.identity();
        self.tried.contains(&identity) || self.attempts.as_ref().is_some_and(|attempts| attempts.tried(identity))
    }
}

impl Attempt for InFlight {
    fn report(&self, outcome: Outcome) {
        let Some(ejection) = &self.balancer.ejection else { return };
        let endpoint = &self.candidate.endpoint;
        match outcome {
            Outcome::NotTheEndpoint => {}
            Outcome::Response(status) if !ejection.statuses.contains(&status) => endpoint.succeed(),
            Outcome::Response(_) | Outcome::ConnectFailed | Outcome::Disconnected | Outcome::TimedOut => {
                // Again after as many failures where it could not be ejected, and not at each of them.
                if endpoint.fail().is_multiple_of(ejection.consecutive_failures.get()) {
                    self.balancer.upstream.eject(endpoint, ejection);
                }
            }
        }
    }

    fn another(&self) -> Option<Pick> {
        let mut context = self.context.clone();
        context.tried.push(self.candidate.identity());
        let view = self.balancer.view();
        let untried = |candidate: &Rc<Candidate>| !context.has_tried(candidate);
        let candidate = self.balancer.choose(&view.healthy, &context, untried);
        let candidate = candidate.or_else(|| self.balancer.choose(&view.ejected, &context, untried));
        Some(self.balancer.start(candidate?, context))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.candidate.endpoint.end();
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
