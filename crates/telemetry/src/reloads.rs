//! Time and outcome of the last reload.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::encode::{NO_LABELS, family};

/// Last attempt to read the configuration. The start counts as the first.
#[derive(Debug)]
pub struct LastReload(Mutex<Attempts>);

/// Times of attempts.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    last: SystemTime,
    last_applied: SystemTime,
    is_applied: bool,
}

impl LastReload {
    /// Creates the state of a gateway that has just read its first configuration.
    #[must_use]
    pub fn at_start() -> Self {
        let now = SystemTime::now();
        Self(Mutex::new(Attempts { last: now, last_applied: now, is_applied: true }))
    }

    /// Records an attempt that was applied or refused just now.
    pub fn record(&self, is_applied: bool) {
        let now = SystemTime::now();
        let mut attempts = self.0.lock();
        let last_applied = if is_applied { now } else { attempts.last_applied };
        *attempts = Attempts { last: now, last_applied, is_applied };
    }

    /// Encodes the outcome and the times.
    ///
    /// # Errors
    /// The encoder fails.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Attempts { last, last_applied, is_applied } = *self.0.lock();
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut one = |name, help, value: f64| family(encoder, name, help, [(NO_LABELS, ConstGauge::new(value))]);
        one(
            "tollgate_config_last_reload_successful",
            "1 if the last attempt to read the configuration applied it, 0 otherwise",
            f64::from(u8::from(is_applied)),
        )?;
        one(
            "tollgate_config_last_reload_timestamp_seconds",
            "Time of the last attempt to read the configuration",
            seconds(last),
        )?;
        one(
            "tollgate_config_last_reload_success_timestamp_seconds",
            "Time at which the running configuration was applied",
            seconds(last_applied),
        )
    }
}
