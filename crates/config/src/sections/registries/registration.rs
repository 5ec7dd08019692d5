//! Registration of the gateway itself in a registry.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::de::{Metadata, OptionalText};
use crate::diagnostics::Diagnostics;
use crate::yaml::Span;

/// A section of a registry after its check.
pub(super) struct CheckedRegistry<R> {
    /// Spring's `order`, then the place in the file.
    pub(super) rank: (i32, u32),
    /// True if services are looked up there.
    pub(super) is_looked_up: bool,
    /// The gateway, if it registers there.
    pub(super) instance: Option<RegisteredInstance>,
    pub(super) registry: R,
}

impl<R> CheckedRegistry<R> {
    /// Returns the same with the registry that `of_kind` makes.
    pub(super) fn of<K>(self, of_kind: fn(R) -> K) -> CheckedRegistry<K> {
        let Self { rank, is_looked_up, instance, registry } = self;
        CheckedRegistry { rank, is_looked_up, instance, registry: of_kind(registry) }
    }
}

/// The gateway as an instance of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredInstance {
    /// Name of the service.
    pub name: OptionalText,
    /// Id of the instance; absent: host, name and port.
    pub id: OptionalText,
    /// Its address; absent: that from which the gateway reaches the registry.
    pub host: OptionalText,
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

impl Default for RegisteredInstance {
    fn default() -> Self {
        Self {
            name: OptionalText::default(),
            id: OptionalText::default(),
            host: OptionalText::default(),
            port: None,
            metadata: BTreeMap::new(),
            management_port: None,
            paths: ["/", "/actuator/info", "/actuator/health"].map(str::to_owned),
            weight: "1".to_owned(),
            cluster: "DEFAULT".to_owned(),
            tags: Vec::new(),
            heartbeat: Duration::ZERO,
            lease: Duration::ZERO,
        }
    }
}

impl RegisteredInstance {
    /// Checks the instance, and gives it `metadata`. The key at `at` registers it, `name_key` has its name. Reports errors.
    pub(super) fn check(
        self,
        name_key: &str,
        metadata: &Metadata,
        at: Span,
        diagnostics: &mut Diagnostics,
    ) -> Option<Self> {
        if self.name.get().is_none() {
            diagnostics
                .mistake(at, "the gateway is not registered: a registration needs the name of a service")
                .help(format!("set `{name_key}`, or `spring.application.name` in a Spring file"));
            return None;
        }
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
        for text in [&self.name, &self.id, &self.host].into_iter().filter_map(OptionalText::spanned) {
            if !is_plain(text) {
                diagnostics
                    .error(text.span, format!("`{}` cannot be registered", text.value))
                    .help("use letters, digits, `-`, `_`, `.` and `:`");
                return None;
            }
        }
        if let Some((_, value)) = metadata.iter().find(|(_, value)| value.value.chars().any(char::is_control)) {
            diagnostics.error(value.span, "metadata cannot have control characters");
            return None;
        }
        if self.lease <= self.heartbeat {
            diagnostics
                .error(at, "the lease of the registration must be longer than the interval of its heartbeats")
                .help("three intervals are usual");
            return None;
        }
        let metadata = metadata.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect();
        Some(Self { metadata, ..self })
    }
}
