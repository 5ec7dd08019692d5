//! Results of requests, as endpoints are judged by them.

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
