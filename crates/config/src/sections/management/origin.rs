//! `management.server.origin`: where a reverse proxy serves the admin port.

use std::net::Ipv6Addr;

use http::Uri;

use crate::de::{read_by, with_help};

/// Origin at which a reverse proxy serves the admin port, such as `https://ops.example.org`, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuterOrigin {
    text: String,
    host: String,
}

read_by! {
    OuterOrigin: |text| {
        OuterOrigin::parse(text).ok_or_else(|| {
            let message = format!("expected an origin, found `{text}`");
            with_help(&message, "write scheme, host and port alone, like `https://ops.example.org`; a prefix of paths needs no setting")
        })
    };
}

impl OuterOrigin {
    fn parse(text: &str) -> Option<Self> {
        let uri = text.to_ascii_lowercase().parse::<Uri>().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let host = authority.host();
        let is_address =
            host.strip_prefix('[').is_some_and(|rest| rest.trim_end_matches(']').parse::<Ipv6Addr>().is_ok());
        let is_name =
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        let is_bare = uri.path_and_query().is_none_or(|path| path == "/");
        // Browsers leave the default port out.
        let port = match authority.as_str().strip_prefix(host)? {
            "" => String::new(),
            port => match port.strip_prefix(':')?.parse::<u16>().ok().filter(|port| *port > 0)? {
                port if port == default_port => String::new(),
                port => format!(":{port}"),
            },
        };
        let origin = || Self { text: format!("{scheme}://{host}{port}"), host: host.to_owned() };
        (is_bare && (is_address || is_name)).then(origin)
    }

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
        let text = "management.server.origin: 'https://ops.example.org:443'\nroutes: []\n";
        let loaded = parse("a.yaml", text, &|_| None).map_err(|report| report.to_string());
        let origin_of_browsers = loaded.map(|loaded| loaded.config.management.origin.map(|origin| origin.text));
        assert_eq!(origin_of_browsers, Ok(Some("https://ops.example.org".to_owned())));
        for wrong in [
            "",
            "ops.example.org",
            "https://",
            "https://ops.example.org/tollgate",
            "ftp://a",
            "https://u@a",
            "*",
            "https://*",
            "https://*.example.org",
            "https://a:99999",
            "https://a:0",
            "https://a:",
            "https://[::1",
            "https://a?b",
        ] {
            let error = origin(wrong).err().unwrap_or_default();
            assert!(error.contains("expected an origin, found"), "{wrong}: {error}");
        }
    }
}
