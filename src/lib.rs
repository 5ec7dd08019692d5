//! Tollgate: a rate-limiting HTTP gateway that reads Spring Cloud Gateway's YAML.
//!
//! The life of a request, in the order of the code:
//!
//! 1. [`server::accept`] takes the connection, on one of the workers; [`server::sniff`] tells HTTP/1.1 from HTTP/2 and
//!    [`server::connection`] serves it.
//! 2. [`gateway::Gateway`] answers each request on it: [`gateway::screen`] refuses what is malformed or ambiguous and
//!    puts the target into its one normal form, [`routing`] finds the route.
//! 3. The route's layers run ([`gateway::stack`]): header and path edits, `RequestRateLimiter`, … Each is a tower
//!    layer of the `tollgate-filters` crate. A denied request goes no further.
//! 4. [`upstream::forward`] sends it over a kept connection and streams the answer back through the same layers.
//! 5. When its last byte has been sent, [`telemetry::record`] counts the request and writes its access-log line.
//!
//! Around it: [`config`] reads the YAML, [`worker`] and [`process`] run it, [`admin`] shows it, [`explain`] says what
//! would become of a request, [`cli`] starts it.

pub mod admin;
pub mod app;
pub mod cli;
pub mod explain;
pub mod gateway;
pub mod http;
pub mod server;
pub mod state;
pub mod telemetry;
pub mod upstream;
