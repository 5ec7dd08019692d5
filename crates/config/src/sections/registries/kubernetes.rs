//! `kubernetes`: the API server of a cluster as a registry.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tollgate_bounded_file::MAX_SECRET_BYTES;

use crate::de::{Flag, Or, Spanned, Subtree};
use crate::diagnostics::Diagnostics;
use crate::sections::files;
use crate::sections::non_blank_text;
use crate::sections::registries::registration::CheckedRegistry;
use crate::sections::registries::server::{self, RegistryServer, Secret};
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::client::{Tls, trusting};

/// The API server of a Kubernetes cluster as a registry of `lb://` names, by EndpointSlices.
#[section]
pub(crate) struct RawKubernetes {
    /// Enables the registry. Default true if there is a `kubernetes` section.
    enabled: Option<bool>,
    /// Access to the API server.
    client: RawKubernetesClient,
    /// Lookup of services.
    discovery: RawKubernetesDiscovery,
}

/// Access to the API server.
#[section]
pub(crate) struct RawKubernetesClient {
    /// URL of the API server. Default: that of the cluster in which the gateway runs.
    master_url: Option<Spanned<String>>,
    /// Bearer token. Default: none, the token of the pod's service account.
    oauth_token: Option<Spanned<String>>,
    /// File with the bearer token, read again before each request. Default: that of the pod's service account.
    oauth_token_file: Option<Spanned<String>>,
    /// File in PEM with the CA certificates of the API server. Default: that of the pod's service account.
    ca_cert_file: Option<Spanned<String>>,
    /// Namespace whose services are used. Default: that of the pod.
    namespace: Option<Spanned<String>>,
    /// File with the namespace of the pod. Default `/var/run/secrets/kubernetes.io/serviceaccount/namespace`.
    service_account_namespace_path: Option<Spanned<String>>,
    /// TLS to the API server, instead of `ca-cert-file`, by files in PEM or stores in PKCS#12.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    tls: Option<Subtree>,
}

/// Lookup of services in Kubernetes.
#[section]
pub(crate) struct RawKubernetesDiscovery {
    /// Enables the lookup.
    enabled: Flag<true>,
    /// Namespace whose services are used, instead of `client.namespace`. Default: none.
    namespace: Option<Spanned<String>>,
    /// Namespaces whose services are used. Default: that of `client.namespace`, or of the pod.
    namespaces: Vec<Spanned<String>>,
    /// Uses the services of all namespaces; needs a ClusterRole.
    all_namespaces: Flag<false>,
    /// Labels that services must have. Default: none.
    service_labels: BTreeMap<String, Spanned<String>>,
    /// Name of the port that requests go to. Default: the label `primary-port-name`, then `https`, `http`, and the first one.
    primary_port_name: Option<Spanned<String>>,
    /// Ports for `https`, besides those with an `appProtocol` of `https` and services with the label `secured: "true"`. Default 443 and 8443.
    known_secure_ports: Option<Vec<u16>>,
    /// Uses endpoints that are not ready too.
    include_not_ready_addresses: Flag<false>,
    /// Registries of a lower number come first; equal ones in the order of the file.
    order: Or<i32, 0>,
}

/// The API server of a Kubernetes cluster as a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// The API server.
    pub server: RegistryServer,
    /// TLS to the API server.
    pub tls: Tls,
    /// Bearer token.
    pub token: Option<KubernetesToken>,
    /// Namespaces; an empty name stands for all.
    pub namespaces: Vec<String>,
    /// Labels that services must have.
    pub labels: BTreeMap<String, String>,
    /// Name of the port that requests go to.
    pub port_name: Option<String>,
    /// Ports for `https`.
    pub secure_ports: Vec<u16>,
    /// True to use endpoints that are not ready.
    pub not_ready: bool,
}

/// Source of the bearer token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubernetesToken {
    /// The token.
    Text(Secret),
    /// File with the token, which may change.
    File(PathBuf),
}

