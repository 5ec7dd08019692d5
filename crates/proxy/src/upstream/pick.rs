//! Endpoint selected for one request.

use std::fmt::Debug;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use crate::upstream::error::ForwardError;
use crate::upstream::outcome::Outcome;
use crate::upstream::pool::{Connection, Pool};

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
    /// Reports the result as soon as it is known, and again if the response body ends early. `error` describes a failure.
    fn report(&self, outcome: Outcome, error: Option<&ForwardError>);

    /// Selects another endpoint for the same request, to which no attempt has gone yet; `None` if there is none.
    fn another(&self) -> Option<Pick>;

    /// Waits until the endpoint leaves the list of its upstream.
    fn removed(&self) -> Pin<Box<dyn Future<Output = ()> + '_>>;
}

impl Pick {
    /// Reports the result of the request.
    pub fn report(&self, outcome: Outcome) {
        if let Some(attempt) = &self.attempt {
            attempt.report(outcome, None);
        }
    }

    /// Reports the failure of the request.
    pub(super) fn report_failure(&self, outcome: Outcome, error: &ForwardError) {
        if let Some(attempt) = &self.attempt {
            attempt.report(outcome, Some(error));
        }
    }

    /// Establishes a connection, or waits for one. See [`Pool::connect`].
    ///
    /// # Errors
    /// There is no connection in time, or the endpoint leaves the list of its upstream meanwhile: the request must not
    /// reach it later.
    pub(super) async fn connect(&self, timeout: Duration, upgrades: bool) -> Result<Box<Connection>, ForwardError> {
        let removed = async {
            match &self.attempt {
                Some(attempt) => attempt.removed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = removed => Err(ForwardError::NoEndpoint { as_not_found: false }),
            connected = self.pool.connect(timeout, upgrades) => Ok(connected?),
        }
    }

    /// Selects another endpoint for the same request, if there is one.
    #[must_use]
    pub fn another(&self) -> Option<Self> {
        self.attempt.as_ref()?.another()
    }
}
