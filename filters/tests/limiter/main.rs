//! The limiter against a real redis-server of the tests' own.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod calendar;
mod cluster;
mod concurrency;
mod concurrency_script;
mod conservation;
mod faults;
mod gathered;
mod keys;
mod leaky;
mod lists;
mod locked;
mod metering;
mod metering_script;
mod model;
mod outages;
mod pacing;
mod pictures;
mod quota;
mod round_trips;
mod script;
mod scripts;
mod sentinel;
mod spring;
mod store;
mod support;
#[cfg(feature = "redis-tls")]
mod tls;
mod trace;
mod watching;
mod windows;
