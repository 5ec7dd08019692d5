//! Endpoint selected for one request, the connection that the request holds, and the result by which the endpoint is judged.

use std::fmt::{self, Display, Formatter};
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;

use crate::upstream::balance::BalancedAttempt;
use crate::upstream::error::ForwardError;
use crate::upstream::pool::{Connection, Pool};

/// Endpoint selected for one request.
#[derive(Debug)]
pub struct Pick {
    /// Connections to the endpoint.
    pub pool: Rc<Pool>,
    /// Attempt to report to; `None` if the route has a single endpoint.
    pub attempt: Option<Box<BalancedAttempt>>,
}

impl Pick {
    /// Reports the result of the request; `error` describes a failure.
    pub fn report(&self, outcome: Outcome, error: Option<&ForwardError>) {
        if let Some(attempt) = &self.attempt {
            attempt.report(outcome, error);
        }
    }

    /// Establishes a connection, or waits for one. See [`Pool::connect`].
    ///
    /// # Errors
    /// There is no connection in time, or the endpoint leaves the list of its upstream meanwhile: the request must not
    /// reach it later.
    pub(super) async fn connect(
        &self,
        connect_timeout: Duration,
        upgrades: bool,
    ) -> Result<Box<Connection>, ForwardError> {
        let removed = async {
            match &self.attempt {
                Some(attempt) => attempt.removed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = removed => Err(ForwardError::NoEndpoint { as_not_found: false }),
            connected = self.pool.connect(connect_timeout, upgrades) => Ok(connected?),
        }
    }

    /// Selects another endpoint for the same request, if there is one.
    #[must_use]
    pub fn another(&self) -> Option<Self> {
        self.attempt.as_ref()?.another()
    }
}

/// Result of a request at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint responded with this status.
    Response(StatusCode),
    /// No connection could be established.
    ConnectFailed,
    /// The connection closed early, or the response was not valid HTTP.
    Disconnected,
    /// The response, or the next part of its body, did not arrive in time.
    TimedOut,
    /// The client disconnected or sent an unusable body: the endpoint is not to blame.
    ClientFailed,
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(status) => write!(f, "status {}", status.as_u16()),
            Self::ConnectFailed => f.write_str("no connection"),
            Self::Disconnected => f.write_str("the connection closed before the end of the response"),
            Self::TimedOut => f.write_str("the response stopped"),
            Self::ClientFailed => f.write_str("the client disconnected"),
        }
    }
}

/// Connection in use by a request. It is closed on drop, unless it was [released](Self::release).
#[derive(Debug)]
pub struct HeldConnection {
    /// Endpoint that the connection belongs to.
    pub pick: Pick,
    /// The connection.
    pub connection: Box<Connection>,
}

impl HeldConnection {
    /// Returns the connection to its pool, after the response has been read to its end. The rest of the request may take
    /// `timeout`.
    pub fn release(self, timeout: Option<Duration>) {
        self.pick.pool.release(self.connection, timeout);
    }
}
