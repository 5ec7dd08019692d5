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
            for setting in tollgate_config::needs_restart(running, &loaded.config) {
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
