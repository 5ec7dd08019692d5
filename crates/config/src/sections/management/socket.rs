//! `management.server.socket`: Unix socket of the admin port.

use std::path::PathBuf;

use crate::de::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::management::keys::RawManagementServer;

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
pub(super) fn check(raw: &RawManagementServer, diagnostics: &mut Diagnostics) -> Option<AdminSocket> {
    let mode = raw.socket_mode.as_ref().map_or(Some(DEFAULT_MODE), |mode| self::mode(mode, diagnostics));
    // `${ADMIN_SOCKET:}` is empty in an environment without it.
    let path = raw.socket.as_ref().filter(|path| !path.value.trim().is_empty())?;
    let length = path.value.trim().len();
    if length > MAX_PATH_BYTES {
        diagnostics
            .error(path.span, format!("the path of a socket has at most {MAX_PATH_BYTES} bytes, found {length}"))
            .help("for example `/run/tollgate/admin.sock`");
        return None;
    }
    Some(AdminSocket { path: PathBuf::from(path.value.trim()), mode: mode? })
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
