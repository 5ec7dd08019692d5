//! Upstreams: connection pools, load balancing, TLS, and forwarding of requests.
//!
//! [`forward::Forward`] sends a request to an endpoint of its route. [`endpoints`] and [`balance`] select the endpoint,
//! [`pool`] keeps its connections. [`headers`] and [`forwarded`] decide which fields pass.

pub mod balance;
mod body;
mod call;
pub mod echo;
pub mod endpoints;
pub mod error;
mod exchange;
pub mod forward;
pub mod forwarded;
pub mod headers;
mod incoming;
mod interim;
pub mod origin;
pub mod pick;
pub mod pool;
pub mod pools;
pub mod proxy;
mod request;
pub mod times;
mod upgrade;
