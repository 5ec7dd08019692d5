//! Requests to the ACME server, over the small client.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::USER_AGENT;
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tollgate_transport::small_client::{Bounds, exchange, system_tls};

/// Bounds of a response: the largest ones are chains of certificates.
const BOUNDS: Bounds = Bounds { timeout: Duration::from_secs(30), max_bytes: 1 << 20 };

/// Client of instant-acme that keeps no connection and trusts the CA certificates of the system.
pub(crate) struct Client;

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_or_else(|never| match never {}, |body| body.to_bytes());
            let mut builder = Request::builder().method(head.method);
            for (name, value) in head.headers.iter().filter(|(name, _)| **name != USER_AGENT) {
                builder = builder.header(name, value);
            }
            match exchange(&head.uri, builder, body, system_tls, BOUNDS).await {
                Ok(response) => Ok(BytesResponse::from(response.map(Full::new))),
                Err(error) => Err(Error::Other(error.into())),
            }
        })
    }
}
