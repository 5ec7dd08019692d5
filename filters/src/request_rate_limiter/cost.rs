//! Cost of a request in tokens.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Method, Request};

use tollgate_limiter::rule::MAX_SAFE_INTEGER as MAX_TOKENS;

/// Cost of a request in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The source of the number.
    pub source: CostSource,
    /// The cost if the source gives none, and the reservation before the source is known (`requested-tokens`). At least 1.
    pub tokens: u64,
    /// Upper bound of the cost (`max-cost`). A larger number from the source is reduced to it.
    pub max: u64,
}

/// Source of a request's cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CostSource {
    /// [`Cost::tokens`] for every request.
    #[default]
    Fixed,
    /// A header field of the request.
    RequestHeader(HeaderName),
    /// A header field of the response, which settles the difference.
    ResponseHeader(HeaderName),
    /// The request's body: a token for each `unit` of bytes begun. Settled at its end if the length is not announced.
    RequestBody {
        /// Bytes per token.
        unit: u64,
    },
    /// The response's body: a token for each `unit` of bytes begun. Settled at its end. HEAD costs [`Cost::tokens`].
    ResponseBody {
        /// Bytes per token.
        unit: u64,
    },
}

/// Tokens that are taken before the request is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserved {
    pub(super) tokens: u64,
    /// True if the difference is settled later.
    pub(super) settles: bool,
}

impl Default for Cost {
    fn default() -> Self {
        Self::from(1)
    }
}

impl From<u64> for Cost {
    /// Creates a cost of `tokens` for every request.
    fn from(tokens: u64) -> Self {
        Self { source: CostSource::Fixed, tokens, max: MAX_TOKENS }
    }
}

impl Cost {
    /// Returns false if requests are free, or if the bound is below the tokens.
    pub(super) fn is_valid(&self) -> bool {
        let unit = match self.source {
            CostSource::RequestBody { unit } | CostSource::ResponseBody { unit } => unit,
            CostSource::Fixed | CostSource::RequestHeader(_) | CostSource::ResponseHeader(_) => 1,
        };
        self.tokens >= 1 && self.max >= self.tokens && unit >= 1
    }

    /// Returns true if the cost may differ between requests.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.source != CostSource::Fixed
    }

    /// Returns true if request bodies must be metered.
    #[must_use]
    pub fn meters_requests(&self) -> bool {
        matches!(self.source, CostSource::RequestBody { .. })
    }

    /// Returns true if response bodies must be metered.
    #[must_use]
    pub fn meters_responses(&self) -> bool {
        matches!(self.source, CostSource::ResponseBody { .. })
    }

    /// Returns the tokens to take before the request is forwarded.
    pub(super) fn reserve<B>(&self, request: &Request<B>) -> Reserved {
        let (tokens, settles) = match &self.source {
            CostSource::Fixed => return Reserved { tokens: self.tokens, settles: false },
            CostSource::RequestHeader(name) => (number(request.headers(), name), false),
            CostSource::RequestBody { unit } => {
                let length = announced_length(request.headers());
                (length.map(|bytes| bytes.div_ceil(*unit)), length.is_none())
            }
            // The response to HEAD has no body; the request costs what it reserves.
            CostSource::ResponseBody { .. } if request.method() == Method::HEAD => (None, false),
            CostSource::ResponseHeader(_) | CostSource::ResponseBody { .. } => (None, true),
        };
        Reserved { tokens: tokens.unwrap_or(self.tokens).min(self.max), settles }
    }

    /// Returns the total cost that the response's head states; `None` if it states none.
    pub(super) fn of_response(&self, headers: &HeaderMap) -> Option<u64> {
        match &self.source {
            CostSource::ResponseHeader(name) => number(headers, name).map(|tokens| tokens.min(self.max)),
            CostSource::Fixed
            | CostSource::RequestHeader(_)
            | CostSource::RequestBody { .. }
            | CostSource::ResponseBody { .. } => None,
        }
    }

    /// Returns the cost of `bytes` of body.
    pub(super) fn of_bytes(&self, bytes: u64) -> u64 {
        match self.source {
            CostSource::RequestBody { unit } | CostSource::ResponseBody { unit } => bytes.div_ceil(unit).min(self.max),
            CostSource::Fixed | CostSource::RequestHeader(_) | CostSource::ResponseHeader(_) => self.tokens,
        }
    }
}

/// Returns a field's value as a whole number. Any other value (negative, a fraction, text, repeated) counts as missing.
fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let mut values = headers.get_all(name).iter();
    let (only, None) = (values.next()?, values.next()) else { return None };
    let digits = only.to_str().ok()?.trim();
    // `parse` accepts a sign.
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // A number above 64 bits counts as the maximum.
    Some(digits.parse().unwrap_or(u64::MAX).min(MAX_TOKENS))
}

/// Returns the body length that the request's head announces. The server enforces it.
fn announced_length(headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn cost(source: CostSource, max: u64) -> Cost {
        Cost { source, tokens: 3, max }
    }

    #[test]
    fn an_invalid_field_costs_the_default_and_a_huge_one_the_maximum() {
        let by_header = cost(CostSource::RequestHeader(HeaderName::from_static("x-cost")), 50);
        for (value, tokens) in [
            ("7", 7),
            (" 7 ", 7),
            ("0", 0),
            ("51", 50),
            ("99999999999999999999999999", 50),
            ("", 3),
            ("-1", 3),
            ("+5", 3),
            ("1.5", 3),
            ("NaN", 3),
            ("7, 8", 3),
        ] {
            let request = Request::builder().header("x-cost", value).body(()).unwrap();
            assert_eq!(by_header.reserve(&request), Reserved { tokens, settles: false }, "{value:?}");
        }
        let twice = Request::builder().header("x-cost", "1").header("x-cost", "9").body(()).unwrap();
        assert_eq!([by_header.reserve(&twice).tokens, by_header.reserve(&Request::new(())).tokens], [3, 3]);
    }

    #[test]
    fn a_request_for_the_head_alone_costs_the_reservation() {
        let by_response = cost(CostSource::ResponseBody { unit: 1024 }, MAX_TOKENS);
        let request = |method: Method| Request::builder().method(method).body(()).unwrap();
        assert_eq!(by_response.reserve(&request(Method::HEAD)), Reserved { tokens: 3, settles: false });
        assert_eq!(by_response.reserve(&request(Method::GET)), Reserved { tokens: 3, settles: true });
    }

    #[test]
    fn an_announced_body_is_charged_immediately_and_a_streamed_one_at_its_end() {
        let by_bytes = cost(CostSource::RequestBody { unit: 1024 }, MAX_TOKENS);
        let length = |text: &str| Request::builder().header("content-length", text).body(()).unwrap();
        assert_eq!(by_bytes.reserve(&length("2049")), Reserved { tokens: 3, settles: false });
        assert_eq!(by_bytes.reserve(&length("0")), Reserved { tokens: 0, settles: false });
        assert_eq!(by_bytes.reserve(&Request::new(())), Reserved { tokens: 3, settles: true });
        assert_eq!([by_bytes.of_bytes(0), by_bytes.of_bytes(1), by_bytes.of_bytes(1025)], [0, 1, 2]);
    }
}
