//! Chooses among the endpoints of an upstream (`lb://orders`), and knows which of them live.
//!
//! ```text
//! process' thread                                              each worker
//! Keeper ── discovery: DNS ─┐                                  Balancer ── policy ── Pick ── outcome
//!        ── health checks ──┼─▸ Upstream: Roster ─▸ Snapshot ─▸                                │
//!        ── ends of ejections ◂─┘        ▴──────────────── failures in a row ────────────────┘
//! ```
//!
//! What is known of endpoints (`roster.rs`) is changed under a lock, seldom; each change is published as a
//! `Snapshot`, of which a worker keeps its own view until there is a newer one. So choosing an endpoint takes no lock
//! and reads no clock. All of it lives as long as the process: a reload keeps what is known of an endpoint that stays.

mod balancer;
mod discovery;
mod endpoint;
mod health;
mod keeper;
pub mod policy;
mod roster;
mod upstream;

pub use self::balancer::Balancer;
pub use self::endpoint::{Endpoint, origin};
pub use self::keeper::Keeper;
pub use self::roster::State;
pub use self::upstream::{Upstream, UpstreamStats, Upstreams};
