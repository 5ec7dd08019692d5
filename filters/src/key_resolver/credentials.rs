//! Normal form of credentials, such as `Bearer abc` in `Authorization`.

use std::borrow::Cow;

use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};

use super::buffer::KeyBuf;

/// Returns true if the field `name` holds credentials.
pub(super) fn are_in(name: &str) -> bool {
    [AUTHORIZATION, PROXY_AUTHORIZATION].iter().any(|field| name.eq_ignore_ascii_case(field.as_str()))
}

/// Returns the normal form of `value`: the scheme, which ignores case (RFC 9110 §11.1), as in `Bearer`, and one space between
/// it and the rest. The rest, and a value without a space, are unchanged. Nearly every client sends the normal form, which
/// is returned as it is; other values are written to `out`.
pub(super) fn normal<'a>(value: &'a [u8], out: &'a mut KeyBuf) -> &'a [u8] {
    let Some((scheme, rest)) = value.iter().position(is_space).map(|end| value.split_at(end)) else { return value };
    let start = rest.iter().position(|byte| !is_space(byte)).unwrap_or(rest.len());
    let has_normal_case = match scheme {
        [first, others @ ..] => !first.is_ascii_lowercase() && !others.iter().any(u8::is_ascii_uppercase),
        [] => true,
    };
    if has_normal_case && rest[..start] == *b" " {
        return value;
    }
    for (at, byte) in scheme.iter().enumerate() {
        out.push(&[if at == 0 { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() }]);
    }
    out.push(b" ");
    out.push(&rest[start..]);
    out.as_bytes()
}

/// Returns [`normal`] of a value that is not part of a request.
pub(super) fn normal_id(value: &[u8]) -> Cow<'_, [u8]> {
    let mut buf = KeyBuf::new();
    match normal(value, &mut buf) {
        same if same == value => Cow::Borrowed(value),
        other => Cow::Owned(other.to_vec()),
    }
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_one_credential_have_one_normal_form() {
        let long = "x".repeat(200);
        for token in ["aBc", "YTpi==", "a  b", &long] {
            let expected = format!("Bearer {token}");
            for start in ["Bearer ", "bearer ", "BEARER ", "bEaReR  ", "Bearer  ", "Bearer\t", "Bearer \t "] {
                let value = format!("{start}{token}");
                assert_eq!(normal_id(value.as_bytes()), expected.as_bytes(), "{value:?}");
            }
            assert!(matches!(normal_id(expected.as_bytes()), Cow::Borrowed(_)), "idempotent, and not copied");
        }
    }

    #[test]
    fn tokens_keep_their_case() {
        for value in ["aBcD", "ABCD", "", "Bearer aBc", "Basic YTpi"] {
            assert_eq!(normal_id(value.as_bytes()), value.as_bytes());
        }
        assert_eq!(normal_id(b"AWS4-HMAC-SHA256 Credential=A/b"), &b"Aws4-hmac-sha256 Credential=A/b"[..]);
    }
}
