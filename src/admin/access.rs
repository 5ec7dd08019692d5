//! Clients of the admin port and their permissions: tokens, client certificates, and pages of browsers.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use thiserror::Error;

use crate::admin::guard::{GuardError, check_change};
use crate::admin::reply::{Reply, problem};
use tollgate_config::{AdminRole, Management};
use tollgate_filters::client_certificate::ClientCertificate;

/// Permission that a request needs. Requests over a Unix socket have all of them, and so have requests to a loopback
/// address, unless TLS there asks for client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// None.
    Open,
    /// None with `management.metrics.open`, otherwise [`Self::Read`].
    Metrics,
    /// A token, or a client certificate.
    Read,
    /// A token with the role `write`, or a client certificate of `management.server.certificate-writers`.
    Write,
}

/// Sender of a permitted request, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Request that needed no token.
    Anonymous,
    /// Name of the token.
    Token(Arc<str>),
    /// First name of the client certificate.
    Certificate(String),
}

/// Refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum AccessError {
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error("a token is required: send `Authorization: Bearer TOKEN` with one of `management.tokens`")]
    MissingToken,
    #[error("a client certificate is required, or `Authorization: Bearer TOKEN` with one of `management.tokens`")]
    MissingIdentity,
    #[error("unknown token")]
    UnknownToken,
    #[error("the token `{0}` has the role `read`; a change needs the role `write`")]
    ReadOnly(Arc<str>),
    #[error("the client certificate `{0}` may read; a change needs a name in `management.server.certificate-writers`")]
    ReadOnlyCertificate(String),
}

tollgate_limiter::labelled! {
    /// Reason of a refusal, the label of its metric.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum RefusalReason {
        /// A name of another host (DNS rebinding).
        Host = "host",
        /// A page of another origin.
        Origin = "origin",
        /// Neither a token nor a client certificate.
        NoCredentials = "no_credentials",
        /// A token that the configuration does not have.
        UnknownToken = "unknown_token",
        /// A change with the role `read`.
        ReadOnly = "read_only",
        /// A head that is no valid HTTP, such as one with control characters in `Authorization`.
        Malformed = "malformed",
    }
}

/// Refused requests by reason.
#[derive(Debug, Default)]
pub(super) struct RefusalStats([AtomicU64; RefusalReason::ALL.len()]);

impl RefusalStats {
    /// Counts a refusal.
    pub(super) fn count(&self, reason: RefusalReason) {
        self.0[reason as usize].fetch_add(1, Relaxed);
    }

    /// Returns each reason with its number of refusals.
    pub(super) fn counts(&self) -> impl Iterator<Item = (RefusalReason, u64)> {
        RefusalReason::ALL.into_iter().zip(&self.0).map(|(reason, count)| (reason, count.load(Relaxed)))
    }
}

/// Checks that a request has the permission `access`. A token counts before a client certificate. Without
/// `needs_identity`, the client needs neither, but a token that it sends must be right.
pub(super) fn authorize(
    access: Access,
    needs_identity: bool,
    peer: &Peer,
    management: &Management,
    headers: &HeaderMap,
) -> Result<Caller, AccessError> {
    if access == Access::Write {
        check_change(management.origin.as_ref(), headers)?;
    }
    let needed = match access {
        Access::Open => return Ok(Caller::Anonymous),
        Access::Metrics if management.metrics_are_open => return Ok(Caller::Anonymous),
        Access::Metrics | Access::Read => AdminRole::Read,
        Access::Write => AdminRole::Write,
    };
    if !needs_identity && !sends_token(peer, management, headers) {
        return Ok(Caller::Anonymous);
    }
    if let Some(certificate) = peer.certificate().filter(|_| !headers.contains_key(AUTHORIZATION)) {
        let name = certificate.names().next().unwrap_or("without a name").escape_debug().to_string();
        let may_write = management.certificate_writers.iter().any(|writer| writer.selects(certificate));
        let is_permitted = may_write || needed == AdminRole::Read;
        return if is_permitted { Ok(Caller::Certificate(name)) } else { Err(AccessError::ReadOnlyCertificate(name)) };
    }
    let asks_for_certificates = management.tls.as_ref().is_some_and(|tls| tls.identifies_clients);
    if asks_for_certificates && !headers.contains_key(AUTHORIZATION) {
        return Err(AccessError::MissingIdentity);
    }
    let token = bearer(headers)?;
    let (name, role) = management.tokens.find(token).ok_or(AccessError::UnknownToken)?;
    if role < needed { Err(AccessError::ReadOnly(Arc::clone(name))) } else { Ok(Caller::Token(Arc::clone(name))) }
}

