//! Verification of server certificates when the system's trust store is not used.

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

use crate::tls::TlsError;

/// Trusts certificates signed by one of `certificates`, and these certificates themselves.
pub(super) fn with_ca_certificates(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    certificates: &[Vec<u8>],
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(CertificateDer::from(certificate.as_slice())).map_err(TlsError::InvalidSettings)?;
    }
    let algorithms = provider.signature_verification_algorithms;
    let by_chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| TlsError::InvalidSettings(Error::General(error.to_string())))?;
    let check = CertificateCheck::CaOrListed { by_chain, certificates: certificates.to_vec() };
    let verifier = Verifier { check, algorithms };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

/// Accepts any certificate. The server must still prove that it has the certificate's key.
pub(super) fn without_verification(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    provider: &CryptoProvider,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let verifier =
        Verifier { check: CertificateCheck::Skipped, algorithms: provider.signature_verification_algorithms };
    builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
}

/// Verifier of server certificates, and of signatures by their keys.
#[derive(Debug)]
struct Verifier {
    check: CertificateCheck,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Check of a server certificate. Signatures are verified in any case.
#[derive(Debug)]
enum CertificateCheck {
    Skipped,
    /// Chains up to a listed certificate, and the listed certificates themselves.
    ///
    /// `openssl req -x509` marks its certificates as CA certificates, which a server's certificate must not be (RFC 5280
    /// §4.2.1.9). A listed one is accepted nevertheless, as in Java. Its name and validity period are still verified.
    CaOrListed {
        by_chain: Arc<WebPkiServerVerifier>,
        certificates: Vec<Vec<u8>>,
    },
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let CertificateCheck::CaOrListed { by_chain, certificates } = &self.check else {
            return Ok(ServerCertVerified::assertion());
        };
        match by_chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // webpki's error for a CA certificate as a server's certificate. It checks the validity period before.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if certificates.iter().any(|listed| listed == end_entity.as_ref()) =>
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
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
