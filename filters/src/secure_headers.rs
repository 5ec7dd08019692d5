//! Adds security headers for browsers to responses: Spring Cloud Gateway's `SecureHeaders`.
//!
//! A header is added only if the upstream did not set it. Names and values are fixed at load, so a response costs one
//! look-up per header. Local responses of filters or of the gateway ([`LocalReply`]) are unchanged, and so is 101, which
//! ends HTTP on its connection. Rejects no request.
//!
//! ```
//! use http::{Request, Response};
//! use tollgate_filters::secure_headers::{SecureHeader, SecureHeadersLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = SecureHeadersLayer::new(Settings::new([(SecureHeader::FrameOptions, None)])?);
//! let upstream = service_fn(|_: Request<()>| async { Ok::<_, std::convert::Infallible>(Response::new(())) });
//! let response = layer.layer(upstream).oneshot(Request::new(())).await?;
//! assert_eq!(response.headers()["x-frame-options"], "DENY");
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Response, StatusCode};
use thiserror::Error;

use crate::context::LocalReply;
use crate::response_filter::{ResponseFilterLayer, ResponseMapper};

tollgate_limiter::labelled! {
    /// A header that this filter can add, in the order in which they are added. The labels are the names in lower case.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SecureHeader {
        /// `X-Xss-Protection`.
        XssProtection = "x-xss-protection",
        /// `Strict-Transport-Security`.
        StrictTransportSecurity = "strict-transport-security",
        /// `X-Frame-Options`.
        FrameOptions = "x-frame-options",
        /// `X-Content-Type-Options`.
        ContentTypeOptions = "x-content-type-options",
        /// `Referrer-Policy`.
        ReferrerPolicy = "referrer-policy",
        /// `Content-Security-Policy`.
        ContentSecurityPolicy = "content-security-policy",
        /// `X-Download-Options`.
        DownloadOptions = "x-download-options",
        /// `X-Permitted-Cross-Domain-Policies`.
        PermittedCrossDomainPolicies = "x-permitted-cross-domain-policies",
        /// `Permissions-Policy`, the only header that is not added by default.
        PermissionsPolicy = "permissions-policy",
    }
}

const CONTENT_SECURITY_POLICY: &str = "default-src 'self' https:; font-src 'self' https: data:; img-src 'self' https: data:; \
    object-src 'none'; script-src https:; style-src 'self' https: 'unsafe-inline'";
const PERMISSIONS_POLICY: &str = "accelerometer=(), ambient-light-sensor=(), autoplay=(), battery=(), camera=(), \
    cross-origin-isolated=(), display-capture=(), document-domain=(), encrypted-media=(), \
    execution-while-not-rendered=(), execution-while-out-of-viewport=(), fullscreen=(), geolocation=(), \
    gyroscope=(), keyboard-map=(), magnetometer=(), microphone=(), midi=(), navigation-override=(), \
    payment=(), picture-in-picture=(), publickey-credentials-get=(), screen-wake-lock=(), sync-xhr=(), \
    usb=(), web-share=(), xr-spatial-tracking=()";

/// The headers to add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// An invalid header value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{value}` is not a valid header value: remove control and non-ASCII characters")]
#[non_exhaustive]
pub struct SettingsError {
    /// The invalid value.
    pub value: String,
}

/// Adds headers to upstream responses. See the [module](self).
pub type SecureHeadersLayer = ResponseFilterLayer<Arc<Settings>>;

// === impl SecureHeader ===

impl SecureHeader {
    /// Returns Spring's value.
    fn default_value(self) -> &'static str {
        match self {
            Self::XssProtection => "1 ; mode=block",
            Self::StrictTransportSecurity => "max-age=631138519",
            Self::FrameOptions => "DENY",
            Self::ContentTypeOptions => "nosniff",
            Self::ReferrerPolicy => "no-referrer",
            Self::ContentSecurityPolicy => CONTENT_SECURITY_POLICY,
            Self::DownloadOptions => "noopen",
            Self::PermittedCrossDomainPolicies => "none",
            Self::PermissionsPolicy => PERMISSIONS_POLICY,
        }
    }

    /// Returns true if the header is added by default.
    #[must_use]
    pub fn is_default(self) -> bool {
        self != Self::PermissionsPolicy
    }
}

// === impl Settings ===

impl Settings {
    /// Adds these headers, each with the given value or with Spring's.
    ///
    /// # Errors
    /// Returns an error for a value with control characters, or one that is not ASCII.
    pub fn new<'v>(headers: impl IntoIterator<Item = (SecureHeader, Option<&'v str>)>) -> Result<Self, SettingsError> {
        let header = |(header, value): (SecureHeader, Option<&str>)| {
            let value = value.unwrap_or(header.default_value());
            let parsed = HeaderValue::from_str(value).map_err(|_| SettingsError { value: value.to_owned() })?;
            Ok((HeaderName::from_static(header.as_str()), parsed))
        };
        Ok(Self { headers: headers.into_iter().map(header).collect::<Result<_, _>>()? })
    }
}

impl ResponseMapper for Arc<Settings> {
    fn apply<R>(self, response: &mut Response<R>) {
        if LocalReply::marks(response) || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return;
        }
        for (name, value) in &self.headers {
            if !response.headers().contains_key(name) {
                // A full map does not get the header.
                let _ = response.headers_mut().try_insert(name, value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn all() -> Arc<Settings> {
        Arc::new(Settings::new(SecureHeader::ALL.map(|header| (header, None))).unwrap())
    }

    #[test]
    fn headers_of_the_upstream_are_kept() {
        let mut response = Response::new(());
        response.headers_mut().insert("x-frame-options", HeaderValue::from_static("SAMEORIGIN"));
        response.headers_mut().insert("referrer-policy", HeaderValue::from_static(""));
        all().apply(&mut response);
        assert_eq!(response.headers().get_all("x-frame-options").iter().collect::<Vec<_>>(), ["SAMEORIGIN"]);
        assert_eq!(response.headers()["referrer-policy"], "", "an empty value counts as set");
        assert_eq!(response.headers()["x-xss-protection"], "1 ; mode=block");
        assert_eq!(response.headers().len(), SecureHeader::ALL.len());
    }

    #[test]
    fn local_responses_and_upgrades_are_unchanged() {
        let mut local = Response::new(());
        local.extensions_mut().insert(LocalReply { reason: "rate-limited" });
        all().apply(&mut local);
        assert!(local.headers().is_empty());
        let mut tunnel = Response::builder().status(101).body(()).unwrap();
        all().apply(&mut tunnel);
        assert!(tunnel.headers().is_empty());
    }

    #[test]
    fn an_invalid_value_is_an_error() {
        assert!(Settings::new([(SecureHeader::FrameOptions, Some("a\r\nb"))]).is_err());
        assert_eq!(Settings::new([]), Ok(Settings::default()));
    }
}
