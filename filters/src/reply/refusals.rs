//! Refusals that both limiters share.

use http::StatusCode;

use super::ErrorBody;
use super::json::json_string;
use super::prepared::Reply;

// Both problem types: draft-ietf-httpapi-ratelimit-headers, "Problem Types".
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

impl ErrorBody {
    /// Prepares a refusal without a problem type of its own: `empty-key`, `blocked`.
    pub(crate) fn refusal(&self, status: StatusCode, reason: &'static str) -> Reply {
        self.reply(status, reason, "about:blank", None, "")
    }

    /// Prepares the 503 for requests that the store could not decide.
    pub(crate) fn limiter_unavailable(&self) -> Reply {
        let title = "Request cannot be satisfied due to temporary server capacity constraints";
        self.reply(StatusCode::SERVICE_UNAVAILABLE, "limiter-unavailable", REDUCED_CAPACITY, Some(title), "")
    }

    /// Prepares a denial under `policies`.
    pub(crate) fn denial<'a>(
        &self,
        status: StatusCode,
        reason: &'static str,
        title: &str,
        policies: impl Iterator<Item = &'a str>,
    ) -> Reply {
        let names: Vec<String> = policies.map(json_string).collect();
        let members = format!(r#","violated-policies":[{}]"#, names.join(","));
        self.reply(status, reason, QUOTA_EXCEEDED, Some(title), &members)
    }

    fn reply(&self, status: StatusCode, reason: &'static str, kind: &str, title: Option<&str>, members: &str) -> Reply {
        match self {
            Self::Empty => Reply::empty(status, reason),
            Self::Problem | Self::Template(_) => Reply::problem(status, reason, kind, title, members),
        }
    }
}
