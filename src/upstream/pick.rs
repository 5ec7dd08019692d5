//! Which of a route's servers a request goes to, and who is told what became of it.

use std::fmt::Debug;
use std::rc::Rc;

use http::{Request, StatusCode};

use crate::upstream::balance::Balancer;
use crate::upstream::error::ForwardError;
use crate::upstream::pool::Pool;

/// The servers of a route.
#[derive(Clone, Debug)]
pub enum RouteEndpoints {
    /// One: nothing to choose.
    Single(Rc<Pool>),
    /// Those of an upstream.
    Balanced(Rc<Balancer>),
}

/// A server that was chosen for one request.
#[derive(Debug)]
pub struct Pick {
    /// Its connections.
    pub pool: Rc<Pool>,
    /// Who wants to know how it went, if anybody.
    pub attempt: Option<Box<dyn Attempt>>,
}

/// Whoever chose an endpoint, for as long as the request is there: dropped when the answer's body has ended, when its
/// tunnel has closed, or when there will be no answer from there.
pub trait Attempt: Debug {
    /// What became of the request, as soon as it is known; once more where the answer's body breaks off.
    fn report(&self, outcome: Outcome);

    /// Another endpoint for the same request, which none of its attempts went to yet; `None` where there is none.
    fn another(&self) -> Option<Pick>;
}

/// What became of a request at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It answered so.
    Response(StatusCode),
    /// There was no connection to be had.
    ConnectFailed,
    /// The connection ended, or what came over it was no answer.
    Disconnected,
    /// The answer, or the next piece of its body, did not come in time.
    TimedOut,
    /// Nothing that the endpoint could be blamed for: the client left or sent an unusable body.
    NotTheEndpoint,
}

impl RouteEndpoints {
    /// Chooses a server for the request.
    ///
    /// # Errors
    /// There is none that could serve it.
    pub fn pick<B>(&self, request: &Request<B>) -> Result<Pick, ForwardError> {
        match self {
            Self::Single(pool) => Ok(Pick { pool: Rc::clone(pool), attempt: None }),
            Self::Balanced(balancer) => balancer.pick(request),
        }
    }
}

impl Pick {
    /// Tells whoever wants to know what became of the request.
    pub fn report(&self, outcome: Outcome) {
        if let Some(attempt) = &self.attempt {
            attempt.report(outcome);
        }
    }

    /// Another server for the same request, where there is one.
    #[must_use]
    pub fn another(&self) -> Option<Self> {
        self.attempt.as_ref()?.another()
    }
}
