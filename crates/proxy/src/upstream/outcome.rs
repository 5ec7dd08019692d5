//! Results of requests, as endpoints are judged by them.

use std::fmt::{self, Display, Formatter};

use http::StatusCode;

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
