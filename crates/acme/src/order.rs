//! One order: account, challenge, certificate (RFC 8555 §7), over the small HTTP client.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::USER_AGENT;
use http_body_util::{BodyExt, Full};
use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, BodyWrapper, BytesResponse, ChallengeType, Error, HttpClient,
    Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error as ThisError;

use crate::storage;
use tollgate_config::{Acme, ChallengeAnswer};
use tollgate_transport::certificate::Validity;
use tollgate_transport::small_client::{Bounds, exchange, system_tls};

/// Time for the server to verify the name, and to issue the certificate.
const POLL: RetryPolicy = RetryPolicy::new().initial_delay(Duration::from_millis(250)).timeout(Duration::from_secs(90));
/// Prefix of the types of problems (RFC 8555 §6.7).
const PROBLEM: &str = "urn:ietf:params:acme:error:";

/// Error of an order.
#[derive(Debug, ThisError)]
pub(crate) enum OrderError {
    /// The folder cannot be written.
    #[error("cannot write to the folder of `server.acme.storage`: {0}")]
    Storage(#[from] io::Error),
    /// The server refuses, or cannot be reached.
    #[error(transparent)]
    Server(#[from] Error),
    /// The server could not verify that the name belongs to this gateway.
    #[error("{0}")]
    NotVerified(Problem),
    /// The server offers no challenge that the gateway can answer.
    #[error("the server does not offer to verify the name over this port")]
    NoChallenge,
    /// The key or the certificate cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Unusable(String),
    /// The certificate is written, and its time of renewal has passed.
    #[error("the new certificate is due for renewal already")]
    Due,
    /// The server takes too long.
    #[error("the server took longer than {0:?}")]
    Timeout(Duration),
}

impl From<rcgen::Error> for OrderError {
    fn from(error: rcgen::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

impl OrderError {
    /// Returns true if a limit of the server is reached.
    pub(crate) fn is_rate_limit(&self) -> bool {
        self.is_problem("rateLimited")
    }

    fn is_problem(&self, name: &str) -> bool {
        let (Self::Server(Error::Api(problem)) | Self::NotVerified(problem)) = self else { return false };
        problem.r#type.as_deref().and_then(|kind| kind.strip_prefix(PROBLEM)) == Some(name)
    }

    /// Returns the next step for the operator.
    pub(crate) fn advice(&self, uses_http: bool) -> &'static str {
        match self {
            Self::Storage(_) => "the user that runs the gateway must be able to write to the folder",
            Self::NotVerified(_) if uses_http => {
                "the server must reach `server.http.port` as port 80 of this name: check DNS, firewall and port mapping"
            }
            Self::NotVerified(_) => {
                "the server must reach `server.port` as port 443 of this name: check DNS, firewall and port mapping"
            }
            _ if self.is_rate_limit() => {
                "a limit of the ACME server is reached: wait, and use its staging directory for trials"
            }
            _ if self.is_problem("rejectedIdentifier") || self.is_problem("caa") => {
                "the ACME server issues no certificate for this name: check `server.acme.domains` and its CAA records"
            }
            Self::Due => "check the clock of this host",
            Self::NoChallenge => "add `server.http` for http-01, or remove it for tls-alpn-01",
            Self::Server(Error::Api(_)) | Self::Unusable(_) => "check `server.acme`, and what the ACME server says",
            Self::Server(_) | Self::Timeout(_) => {
                "check that this host can reach `server.acme.directory`, and trusts its CA (SSL_CERT_FILE)"
            }
        }
    }
}

/// Orders a certificate for `domain` and writes it to the folder. Returns its validity.
pub(crate) async fn obtain(acme: &Acme, domain: &str) -> Result<Validity, OrderError> {
    storage::prepare(acme)?;
    let identifiers = [Identifier::Dns(domain.to_owned())];
    let new_order = NewOrder::new(&identifiers);
    let (account, is_stored) = account(acme, storage::account(acme)).await?;
    let mut order = match account.new_order(&new_order).await.map_err(OrderError::from) {
        // The server has lost the account, or has deactivated it.
        Err(error) if is_stored && error.is_problem("accountDoesNotExist") => {
            self::account(acme, None).await?.0.new_order(&new_order).await?
        }
        other => other?,
    };
    let mut challenge_responses = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let authorization = authorization?;
        if authorization.status != AuthorizationStatus::Valid {
            challenge_responses.push(answer(authorization, domain, acme.uses_http).await?);
        }
    }
    match order.poll_ready(&POLL).await {
        Ok(OrderStatus::Ready) => {}
        Ok(_) => return Err(not_verified(&mut order, None).await),
        Err(Error::Api(problem)) => return Err(not_verified(&mut order, Some(problem)).await),
        Err(error) => return Err(error.into()),
    }
    // The server needs them no longer.
    drop(challenge_responses);
    let key = KeyPair::generate()?;
    let mut request = CertificateParams::new([domain.to_owned()])?;
    request.distinguished_name = DistinguishedName::new();
    order.finalize_csr(request.serialize_request(&key)?.der()).await?;
    let chain = order.poll_certificate(&POLL).await?;
    let pem = format!("{}\n{}", chain.trim_end(), key.serialize_pem());
    let validity = storage::check(pem.as_bytes(), domain).map_err(OrderError::Unusable)?;
    storage::keep(acme, domain, &pem)?;
    Ok(validity)
}

/// Returns the account in the folder, or a new one. The second value is true for one of the folder.
async fn account(acme: &Acme, stored: Option<instant_acme::AccountCredentials>) -> Result<(Account, bool), OrderError> {
    let builder = Account::builder_with_http(Box::new(Client));
    if let Some(stored) = stored {
        return Ok((builder.from_credentials(stored).await?, true));
    }
    let contact = acme.email.get().map(|email| format!("mailto:{email}"));
    let contact: Vec<_> = contact.iter().map(String::as_str).collect();
    let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let (account, credentials) = builder.create(&new, acme.directory().to_owned(), None).await?;
    storage::keep_account(acme, &credentials)?;
    Ok((account, false))
}

/// Answers a challenge for as long as the returned value lives.
async fn answer(
    mut authorization: AuthorizationHandle<'_>,
    domain: &str,
    uses_http: bool,
) -> Result<ChallengeAnswer, OrderError> {
    let kind = if uses_http { ChallengeType::Http01 } else { ChallengeType::TlsAlpn01 };
    let mut challenge = authorization.challenge(kind).ok_or(OrderError::NoChallenge)?;
    let authorization = challenge.key_authorization();
    let answer = if uses_http {
        ChallengeAnswer::http(&challenge.token, authorization.as_str())
    } else {
        ChallengeAnswer::tls(domain, certificate(domain, authorization.digest().as_ref())?)
    };
    challenge.set_ready().await.map_err(|error| match error {
        Error::Api(problem) => OrderError::NotVerified(problem),
        other => OrderError::Server(other),
    })?;
    Ok(answer)
}

/// Returns the certificate that answers a challenge of TLS (RFC 8737 §3).
fn certificate(domain: &str, digest: &[u8]) -> Result<CertifiedKey, OrderError> {
    let mut params = CertificateParams::new([domain.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let chain = vec![params.self_signed(&key)?.der().clone()];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    // Not `from_der`: its check refuses the critical extension.
    let key = aws_lc_rs::default_provider().key_provider.load_private_key(key);
    key.map(|key| CertifiedKey::new(chain, key)).map_err(|error| OrderError::Unusable(error.to_string()))
}

/// Returns the reason for which the server could not verify the name: that of the challenge, or else that of the order.
async fn not_verified(order: &mut Order, of_order: Option<Problem>) -> OrderError {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.clone()) {
            return OrderError::NotVerified(problem);
        }
    }
    let detail = Some("the ACME server could not verify the name".to_owned());
    let unknown = Problem { r#type: None, detail, status: None, subproblems: Vec::new() };
    OrderError::NotVerified(of_order.unwrap_or(unknown))
}

/// Bounds of a response: the largest ones are chains of certificates.
const BOUNDS: Bounds = Bounds { timeout: Duration::from_secs(30), max_bytes: 1 << 20 };

/// Client of instant-acme that keeps no connection and trusts the CA certificates of the system.
pub(crate) struct Client;

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_or_else(|never| match never {}, |body| body.to_bytes());
            let mut builder = Request::builder().method(head.method);
            for (name, value) in head.headers.iter().filter(|(name, _)| **name != USER_AGENT) {
                builder = builder.header(name, value);
            }
            match exchange(&head.uri, builder, body, system_tls, BOUNDS).await {
                Ok(response) => Ok(BytesResponse::from(response.map(Full::new))),
                Err(error) => Err(Error::Other(error.into())),
            }
        })
    }
}
