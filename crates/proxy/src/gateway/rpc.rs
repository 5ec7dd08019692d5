//! Responses of the gateway itself to clients of gRPC, gRPC-Web and Connect: errors of the client's protocol.
//!
//! gRPC clients read HTTP 429 as `UNAVAILABLE` and retry at once. A denial is therefore HTTP 200 with `RESOURCE_EXHAUSTED`, and
//! says when to retry: `grpc-retry-pushback-ms`, and `google.rpc.RetryInfo` in `grpc-status-details-bin`. Layers see the HTTP
//! response; it is translated when all of them have run.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};
use serde_json::json;
use tollgate_filters::context::LocalReply;
use tollgate_filters::refusal::{ErrorFormat, Refusal, RetryAdvice, grpc};

use crate::http::body::Body;
use crate::http::service::WithoutUpstream;

/// Field of Connect's requests that do not stream.
pub(super) const CONNECT_VERSION: &str = "connect-protocol-version";
/// Longest message of an error in bytes: it is sent in header fields.
const MAX_MESSAGE: usize = 1024;
/// Flag of the frame of gRPC-Web that has the trailers.
const TRAILERS: u8 = 0x80;
/// Flag of the last message of a stream in Connect.
const END_OF_STREAM: u8 = 0x02;

/// Client of an RPC protocol.
#[derive(Clone, Debug)]
pub(super) struct RpcCaller {
    protocol: Protocol,
    content_type: HeaderValue,
    /// Format of responses that no limiter made.
    format: ErrorFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Grpc,
    GrpcWeb,
    GrpcWebText,
    ConnectUnary,
    ConnectStream,
}

/// Error of an RPC.
struct RpcError {
    code: Code,
    message: String,
    retry: Option<RetryAdvice>,
}

/// Status of gRPC, and its name in Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code(u8, &'static str);

const DEADLINE_EXCEEDED: Code = Code(4, "deadline_exceeded");
const PERMISSION_DENIED: Code = Code(7, "permission_denied");
const RESOURCE_EXHAUSTED: Code = Code(8, "resource_exhausted");
const UNIMPLEMENTED: Code = Code(12, "unimplemented");
const INTERNAL: Code = Code(13, "internal");
const UNAVAILABLE: Code = Code(14, "unavailable");
const UNAUTHENTICATED: Code = Code(16, "unauthenticated");

/// Returns true if `content_type` is one of an RPC protocol. [`RpcCaller::of`] looks closer.
#[inline]
pub(super) fn is_rpc_type(content_type: &[u8]) -> bool {
    ["application/grpc", "application/connect+"].iter().any(|prefix| {
        content_type.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    })
}

// === impl RpcCaller ===

impl RpcCaller {
    /// Returns the client of a request, if it speaks an RPC protocol.
    #[cold]
    pub(super) fn of(head: &Parts, format: ErrorFormat) -> Option<Box<Self>> {
        let content_type = head.headers.get(CONTENT_TYPE)?;
        let protocol = Protocol::of(content_type, &head.headers, head.version)?;
        Some(Box::new(Self { protocol, content_type: content_type.clone(), format }))
    }

