//! Load balancing: selects among the endpoints of an upstream (`lb://orders`) and tracks their health.
//!
//! ```text
//! process' thread                                            each worker
//! UpstreamManager ── discovery: DNS ─┐                       Balancer ── policy ── Pick ── Outcome
//!                 ── registries ─────┤
//!                 ── health checks ──┼─▸ Upstream ─▸ Snapshot ─▸                           │
//!                 ── end of ejections ─┘     ▴────────── consecutive failures ─────────────┘
//! ```
//!
//! Endpoint states ([`EndpointState`]) change rarely and under a lock. Each change publishes a `Snapshot`, and a worker
//! keeps its own view of it until a newer one exists. So selecting an endpoint takes no lock and reads no clock. The
//! state lives as long as the process: a reload keeps the state of an endpoint that remains.

mod balancer;
mod dns;
mod endpoint;
mod endpoint_reports;
mod endpoint_set;
mod health;
mod located_services;
mod manager;
pub mod policy;
mod upstream;

pub use self::balancer::{BalancedAttempt, Balancer};
pub use self::endpoint::{AttemptFailure, Endpoint, endpoint_origin};
pub use self::endpoint_reports::{EndpointStatus, ReportedState};
pub use self::endpoint_set::{DrainError, EndpointState};
pub use self::manager::UpstreamManager;
pub use self::upstream::{RegistrySource, Upstream, UpstreamStats, Upstreams};
