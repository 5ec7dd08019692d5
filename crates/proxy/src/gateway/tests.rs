//! A panic in a layer.

use http::{Response, StatusCode};

use super::*;
use crate::instrumentation::metrics::Metrics;

#[tokio::test]
async fn a_panic_in_a_layer_ends_only_its_request_with_500() {
    let unrouted = Metrics::default().route(0, None);
    let future = |running: ResponseFuture| {
        let record = Record::new(Instant::now(), Arc::clone(&unrouted), Method::GET);
        GatewayFuture { progress: Progress::Running(running), form: ErrorForm::default(), record: Some(record) }
    };
    let response = future(Box::pin(async { panic!("in a layer") })).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    // The counters that the panic passed through are usable.
    drop(response);
    let response = future(Box::pin(async { Ok(Response::new(Body::default())) })).await;
    assert_eq!(response.status(), StatusCode::OK);
}
