//! Endpoints of a route.

use std::rc::Rc;

use http::Request;

use crate::upstream::balance::Balancer;
use crate::upstream::error::ForwardError;
use crate::upstream::pick::Pick;
use crate::upstream::pool::Pool;

/// Endpoints of a route.
#[derive(Clone, Debug)]
pub enum RouteEndpoints {
    /// None: a filter names the target of each request.
    None,
    /// One endpoint.
    Single(Rc<Pool>),
    /// Endpoints of a load-balanced upstream.
    Balanced(Rc<Balancer>),
}

impl RouteEndpoints {
    /// Selects an endpoint for the request.
    ///
    /// # Errors
    /// No endpoint can take it.
    pub fn pick<B>(&self, request: &Request<B>) -> Result<Pick, ForwardError> {
        match self {
            Self::None => Err(ForwardError::BadTarget),
            Self::Single(pool) => Ok(Pick { pool: Rc::clone(pool), attempt: None }),
            Self::Balanced(balancer) => balancer.pick(request),
        }
    }
}