/// Returns true if the client shows who it is although it need not, or tries to. Requests for traffic have the tokens of
/// applications, and a proxy may pass a login of another scheme on.
fn sends_token(peer: &Peer, management: &Management, headers: &HeaderMap) -> bool {
    let is_sent = headers.contains_key(AUTHORIZATION) && !has_other_scheme(headers);
    is_sent && !matches!(peer, Peer::Traffic) && !management.tokens.is_empty()
}

/// Returns true for one login of a scheme besides `Bearer`, such as `Basic`.
fn has_other_scheme(headers: &HeaderMap) -> bool {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (fields.next().and_then(|field| field.to_str().ok()), fields.next());
    let login = first.filter(|_| second.is_none()).and_then(|field| field.split_once(' '));
    login.is_some_and(|(scheme, credentials)| {
        let is_name = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        is_name && !scheme.eq_ignore_ascii_case("bearer") && !credentials.trim().is_empty()
    })
}

/// Returns the token of a request.
fn bearer(headers: &HeaderMap) -> Result<&[u8], AccessError> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let field = fields.next().ok_or(AccessError::MissingToken)?;
    match field.as_bytes().split_at_checked("bearer ".len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") && fields.next().is_none() => {
            Ok(token.trim_ascii())
        }
        _ => Err(AccessError::UnknownToken),
    }
}

impl AccessError {
    /// Returns the reason as metrics and the log report it.
    pub(super) fn reason(&self) -> RefusalReason {
        match self {
            Self::Guard(GuardError::Host) => RefusalReason::Host,
            Self::Guard(GuardError::Origin) => RefusalReason::Origin,
            Self::MissingToken | Self::MissingIdentity => RefusalReason::NoCredentials,
            Self::UnknownToken => RefusalReason::UnknownToken,
            Self::ReadOnly(_) | Self::ReadOnlyCertificate(_) => RefusalReason::ReadOnly,
        }
    }

    /// Returns the problem.
    pub(super) fn response(&self) -> Reply {
        let mut response = problem(self.status(), &self.to_string());
        if let Some(challenge) = self.challenge() {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::MissingToken | Self::MissingIdentity | Self::UnknownToken => StatusCode::UNAUTHORIZED,
            Self::Guard(_) | Self::ReadOnly(_) | Self::ReadOnlyCertificate(_) => StatusCode::FORBIDDEN,
        }
    }

    /// Returns the challenge of the refusal (RFC 6750).
    fn challenge(&self) -> Option<&'static str> {
        match self {
            Self::MissingToken | Self::MissingIdentity => Some(r#"Bearer realm="tollgate""#),
            Self::UnknownToken => Some(r#"Bearer realm="tollgate", error="invalid_token""#),
            Self::ReadOnly(_) => Some(r#"Bearer realm="tollgate", error="insufficient_scope""#),
            Self::Guard(_) | Self::ReadOnlyCertificate(_) => None,
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("local"),
            Self::Token(name) => f.write_str(name),
            Self::Certificate(name) => write!(f, "certificate:{name}"),
        }
    }
}

/// Client of an admin connection.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// Process on this host that may open the Unix socket.
    Socket,
    /// Client of the port.
    Port {
        /// Its address.
        client: IpAddr,
        /// Its certificate, which the handshake has verified.
        certificate: Option<Arc<ClientCertificate>>,
    },
    /// Client of the port for traffic.
    Traffic,
}

impl Peer {
    /// Returns true if the client must show a token or a certificate on a port at `address`.
    pub(super) fn needs_identity(&self, address: IpAddr, management: &Management) -> bool {
        matches!(self, Self::Port { .. }) && port_needs_identity(address, management)
    }

    /// Returns the client's certificate.
    pub(super) fn certificate(&self) -> Option<&ClientCertificate> {
        match self {
            Self::Socket | Self::Traffic => None,
            Self::Port { certificate, .. } => certificate.as_deref(),
        }
    }
}

/// Returns true if clients of a port at `address` must show a token or a certificate.
pub fn port_needs_identity(address: IpAddr, management: &Management) -> bool {
    !address.is_loopback() || management.tls.as_ref().is_some_and(|tls| tls.identifies_clients)
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket => f.write_str("unix"),
            Self::Port { client, .. } => client.fmt(f),
            Self::Traffic => f.write_str("traffic"),
        }
    }
}
