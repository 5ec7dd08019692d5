//! Stand-ins for service registries, written from their published HTTP APIs.

mod consul;
mod eureka;
mod http;
mod kubernetes;
mod nacos;

pub use consul::ConsulServer;
pub use eureka::EurekaServer;
pub use http::{Fault, Request};
pub use kubernetes::{KubernetesServer, Pod};
pub use nacos::NacosServer;
