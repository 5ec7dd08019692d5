//! Nacos: a lookup of each service at an interval, by the HTTP API of 1.x to 3.x.
//!
//! The first request uses the API of 3.x. A server without it responds with 404; further requests then use the API of 1.x,
//! which 2.x also has.

mod client;
pub(super) mod read;

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use http::Method;
use tokio::time::sleep;

pub(crate) use self::client::{ApiEndpoint, ApiRequest, NacosClient};
use crate::client::{RegistryError, Reply, retry_after};
use crate::names::NamesSink;
use crate::service::InstanceSink;
use crate::status::RegistryStatus;
use crate::{Instance, Registry};
use tollgate_transport::executor::OwnedTask;

/// Names of services in one response.
const PAGE: usize = 500;
/// Maximum number of responses with names of services.
const MAX_PAGES: usize = 20;

/// Registry whose services are looked up in Nacos.
#[derive(Debug)]
pub(super) struct NacosRegistry(pub(super) Rc<NacosClient>);

impl Registry for NacosRegistry {
    fn status(&self) -> &Arc<RegistryStatus> {
        &self.0.status
    }

    fn watch(&self, name: &str, sink: InstanceSink) -> Box<dyn Any> {
        let (client, name) = (Rc::clone(&self.0), name.to_owned());
        Box::new(OwnedTask::start(async move {
            poll(&client, &name, async || client.instances(&name).await, |instances| sink.publish(instances)).await;
        }))
    }

    fn watch_names(&self, sink: NamesSink) -> Box<dyn Any> {
        let client = Rc::clone(&self.0);
        Box::new(OwnedTask::start(async move {
            poll(&client, "services", async || client.names().await, |names| sink.publish(names)).await;
        }))
    }
}

/// Publishes the result of `request` at the interval of lookups, and retries failed ones. `subject` names it in the log.
async fn poll<T>(
    client: &NacosClient,
    subject: &str,
    request: impl AsyncFn() -> Result<T, RegistryError>,
    publish: impl Fn(T),
) {
    let interval = client.settings.discovery.poll_interval.get();
    let mut failures = 0;
    loop {
        let pause = match request().await {
            Ok(reply) => {
                client.status.succeed();
                publish(reply);
                failures = 0;
                // Spreads the lookups of a thousand services.
                interval.mul_f64(0.9 + 0.1 * fastrand::f64())
            }
            Err(error) => {
                client.status.fail(subject, &error);
                failures += 1;
                retry_after(failures - 1).min(interval)
            }
        };
        sleep(pause).await;
    }
}

impl NacosClient {
    /// Returns the names of all services of the group.
    async fn names(&self) -> Result<Vec<String>, RegistryError> {
        let size = PAGE.to_string();
        let mut names = Vec::new();
        for page in 1..=MAX_PAGES {
            let page = page.to_string();
            let parameters =
                |group| [("pageNo", page.as_str()), ("pageSize", &size), (group, self.settings.discovery.group())];
            let v3 = ApiEndpoint { path: "/v3/admin/ns/service/list", parameters: &parameters("groupNameParam") };
            let v1 = ApiEndpoint { path: "/v1/ns/service/list", parameters: &parameters("groupName") };
            let request = ApiRequest { method: Method::GET, v3, v1 };
            let (count, mut page) = self.request(&request, |reply| Ok(read::names(&reply.ok()?)?)).await?;
            let is_last = page.is_empty();
            names.append(&mut page);
            if is_last || names.len() >= count {
                break;
            }
        }
        Ok(names)
    }

    /// Returns the instances of the service `name`.
    async fn instances(&self, name: &str) -> Result<Vec<Instance>, RegistryError> {
        let discovery = &self.settings.discovery;
        let (group, clusters) = (discovery.group(), discovery.clusters.as_str());
        let parameters = |clusters_name| {
            [("serviceName", name), ("groupName", group), (clusters_name, clusters), ("healthyOnly", "false")]
        };
        let v3 = ApiEndpoint { path: "/v3/client/ns/instance/list", parameters: &parameters("clusterName") };
        let v1 = ApiEndpoint { path: "/v1/ns/instance/list", parameters: &parameters("clusters") };
        let read = |reply: Reply| Ok(read::instances(&reply.ok()?, name, clusters)?);
        let listed = self.request(&ApiRequest { method: Method::GET, v3, v1 }, read).await?;
        self.status.ignore(name, listed.ignored);
        Ok(listed.instances)
    }
}
