//! Masks of values that filters add and that may be secrets, for listings over the network.

use http::HeaderMap;

use crate::explain::model::ForwardedRequest;

/// Text in place of a masked value.
const MASK: &str = "****";
/// Fields that the gateway itself sets.
const OWN_FIELDS: [&str; 9] = [
    "content-length",
    "forwarded",
    "host",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
];

/// Masks the header fields and query parameters of `forwarded` that the client did not send.
pub(super) fn mask(forwarded: &mut ForwardedRequest, sent: &HeaderMap, sent_query: &str) {
    for (name, values) in &mut forwarded.headers {
        if OWN_FIELDS.contains(&name.as_str()) {
            continue;
        }
        for value in values {
            if !sent.get_all(name).iter().any(|value_sent| value_sent.as_bytes() == value.as_bytes()) {
                MASK.clone_into(value);
            }
        }
    }
    let Some((before, query)) = forwarded.url.split_once('?') else { return };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if !sent_query.split('&').any(|pair_sent| pair_sent == pair) => format!("{name}={MASK}"),
        _ => pair.to_owned(),
    });
    forwarded.url = format!("{before}?{}", masked.collect::<Vec<_>>().join("&"));
}
