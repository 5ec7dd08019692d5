//! Admin port: health, metrics, routes and limits, on a listener of its own.
//!
//! A request is checked for its host, finds its endpoint in the table of `api`, is authorized by `access`, and only
//! then does the endpoint's work. On a loopback address, the default, and on the Unix socket no token is needed.

mod access;
mod admin_state;
mod api;
mod breakers;
mod config_state;
mod connection_slots;
mod dashboard;
mod events;
mod explain;
mod guard;
mod health;
mod keys;
mod limits;
mod log_level;
mod metrics;
pub mod on_traffic;
mod reply;
mod request;
mod respond;
mod routes;
pub mod serve;
pub mod socket;
mod top;
mod upstreams;

pub use self::access::port_needs_identity;
pub use self::admin_state::{AdminState, ReloadError, ReloadRequests, ReloadResult};
pub use self::config_state::ConfigState;
