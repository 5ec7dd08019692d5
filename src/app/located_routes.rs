//! Routes of `discovery.locator`: those of the services that registries know.

use std::sync::Arc;
use std::time::Duration;

use crate::admin::ReloadError;
use crate::app::process::Process;
use crate::app::reader::Reader;
use crate::app::source::{Source, located, with_services};
use tollgate_config::{Config, Loaded};
use tollgate_proxy::upstream::balance::{UpstreamManager, Upstreams};

/// Time between a change of the services in the registries and the update of the routes, which then applies all changes.
const LOCATE_DELAY: Duration = Duration::from_millis(200);

impl Process {
    /// Adds and removes routes of `discovery.locator` after the services in the registries have changed.
    pub(super) async fn locate(&mut self, source: &Source) {
        // Services that start together come in one step.
        tokio::time::sleep(LOCATE_DELAY).await;
        let Some(locator) = self.config.borrow().locator.clone() else { return };
        let (services, command_line) = (self.upstreams.services().clone(), source.command_line());
        let count = services.len();
        let load = move || tollgate_config::load_with_services(&locator, &services, &command_line);
        let reader = match Reader::start() {
            Ok(reader) => reader,
            Err(error) => {
                tracing::error!(%error, "routes of the registries not changed: no thread can be created");
                return;
            }
        };
        match reader.run(load).await {
            Ok(Loaded { config, .. }) => {
                let config = self.apply(config, None, reader).await;
                tracing::info!(services = count, routes = config.routes.len(), "routes of the registries changed");
            }
            Err(error) => {
                tracing::error!("routes of the registries not changed:\n{}", error.render(false));
            }
        }
    }

    /// Returns `config`, which replaces a configuration with routes: if it has none itself, with those of the services that
    /// registries know. The services may be none, but at least one registry has responded.
    pub(super) async fn with_routes(
        &mut self,
        config: Config,
        reader: &Reader,
        source: &Source,
    ) -> Result<Config, ReloadError> {
        if !config.routes.is_empty() || config.means_no_routes || self.config.borrow().routes.is_empty() {
            return Ok(config);
        }
        if config.locator.is_none() {
            self.upstreams.await_no_services();
            return Err(ReloadError::NoRoutes);
        }
        let services = self.upstreams.services_for(&config).await.map_err(ReloadError::NoRegistry)?;
        let command_line = source.command_line();
        Ok(reader.run(move || located(config, &services, &command_line)).await)
    }
}

/// Starts discovery and health checks. The configuration gets the routes of the services that registries know.
pub(super) async fn start_upstreams(
    upstreams: &Arc<Upstreams>,
    loaded: Loaded,
    source: &Source,
) -> (UpstreamManager, Loaded) {
    let mut manager = UpstreamManager::new(Arc::clone(upstreams));
    manager.apply(&loaded.config).await;
    let has_locator = loaded.config.locator.is_some();
    let loaded = with_services(loaded, manager.services(), source);
    if has_locator {
        manager.apply(&loaded.config).await;
    }
    (manager, loaded)
}

/// Refuses a configuration without routes to a process that takes over, as a reload does: an emptied file, or a standard input
/// that has been read.
pub(super) async fn require_routes(config: &Config, upstreams: &mut UpstreamManager) -> Result<(), ReloadError> {
    if !config.routes.is_empty() || config.means_no_routes {
        return Ok(());
    }
    if config.locator.is_none() {
        return Err(ReloadError::NoRoutes);
    }
    upstreams.services_for(config).await.map(drop).map_err(ReloadError::NoRegistry)
}
