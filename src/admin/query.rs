//! Query parameters.

use percent_encoding::percent_decode_str;

/// Returns the parameters of a query, decoded; `+` is a space, as in forms.
pub(super) fn parameters(query: &str) -> impl Iterator<Item = (String, String)> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    query.split('&').filter(|parameter| !parameter.is_empty()).map(move |parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (decode(name), decode(value))
    })
}