    /// Translates `response` into the client's protocol, if the gateway made it itself.
    pub(super) fn translate(&self, response: &mut Response<Body>) {
        let refusal = response.extensions().get::<Refusal>();
        let format = refusal.map_or(self.format, |refusal| refusal.format);
        let is_denial = refusal.is_some_and(|refusal| refusal.is_denial);
        let retry = refusal.and_then(|refusal| refusal.retry);
        let is_error = is_denial || !response.status().is_success();
        let is_local = refusal.is_some()
            || LocalReply::marks(response)
            || response.extensions().get::<WithoutUpstream>().is_some();
        if format == ErrorFormat::Http || !is_error || !is_local {
            return;
        }
        let status = response.status();
        let never = || [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE].contains(&status);
        let error = RpcError {
            code: if is_denial { RESOURCE_EXHAUSTED } else { Code::of(status) },
            message: message(response),
            retry: retry.or_else(|| never().then_some(RetryAdvice::Never)),
        };
        let headers = response.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        let mut new_status = StatusCode::OK;
        let body = match self.protocol {
            Protocol::Grpc => {
                grpc::set_error_fields(headers, error.code.0, &error.message, error.retry);
                Bytes::new()
            }
            Protocol::GrpcWeb => error.trailers(),
            Protocol::GrpcWebText => STANDARD.encode(error.trailers()).into(),
            Protocol::ConnectStream => frame(END_OF_STREAM, json!({"error": error.json()}).to_string().as_bytes()),
            Protocol::ConnectUnary => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                // Clients read a status of success as a message.
                new_status = if status.is_success() { StatusCode::TOO_MANY_REQUESTS } else { status };
                error.json().to_string().into()
            }
        };
        *response.status_mut() = new_status;
        *response.body_mut() = body.into();
    }
}

/// Returns the text of an error: the body of `response`, such as the text of a limiter, or the name of its status.
fn message(response: &Response<Body>) -> String {
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json");
    let body = response.body().whole().filter(|_| !is_problem).map(|bytes| String::from_utf8_lossy(bytes));
    let text = body.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let text = text.or(response.status().canonical_reason()).unwrap_or("Error");
    text[..text.floor_char_boundary(MAX_MESSAGE)].to_owned()
}

/// Returns a message of a stream, with its flags and its length.
fn frame(flags: u8, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(flags);
    frame.put_u32(u32::try_from(message.len()).unwrap_or_default());
    frame.put_slice(message);
    frame.freeze()
}

// === impl Protocol ===

impl Protocol {
    /// Returns the protocol of a request. gRPC needs trailers, which its clients read over HTTP/2 only.
    fn of(content_type: &HeaderValue, headers: &HeaderMap, version: Version) -> Option<Self> {
        let essence = content_type.to_str().ok()?.split(';').next()?.trim().to_ascii_lowercase();
        let (base, suffix) = match essence.split_once('+') {
            Some((base, suffix)) => (base, Some(suffix)),
            None => (&*essence, None),
        };
        match (base, suffix) {
            ("application/grpc", _) => (version == Version::HTTP_2).then_some(Self::Grpc),
            ("application/grpc-web", _) => Some(Self::GrpcWeb),
            ("application/grpc-web-text", _) => Some(Self::GrpcWebText),
            ("application/connect", Some(_)) => Some(Self::ConnectStream),
            _ => headers.get(CONNECT_VERSION).is_some_and(|version| version == "1").then_some(Self::ConnectUnary),
        }
    }
}

// === impl Code ===

impl Code {
    /// Returns the code of a response that is no denial.
    fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            401 => UNAUTHENTICATED,
            403 => PERMISSION_DENIED,
            404 => UNIMPLEMENTED,
            413 | 431 => RESOURCE_EXHAUSTED,
            502 | 503 => UNAVAILABLE,
            504 => DEADLINE_EXCEEDED,
            _ => INTERNAL,
        }
    }
}

// === impl RpcError ===

impl RpcError {
    /// Returns the trailers as the frame of gRPC-Web: browsers show no other field to scripts of another origin.
    fn trailers(&self) -> Bytes {
        let fields = grpc::error_fields(self.code.0, &self.message, self.retry);
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        frame(TRAILERS, lines.as_bytes())
    }

    /// Returns the error of Connect.
    fn json(&self) -> serde_json::Value {
        let mut error = json!({"code": self.code.1, "message": self.message});
        if let Some(RetryAdvice::After(wait)) = self.retry {
            error["details"] =
                json!([{"type": grpc::RETRY_INFO, "value": grpc::unpadded_base64(&grpc::retry_info(wait))}]);
        }
        error
    }
}
