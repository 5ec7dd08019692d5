//! A changed configuration, taken over or not.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::admin::AdminState;
use crate::app::process::Source;
use crate::telemetry::log_writer::LogWriter;
use tollgate_config::Config;

/// The changed file; nothing where it is broken, which keeps what runs.
pub(super) fn reload(
    source: &Source,
    running: &Config,
    state: &AdminState,
    log: Option<&LogWriter>,
) -> Option<Arc<Config>> {
    if let Some(log) = log {
        log.reopen();
    }
    let Source::File { path, profiles } = source else {
        tracing::info!("the built-in configuration does not change");
        return None;
    };
    match tollgate_config::load_for(path, profiles.as_deref()) {
        Ok(loaded) => {
            loaded.notes.log();
            for setting in needs_restart(running, &loaded.config) {
                tracing::warn!(setting, "this change takes effect at the next start");
            }
            Some(Arc::new(loaded.config))
        }
        Err(error) => {
            state.failed_reloads.fetch_add(1, Relaxed);
            tracing::error!("not reloaded, the running configuration stays:\n{}", error.render(false));
            None
        }
    }
}

/// Settings that differ and are read at the start only.
fn needs_restart(running: &Config, new: &Config) -> Vec<&'static str> {
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
