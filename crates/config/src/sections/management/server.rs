//! `management.server`: the Unix socket of the admin port, and the origin at which a reverse proxy serves it.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use http::Uri;

use crate::de::{Spanned, read_by, with_help};
use crate::diagnostics::Diagnostics;
use crate::sections::management::keys::RawManagementServer;

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
    pub fn is(&self, origin: &[u8]) -> bool {
        self.text.as_bytes().eq_ignore_ascii_case(origin)
    }

    /// Returns true if `host`, without a port, is its host.
    pub fn has_host(&self, host: &str) -> bool {
        self.host.eq_ignore_ascii_case(host)
    }
}

/// Permissions without `socket-mode`: the user of the gateway.
const DEFAULT_MODE: u32 = 0o600;
/// Longest path in bytes. The system allows 104 to 108, of which the gateway needs a few for a temporary name.
const MAX_PATH_BYTES: usize = 100;

/// Unix socket of the admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSocket {
    /// Path of the socket.
    pub path: PathBuf,
    /// Permissions of its file.
    pub mode: u32,
}

/// Checks the socket. Returns `None` without one, or after an error.
pub(super) fn socket(raw: &RawManagementServer, diagnostics: &mut Diagnostics) -> Option<AdminSocket> {
    let mode = raw.socket_mode.as_ref().map_or(Some(DEFAULT_MODE), |mode| self::mode(mode, diagnostics));
    let path = raw.socket.spanned()?;
    let length = path.len();
    if length > MAX_PATH_BYTES {
        diagnostics
            .error(path.span, format!("the path of a socket has at most {MAX_PATH_BYTES} bytes, found {length}"))
            .help("for example `/run/tollgate/admin.sock`");
        return None;
    }
    Some(AdminSocket { path: PathBuf::from(&path.value), mode: mode? })
}

fn mode(permissions: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<u32> {
    let text = permissions.value.trim();
    let text = text.strip_prefix("0o").unwrap_or(text);
    let is_octal = text.len() <= 4 && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let Some(mode) = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777) else {
        diagnostics
            .error(permissions.span, format!("expected permissions in octal, found `{}`", permissions.value))
            .help("for example `0660`");
        return None;
    };
    // YAML reads `0o660` without quotes as the decimal 432.
    if mode & 0o600 != 0o600 {
        diagnostics
            .error(permissions.span, format!("`{}` keeps the user of the gateway from its socket", permissions.value))
            .help("write octal digits without `0o`, for example `0660`");
        return None;
    }
    if mode & 0o002 != 0 {
        diagnostics
            .warn(permissions.span, "every user of this host may change limits over this socket")
            .help("`0660` admits one group");
    }
    Some(mode)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
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

    fn socket(yaml: &str) -> Result<(Option<AdminSocket>, String), String> {
        let text =
            format!("management: {{server: {{{yaml}}}}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n");
        let loaded = crate::parse("test.yaml", &text, &|_| None).map_err(|report| report.to_string())?;
        Ok((loaded.config.management.socket.clone(), loaded.notes.to_string()))
    }

    #[test]
    fn the_mode_is_octal_with_and_without_quotes() {
        let mode = |yaml: &str| socket(&format!("socket: /run/a.sock, {yaml}")).unwrap().0.unwrap().mode;
        assert_eq!(socket("socket: /run/a.sock").unwrap().0.unwrap().mode, 0o600);
        assert_eq!(["socket-mode: 0660", "socket-mode: '660'", "socket-mode: '0o660'"].map(mode), [0o660; 3]);
        assert!(socket("socket: /run/a.sock, socket-mode: 0666").unwrap().1.contains("every user of this host"));
        let error = socket("socket: /run/a.sock, socket-mode: 0o660").unwrap_err();
        assert!(error.contains("keeps the user of the gateway from its socket"), "{error}");
        for wrong in ["0680", "rw", "07777", "''", "'+77'"] {
            let error = socket(&format!("socket: /run/a.sock, socket-mode: {wrong}")).unwrap_err();
            assert!(error.contains("expected permissions in octal"), "{error}");
        }
    }

    #[test]
    fn an_empty_path_is_no_socket_and_a_long_one_is_refused() {
        assert_eq!(socket("socket: ''").unwrap().0, None);
        let error = socket(&format!("socket: /{}", "a".repeat(100))).unwrap_err();
        assert!(error.contains("at most 100 bytes, found 101"), "{error}");
    }
}
