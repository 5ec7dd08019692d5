//! Settings that are read only at the start.

use sha2::{Digest as _, Sha256};

use crate::model::{AdminSocket, Config, OtlpExport};

/// SHA-256 of each setting that is read only at the start, as the process uses it; `None` for one without effect. The configuration
/// that it started with, with its tokens and keys, does not outlive a reload.
#[derive(Clone, Copy, Debug)]
pub struct StartSettings([Option<[u8; 32]>; SETTINGS.len()]);

/// A key that needs a restart, with everything below it, and a text that differs if its value does.
struct Setting {
    key: &'static str,
    text: fn(&Config) -> String,
}

const fn setting(key: &'static str, text: fn(&Config) -> String) -> Setting {
    Setting { key, text }
}

/// The one list of these settings: for the warning of a reload and for the marks in `docs/reference/`.
const SETTINGS: [Setting; 19] = [
    setting("server.port", |config| config.server.port.get().to_string()),
    setting("server.address", |config| config.server.address.get().to_string()),
    setting("server.reuse-port", |config| config.server.reuse_port.get().to_string()),
    setting("server.http.port", |config| {
        config.server.http.map_or_else(String::new, |http| http.port.get().to_string())
    }),
    setting("server.workers", |config| config.server.workers().to_string()),
    setting("server.max-connections", |config| config.server.max_connections().to_string()),
    setting("management.enabled", |config| config.management.enabled.to_string()),
    setting("management.server.port", |config| config.management.port.to_string()),
    setting("management.server.address", |config| config.management.address.to_string()),
    setting("management.server.socket", |config| socket(config, |socket| format!("{:?}", socket.path))),
    setting("management.server.socket-mode", |config| socket(config, |socket| socket.mode.to_string())),
    setting("management.tracing", |config| {
        traces(config, |traces| format!("{:?}", (traces.probability.to_bits(), &traces.consume, &traces.produce)))
    }),
    setting("management.otlp", |config| {
        traces(config, |traces| {
            // A header's value that is marked as sensitive has the same `Debug` text as any other.
            let headers: Vec<_> = traces.headers.iter().map(|(name, value)| (name, value.as_bytes())).collect();
            format!("{:?}", (&traces.endpoint, headers, traces.timeout))
        })
    }),
    setting("management.opentelemetry", |config| traces(config, |traces| format!("{:?}", traces.resource))),
    setting("memory.max-keys", |config| config.memory.max_keys().to_string()),
    setting("metering", |config| format!("{:?}", config.metering)),
    setting("access-log.output", |config| format!("{:?}", config.access_log.output)),
    setting("access-log.format", |config| format!("{:?}", config.access_log.format)),
    setting("log.format", |config| format!("{:?}", config.logging.format)),
];

/// Returns a part of the settings of the admin socket.
fn socket(config: &Config, part: impl FnOnce(&AdminSocket) -> String) -> String {
    config.management.socket.as_ref().map(part).unwrap_or_default()
}

/// Returns a part of the settings of traces.
fn traces(config: &Config, part: impl FnOnce(&OtlpExport) -> String) -> String {
    config.management.traces.as_ref().map(part).unwrap_or_default()
}

impl StartSettings {
    /// Returns the settings of `config`.
    pub fn of(config: &Config) -> Self {
        Self(SETTINGS.map(|setting| Some(Sha256::digest((setting.text)(config)).into())))
    }

    /// Replaces the value of `key` by the one that is in use, such as the port of an inherited socket; `None` if the key has no
    /// effect in this process.
    pub fn replace(&mut self, key: &str, in_use: Option<&str>) {
        for (setting, digest) in SETTINGS.iter().zip(&mut self.0) {
            if setting.key == key {
                *digest = in_use.map(|text| Sha256::digest(text).into());
            }
        }
    }

    /// Returns the keys whose values in `config` differ from these and take effect only at the next start.
    pub fn needs_restart(&self, config: &Config) -> Vec<&'static str> {
        let digests = Self::of(config).0;
        let compared = SETTINGS.iter().zip(self.0.iter().zip(&digests));
        compared.filter(|(_, (start, now))| start.is_some() && start != now).map(|(setting, _)| setting.key).collect()
    }
}

/// Returns the keys of these settings.
#[cfg(test)]
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ROUTES: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";

    fn config(sections: &str) -> Config {
        crate::parse("a.yaml", &format!("{sections}\n{ROUTES}"), &|_| None).unwrap().config
    }

    /// A type without a destructor owns no memory, and so no copy of a secret.
    #[test]
    fn the_settings_of_the_start_hold_no_secret() {
        assert!(!std::mem::needs_drop::<StartSettings>());
    }

    #[test]
    fn a_secret_header_of_traces_needs_a_restart_and_a_token_does_not() {
        let with = |token: &str, header: &str| {
            config(&format!(
                "management: {{tokens: [{{name: a, role: read, token: {token}}}], otlp: {{tracing: {{endpoint: 'http://127.0.0.1:4318', \
                 headers: {{authorization: {header}}}}}}}}}"
            ))
        };
        let start = StartSettings::of(&with("0123456789abcdef", "one"));
        assert_eq!(start.needs_restart(&with("fedcba9876543210", "one")), [] as [&str; 0]);
        assert_eq!(start.needs_restart(&with("0123456789abcdef", "two")), ["management.otlp"]);
    }

    #[test]
    fn a_setting_is_compared_with_the_value_in_use() {
        let mut start = StartSettings::of(&config("server: {port: 8081}"));
        start.replace("server.port", Some("8080"));
        assert_eq!(start.needs_restart(&config("server: {port: 8081}")), ["server.port"]);
        assert_eq!(start.needs_restart(&config("server: {port: 8080}")), [] as [&str; 0]);
        start.replace("server.port", None);
        assert_eq!(start.needs_restart(&config("server: {port: 8081}")), [] as [&str; 0]);
    }

    #[test]
    fn each_setting_is_compared_by_its_value() {
        let start = StartSettings::of(&config(""));
        for (sections, key) in [
            ("# a comment\nserver: {port: 8080}", None),
            ("server: {port: 8081}", Some("server.port")),
            ("server: {address: 127.0.0.1}", Some("server.address")),
            ("server: {max-connections: 77}", Some("server.max-connections")),
            ("management: {server: {port: 7777}}", Some("management.server.port")),
            ("management: {server: {address: 127.0.0.2}}", Some("management.server.address")),
            ("memory: {max-keys: 77}", Some("memory.max-keys")),
            ("metering: {flush-every: 7s}", Some("metering")),
            ("access-log: {output: 'off'}", Some("access-log.output")),
            ("access-log: {format: json}", Some("access-log.format")),
            ("log: {format: json}", Some("log.format")),
        ] {
            assert_eq!(start.needs_restart(&config(sections)), key.into_iter().collect::<Vec<_>>(), "{sections}");
        }
        let socket = |path: &str, mode: &str| {
            config(&format!("management: {{server: {{socket: {path}, socket-mode: {mode}}}}}"))
        };
        let start = StartSettings::of(&socket("/run/a.sock", "'0600'"));
        assert_eq!(start.needs_restart(&socket("/run/b.sock", "'0600'")), ["management.server.socket"]);
        assert_eq!(start.needs_restart(&socket("/run/a.sock", "'0660'")), ["management.server.socket-mode"]);
    }
}
