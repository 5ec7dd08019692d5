//! The limiter against a real redis-server of the tests' own.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod batches;
mod calendar;
mod cluster;
mod concurrency;
mod concurrency_script;
mod conservation;
mod denials;
mod faults;
mod gathered;
mod keys;
mod leaky;
mod leases;
mod lists;
mod locked;
mod logins;
mod metering;
mod metering_script;
mod model;
mod outages;
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
