//! Certificates of clients and the field `Client-Cert`: names of any certificate make fields that can be sent, and the field
//! that the gateway sends names the same client.
//!
//! Input: a certificate in DER, or the value of a field.

use http::{HeaderMap, HeaderValue};
use rustls::pki_types::CertificateDer;
use tollgate_config::ForwardClientCert;
use tollgate_proxy::http::client_certificate::{CLIENT_CERT, CertifiedClient, PeerCertificate};

pub fn run(bytes: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(bytes) {
        let headers = HeaderMap::from_iter([(CLIENT_CERT, value)]);
        if let Some(client) = CertifiedClient::of_field(&headers) {
            named(&client);
        }
    }
    let chain = [CertificateDer::from(bytes), CertificateDer::from(bytes)];
    let Some(certificate) = PeerCertificate::of(&chain) else { return };
    named(&certificate.client);
    let headers: HeaderMap = certificate.fields(ForwardClientCert::ClientCert).iter().cloned().collect();
    assert_eq!(headers.len(), 2, "the field of the chain is missing");
    let told = CertifiedClient::of_field(&headers);
    assert_eq!(told.map(|client| client.names), Some(certificate.client.names.clone()));
    for (_, value) in certificate.fields(ForwardClientCert::Xfcc) {
        assert!(value.as_bytes().starts_with(b"Hash="));
    }
}

fn named(client: &CertifiedClient) {
    let names = &client.names.0;
    assert!(names.fingerprint.len() == 64 && names.fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let all = [&names.uris, &names.dns_names, &names.emails, &names.common_names];
    assert!(all.into_iter().flatten().all(|name| !name.is_empty()));
    assert!(client.subject.chars().all(|character| !character.is_control()), "{:?}", client.subject);
}
