//! The limiter against a real redis-server that the tests start.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod batching;
mod calendar;
mod changed_windows;
mod changes;
mod cluster;
mod coalescing;
mod concurrency;
mod concurrency_script;
mod connect;
mod conservation;
mod denials;
mod faults;
mod foreign_values;
mod grains;
mod hash_fields;
mod hostile_states;
mod idle;
mod keys;
mod late_costs;
mod late_turns;
mod leaky;
mod lease_changes;
mod leases;
mod lists;
mod lock;
mod lock_contention;
mod log_entries;
mod metering;
mod metering_script;
mod model;
mod monitor;
mod outages;
mod permissions;
mod prefix;
mod quota;
mod quota_calendars;
mod round_trips;
mod script;
mod scripts;
mod sentinel;
mod spring;
mod staged;
mod store;
mod support;
#[cfg(feature = "redis-tls")]
mod tls;
mod trace;
mod urls;
mod waiting;
mod wall_clock;
mod windows;
mod without_script;
