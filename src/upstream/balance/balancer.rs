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
use crate::upstream::balance::policy::{Candidate, Turns, hash, highest, least_request, random};
use crate::upstream::balance::roster::Member;
use crate::upstream::balance::upstream::Upstream;
use crate::upstream::endpoints::{Outcome, Pick, Watcher};
use crate::upstream::error::ForwardError;
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

/// A snapshot as this worker sees it: with its connections, and its turns.
#[derive(Debug, Default)]
struct View {
    version: u64,
    living: Vec<Rank>,
    suspects: Vec<Rank>,
}

/// Endpoints of one priority.
#[derive(Debug)]
struct Rank {
    seats: Vec<Rc<Seat>>,
    turns: RefCell<Turns>,
}

/// An endpoint that may be chosen.
#[derive(Debug)]
struct Seat {
    endpoint: Arc<Endpoint>,
    weight: u32,
    pool: Rc<Pool>,
}

/// A request under way to an endpoint.
#[derive(Debug)]
struct Flight {
    balancer: Rc<Balancer>,
    seat: Rc<Seat>,
    errand: Errand,
}

/// What a choice is made for.
#[derive(Clone, Debug)]
struct Errand {
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
        let errand = Errand { key, tried: Vec::new(), attempts: request.extensions().get::<Attempts>().cloned() };
        let view = self.view();
        let untried = |seat: &Rc<Seat>| !errand.was_at(seat);
        let seat = self
            .choose(&view.living, &errand, untried)
            .or_else(|| self.choose(&view.living, &errand, |_| true))
            .or_else(|| self.choose(&view.suspects, &errand, untried))
            .or_else(|| self.choose(&view.suspects, &errand, |_| true));
        match seat {
            Some(seat) => Ok(self.flight(seat, errand)),
            None => {
                self.upstream.stats().unavailable.fetch_add(1, Relaxed);
                Err(ForwardError::NoEndpoint { as_not_found: self.use404 })
            }
        }
    }

    fn flight(self: &Rc<Self>, seat: Rc<Seat>, errand: Errand) -> Pick {
        if let Some(attempts) = &errand.attempts {
            attempts.note(seat.identity());
        }
        seat.endpoint.begin();
        let pool = Rc::clone(&seat.pool);
        Pick { pool, watcher: Some(Box::new(Flight { balancer: Rc::clone(self), seat, errand })) }
    }

    fn choose(&self, ranks: &[Rank], errand: &Errand, may: impl Fn(&Rc<Seat>) -> bool) -> Option<Rc<Seat>> {
        ranks.iter().find_map(|rank| {
            let seats = &rank.seats;
            let rng = &mut *self.rng.borrow_mut();
            let at = match (&self.balance, errand.key) {
                (Balance::LeastRequest, _) => least_request(seats, &may, rng),
                (Balance::RoundRobin, _) => rank.turns.borrow_mut().next(seats, &may),
                (Balance::ConsistentHash(_), Some(key)) => highest(key, seats, &may),
                // A request without a key is as good anywhere.
                (Balance::ConsistentHash(_), None) | (Balance::Random, _) => random(seats, &may, rng),
            };
            at.map(|at| Rc::clone(&seats[at]))
        })
    }

    /// The latest snapshot as this worker sees it.
    fn view(&self) -> Rc<View> {
        // Read before the snapshot, so that at worst a newer one is looked at twice.
        let version = self.upstream.version();
        let mut view = self.view.borrow_mut();
        if view.version != version {
            let snapshot = self.upstream.snapshot();
            let ranks = |ranks: &[Vec<Member>]| ranks.iter().map(|members| self.rank(members)).collect();
            let (living, suspects) = (ranks(&snapshot.living), ranks(&snapshot.suspects));
            *view = Rc::new(View { version, living, suspects });
        }
        Rc::clone(&view)
    }

    fn rank(&self, members: &[Member]) -> Rank {
        let seat = |member: &Member| {
            let endpoint = Arc::clone(&member.endpoint);
            let pool = (self.pool_of)(endpoint.address());
            Rc::new(Seat { endpoint, weight: member.weight, pool })
        };
        let first = self.rng.borrow_mut().usize(..members.len().max(1));
        let turns = RefCell::new(Turns::starting(members.len(), first));
        Rank { seats: members.iter().map(seat).collect(), turns }
    }
}

impl Errand {
    fn was_at(&self, seat: &Rc<Seat>) -> bool {
        let identity = seat.identity();
        self.tried.contains(&identity) || self.attempts.as_ref().is_some_and(|attempts| attempts.tried(identity))
    }
}

impl Watcher for Flight {
    fn observe(&self, outcome: Outcome) {
        let Some(ejection) = &self.balancer.ejection else { return };
        let endpoint = &self.seat.endpoint;
        match outcome {
            Outcome::Unblamed => {}
            Outcome::Answered(status) if !ejection.statuses.contains(&status) => endpoint.succeed(),
            Outcome::Answered(_) | Outcome::ConnectFailed | Outcome::BrokeOff | Outcome::TimedOut => {
                // Again after as many failures where it could not be ejected, and not at each of them.
                if endpoint.fail().is_multiple_of(ejection.consecutive_failures.get()) {
                    self.balancer.upstream.eject(endpoint, ejection);
                }
            }
        }
    }

    fn another(&self) -> Option<Pick> {
        let mut errand = self.errand.clone();
        errand.tried.push(self.seat.identity());
        let view = self.balancer.view();
        let untried = |seat: &Rc<Seat>| !errand.was_at(seat);
        let seat = self.balancer.choose(&view.living, &errand, untried);
        let seat = seat.or_else(|| self.balancer.choose(&view.suspects, &errand, untried));
        Some(self.balancer.flight(seat?, errand))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.seat.endpoint.end();
    }
}

impl Candidate for Rc<Seat> {
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
