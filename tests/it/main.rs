//! The gateway as a process, over real sockets, with real upstreams and real redis-servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub, missing_docs, dead_code)]

mod bodies;
mod forwarding;
mod http2;
mod limiting;
mod malformed;
mod paths;
mod readme;
mod streaming;
mod support;
mod timeouts;
mod tunnels;
mod upstreams;
