//! Services that the registries of a configuration know, for `discovery.locator`.

use tollgate_config::{Config, Locator, Services};
use tollgate_discovery::{NamesSubscription, Registries, RegistryStatus};

/// Registries of a configuration, with the names of their services if `discovery.locator` needs them.
#[derive(Debug, Default)]
pub(super) struct LocatedServices {
    pub(super) registries: Registries,
    names: Option<NamesSubscription>,
    /// True if `names` has the metadata of instances.
    has_metadata: bool,
}

impl LocatedServices {
    /// Follows the registries of `config` on the current set of local tasks. Connections of `running` are used if its
    /// registries are the same.
    pub(super) fn new(config: &Config, running: &Registries) -> Self {
        let is_same = running.are(&config.registries);
        let registries = if is_same { running.clone() } else { Registries::new(&config.registries) };
        let has_metadata = has_metadata(config);
        let names = config.locator.is_some().then(|| registries.follow_names(has_metadata));
        Self { registries, names, has_metadata }
    }

    /// Returns true if these are what `config` needs.
    pub(super) fn fit(&self, config: &Config) -> bool {
        self.registries.are(&config.registries)
            && self.names.is_some() == config.locator.is_some()
            && (self.names.is_none() || self.has_metadata == has_metadata(config))
    }

    /// Waits until the services have changed. Without `discovery.locator` it waits for ever.
    pub(super) async fn changed(&self) {
        match &self.names {
            Some(names) => names.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the services; `None` before a registry has responded, and without `discovery.locator`.
    pub(super) fn all(&self) -> Option<Services> {
        self.names.as_ref().and_then(NamesSubscription::all)
    }

    /// Returns true before a registry has responded.
    pub(super) fn are_unknown(&self) -> bool {
        self.names.is_some() && self.all().is_none()
    }

    /// Describes the registries with their errors: `eureka http://a:8761/eureka/: connection refused`.
    pub(super) fn describe(&self) -> String {
        let describe = |registry: &RegistryStatus| {
            let error = registry.error().unwrap_or_else(|| "no response yet".to_owned());
            format!("{} {}: {error}", registry.kind(), registry.server())
        };
        let all: Vec<String> = self.registries.statuses().iter().map(|registry| describe(registry)).collect();
        all.join("; ")
    }
}

fn has_metadata(config: &Config) -> bool {
    config.locator.as_ref().is_some_and(Locator::uses_metadata)
}
