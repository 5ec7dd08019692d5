//! Chooses among the endpoints of an upstream (`lb://orders`), and knows which of them live.
//!
//! ```text
//! process' thread                                              each worker
//! UpstreamManager ── discovery: DNS ─┐                                  Balancer ── policy ── Pick ── outcome
//!        ── health checks ──┼─▸ Upstream: EndpointSet ─▸ Snapshot ─▸                                │
//!        ── ends of ejections ◂─┘        ▴──────────────── failures in a row ────────────────┘
//! ```
//!
//! What is known of endpoints (`roster.rs`) is changed under a lock, seldom; each change is published as a
//! `Snapshot`, of which a worker keeps its own view until there is a newer one. So choosing an endpoint takes no lock
//! and reads no clock. All of it lives as long as the process: a reload keeps what is known of an endpoint that stays.

mod balancer;
mod discovery;
mod endpoint;
mod endpoint_set;
mod health;
mod manager;
pub mod policy;
mod upstream;

pub use self::balancer::Balancer;
pub use self::endpoint::{Endpoint, origin};
pub use self::endpoint_set::EndpointState;
pub use self::manager::UpstreamManager;
pub use self::upstream::{Upstream, UpstreamStats, Upstreams};
