//! Built-in upstream `echo:`, which responds with the request it got. The demo uses it.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use tollgate_filters::context::ReceivedPath;

use super::error::body_failure;
use crate::http::body::{Body, BodyError};
use crate::http::failure::Failure;

/// Reads the body of `request` to its end, then responds 200 with its method, target, header fields and the number of
/// body bytes as JSON. Layers in front of it see every byte, as they would with another upstream.
///
/// # Errors
/// Fails if the body is too large, malformed, incomplete or late.
pub async fn echo(mut request: Request<Body>) -> Result<Response<Body>, Failure> {
    ReceivedPath::restore(&mut request);
    let body_bytes = discard(request.body_mut()).await.map_err(|error| body_failure(&error))?;
    let mut fields = Map::new();
    for name in request.headers().keys() {
        let values = request.headers().get_all(name).iter();
        let joined: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        fields.insert(name.to_string(), Value::String(joined.join(", ")));
    }
    let body = json!({
        "method": request.method().as_str(),
        "target": request.uri().to_string(),
        "headers": fields,
        "bodyBytes": body_bytes,
    });
    let mut response = Response::new(Body::from(Bytes::from(format!("{body:#}\n"))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Reads `body` to its end without keeping it. Returns its length in bytes.
async fn discard(body: &mut Body) -> Result<u64, BodyError> {
    let mut bytes = 0;
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await else { break };
        bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(bytes)
}
