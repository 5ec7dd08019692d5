//! How many tokens a request takes, and when that is known.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Request};

use tollgate_limiter::rule::MAX_SAFE_INTEGER;

/// What a request takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Where the number comes from.
    pub source: CostSource,
    /// Tokens taken where it comes from nowhere, and before it is known (`requested-tokens`).
    pub tokens: u64,
    /// The most that a request takes, whatever the source says (`max-cost`).
    pub most: u64,
}

/// Where a request's cost comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CostSource {
    /// [`Cost::tokens`] for every request.
    #[default]
    Fixed,
    /// A field of the request.
    RequestHeader(HeaderName),
    /// A field of the response: the difference is settled when it comes.
    ResponseHeader(HeaderName),
    /// The request's body, a token for each so many bytes begun; settled at its end where its length is not announced.
    RequestBody {
        /// Bytes a token.
        unit: u64,
    },
    /// The response's body; settled at its end.
    ResponseBody {
        /// Bytes a token.
        unit: u64,
    },
}

/// What is known of a cost before the request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserved {
    pub(super) tokens: u64,
    /// Whether the difference is to be settled later.
    pub(super) settles: bool,
}

impl Default for Cost {
    fn default() -> Self {
        Self::from(1)
    }
}

impl From<u64> for Cost {
    /// So many tokens for every request.
    fn from(tokens: u64) -> Self {
        Self { source: CostSource::Fixed, tokens, most: MAX_SAFE_INTEGER }
    }
}

impl Cost {
    /// Whether it may differ from one request to another.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.source != CostSource::Fixed
    }

    /// Whether request bodies have to be counted.
    #[must_use]
    pub fn meters_requests(&self) -> bool {
        matches!(self.source, CostSource::RequestBody { .. })
    }

    /// Whether response bodies have to be counted.
    #[must_use]
    pub fn meters_responses(&self) -> bool {
        matches!(self.source, CostSource::ResponseBody { .. })
    }

    /// What is taken before the request goes on.
    pub(super) fn reserve<B>(&self, request: &Request<B>) -> Reserved {
        let (known, settles) = match &self.source {
            CostSource::Fixed => return Reserved { tokens: self.tokens, settles: false },
            CostSource::RequestHeader(name) => (number(request.headers(), name), false),
            CostSource::RequestBody { unit } => {
                let length = announced(request.headers());
                (length.map(|bytes| bytes.div_ceil(*unit)), length.is_none())
            }
            CostSource::ResponseHeader(_) | CostSource::ResponseBody { .. } => (None, true),
        };
        Reserved { tokens: known.unwrap_or(self.tokens).min(self.most), settles }
    }

    /// What the request has cost in all, by the response's head; `None` where that does not say.
    pub(super) fn of_response(&self, headers: &HeaderMap) -> Option<u64> {
        match &self.source {
            CostSource::ResponseHeader(name) => number(headers, name).map(|tokens| tokens.min(self.most)),
            _ => None,
        }
    }

    /// What `bytes` of body cost.
    pub(super) fn of_bytes(&self, bytes: u64) -> u64 {
        match self.source {
            CostSource::RequestBody { unit } | CostSource::ResponseBody { unit } => bytes.div_ceil(unit).min(self.most),
            _ => self.tokens,
        }
    }
}

/// A field's value as a whole number. One that is not (negative, a fraction, text, given twice) counts as missing.
fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let mut values = headers.get_all(name).iter();
    let (only, None) = (values.next()?, values.next()) else { return None };
    let digits = only.to_str().ok()?.trim();
    // `parse` takes a sign.
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Digits that do not fit are a number all the same, and a large one.
    Some(digits.parse().unwrap_or(u64::MAX).min(MAX_SAFE_INTEGER))
}

/// The length of a request's body where its head says it, which the server holds the client to.
fn announced(headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn cost(source: CostSource, most: u64) -> Cost {
        Cost { source, tokens: 3, most }
    }

    #[test]
    fn a_field_that_is_no_whole_number_is_the_default_and_a_huge_one_the_most() {
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
    fn an_announced_body_is_known_at_once_and_a_streamed_one_at_its_end() {
        let by_bytes = cost(CostSource::RequestBody { unit: 1024 }, MAX_SAFE_INTEGER);
        let length = |text: &str| Request::builder().header("content-length", text).body(()).unwrap();
        assert_eq!(by_bytes.reserve(&length("2049")), Reserved { tokens: 3, settles: false });
        assert_eq!(by_bytes.reserve(&length("0")), Reserved { tokens: 0, settles: false });
        assert_eq!(by_bytes.reserve(&Request::new(())), Reserved { tokens: 3, settles: true });
        assert_eq!([by_bytes.of_bytes(0), by_bytes.of_bytes(1), by_bytes.of_bytes(1025)], [0, 1, 2]);
    }
}
