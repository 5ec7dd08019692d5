//! Two calls a minute per client of gRPC; the third gets status 8, `RESOURCE_EXHAUSTED`, with `RetryInfo`.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::TokenBucket;
use tollgate_filters::request_rate_limiter::RequestRateLimiterLayer;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tower::Service;

/// Service without generated code, whose calls succeed without a message.
#[derive(Clone)]
struct Greeter;

impl NamedService for Greeter {
    const NAME: &'static str = "hello.Greeter";
}

impl Service<Request<tonic::body::Body>> for Greeter {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<tonic::body::Body>) -> Self::Future {
        ready(Ok(tonic::Status::ok("").into_http()))
    }
}

pub(crate) async fn serve(listener: tokio::net::TcpListener) -> Result<(), Box<dyn Error>> {
    let limiter = RequestRateLimiterLayer::builder()
        .rule(TokenBucket::new(2, Duration::from_secs(60), 2)?)
        .key(KeyResolver::ip_from(|peer: &TcpConnectInfo| peer.remote_addr().map(|address| address.ip())))
        .build()?;
    let server = Server::builder().layer(limiter).add_service(Greeter);
    Ok(server.serve_with_incoming(TcpIncoming::from(listener)).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?).await
}
