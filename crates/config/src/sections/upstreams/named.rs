//! Upstreams of a file by name.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::diagnostics::Diagnostics;
use crate::sections::upstreams::Upstream;
use crate::sections::upstreams::discovered::Discovered;
use crate::yaml::Span;

/// Upstreams of a file, and those of the registries that its routes name.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Upstreams of the file; `None` for one with errors, which are reported.
    listed: BTreeMap<String, Option<Arc<Upstream>>>,
    /// Names in `listed` by their lower-case form; of several, the first.
    by_lower_case: HashMap<String, String>,
    /// Settings of services in registries; `None` without a registry.
    services: Option<Discovered>,
    /// Services that routes name.
    discovered: RefCell<BTreeMap<String, Arc<Upstream>>>,
}

impl Named {
    pub(super) fn new(listed: BTreeMap<String, Option<Arc<Upstream>>>, services: Option<Discovered>) -> Self {
        let mut by_lower_case = HashMap::new();
        for name in listed.keys() {
            by_lower_case.entry(name.to_ascii_lowercase()).or_insert_with(|| name.clone());
        }
        Self { listed, by_lower_case, services, discovered: RefCell::default() }
    }

    /// Returns the upstream of the file with that name, in any case.
    pub(super) fn get(&self, name: &str) -> Option<&Option<Arc<Upstream>>> {
        let alike = || self.listed.get(self.by_lower_case.get(&name.to_ascii_lowercase())?);
        self.listed.get(name).or_else(alike)
    }

    /// Returns the names of the upstreams of the file.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.keys().map(String::as_str)
    }

    /// Returns true if a name may come from a registry.
    pub(super) fn has_registry(&self) -> bool {
        self.services.is_some()
    }

    /// Returns the upstream of the service `name` in a registry. Reports a name that no registry can have.
    pub(super) fn discover(&self, name: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<Arc<Upstream>> {
        let mut discovered = self.discovered.borrow_mut();
        if let Some(known) = discovered.get(name) {
            return Some(Arc::clone(known));
        }
        let upstream = Arc::new(self.services.as_ref()?.upstream(name, at, diagnostics)?);
        discovered.insert(name.to_owned(), Arc::clone(&upstream));
        Some(upstream)
    }

    /// Returns all upstreams without errors.
    pub(crate) fn into_all(self) -> Vec<Arc<Upstream>> {
        self.listed.into_values().flatten().chain(self.discovered.into_inner().into_values()).collect()
    }
}
