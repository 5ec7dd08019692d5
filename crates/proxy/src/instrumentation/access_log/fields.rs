//! Documentation of the fields of JSON lines.

/// Field of a JSON line.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name.
    pub name: &'static str,
    /// Meaning, and when the field is absent.
    pub meaning: &'static str,
}

const fn field(name: &'static str, meaning: &'static str) -> Field {
    Field { name, meaning }
}

/// Fields in the order of the line.
pub const FIELDS: &[Field] = &[
    field("time", "arrival of the request head, RFC 3339 in UTC with microseconds"),
    field("client", "client address; behind a trusted proxy, the address that the proxy reports"),
    field("host", "requested host"),
    field("method", "method; `-` if the head could not be read"),
    field(
        "target",
        "path in normal form, and query; as received if the request was malformed; `-` if the head could not be read",
    ),
    field("protocol", "`HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`"),
    field("tls", "TLS version, such as `TLSv1.3`; absent without TLS"),
    field("client_subject", "subject of the client's certificate, such as `CN=orders,O=Example`; absent without one"),
    field("unique_id", "id of the connection at the load balancer, from its PROXY header; absent without one"),
    field("vpc_endpoint_id", "id of the VPC endpoint in AWS, from the PROXY header; absent without one"),
    field("status", "status of the response; 499 if the client disconnected before it"),
    field("reason", "reason code of a response that the gateway made or cut; absent for responses of upstreams"),
    field("detail", "reason for which a request got 400, or for which its head could not be read"),
    field("bytes", "bytes of the response body that were sent"),
    field("received_bytes", "bytes of the request body that were read"),
    field("duration_ms", "time from the request head to the last byte of the response"),
    field("request_id", "request id; absent with `request-id.enabled: false`"),
    field(
        "trace_id",
        "trace id of a valid `traceparent` field, or of the trace that the gateway started if it is sampled",
    ),
    field("route", "id of the matched route"),
    field("degraded", "true if a limit was decided without Redis, else absent"),
    field(
        "verdict",
        "verdict of the limiters: `allowed`, `denied`, `unavailable` (no store, or no lock in time), `exempt` or `blocked` (lists); absent if none judged the request",
    ),
    field("rule", "rule that denied the request, otherwise the one with the smallest share left"),
    field("plan", "plan of the request under that rule; absent without one"),
    field("key", "key id of the request under that rule"),
    field("remaining", "tokens left under that rule"),
    field("keys", "key ids by rule, if there were several rules"),
    field("observed", "observed rules that would have denied the request"),
    field(
        "decided_us",
        "time of each decision in microseconds since 1970 on the clock of the store, for `tollgate simulate`",
    ),
    field(
        "decided_order",
        "position of each decision among those of the same microsecond on the same keys; absent if all are 0",
    ),
    field("endpoint", "host and port of the last upstream attempt; absent if the request was not forwarded"),
    field("connect_ms", "time to connect to the endpoint; absent on a pooled connection"),
    field("response_ms", "time from sending the request to the response head of the endpoint"),
    field("retries", "further attempts after the first; absent without any"),
    field("referer", "`Referer` field"),
    field("user_agent", "`User-Agent` field"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Variable that makes the test write the page instead of comparing it, see `tests/regenerate`.
    const REGENERATE: &str = "TOLLGATE_REGENERATE";

    #[test]
    fn the_table_of_the_reference_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/access-log.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (begin, end) = ("<!-- fields -->\n", "<!-- /fields -->");
        let start = page.find(begin).unwrap() + begin.len();
        let stop = page[start..].find(end).unwrap() + start;
        let rows = FIELDS.iter().map(|field| format!("| `{}` | {} |\n", field.name, field.meaning));
        let table = format!("| Field | Meaning |\n|---|---|\n{}", rows.collect::<String>());
        let made = format!("{}{table}{}", &page[..start], &page[stop..]);
        if std::env::var_os(REGENERATE).is_some() {
            std::fs::write(path, &made).unwrap();
        } else {
            assert!(page == made, "docs/reference/access-log.md is not current: run tests/regenerate");
        }
    }
}