/// Files of the pod's service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Checks `kubernetes`. Returns `None` if it is off, or after an error.
pub(super) fn check(
    section: &Spanned<RawKubernetes>,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Option<CheckedRegistry<Kubernetes>> {
    let (raw, client, discovery) = (&section.value, &section.value.client, &section.value.discovery);
    if raw.enabled == Some(false) || !discovery.enabled.get() {
        return None;
    }
    let server = api_server(section, env, diagnostics)?;
    let file = non_blank_text(client.oauth_token_file.as_ref()).map(PathBuf::from);
    let account = PathBuf::from(format!("{ACCOUNT}/token"));
    let token = match server::token(&[&client.oauth_token], "a bearer token", diagnostics) {
        Some(token) => Some(KubernetesToken::Text(token)),
        None => file.or_else(|| account.exists().then_some(account)).map(KubernetesToken::File),
    };
    let names = namespaces(client, discovery, diagnostics);
    for name in names.iter().filter(|name| !name.is_empty() && !is_name(name)) {
        let at = discovery.namespaces.first().or(discovery.namespace.as_ref()).or(client.namespace.as_ref());
        diagnostics
            .error(at.map_or(section.span, |at| at.span), format!("`{name}` is no name of a namespace"))
            .help("a name has lower-case letters, digits and `-`");
    }
    let kubernetes = Kubernetes {
        tls: tls(client, &server, diagnostics)?,
        server,
        token,
        namespaces: names,
        labels: discovery.service_labels.iter().map(|(name, text)| (name.clone(), text.value.clone())).collect(),
        port_name: non_blank_text(discovery.primary_port_name.as_ref()).map(str::to_owned),
        secure_ports: discovery.known_secure_ports.clone().unwrap_or_else(|| vec![443, 8443]),
        not_ready: discovery.include_not_ready_addresses.get(),
    };
    Some(CheckedRegistry {
        rank: (discovery.order.get(), section.span.node),
        registry: kubernetes,
        is_looked_up: true,
        instance: None,
    })
}

/// Returns the API server: the configured one, or that of the cluster in which the gateway runs. A file is checked outside of
/// its cluster too.
fn api_server(
    section: &Spanned<RawKubernetes>,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Option<RegistryServer> {
    let url = &section.value.client.master_url;
    if let Some(url) = url.as_ref().filter(|url| !url.value.trim().is_empty()) {
        return server::check(url, "kubernetes.client.master-url", None, diagnostics);
    }
    let set = |name: &str| env(name).filter(|text| !text.is_empty());
    let host = set("KUBERNETES_SERVICE_HOST").unwrap_or_else(|| "kubernetes.default.svc".to_owned());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let port = set("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
    let url = Spanned { value: format!("https://{host}:{port}"), span: section.span };
    server::check(&url, "KUBERNETES_SERVICE_HOST", None, diagnostics)
}

/// Returns the namespaces; an empty name stands for all.
fn namespaces(
    client: &RawKubernetesClient,
    discovery: &RawKubernetesDiscovery,
    diagnostics: &mut Diagnostics,
) -> Vec<String> {
    if discovery.all_namespaces.get() {
        return vec![String::new()];
    }
    let mut names: Vec<String> =
        discovery.namespaces.iter().filter_map(|name| non_blank_text(Some(name)).map(str::to_owned)).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        let configured_name =
            non_blank_text(discovery.namespace.as_ref()).or_else(|| non_blank_text(client.namespace.as_ref()));
        let of_pod = || namespace_of_pod(client, diagnostics);
        let name = configured_name.map(str::to_owned).or_else(of_pod).map(|name| name.trim().to_owned());
        names.push(name.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned()));
    }
    names
}

/// Returns the namespace of the pod in which the gateway runs; `None` outside of a cluster. Reports a file that cannot be read.
fn namespace_of_pod(client: &RawKubernetesClient, diagnostics: &mut Diagnostics) -> Option<String> {
    let file = client.service_account_namespace_path.as_ref().filter(|file| non_blank_text(Some(file)).is_some());
    let path = file.map_or_else(|| format!("{ACCOUNT}/namespace"), |file| file.value.trim().to_owned());
    let error = match tollgate_bounded_file::read_text(Path::new(&path), MAX_SECRET_BYTES) {
        Ok(name) => return Some(name),
        Err(error) => error,
    };
    if let Some(file) = file.filter(|_| error.kind() != ErrorKind::NotFound) {
        diagnostics.error(file.span, format!("cannot read the namespace in {path}: {error}")).help(files::UNREADABLE);
    }
    None
}

/// Returns true for a DNS label (RFC 1123).
fn is_name(text: &str) -> bool {
    text.len() <= 63 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn tls(client: &RawKubernetesClient, server: &RegistryServer, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let account = format!("{ACCOUNT}/ca.crt");
    let at = client.ca_cert_file.as_ref().map_or(crate::yaml::Span::ROOT, |file| file.span);
    if client.tls.is_some() && non_blank_text(client.ca_cert_file.as_ref()).is_some() {
        diagnostics.mistake(at.key(), "this has no effect beside `tls`").help("name the file in `tls.ca`");
    }
    match non_blank_text(client.ca_cert_file.as_ref()) {
        _ if client.tls.is_some() || server.scheme == crate::sections::upstreams::endpoints::Scheme::Http => {
            server::tls(client.tls.as_ref(), diagnostics)
        }
        Some(file) => trusting(file, at, diagnostics),
        None if std::path::Path::new(&account).exists() => trusting(&account, at, diagnostics),
        None => Some(Tls::default()),
    }
}
