//! Client of a request by its certificate: for keys, for upstreams and for the log.

use http::request::Parts;
use tollgate_config::ForwardClientCert;

use crate::gateway::Generation;
use crate::http::client_certificate::{CLIENT_CERT, CertifiedClient, XFCC};
use crate::http::handler::ConnectionInfo;
use crate::instrumentation::record::Record;

/// Identifies the client of a request, and sets the fields that tell the upstream of its certificate. The field of a trusted
/// proxy wins over the proxy's own certificate.
pub(super) fn identify(
    generation: &Generation,
    head: &mut Parts,
    connection: &ConnectionInfo,
    is_trusted: bool,
    record: &mut Record,
) {
    let mode = generation.config.server.forward_client_cert;
    let is_told = is_trusted
        && match mode {
            ForwardClientCert::Off => false,
            ForwardClientCert::ClientCert => head.headers.contains_key(CLIENT_CERT),
            ForwardClientCert::Xfcc => head.headers.contains_key(XFCC),
        };
    let client = if is_told && mode == ForwardClientCert::ClientCert {
        CertifiedClient::of_field(&head.headers)
    } else {
        connection.certificate.as_ref().map(|certificate| certificate.client.clone())
    };
    if let Some(certificate) = connection.certificate.as_ref().filter(|_| !is_told) {
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
