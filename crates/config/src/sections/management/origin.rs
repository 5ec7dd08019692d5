//! `management.server.origin`: where a reverse proxy serves the admin port.

use http::Uri;

use crate::de::error::with_help;
use crate::de::units::read_by;

/// Origin at which a reverse proxy serves the admin port, such as `https://ops.example.org`, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuterOrigin {
    text: String,
    host: String,
}

read_by! {
    OuterOrigin: |text| {
        let uri = text.parse::<Uri>().ok().filter(|uri| {
            let is_bare = uri.path_and_query().is_none_or(|path| path == "/") && !text.contains('@');
            matches!(uri.scheme_str(), Some("http" | "https")) && is_bare
        });
        let origin = uri.as_ref().and_then(|uri| uri.host()).filter(|host| !host.is_empty()).map(|host| OuterOrigin {
            text: text.trim_end_matches('/').to_ascii_lowercase(),
            host: host.to_ascii_lowercase(),
        });
        origin.ok_or_else(|| {
            let message = format!("expected an origin without a path, found `{text}`");
            with_help(&message, "write it like `https://ops.example.org`; a prefix of paths needs no setting")
        })
    };
}

impl OuterOrigin {
    /// Returns true if `origin`, a field value, is this one.
    #[must_use]
    pub fn is(&self, origin: &[u8]) -> bool {
        self.text.as_bytes().eq_ignore_ascii_case(origin)
    }

    /// Returns true if `host`, without a port, is its host.
    #[must_use]
    pub fn has_host(&self, host: &str) -> bool {
        self.host.eq_ignore_ascii_case(host)
    }
}

#[cfg(test)]
mod tests {
    use crate::load::parse;

    fn origin(text: &str) -> Result<bool, String> {
        let text =
            format!("management.server.origin: '{text}'\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n");
        let loaded = parse("a.yaml", &text, &|_| None).map_err(|report| report.to_string())?;
        Ok(loaded.config.management.origin.is_some_and(|origin| {
            origin.is(b"https://Ops.example.org:8443") && origin.has_host("OPS.example.org") && !origin.is(b"null")
        }))
    }

    #[test]
    fn an_origin_has_a_scheme_and_a_host_and_no_path() {
        assert_eq!(origin("https://ops.example.org:8443"), Ok(true));
        assert_eq!(origin("HTTPS://OPS.example.org:8443/"), Ok(true));
        for wrong in
            ["", "ops.example.org", "https://", "https://ops.example.org/tollgate", "ftp://a", "https://u@a", "*"]
        {
            let error = origin(wrong).err().unwrap_or_default();
            assert!(error.contains("expected an origin without a path"), "{wrong}: {error}");
        }
    }
}
