//! Readers of the responses of all registries, by the first byte of an input: the fuzz target `registry_reply`.

use crate::eureka::applications::{Applications, EurekaTable};
use crate::{Instance, consul, kubernetes, nacos};
use tollgate_config::Kubernetes;

/// Reads `body` as the response that `kind` selects. Returns the instances that it lists; `None` if it is refused, or if
/// this kind of response has no instances.
pub fn read(kind: u8, body: &[u8]) -> Option<Vec<Instance>> {
    match kind % 8 {
        0 => consul::read::instances(body, "orders", "zone").ok().map(|listed| listed.instances),
        1 => consul::read::names(body).ok().map(|_| Vec::new()),
        2 => {
            let applications = Applications::read(body).ok()?;
            let names: Vec<String> =
                applications.entries.iter().flat_map(|entry| entry.names()).map(str::to_owned).collect();
            let table = EurekaTable::of(applications).ok()?;
            Some(names.iter().flat_map(|name| table.instances(name, false)).collect())
        }
        3 => nacos::read::instances(body, "orders", "").ok().map(|listed| listed.instances),
        4 => nacos::read::names(body).ok().map(|_| Vec::new()),
        5 => nacos::read::token(body).ok().map(|_| Vec::new()),
        6 => {
            let page = kubernetes::read::page(body, &Kubernetes::default()).ok()?;
            let endpoints = page.slices.into_iter().flat_map(|(_, slice)| slice.endpoints);
            Some(endpoints.map(|endpoint| endpoint.instance).collect())
        }
        _ => match kubernetes::read::event(body, &Kubernetes::default()).ok()? {
            kubernetes::read::Event::Changed(_, _, slice) => {
                Some(slice.endpoints.into_iter().map(|endpoint| endpoint.instance).collect())
            }
            _ => Some(Vec::new()),
        },
    }
}
