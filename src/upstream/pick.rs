//! Endpoint selected for one request.

use std::fmt::Debug;
use std::rc::Rc;

use crate::upstream::outcome::Outcome;
use crate::upstream::pool::Pool;

/// Endpoint selected for one request.
#[derive(Debug)]
pub struct Pick {
    /// Connections to the endpoint.
    pub pool: Rc<Pool>,
    /// Attempt to report to; `None` if the route has a single endpoint.
    pub attempt: Option<Box<dyn Attempt>>,
}

/// Attempt of a request at a balanced endpoint.
///
/// It is dropped when the response body has ended, when the tunnel has closed, or when no response will come.
pub trait Attempt: Debug {
    /// Reports the result as soon as it is known, and again if the response body ends early.
    fn report(&self, outcome: Outcome);

    /// Selects another endpoint for the same request, to which no attempt has gone yet; `None` if there is none.
    fn another(&self) -> Option<Pick>;
}

impl Pick {
    /// Reports the result of the request.
    pub fn report(&self, outcome: Outcome) {
        if let Some(attempt) = &self.attempt {
            attempt.report(outcome);
        }
    }

    /// Selects another endpoint for the same request, if there is one.
    #[must_use]
    pub fn another(&self) -> Option<Self> {
        self.attempt.as_ref()?.another()
    }
}
