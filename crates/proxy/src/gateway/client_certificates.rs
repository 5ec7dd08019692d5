//! Client of a request by its certificate: for keys, for upstreams and for the log.

use http::request::Parts;
use tollgate_config::ForwardClientCert;

use crate::gateway::Generation;
use crate::http::client_certificate::{CertifiedClient, XFCC};
use crate::http::handler::ConnectionInfo;
use crate::instrumentation::record::Record;

/// Identifies the client of a request, and sets the fields that tell the upstream of its certificate. With
/// [`ForwardClientCert::ClientCert`], a trusted proxy speaks for its clients: without a field, the client has no certificate,
/// and the proxy's own is not the client's (RFC 9440 §2.4).
pub(super) fn identify(
    generation: &Generation,
    head: &mut Parts,
    connection: &ConnectionInfo,
    is_trusted: bool,
    record: &mut Record,
) {
    let mode = generation.config.server.forward_client_cert;
    let of_connection = connection.certificate.as_ref();
    let (client, forwarded) = match mode {
        ForwardClientCert::ClientCert if is_trusted => (CertifiedClient::of_field(&head.headers), None),
        ForwardClientCert::Xfcc if is_trusted && head.headers.contains_key(XFCC) => {
            (of_connection.map(|certificate| certificate.client.clone()), None)
        }
        _ => (of_connection.map(|certificate| certificate.client.clone()), of_connection),
    };
    if let Some(certificate) = forwarded {
        for (name, value) in certificate.fields(mode) {
            head.headers.insert(name, value.clone());
        }
    }
    let Some(CertifiedClient { names, subject }) = client else { return };
    if let Some(details) = record.details() {
        details.client_subject = Some(subject);
    }
    head.extensions.insert(names);
}
