//! Built-in upstream `echo:`, which responds with the request it got. The demo uses it.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use serde_json::{Map, Value, json};

use crate::http::body::Body;

/// Responds 200 with the method, target and header fields of the request as JSON. The body is not read.
#[must_use]
pub fn echo(request: &Request<Body>) -> Response<Body> {
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
    });
    let mut response = Response::new(Body::from(Bytes::from(format!("{body:#}\n"))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
