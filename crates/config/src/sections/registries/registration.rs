//! Registration of the gateway itself in a registry.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::de::{Metadata, Spanned};
use crate::diagnostics::Diagnostics;
use crate::sections::non_blank_text;
use crate::yaml::Span;

/// A section of a registry after its check.
pub(super) struct CheckedRegistry<R> {
    /// Spring's `order`, then the place in the file.
    pub(super) rank: (i32, u32),
    pub(super) registry: R,
    /// True if services are looked up there.
    pub(super) is_looked_up: bool,
    /// The gateway, if it registers there.
    pub(super) instance: Option<RegisteredInstance>,
}

impl<R> CheckedRegistry<R> {
    /// Returns the same with the registry that `of_kind` makes.
    pub(super) fn of<K>(self, of_kind: fn(R) -> K) -> CheckedRegistry<K> {
        let Self { rank, registry, is_looked_up, instance } = self;
        CheckedRegistry { rank, registry: of_kind(registry), is_looked_up, instance }
    }
}

/// The gateway as an instance of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredInstance {
    /// Name of the service.
    pub name: String,
    /// Id of the instance; `None`: host, name and port.
    pub id: Option<String>,
    /// Its address; `None`: that from which the gateway reaches the registry.
    pub host: Option<String>,
    /// Its port; `None`: that of the listener for traffic.
    pub port: Option<u16>,
    /// Metadata.
    pub metadata: BTreeMap<String, String>,
    /// Port of the admin listener, if the file sets it.
    pub management_port: Option<u16>,
    /// Paths of home page, status page and health check in Eureka; the latter two are on the management port.
    pub paths: [String; 3],
    /// Weight in Nacos, as a decimal number.
    pub weight: String,
    /// Cluster in Nacos.
    pub cluster: String,
    /// Tags in Consul.
    pub tags: Vec<String>,
    /// Interval of heartbeats.
    pub heartbeat: Duration,
    /// Time without a heartbeat after which the registry removes it.
    pub lease: Duration,
}

/// Settings of the instance, as far as all registries have them.
pub(super) struct InstanceKeys<'k> {
    /// Key of the name, for messages.
    pub(super) name_key: &'static str,
    pub(super) name: Option<&'k Spanned<String>>,
    pub(super) id: Option<&'k Spanned<String>>,
    pub(super) host: Option<&'k Spanned<String>>,
    pub(super) port: Option<u16>,
    pub(super) metadata: &'k Metadata,
    pub(super) heartbeat: Duration,
    pub(super) lease: Duration,
    /// Switch of the registration.
    pub(super) at: Span,
}

/// Checks the settings of an instance. Reports errors.
pub(super) fn instance(keys: InstanceKeys<'_>, diagnostics: &mut Diagnostics) -> Option<RegisteredInstance> {
    let Some(name) = non_blank_text(keys.name) else {
        diagnostics
            .mistake(keys.at, "the gateway is not registered: a registration needs the name of a service")
            .help(format!("set `{}`, or `spring.application.name` in a Spring file", keys.name_key));
        return None;
    };
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    for text in [keys.name, keys.id, keys.host].into_iter().flatten() {
        if !is_plain(text.value.trim()) {
            diagnostics
                .error(text.span, format!("`{}` cannot be registered", text.value.trim()))
                .help("use letters, digits, `-`, `_`, `.` and `:`");
            return None;
        }
    }
    if let Some((_, value)) = keys.metadata.iter().find(|(_, value)| value.value.chars().any(char::is_control)) {
        diagnostics.error(value.span, "metadata cannot have control characters");
        return None;
    }
    if keys.lease <= keys.heartbeat {
        diagnostics
            .error(keys.at, "the lease of the registration must be longer than the interval of its heartbeats")
            .help("three intervals are usual");
        return None;
    }
    Some(RegisteredInstance {
        name: name.to_owned(),
        id: non_blank_text(keys.id).map(str::to_owned),
        host: non_blank_text(keys.host).map(str::to_owned),
        port: keys.port,
        metadata: keys.metadata.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect(),
        management_port: None,
        paths: ["/", "/actuator/info", "/actuator/health"].map(str::to_owned),
        weight: "1".to_owned(),
        cluster: "DEFAULT".to_owned(),
        tags: Vec::new(),
        heartbeat: keys.heartbeat,
        lease: keys.lease,
    })
}
