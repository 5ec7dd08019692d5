//! Two requests a minute per client address, with hyper alone.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tollgate_filters::context::RequestContext;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::TokenBucket;
use tollgate_filters::request_rate_limiter::RequestRateLimiterLayer;
use tower::util::MapRequestLayer;
use tower::{ServiceBuilder, service_fn};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello\n")))
}

pub(crate) async fn serve(listener: tokio::net::TcpListener) -> Result<(), Box<dyn Error>> {
    let limiter = RequestRateLimiterLayer::builder()
        .rule(TokenBucket::new(2, Duration::from_secs(60), 2)?)
        .key(KeyResolver::client_ip())
        .build()?;
    loop {
        let (stream, peer) = listener.accept().await?;
        let client = RequestContext { client_ip: Some(peer.ip()), ..RequestContext::default() };
        let with_client = MapRequestLayer::new(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(client.clone());
            request
        });
        let service = ServiceBuilder::new().layer(with_client).layer(limiter.clone()).service(service_fn(hello));
        let service = TowerToHyperService::new(service);
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?).await
}
