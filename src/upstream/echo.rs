//! The built-in upstream `echo:`, which answers with what it was asked: something to curl where nothing runs yet.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use serde_json::{Map, Value, json};

use crate::http::body::Body;

/// Answers 200 with the request's method, target and fields as JSON. The body is not read.
#[must_use]
pub fn echo(request: &Request<Body>) -> Response<Body> {
    let mut fields = Map::new();
    for name in request.headers().keys() {
        let values = request.headers().get_all(name).iter();
        let joined: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        fields.insert(name.to_string(), Value::String(joined.join(", ")));
    }
    let answer = json!({
        "method": request.method().as_str(),
        "target": request.uri().to_string(),
        "headers": fields,
    });
    let mut response = Response::new(Body::from(Bytes::from(format!("{answer:#}\n"))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
