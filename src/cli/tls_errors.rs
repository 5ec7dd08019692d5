//! Remedies for failed TLS connections to an admin port.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Returns what to do about a failed connection; `None` if TLS did not fail, or only the error itself tells.
pub(super) fn remedy(error: &io::Error) -> Option<&'static str> {
    Some(match error.get_ref()?.downcast_ref::<Error>()? {
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "the admin port requires a client certificate: give one with --cert and --key"
            }
            AlertDescription::CertificateExpired => "the client certificate has expired: give another one with --cert",
            // A CA of the same name with another key fails to verify the signature.
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                "the admin port does not know the CA of the client certificate: \
                 `management.server.ssl.trust-certificate` of the gateway must contain it"
            }
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown => {
                "the admin port refuses the client certificate: the log of the gateway has the reason"
            }
            _ => return None,
        },
        Error::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "no CA certificate verifies the certificate of the admin port: give its CA with --cacert"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the certificate of the admin port has expired: renew it, then `tollgate reload` over the Unix socket or \
                 send SIGHUP"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the certificate of the admin port has other names: use one of them as HOST"
            }
            _ => return None,
        },
        Error::InvalidMessage(_) => "the port does not speak TLS: leave out https://",
        _ => return None,
    })
}
