//! Replay of access logs through routes and limiters: `tollgate simulate`.
//!
//! [`input`] reads log lines and orders them by time. [`replay::Replay`] passes each one through the real routes, key
//! resolvers and rules, in front of an upstream that responds at once, on a clock that the log sets. [`report`] holds what
//! the rules would have done. Memory grows with the keys in the log, not with its lines. [`suggest`] measures the same
//! requests for `tollgate suggest`.

mod context;
pub mod gate;
pub mod html;
pub mod input;
mod keys;
mod local_responses;
mod log_facts;
mod log_route;
pub mod replay;
pub mod report;
mod routes;
pub mod run;
mod statistics;
pub mod suggest;
mod text;
