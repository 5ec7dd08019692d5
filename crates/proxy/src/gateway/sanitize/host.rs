//! Form of the host and port that a request names.

/// Form of a valid host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostForm {
    /// In normal form already, as nearly every `Host`.
    Normal,
    /// Possibly in another form than the normal one.
    Other,
}

/// Returns the form of a non-empty `uri-host [":" port]` without user information (RFC 9110 §7.2); `None` for other text.
pub(super) fn host_form(text: &[u8]) -> Option<HostForm> {
    let (host, rest) = if text.first() == Some(&b'[') {
        match text.iter().position(|byte| *byte == b']') {
            Some(end) => text.split_at(end + 1),
            None => return None,
        }
    } else {
        text.split_at(text.iter().position(|byte| *byte == b':').unwrap_or(text.len()))
    };
    let port = match rest.split_first() {
        None => true,
        Some((b':', digits)) => is_port(digits),
        Some(_) => false,
    };
    let literal = host.first() == Some(&b'[');
    let mut form = if literal || host.last() == Some(&b'.') { HostForm::Other } else { HostForm::Normal };
    for byte in host {
        match HOST_BYTES[usize::from(*byte)] {
            ALLOWED => {}
            UPPERCASE => form = HostForm::Other,
            _ if literal && matches!(byte, b'[' | b']' | b':') => {}
            _ => return None,
        }
    }
    (port && !host.is_empty()).then_some(form)
}

/// Returns true for a port, which may be empty (RFC 3986 §3.2.3). A zero before other digits would be another spelling of the
/// same port.
fn is_port(digits: &[u8]) -> bool {
    if matches!(digits, [b'0', _, ..]) {
        return false;
    }
    let number = |port: u32, digit: &u8| digit.is_ascii_digit().then(|| port * 10 + u32::from(digit - b'0'));
    digits.len() <= 5 && digits.iter().try_fold(0, number).is_some_and(|port| port <= u32::from(u16::MAX))
}

const ALLOWED: u8 = 1;
const UPPERCASE: u8 = 2;

/// Bytes of a registered name (RFC 3986 §3.2.2), and `_`, which Docker and Kubernetes use in names. 0 for other bytes, and
/// for two that make two names: `%61.example` is `a.example` to readers that decode it, and `a,b` is a list to some.
static HOST_BYTES: [u8; 256] = {
    let mut allowed = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        let is_allowed = c.is_ascii_alphanumeric()
            || matches!(c, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*')
            || matches!(c, b'+' | b';' | b'=');
        if is_allowed {
            allowed[byte] = if c.is_ascii_uppercase() { UPPERCASE } else { ALLOWED };
        }
        byte += 1;
    }
    allowed
};
