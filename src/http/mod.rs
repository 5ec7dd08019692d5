//! HTTP types that every other room builds on: bodies, boxed services, failures, upgrades and deadlines.
//!
//! Nothing here imports another room of this crate. A room above hands its part in through a trait: the server its
//! connections ([`busy::BusyCount`], [`upgrade::TunnelHost`]), the upstream its response bodies
//! ([`body::Body::boxed`]).

pub mod body;
pub mod busy;
pub mod deadline;
pub mod executor;
pub mod failure;
pub mod fields;
pub mod handler;
pub mod service;
pub mod upgrade;
