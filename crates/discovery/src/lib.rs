//! Service discovery: endpoints of `lb://NAME` from registries.
//!
//! ```text
//! process' thread                                                       each worker
//! Registry (Consul, …) ─ InstanceSink ─▸ Service ── Follower ─▸ Upstream ─▸ Snapshot ─▸ Balancer
//! ```
//!
//! A `Registry` watches services, each in its own way, and publishes complete lists through an `InstanceSink`. If a file has
//! several registries, the first one that knows instances of a name decides. A registry that fails publishes nothing:
//! the last list stays in use, and [`RegistryStatus`] shows its age.

mod client;
mod consul;
pub mod dns;
mod eureka;
#[cfg(test)]
mod fixtures;
mod instance;
mod kubernetes;
mod lines;
mod nacos;
mod names;
#[cfg(any(test, feature = "fuzzing"))]
pub mod readers;
mod registration;
mod registries;
mod service;
mod status;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

pub use self::instance::Instance;
pub use self::registration::Registrations;
pub use self::registries::{NamesSubscription, Registries};
pub use self::service::{Follower, Subscriptions};
pub use self::status::RegistryStatus;

use self::names::NamesSink;
use self::service::InstanceSink;

/// Service registry.
trait Registry: fmt::Debug {
    /// Returns the state of the connection to the registry.
    fn status(&self) -> &Arc<RegistryStatus>;

    /// Watches the service `name` until the returned value is dropped, on the current set of local tasks. Each list of
    /// its instances goes to `sink`.
    fn watch(&self, name: &str, sink: InstanceSink) -> Box<dyn Any>;

    /// Watches the names of all services until the returned value is dropped.
    fn watch_names(&self, sink: NamesSink) -> Box<dyn Any>;
}
