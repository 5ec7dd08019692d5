//! Requests to the API server: lists, and what lists and watches have in common.

use std::path::Path;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, StatusCode};
use tollgate_bounded_file::MAX_SECRET_BYTES;

use crate::client::{Call, RegistryError, encoded};
use crate::kubernetes::read::{self, EndpointSlice, SERVICE_NAME, SliceKey};
use crate::kubernetes::{KubernetesState, MAX_SLICES};
use tollgate_config::KubernetesToken;

/// Timeout for a page of a list.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// EndpointSlices of a page.
const PAGE: usize = 500;

impl KubernetesState {
    /// Reads the list of a namespace. Returns its version.
    pub(super) async fn list(&self, namespace: &str) -> Result<String, RegistryError> {
        let mut slices = Vec::new();
        let mut next: Option<String> = None;
        let version = loop {
            let mut target = format!("{}&limit={PAGE}", self.target(namespace));
            if let Some(token) = &next {
                target.push_str("&continue=");
                target.push_str(&encoded(token));
            }
            let headers = self.headers().await?;
            let reply = self.client.send(&Call::get(&target, LIST_TIMEOUT).headers(&headers)).await?;
            if next.is_some() && reply.status == StatusCode::GONE {
                return Err(RegistryError::ListGone);
            }
            let mut page = read::page(&reply.ok()?, &self.settings)?;
            for (slice, ignored) in page.ignored {
                self.status.ignore(&slice, Some(ignored));
            }
            page.slices.iter().for_each(|(key, slice)| self.ignore(key, slice));
            slices.append(&mut page.slices);
            if slices.len() > MAX_SLICES {
                return Err(RegistryError::TooMany(MAX_SLICES));
            }
            match page.next {
                Some(token) if next.as_ref() != Some(&token) => next = Some(token),
                _ => break page.version,
            }
        };
        self.table.borrow_mut().replace(namespace, slices);
        self.listed.borrow_mut().insert(namespace.to_owned());
        self.publish(None);
        Ok(version)
    }

    /// Logs the endpoints of a slice that cannot be used.
    pub(super) fn ignore(&self, (namespace, name): &SliceKey, slice: &EndpointSlice) {
        self.status.ignore(&format!("{namespace}/{name}"), slice.ignored.clone());
    }

    /// Returns the path and query of the slices of a namespace.
    pub(super) fn target(&self, namespace: &str) -> String {
        let path = match namespace {
            "" => "/apis/discovery.k8s.io/v1/endpointslices".to_owned(),
            name => format!("/apis/discovery.k8s.io/v1/namespaces/{name}/endpointslices"),
        };
        let labels = self.settings.discovery.service_labels.iter().map(|(name, value)| format!(",{name}={value}"));
        let selector = format!("{SERVICE_NAME}{}", labels.collect::<String>());
        format!("{path}?labelSelector={}", encoded(&selector))
    }

    /// Returns the header fields of a request. The token's file is read again: the kubelet replaces it.
    pub(super) async fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, RegistryError> {
        let token = match &self.settings.token {
            None => return Ok(Vec::new()),
            Some(KubernetesToken::Text(token)) => token.get().unwrap_or_default().to_owned(),
            Some(KubernetesToken::File(path)) => read_token(path).await?,
        };
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(|_| RegistryError::Token)?;
        value.set_sensitive(true);
        Ok(vec![(AUTHORIZATION, value)])
    }
}

async fn read_token(path: &Path) -> Result<String, RegistryError> {
    let failed = |error| RegistryError::TokenFile(path.display().to_string(), error);
    let file = path.to_owned();
    let read = tokio::task::spawn_blocking(move || tollgate_bounded_file::read_text(&file, MAX_SECRET_BYTES)).await;
    read.map_err(|error| failed(std::io::Error::other(error)))?.map_err(failed)
}
