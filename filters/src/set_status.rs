//! Replaces the status of upstream responses: Spring Cloud Gateway's `SetStatus`.
//!
//! Headers and body are unchanged. With an original-status header (Spring's global
//! `set-status.original-status-header-name`) the response has the upstream's status in it, in brackets: `[200]`. Local
//! responses of filters or of the gateway ([`LocalReply`]) are unchanged, and so is 101, which ends HTTP on its
//! connection. Rejects no request; costs one comparison.
//!
//! ```
//! use http::{Request, Response, StatusCode};
//! use tollgate_filters::set_status::{SetStatusLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = SetStatusLayer::new(Settings::new(StatusCode::ACCEPTED, None));
//! let upstream = service_fn(|_: Request<()>| async { Ok::<_, std::convert::Infallible>(Response::new(())) });
//! let response = layer.layer(upstream).oneshot(Request::new(())).await?;
//! assert_eq!(response.status(), StatusCode::ACCEPTED);
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::context::LocalReply;
use crate::response_filter::{ResponseFilterLayer, ResponseMapper};

/// The new status, and the header for the original one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    status: StatusCode,
    original_status_header: Option<HeaderName>,
}

/// Replaces the status of upstream responses. See the [module](self).
pub type SetStatusLayer = ResponseFilterLayer<Arc<Settings>>;

// === impl Settings ===

impl Settings {
    /// Sets `status`, which may be non-standard. `original_status_header` gets the upstream's status.
    #[must_use]
    pub fn new(status: StatusCode, original_status_header: Option<HeaderName>) -> Self {
        Self { status, original_status_header }
    }
}

impl ResponseMapper for Arc<Settings> {
    fn apply<R>(self, response: &mut Response<R>) {
        if LocalReply::marks(response) || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return;
        }
        if let Some(name) = &self.original_status_header {
            let original = ["[", response.status().as_str(), "]"].concat();
            // Digits and brackets are a valid header value. A full map does not get the header.
            if let Ok(original) = HeaderValue::try_from(original) {
                let _ = response.headers_mut().try_insert(name, original);
            }
        }
        *response.status_mut() = self.status;
    }
}
