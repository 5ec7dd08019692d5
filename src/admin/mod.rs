//! Admin port: health, metrics, routes and limits, on a listener of its own.
//!
//! A request is checked for its host, finds its endpoint in the table of `api`, is authorized by `access`, and only
//! then does the endpoint's work. On a loopback address, the default, and on the Unix socket no token is needed.

mod access;
mod actuator;
mod api;
mod body;
mod breakers;
mod config_state;
mod connection;
mod connection_slots;
mod dashboard;
mod deadline;
mod events;
mod expires_in;
mod explain;
mod guard;
mod health;
mod limits;
mod metrics;
pub mod on_traffic;
mod peer;
mod query;
mod reply;
mod respond;
mod routes;
mod schema;
pub mod serve;
pub mod socket;
mod state;
mod top;
mod upstreams;

pub use self::config_state::ConfigState;
pub use self::peer::port_needs_identity;
pub use self::state::{AdminState, ReloadError, ReloadRequests, ReloadResult};
