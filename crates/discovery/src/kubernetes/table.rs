//! EndpointSlices of all watched namespaces, by service.

use std::collections::{BTreeMap, BTreeSet};

use crate::Instance;
use crate::kubernetes::read::{EndpointSlice, SliceEndpoint, SliceKey};

/// EndpointSlices by namespace and name.
#[derive(Debug, Default)]
pub(super) struct SliceTable {
    slices: BTreeMap<SliceKey, EndpointSlice>,
    /// Slices by service.
    by_service: BTreeMap<String, BTreeSet<SliceKey>>,
}

impl SliceTable {
    /// Replaces all slices of a namespace, or of all if it is empty.
    pub(super) fn replace(&mut self, namespace: &str, slices: Vec<(SliceKey, EndpointSlice)>) {
        let of_namespace = |key: &&SliceKey| namespace.is_empty() || key.0 == namespace;
        let before: Vec<SliceKey> = self.slices.keys().filter(of_namespace).cloned().collect();
        before.iter().for_each(|key| drop(self.remove(key)));
        for (key, slice) in slices {
            self.insert(key, slice);
        }
    }

    /// Adds or changes a slice. Returns the services that this concerns.
    pub(super) fn insert(&mut self, key: SliceKey, slice: EndpointSlice) -> Vec<String> {
        let mut services = vec![slice.service.clone()];
        if let Some(before) = self.remove(&key)
            && before != slice.service
        {
            services.push(before);
        }
        self.by_service.entry(slice.service.clone()).or_default().insert(key.clone());
        self.slices.insert(key, slice);
        services
    }

    /// Removes a slice. Returns its service.
    pub(super) fn remove(&mut self, key: &SliceKey) -> Option<String> {
        let slice = self.slices.remove(key)?;
        if let Some(keys) = self.by_service.get_mut(&slice.service) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_service.remove(&slice.service);
            }
        }
        Some(slice.service)
    }

    /// Returns the number of slices.
    pub(super) fn len(&self) -> usize {
        self.slices.len()
    }

    /// Returns the names of all services.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.by_service.keys().filter(|name| !name.is_empty()).cloned()
    }

    /// Returns the instances of a service: those that are ready; if none is, those that serve while they terminate, as
    /// kube-proxy does; all with `not_ready`. A service with two address families is called over IPv4.
    pub(super) fn instances(&self, service: &str, not_ready: bool) -> Vec<Instance> {
        let service = service.to_lowercase();
        let keys = self.by_service.get(&service).into_iter().flatten();
        let slices: Vec<&EndpointSlice> = keys.filter_map(|key| self.slices.get(key)).collect();
        let of = |is_used: &dyn Fn(&SliceEndpoint) -> bool| {
            let chosen = |is_ipv4: bool| {
                let slices = slices.iter().filter(move |slice| slice.is_ipv4 == is_ipv4);
                let used = slices.flat_map(|slice| &slice.endpoints).filter(|endpoint| is_used(endpoint));
                used.map(|endpoint| endpoint.instance.clone()).collect::<Vec<_>>()
            };
            let ipv4 = chosen(true);
            if ipv4.is_empty() { chosen(false) } else { ipv4 }
        };
        let mut instances = of(&|endpoint| not_ready || endpoint.is_ready);
        if instances.is_empty() {
            instances = of(&|endpoint| endpoint.is_last_resort);
        }
        // An endpoint may be in two slices while it moves from one to the other.
        let mut seen = BTreeSet::new();
        instances.retain(|instance| seen.insert((instance.address.host.clone(), instance.address.port)));
        instances
    }
}
