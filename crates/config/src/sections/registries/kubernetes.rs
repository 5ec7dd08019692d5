//! `kubernetes`: the API server of a cluster as a registry.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::mem::take;
use std::path::{Path, PathBuf};

use tollgate_bounded_file::MAX_SECRET_BYTES;

use crate::de::{Flag, OptionalText, Or, Spanned, Subtree};
use crate::diagnostics::Diagnostics;
use crate::sections::files;
use crate::sections::registries::registration::CheckedRegistry;
use crate::sections::registries::server::{self, RegistryServer, Token};
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::client::{self, Tls, trusting};
use crate::sections::upstreams::endpoints::Scheme;
use crate::yaml::Span;

/// The API server of a Kubernetes cluster as a registry of `lb://` names, by EndpointSlices.
#[section(Clone, PartialEq)]
pub struct Kubernetes {
    /// Enables the registry. Default {} if there is a `kubernetes` section.
    enabled: Flag<true>,
    /// Access to the API server.
    client: KubernetesClient,
    /// Lookup of services.
    pub discovery: KubernetesDiscovery,
    /// The API server.
    #[serde(skip)]
    pub server: RegistryServer,
    /// TLS to the API server, with the contents of its files.
    #[serde(skip)]
    pub tls: Tls,
    /// Source of the bearer token; `None` without one.
    #[serde(skip)]
    pub token: Option<KubernetesToken>,
    /// Namespaces whose services are used; an empty name stands for all.
    #[serde(skip)]
    pub namespaces: Vec<String>,
}

/// Access to the API server.
#[section(Clone, PartialEq)]
struct KubernetesClient {
    /// URL of the API server. Default: that of the cluster in which the gateway runs.
    master_url: OptionalText,
    /// Bearer token. Default: none, the token of the pod's service account.
    oauth_token: Token,
    /// File with the bearer token, read again before each request. Default: that of the pod's service account.
    oauth_token_file: OptionalText,
    /// File in PEM with the CA certificates of the API server. Default: that of the pod's service account.
    ca_cert_file: OptionalText,
    /// Namespace whose services are used. Default: that of the pod.
    namespace: OptionalText,
    /// File with the namespace of the pod. Default `/var/run/secrets/kubernetes.io/serviceaccount/namespace`.
    service_account_namespace_path: OptionalText,
    /// TLS to the API server, instead of `ca-cert-file`, by files in PEM or stores in PKCS#12.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    #[serde(rename = "tls")]
    tls_keys: Option<Subtree>,
}

/// Lookup of services in Kubernetes.
#[section(Clone, PartialEq)]
pub struct KubernetesDiscovery {
    /// Enables the lookup.
    enabled: Flag<true>,
    /// Namespace whose services are used, instead of `client.namespace`. Default: none.
    namespace: OptionalText,
    /// Namespaces whose services are used. Default: that of `client.namespace`, or of the pod.
    namespaces: Vec<Spanned<String>>,
    /// Uses the services of all namespaces; needs a ClusterRole.
    all_namespaces: Flag<false>,
    /// Labels that services must have. Default: none.
    pub service_labels: BTreeMap<String, String>,
    /// Name of the port that requests go to. Default: the label `primary-port-name`, then `https`, `http`, and the first one.
    pub primary_port_name: OptionalText,
    /// Ports for `https`, besides those with an `appProtocol` of `https` and services with the label `secured: "true"`. Default 443 and 8443.
    known_secure_ports: Option<Vec<u16>>,
    /// Uses endpoints that are not ready too.
    pub include_not_ready_addresses: Flag<false>,
    /// Registries of a lower number come first; equal ones in the order of the file.
    order: Or<i32, 0>,
}

/// Source of the bearer token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubernetesToken {
    /// The token.
    Text(Token),
    /// File with the token, which may change.
    File(PathBuf),
}

/// Files of the pod's service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl KubernetesDiscovery {
    /// Returns true if `port` is a port for `https`.
    pub fn is_secure(&self, port: u16) -> bool {
        self.known_secure_ports.as_ref().is_some_and(|ports| ports.contains(&port))
    }
}

