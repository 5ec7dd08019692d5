//! Stand-ins for service registries, written from their published HTTP APIs.

mod consul;
mod eureka;
mod http;
mod kubernetes;
mod nacos;
mod request;

pub use consul::ConsulServer;
pub use eureka::EurekaServer;
pub use http::Fault;
pub use kubernetes::{KubernetesServer, Pod};
pub use nacos::NacosServer;
pub use request::Request;
