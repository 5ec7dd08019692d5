//! Whose certificates are believed, where that is not for the system to say.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    WantsVerifier,
};

use crate::upstream::tls::TlsError;

/// Believes what one of `certificates` has signed, and each of them itself.
pub(super) fn authorities(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    certificates: &[Vec<u8>],
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(CertificateDer::from(certificate.as_slice())).map_err(TlsError::Unusable)?;
    }
    let by_chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| TlsError::Unusable(Error::General(error.to_string())))?;
    let verifier = Listed { by_chain, certificates: certificates.to_vec() };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

/// Believes anybody, who must still have the key of the certificate that is shown.
pub(super) fn anybody(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    provider: &CryptoProvider,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let verifier = Anybody(provider.signature_verification_algorithms);
    builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
}

/// Chains up to one of the certificates, and the certificates themselves. `openssl req -x509` marks what it makes as an
/// authority's, which no server's certificate may be (RFC 5280 §4.2.1.9): whoever lists such a one believes it all the
/// same, and Java does. Its name and its time must fit as ever.
#[derive(Debug)]
struct Listed {
    by_chain: Arc<WebPkiServerVerifier>,
    certificates: Vec<Vec<u8>>,
}

impl ServerCertVerifier for Listed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.by_chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // What webpki says of a certificate that is an authority's; times are looked at before.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.certificates.iter().any(|listed| listed == end_entity.as_ref()) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_chain.supported_verify_schemes()
    }
}

#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
