//! Formats of `/metrics`, chosen by `Accept`: Prometheus text 0.0.4, and OpenMetrics 1.0.

use http::HeaderMap;
use http::header::ACCEPT;

/// Format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Text exposition format of Prometheus, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format that the client prefers. Text is the default, and the choice for equal weights.
    pub(super) fn accepted(headers: &HeaderMap) -> Self {
        let (mut text, mut open) = (0, 0);
        for range in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(',')) {
            let (media, weight) = media_range(range);
            match media {
                Media::OpenMetrics => open = open.max(weight),
                Media::Text => text = text.max(weight),
                Media::Other => {}
            }
        }
        if open > text { Self::OpenMetrics } else { Self::Text }
    }

    /// Returns the value of `Content-Type`.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts a page of OpenMetrics to this format.
    pub(super) fn convert(self, page: String) -> String {
        match self {
            Self::Text => text_of(&page),
            Self::OpenMetrics => page,
        }
    }
}

/// Media range of `Accept` (RFC 9110 §12.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    OpenMetrics,
    Text,
    Other,
}

/// Returns the media range and its weight in thousandths. Other versions of a format are other media.
fn media_range(range: &str) -> (Media, u32) {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or("").to_ascii_lowercase();
    let (mut version, mut weight) = (None, 1000);
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "version" => version = Some(value.trim().trim_matches('"').to_owned()),
            "q" => weight = thousandths(value.trim()),
            _ => {}
        }
    }
    let is_version = |supported: &str| version.as_deref().is_none_or(|version| version == supported);
    let media = match name.as_str() {
        "application/openmetrics-text" if is_version("1.0.0") => Media::OpenMetrics,
        "text/plain" if is_version("0.0.4") => Media::Text,
        "text/*" | "*/*" => Media::Text,
        _ => Media::Other,
    };
    (media, weight)
}

/// Returns a weight in thousandths; 0 if it is none.
fn thousandths(weight: &str) -> u32 {
    match weight.parse::<f32>() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
        Ok(weight) if (0.0..=1.0).contains(&weight) => (weight * 1000.0).round() as u32,
        _ => 0,
    }
}

/// Converts OpenMetrics to the text format: counters are named with `_total`, and there is no end mark.
fn text_of(page: &str) -> String {
    let mut text = String::with_capacity(page.len() + 1024);
    let mut help = "";
    for line in page.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described;
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let kind = if kind == "unknown" { "untyped" } else { kind };
            if let Some((_, words)) = help.split_once(' ') {
                text.extend(["# HELP ", name, suffix, " ", words, "\n"]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_client_chooses_the_format() {
        let chosen = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
            Format::accepted(&headers)
        };
        assert_eq!(Format::accepted(&HeaderMap::new()), Format::Text);
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
                          q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for open in [prometheus, "application/openmetrics-text", "Application/OpenMetrics-Text; Version=\"1.0.0\""] {
            assert_eq!(chosen(open), Format::OpenMetrics, "{open}");
        }
        for text in [
            "*/*",
            "text/plain",
            "text/html, */*;q=0.1",
            "application/openmetrics-text;version=2.0.0, text/plain;q=0.1",
            "application/openmetrics-text;q=0.2, text/plain;q=0.3",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=x",
            "application/openmetrics-text, text/plain",
            "image/png",
            ";;,=;q",
        ] {
            assert_eq!(chosen(text), Format::Text, "{text}");
        }
    }

    #[test]
    fn counters_have_their_suffix_in_the_text_format() {
        let page = "# HELP a Requests.\n# TYPE a counter\na_total{b=\"# TYPE x counter\"} 1\n# HELP c_seconds Time.\n\
                    # TYPE c_seconds gauge\n# UNIT c_seconds seconds\nc_seconds 2.0\n# EOF\n";
        let text = "# HELP a_total Requests.\n# TYPE a_total counter\na_total{b=\"# TYPE x counter\"} 1\n\
                    # HELP c_seconds Time.\n# TYPE c_seconds gauge\nc_seconds 2.0\n";
        assert_eq!(Format::Text.convert(page.to_owned()), text);
        assert_eq!(Format::OpenMetrics.convert(page.to_owned()), page);
    }
}