/// Checks `kubernetes`. Returns `None` if it is off, or after an error.
pub(super) fn check(
    section: Spanned<Kubernetes>,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Option<CheckedRegistry<Kubernetes>> {
    let Spanned { value: mut kubernetes, span } = section;
    let (mut client, discovery) = (take(&mut kubernetes.client), &mut kubernetes.discovery);
    if !kubernetes.enabled.get() || !discovery.enabled.get() {
        return None;
    }
    kubernetes.server = api_server(&client.master_url, span, env, diagnostics)?;
    client.oauth_token.check("a bearer token", diagnostics);
    kubernetes.token = client.token();
    let (namespace, listed) = (take(&mut discovery.namespace), take(&mut discovery.namespaces));
    let namespace = if namespace.get().is_some() { namespace } else { take(&mut client.namespace) };
    kubernetes.namespaces = match take(&mut discovery.all_namespaces).get() {
        true => vec![String::new()],
        false => namespaces(&client, &namespace, &listed, diagnostics),
    };
    for name in kubernetes.namespaces.iter().filter(|name| !name.is_empty() && !is_name(name)) {
        let at = listed.first().map_or(namespace.span_or(span), |name| name.span);
        diagnostics
            .error(at, format!("`{name}` is no name of a namespace"))
            .help("a name has lower-case letters, digits and `-`");
    }
    discovery.known_secure_ports.get_or_insert_with(|| vec![443, 8443]);
    kubernetes.tls = tls(&mut client, kubernetes.server.scheme, diagnostics)?;
    Some(CheckedRegistry {
        rank: (take(&mut discovery.order).get(), span.node),
        is_looked_up: true,
        instance: None,
        registry: kubernetes,
    })
}

/// Returns the API server: that of `url`, or that of the cluster in which the gateway runs. A file is checked outside of its
/// cluster too.
fn api_server(
    url: &OptionalText,
    section: Span,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Option<RegistryServer> {
    if let Some(url) = url.spanned() {
        return server::check(url, "kubernetes.client.master-url", None, diagnostics);
    }
    let set = |name: &str| env(name).filter(|text| !text.is_empty());
    let host = set("KUBERNETES_SERVICE_HOST").unwrap_or_else(|| "kubernetes.default.svc".to_owned());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let port = set("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
    let url = Spanned { value: format!("https://{host}:{port}"), span: section };
    server::check(&url, "KUBERNETES_SERVICE_HOST", None, diagnostics)
}

impl KubernetesClient {
    /// Returns the source of the bearer token: a key, or the service account of the pod.
    fn token(&self) -> Option<KubernetesToken> {
        if self.oauth_token.get().is_some() {
            return Some(KubernetesToken::Text(self.oauth_token.clone()));
        }
        let account = PathBuf::from(format!("{ACCOUNT}/token"));
        let file = self.oauth_token_file.get().map(PathBuf::from);
        file.or_else(|| account.exists().then_some(account)).map(KubernetesToken::File)
    }
}

/// Returns the names of namespaces: those that are `listed`, `namespace`, or that of the pod.
fn namespaces(
    client: &KubernetesClient,
    namespace: &OptionalText,
    listed: &[Spanned<String>],
    diagnostics: &mut Diagnostics,
) -> Vec<String> {
    let names = listed.iter().map(|name| name.value.trim()).filter(|name| !name.is_empty());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        let name = namespace.get().map(str::to_owned).or_else(|| namespace_of_pod(client, diagnostics));
        names.push(name.unwrap_or_else(|| "default".to_owned()));
    }
    names
}

/// Returns the namespace of the pod in which the gateway runs; `None` outside of a cluster. Reports a file that cannot be read.
fn namespace_of_pod(client: &KubernetesClient, diagnostics: &mut Diagnostics) -> Option<String> {
    let file = &client.service_account_namespace_path;
    let path = file.get().map_or_else(|| format!("{ACCOUNT}/namespace"), str::to_owned);
    match (tollgate_bounded_file::read_text(Path::new(&path), MAX_SECRET_BYTES), file.spanned()) {
        (Ok(name), _) => Some(name.trim().to_owned()).filter(|name| !name.is_empty()),
        (Err(error), Some(file)) if error.kind() != ErrorKind::NotFound => {
            let message = format!("cannot read the namespace in {path}: {error}");
            diagnostics.error(file.span, message).help(files::UNREADABLE);
            None
        }
        (Err(_), _) => None,
    }
}

/// Returns true for a DNS label (RFC 1123).
fn is_name(text: &str) -> bool {
    text.len() <= 63 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn tls(client: &mut KubernetesClient, scheme: Scheme, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let account = format!("{ACCOUNT}/ca.crt");
    let at = client.ca_cert_file.span_or(Span::ROOT);
    let ca = client.ca_cert_file.get();
    if client.tls_keys.is_some() && ca.is_some() {
        diagnostics.mistake(at.key(), "this has no effect beside `tls`").help("name the file in `tls.ca`");
    }
    match ca {
        _ if client.tls_keys.is_some() || scheme == Scheme::Http => {
            server::tls(client.tls_keys.take(), client::check, diagnostics)
        }
        Some(file) => trusting(file, at, diagnostics),
        None if Path::new(&account).exists() => trusting(&account, at, diagnostics),
        None => Some(Tls::default()),
    }
}
