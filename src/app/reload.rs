//! Reload: reads the configuration again, and applies it if it has no errors.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::{ConfigState, ReloadError, ReloadResult};
use crate::app::process::Process;
use crate::app::signals::{Signal, Signals};
use tollgate_config::{CommandLine, Loaded};
use tollgate_proxy::telemetry::key_display;
use tollgate_proxy::upstream::balance::UpstreamManager;

/// Time between a change of the services in the registries and the update of the routes, which then applies all changes.
const LOCATE_DELAY: Duration = Duration::from_millis(200);

/// Source of the configuration, read again on a reload.
#[derive(Clone, Debug)]
pub enum Source {
    /// Files.
    Files {
        /// Paths of the files; values of later ones win.
        paths: Vec<PathBuf>,
        /// Profiles and properties of the command line.
        command_line: CommandLine,
    },
    /// A text in the binary. A reload leaves it unchanged.
    Embedded,
}

impl Process {
    /// Reloads on SIGHUP and on request of the admin port. Returns when a signal asks for shutdown.
    pub(super) async fn reload_until_shutdown(&mut self, source: &Source, signals: &mut Signals) {
        loop {
            let reply = tokio::select! {
                signal = signals.next() => match signal {
                    Signal::Reload => None,
                    Signal::ShutDown => return,
                },
                reply = self.reload_requests.recv() => reply,
                () = self.upstreams.services_changed() => {
                    self.locate(source).await;
                    continue;
                }
            };
            let result = self.reload(source).await;
            if let Some(reply) = reply {
                let _ = reply.send(result);
            }
        }
    }

    /// Reopens the access log, then reads and applies the configuration. Returns the settings that need a restart.
    async fn reload(&mut self, source: &Source) -> ReloadResult {
        if let Some(log) = &self.log {
            log.reopen();
        }
        let Loaded { config, notes } = with_services(self.read(source)?, &mut self.upstreams, source);
        let needs_restart = tollgate_config::needs_restart(&self.config.borrow(), &config);
        for setting in &needs_restart {
            tracing::warn!(setting, "changed setting takes effect after a restart");
        }
        let config = Arc::new(config);
        #[cfg(feature = "jwt")]
        self.jwks.apply(config.jwt.as_ref()).await;
        self.upstreams.apply(&config).await;
        self.registrations.apply(&config.registrations, self.listener, config.server.tls.is_some()).await;
        self.admin.stores.declare_limiters(&config);
        key_display::configure(config.management.key_hashing.as_ref());
        self.admin.reload_applied(&config, ConfigState::new(source.paths(), notes));
        self.config.send_replace(Arc::clone(&config));
        tracing::info!(routes = config.routes.len(), "configuration reloaded");
        Ok(needs_restart)
    }

    /// Adds and removes routes of `discovery.locator` after the services in the registries have changed.
    async fn locate(&mut self, source: &Source) {
        // Services that start together come in one step.
        tokio::time::sleep(LOCATE_DELAY).await;
        let Some(locator) = self.config.borrow().locator.clone() else { return };
        let services = self.upstreams.services();
        match tollgate_config::load_with_services(&locator, services, &source.command_line()) {
            Ok(Loaded { config, .. }) => {
                let config = Arc::new(config);
                tracing::info!(
                    services = services.len(),
                    routes = config.routes.len(),
                    "routes of the registries changed"
                );
                #[cfg(feature = "jwt")]
                self.jwks.apply(config.jwt.as_ref()).await;
                self.upstreams.apply(&config).await;
                self.admin.stores.declare_limiters(&config);
                self.admin.config.store(Arc::clone(&config));
                self.config.send_replace(config);
            }
            Err(error) => {
                tracing::error!("routes of the registries not changed:\n{}", error.render(false));
            }
        }
    }

    /// Reads the configuration, and logs its warnings or the reason why it cannot be applied.
    fn read(&self, source: &Source) -> Result<Loaded, ReloadError> {
        let Source::Files { paths, command_line } = source else {
            tracing::info!("nothing to reload: the built-in configuration has no file");
            return Err(ReloadError::NoFile);
        };
        match tollgate_config::load(paths, command_line) {
            Ok(loaded) => {
                loaded.notes.log();
                Ok(loaded)
            }
            Err(error) => {
                self.admin.reload_refused(&error);
                tracing::error!("configuration not reloaded, the running one stays in use:\n{}", error.render(false));
                Err(error.into())
            }
        }
    }
}

/// Returns `loaded` with the routes of `discovery.locator`, if they can be used with those of the file.
pub(super) fn with_services(loaded: Loaded, upstreams: &mut UpstreamManager, source: &Source) -> Loaded {
    let Some(locator) = &loaded.config.locator else { return loaded };
    let services = upstreams.services();
    if services.is_empty() {
        return loaded;
    }
    match tollgate_config::load_with_services(locator, services, &source.command_line()) {
        Ok(Loaded { config, .. }) => Loaded { config, ..loaded },
        Err(error) => {
            tracing::error!("routes of the registries cannot be used:\n{}", error.render(false));
            loaded
        }
    }
}

impl Source {
    /// Returns the profiles and properties of the command line.
    #[must_use]
    pub fn command_line(&self) -> CommandLine {
        match self {
            Self::Files { command_line, .. } => command_line.clone(),
            Self::Embedded => CommandLine::default(),
        }
    }

    /// Returns the paths of the files.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::Files { paths, .. } => paths,
            Self::Embedded => &[],
        }
    }
}
