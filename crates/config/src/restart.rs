//! Settings that are read only at the start.

use crate::model::{AccessLog, AdminSocket, Config, Logging, Management, Memory, Metering, OtlpExport, Server};

/// Sections with settings that are read only at the start, as the process uses them. They outlive the configuration that it
/// started with.
#[derive(Clone, Debug)]
pub struct StartSettings {
    server: Server,
    management: Management,
    memory: Memory,
    metering: Metering,
    access_log: AccessLog,
    logging: Logging,
}

/// A key that needs a restart, with everything below it, and the comparison of its values.
struct Setting {
    key: &'static str,
    differs: fn(&StartSettings, &StartSettings) -> bool,
}

const fn setting(key: &'static str, differs: fn(&StartSettings, &StartSettings) -> bool) -> Setting {
    Setting { key, differs }
}

/// The one list of these settings: for the warning of a reload and for the marks in `docs/reference/`.
const SETTINGS: [Setting; 17] = [
    setting("server.port", |a, b| a.server.port != b.server.port),
    setting("server.address", |a, b| a.server.address != b.server.address),
    setting("server.workers", |a, b| a.server.workers() != b.server.workers()),
    setting("server.max-connections", |a, b| a.server.max_connections != b.server.max_connections),
    setting("management.enabled", |a, b| a.management.enabled != b.management.enabled),
    setting("management.server.port", |a, b| a.management.port != b.management.port),
    setting("management.server.address", |a, b| a.management.address != b.management.address),
    setting("management.server.socket", |a, b| socket(a, |of| of.path.clone()) != socket(b, |of| of.path.clone())),
    setting("management.server.socket-mode", |a, b| socket(a, |of| of.mode) != socket(b, |of| of.mode)),
    setting("management.tracing", |a, b| {
        of_traces(a, b, |traces| (traces.probability.to_bits(), traces.consume.clone(), traces.produce.clone()))
    }),
    setting("management.otlp", |a, b| {
        of_traces(a, b, |traces| (traces.endpoint.clone(), traces.headers.clone(), traces.timeout))
    }),
    setting("management.opentelemetry", |a, b| of_traces(a, b, |traces| traces.resource.clone())),
    setting("memory.max-keys", |a, b| a.memory.max_keys != b.memory.max_keys),
    setting("metering", |a, b| a.metering != b.metering),
    setting("access-log.output", |a, b| a.access_log.output != b.access_log.output),
    setting("access-log.format", |a, b| a.access_log.format != b.access_log.format),
    setting("log.format", |a, b| a.logging.format != b.logging.format),
];

/// Returns a part of the settings of the admin socket.
fn socket<T>(config: &StartSettings, part: impl Fn(&AdminSocket) -> T) -> Option<T> {
    config.management.socket.as_ref().map(part)
}

/// Compares a part of the settings of traces.
fn of_traces<T: PartialEq>(a: &StartSettings, b: &StartSettings, part: impl Fn(&OtlpExport) -> T) -> bool {
    a.management.traces.as_ref().map(&part) != b.management.traces.as_ref().map(&part)
}

impl StartSettings {
    /// Returns copies of the settings of `config`.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            server: config.server.clone(),
            management: config.management.clone(),
            memory: config.memory.clone(),
            metering: config.metering.clone(),
            access_log: config.access_log.clone(),
            logging: config.logging.clone(),
        }
    }

    /// Returns the keys whose values in `config` differ from these and take effect only at the next start.
    #[must_use]
    pub fn needs_restart(&self, config: &Config) -> Vec<&'static str> {
        let settings = Self::of(config);
        SETTINGS.iter().filter(|setting| (setting.differs)(self, &settings)).map(|setting| setting.key).collect()
    }
}

/// Returns the keys of these settings.
#[cfg(test)]
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.key)
}
