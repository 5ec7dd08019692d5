//! Certificates of clients: those of connections, and the fields by which proxies tell of them.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use tollgate_config::ForwardClientCert;
use tollgate_filters::client_certificate::{ClientCertificate, VerifiedClient};
use tollgate_transport::certificate::{client_certificate, subject};

/// Field with a certificate (RFC 9440).
pub const CLIENT_CERT: HeaderName = HeaderName::from_static("client-cert");
/// Field with the certificates that sign it.
pub const CLIENT_CERT_CHAIN: HeaderName = HeaderName::from_static("client-cert-chain");
/// Envoy's field with the digest and the names of a certificate.
pub const XFCC: HeaderName = HeaderName::from_static("x-forwarded-client-cert");

/// Certificate with which a client has opened its connection.
#[derive(Debug)]
pub struct PeerCertificate {
    /// Names and digest.
    pub client: CertifiedClient,
    chain: Vec<CertificateDer<'static>>,
    client_cert: OnceCell<Fields>,
    xfcc: OnceCell<Fields>,
}

/// Names of a client, and its subject as text.
#[derive(Clone, Debug)]
pub struct CertifiedClient {
    /// Names and digest, for keys.
    pub names: VerifiedClient,
    /// Subject, for logs.
    pub subject: Arc<str>,
}

type Fields = Vec<(HeaderName, HeaderValue)>;

// === impl CertifiedClient ===

impl CertifiedClient {
    /// Reads a certificate in DER. `None` if it is none.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let subject = subject(certificate)?.into();
        Some(Self { names: VerifiedClient(Arc::new(client_certificate(certificate))), subject })
    }

    /// Reads the field `Client-Cert`. `None` if it is missing, repeated or no certificate.
    pub fn of_field(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(CLIENT_CERT).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        Self::of_value(value.to_str().ok()?)
    }

    /// Reads the value of a field `Client-Cert`. `None` if it is no certificate.
    pub fn of_value(value: &str) -> Option<Self> {
        let encoded = value.split(';').next()?.trim().strip_prefix(':')?.strip_suffix(':')?;
        Self::of(&STANDARD.decode(encoded).ok()?)
    }
}

// === impl PeerCertificate ===

impl PeerCertificate {
    /// Reads the certificates of a connection, the client's own first. `None` without one.
    pub fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        Some(Self {
            client: CertifiedClient::of(chain.first()?)?,
            chain: chain.iter().map(|certificate| certificate.clone().into_owned()).collect(),
            client_cert: OnceCell::new(),
            xfcc: OnceCell::new(),
        })
    }

    /// Returns the fields that tell an upstream of the certificate.
    pub fn fields(&self, mode: ForwardClientCert) -> &[(HeaderName, HeaderValue)] {
        match mode {
            ForwardClientCert::Off => &[],
            ForwardClientCert::ClientCert => self.client_cert.get_or_init(|| client_cert_fields(&self.chain)),
            ForwardClientCert::Xfcc => self.xfcc.get_or_init(|| xfcc_fields(&self.client)),
        }
    }
}

/// Returns the value of a field `Client-Cert` for a certificate in DER.
pub fn client_cert_value(certificate: &[u8]) -> String {
    format!(":{}:", STANDARD.encode(certificate))
}

/// Returns `Client-Cert`, and `Client-Cert-Chain` if the client sent further certificates.
fn client_cert_fields(chain: &[CertificateDer<'_>]) -> Fields {
    let mut items = chain.iter().map(|certificate| client_cert_value(certificate));
    let own = items.next().unwrap_or_default();
    let others: Vec<String> = items.collect();
    let fields = [(CLIENT_CERT, own), (CLIENT_CERT_CHAIN, others.join(", "))];
    let value = |(name, text): (HeaderName, String)| Some((name, HeaderValue::try_from(text).ok()?));
    fields.into_iter().filter(|(_, text)| !text.is_empty()).filter_map(value).collect()
}

/// Returns Envoy's field.
fn xfcc_fields(client: &CertifiedClient) -> Fields {
    let VerifiedClient(names) = &client.names;
    let ClientCertificate { uris, dns_names, fingerprint, .. } = &**names;
    let mut text = format!("Hash={fingerprint};Subject=\"{}\"", hex_escaped(&client.subject));
    for (key, value) in uris.iter().map(|uri| ("URI", uri)).chain(dns_names.iter().map(|name| ("DNS", name))) {
        // No URI and no DNS name has these two characters: a URI has them percent-encoded.
        let value = value.replace('\\', "%5C").replace('"', "%22");
        let quote = if value.contains([',', ';', '=']) { "\"" } else { "" };
        // Writing to a `String` cannot fail.
        let _ = write!(text, ";{key}={quote}{value}{quote}");
    }
    HeaderValue::try_from(text).map(|value| (XFCC, value)).into_iter().collect()
}

/// Writes escaped backslashes and quotes of a subject by their codes (RFC 4514 §2.4). Readers of the field differ about
/// a quote behind two backslashes, and a client could end its own name there.
fn hex_escaped(subject: &str) -> String {
    let mut escaped = String::with_capacity(subject.len());
    let mut characters = subject.chars();
    while let Some(character) = characters.next() {
        escaped.push(character);
        match (character, characters.clone().next()) {
            ('\\', Some('\\')) => escaped.push_str("5C"),
            ('\\', Some('"')) => escaped.push_str("22"),
            _ => continue,
        }
        characters.next();
    }
    escaped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn of(lines: &[&str]) -> Option<CertifiedClient> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(CLIENT_CERT, line.parse().unwrap());
        }
        CertifiedClient::of_field(&headers)
    }

    #[test]
    fn a_field_that_holds_no_certificate_names_no_client() {
        for lines in [&[][..], &[""], &[":"], &["::"], &[":AAAA:"], &["AAAA"], &[":%%:"], &[":AAAA:", ":AAAA:"]] {
            assert!(of(lines).is_none(), "{lines:?}");
        }
    }

    #[test]
    fn names_end_where_they_end_in_the_field_of_envoy() {
        let names = ClientCertificate {
            uris: vec!["spiffe://a/b".into(), "urn:a;b=\\\"c\"".into()],
            dns_names: vec!["a.example".into()],
            fingerprint: "ab".into(),
            ..ClientCertificate::default()
        };
        let client = CertifiedClient { names: VerifiedClient(names.into()), subject: r#"CN=a\\\"b\,c"#.into() };
        let fields = xfcc_fields(&client);
        let expected = r#"Hash=ab;Subject="CN=a\5C\22b\,c";URI=spiffe://a/b;URI="urn:a;b=%5C%22c%22";DNS=a.example"#;
        assert_eq!(fields[0].1, expected);
    }
}
