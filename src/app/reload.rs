//! Reload: reads the configuration again, and applies it if it has no errors.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::app::process::Process;
use crate::app::signals::{Signal, Signals};
use crate::telemetry::key_display;
use tollgate_config::Config;

/// Source of the configuration, read again on a reload.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Active profiles of the command line (`--profile`).
        profiles: Option<String>,
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
            };
            let is_applied = self.reload(source).await;
            if let Some(reply) = reply {
                let _ = reply.send(is_applied);
            }
        }
    }

    /// Reopens the access log, then reads and applies the configuration. Returns false if it stays as it is.
    async fn reload(&mut self, source: &Source) -> bool {
        if let Some(log) = &self.log {
            log.reopen();
        }
        let Some(config) = self.read(source) else { return false };
        #[cfg(feature = "jwt")]
        self.jwks.apply(config.jwt.as_ref()).await;
        self.upstreams.apply(&config).await;
        self.admin.stores.declare_limiters(&config);
        key_display::configure(config.management.key_hashing.as_ref());
        self.admin.config.store(Arc::clone(&config));
        self.admin.reloads.fetch_add(1, Relaxed);
        self.admin.last_reload.record(true);
        self.config.send_replace(Arc::clone(&config));
        tracing::info!(routes = config.routes.len(), "configuration reloaded");
        true
    }

    /// Reads the configuration. Returns `None` and logs the reason if it cannot be applied.
    fn read(&self, source: &Source) -> Option<Arc<Config>> {
        let Source::File { path, profiles } = source else {
            tracing::info!("nothing to reload: the built-in configuration has no file");
            return None;
        };
        match tollgate_config::load_for(path, profiles.as_deref()) {
            Ok(loaded) => {
                loaded.notes.log();
                for setting in changed_restart_settings(&self.config.borrow(), &loaded.config) {
                    tracing::warn!(setting, "changed setting takes effect after a restart");
                }
                Some(Arc::new(loaded.config))
            }
            Err(error) => {
                self.admin.failed_reloads.fetch_add(1, Relaxed);
                self.admin.last_reload.record(false);
                tracing::error!("configuration not reloaded, the running one stays in use:\n{}", error.render(false));
                None
            }
        }
    }
}

/// Lists the settings that differ and are read only at the start.
fn changed_restart_settings(running: &Config, new: &Config) -> Vec<&'static str> {
    let changed = [
        ("server.port", running.server.port != new.server.port),
        ("server.address", running.server.address != new.server.address),
        ("server.workers", running.server.workers != new.server.workers),
        ("server.max-connections", running.server.max_connections != new.server.max_connections),
        ("management.enabled", running.management.enabled != new.management.enabled),
        ("management.server.port", running.management.port != new.management.port),
        ("management.server.address", running.management.address != new.management.address),
        ("memory.max-keys", running.memory.max_keys != new.memory.max_keys),
        ("metering", running.metering != new.metering),
        ("access-log", running.access_log != new.access_log),
        ("log", running.logging != new.logging),
    ];
    changed.into_iter().filter_map(|(setting, differs)| differs.then_some(setting)).collect()
}
