//! The path of a request through the gateway, and what it shares with other requests.
//!
//! The life of a request, in the order of the code:
//!
//! 1. [`server`] accepts the connection on one of the workers, detects TLS and HTTP/2, and reads the request head.
//! 2. [`gateway::Gateway`] handles the request. [`gateway::sanitize`](mod@gateway::sanitize) refuses malformed and
//!    ambiguous requests and normalizes the others; the route table of the current [`gateway::Generation`] finds the
//!    route.
//! 3. The route's layers run, stacked by [`gateway::stack`]: CORS, header and path edits, `RequestRateLimiter`, …
//!    Each is a tower layer of the `tollgate-filters` crate. A denied request ends here with its response.
//! 4. [`upstream`] picks an endpoint, sends the request over a pooled connection, and streams the response back through
//!    the same layers.
//! 5. When the last byte has been sent, [`instrumentation::record`] counts the request and writes its access-log line.
//!
//! [`worker`] is the thread on which all of it happens. [`state`] holds limits, breakers and caches across reloads.
//! Modules import in one direction: `worker` → `gateway` and `server`; `gateway` → `instrumentation`, `upstream` and
//! `state` → `http`. ARCHITECTURE.md lists all arrows.

pub mod gateway;
pub mod http;
pub mod instrumentation;
pub mod server;
pub mod state;
pub mod upstream;
pub mod worker;
