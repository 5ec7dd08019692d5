//! The gateway as a process, over real sockets, with real upstreams and real redis-servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub, missing_docs, dead_code)]
#![allow(clippy::print_stdout)] // measured times

mod access_log;
mod admin;
mod answers;
mod balancing;
mod bodies;
mod bounds;
mod client_connections;
mod concurrency;
mod concurrency_crash;
mod cors;
mod edits;
mod explain;
mod faults;
mod forwarded;
mod forwarding;
mod framing;
mod http2;
mod http2_upstreams;
mod https_upstreams;
#[cfg(feature = "jwt")]
mod jwt;
mod key_resolvers;
mod layers;
mod lifecycle;
mod limiting;
mod limits_api;
mod limits_in_redis;
mod malformed;
mod metering;
mod outage;
mod pacing;
mod paths;
mod policies;
mod predicates;
mod readme;
mod redis_monitor;
mod reload;
mod resilience;
mod response_cache;
mod shares;
mod soak;
mod spring_files;
mod spring_properties;
mod startup;
mod streaming;
mod support;
mod timeouts;
mod tls;
mod tunnels;
mod unread;
mod upstream_pools;
mod upstream_targets;
mod upstreams;
mod without_scripts;
