//! Reload: reads the configuration again, and applies it if it has no errors.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::app::process::Process;
use crate::app::signals::{Signal, Signals};
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
                for setting in tollgate_config::needs_restart(&self.config.borrow(), &loaded.config) {
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
