//! Instance of a service, validated. Any client of a registry can write hosts, ports and metadata, so they are untrusted
//! input until they are checked here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use thiserror::Error;

use crate::status::IgnoredInstances;
use tollgate_config::{EndpointAddress, Scheme};

/// Maximum number of entries of metadata that are kept.
const MAX_METADATA: usize = 64;
/// Maximum length of a key or value of metadata, in bytes. Longer ones are dropped.
const MAX_METADATA_TEXT: usize = 1024;
/// Maximum weight.
const MAX_WEIGHT: u32 = 6_553_500;

/// Instance of a service, as a registry reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its address.
    pub address: EndpointAddress,
    /// Relative share of requests.
    pub weight: u32,
    /// Its zone.
    pub zone: Option<String>,
    /// Metadata, without values that have control characters.
    pub metadata: BTreeMap<String, String>,
}

/// Instances of a service in a response.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) instances: Vec<Instance>,
    /// Those that cannot be used.
    pub(super) ignored: Option<IgnoredInstances>,
}

/// Error of a response of a registry.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error("it is not JSON of the expected form")]
    Json(#[from] serde_json::Error),
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("it has the error code {0}")]
    Code(i64),
    #[error("it has no usable instance among {0}")]
    NoneUsable(usize, #[source] Unusable),
    #[error("it has no usable EndpointSlice among {0}")]
    NoSlice(usize),
    #[error("the API server reports {code}: {message}")]
    Reported { code: u16, message: String },
}

/// Reason why an instance cannot be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum Unusable {
    #[error("an instance has no usable fields")]
    Shape,
    #[error("an instance has no valid host")]
    Host,
    #[error("an instance has no valid port")]
    Port,
}

impl Listed {
    /// Collects the instances of `service` from the entries of a response: each one's name for the log, and its instance;
    /// `None` for an instance that gets no requests.
    ///
    /// # Errors
    /// None of the entries can be used.
    pub(super) fn collect(
        service: &str,
        entries: impl Iterator<Item = (String, Result<Option<Instance>, Unusable>)>,
    ) -> Result<Self, ReadError> {
        let (mut listed, mut count) = (Self::default(), 0);
        for (name, instance) in entries {
            count += 1;
            match instance {
                Ok(instance) => listed.instances.extend(instance),
                Err(reason) => IgnoredInstances::add(&mut listed.ignored, service, &name, reason),
            }
        }
        match &listed.ignored {
            Some(ignored) if ignored.count == count => Err(ReadError::NoneUsable(count, ignored.reason)),
            _ => Ok(listed),
        }
    }
}

impl Instance {
    /// Creates an instance of weight 1.
    ///
    /// # Errors
    /// `host` is neither an address nor a host name, or `port` is not from 1 to 65535.
    pub(super) fn new(host: &str, port: i64, is_secure: bool) -> Result<Self, Unusable> {
        let host = host.trim_matches(['[', ']']);
        if !is_usable(host) {
            return Err(Unusable::Host);
        }
        let port = u16::try_from(port).ok().filter(|port| *port > 0).ok_or(Unusable::Port)?;
        let scheme = if is_secure { Scheme::Https } else { Scheme::Http };
        let address = EndpointAddress { scheme, host: host.to_owned(), port, name: host.to_owned() };
        Ok(Self { address, weight: 1, zone: None, metadata: BTreeMap::new() })
    }

    /// Sets its share of requests, which is bounded.
    #[must_use]
    pub(super) fn weight(self, weight: u32) -> Self {
        Self { weight: weight.min(MAX_WEIGHT), ..self }
    }

    /// Sets its metadata. `zone_key` is the key of the zone.
    #[must_use]
    pub(super) fn metadata(self, entries: impl IntoIterator<Item = (String, String)>, zone_key: &str) -> Self {
        let fits = |text: &str| text.len() <= MAX_METADATA_TEXT && !text.chars().any(char::is_control);
        let entries = entries.into_iter().filter(|(key, value)| fits(key) && fits(value));
        let metadata: BTreeMap<_, _> = entries.take(MAX_METADATA).collect();
        let zone = self.zone.or_else(|| metadata.get(zone_key).filter(|zone| !zone.is_empty()).cloned());
        Self { metadata, zone, ..self }
    }

    /// Returns the weight that its metadata state, 1 if there is none, as Spring Cloud LoadBalancer does.
    pub fn metadata_weight(&self) -> u32 {
        let weight = self.metadata.get("weight").and_then(|weight| weight.trim().parse().ok());
        weight.filter(|weight| (1..=65_535).contains(weight)).unwrap_or(1)
    }
}

/// Returns true for an IP address of one host, or a host name.
fn is_usable(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        return !address.is_unspecified() && !address.is_multicast();
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    // The system's resolver reads numbers such as `2130706433` and `127.1` as addresses.
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit()) || label.starts_with("0x");
    host.len() <= 253 && host.split('.').all(is_label) && !host.rsplit('.').next().is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_addresses_and_host_names_are_hosts() {
        for host in ["10.0.0.1", "::1", "[::1]", "orders", "orders-1.svc.cluster.local", "my_host", "a."] {
            assert!(Instance::new(host, 80, false).is_ok(), "{host}");
        }
        for host in [
            "",
            "a b",
            "a/b",
            "a\r\nb",
            "user@a",
            "a:80",
            "..",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "2130706433",
            "127.1",
            "0x7f",
            "ä",
        ] {
            assert_eq!(Instance::new(host, 80, false), Err(Unusable::Host), "{host}");
        }
        for port in [0, -1, 65_536, i64::MAX] {
            assert_eq!(Instance::new("a", port, false), Err(Unusable::Port), "{port}");
        }
    }

    #[test]
    fn metadata_are_bounded_and_have_no_control_characters() {
        let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let entries =
            [text("zone", "eu"), text("a", "x\r\nSet-Cookie: y"), text("b\0", "x"), text("c", &"x".repeat(2000))];
        let many = (0..100).map(|n| (format!("m{n}"), String::new()));
        let instance = Instance::new("a", 80, true).unwrap().metadata(entries.into_iter().chain(many), "zone");
        assert_eq!((instance.zone.as_deref(), instance.metadata.len()), (Some("eu"), MAX_METADATA));
        assert!(instance.metadata.keys().all(|key| !["a", "b\0", "c"].contains(&key.as_str())));
        let weight = |text: &str| {
            let entries = [("weight".to_owned(), text.to_owned())];
            Instance::new("a", 80, true).unwrap().metadata(entries, "zone").metadata_weight()
        };
        assert_eq!([weight("7"), weight("0"), weight("-1"), weight("x"), weight("70000")], [7, 1, 1, 1, 1]);
        assert_eq!(Instance::new("a", 80, true).unwrap().weight(u32::MAX).weight, MAX_WEIGHT);
    }
}
