//! `management.tokens`: tokens for the admin port.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::de::{OptionalText, Spanned};
use crate::diagnostics::Diagnostics;
use crate::sections::files;
use crate::sections::tls::files::both_given;
use crate::yaml::Span;

/// Shortest token, in bytes.
const MIN_BYTES: usize = 16;

/// Token for the admin port.
#[section]
pub(crate) struct RawToken {
    /// Name of the token in the log. Required.
    name: OptionalText,
    /// Permission: `read`, or `write`, which includes `read`. Required.
    role: Option<Spanned<AdminRole>>,
    /// Token, 16 bytes at least; take it from the environment: `${TOLLGATE_TOKEN}`. Required, unless there is a `token-file`.
    token: Option<Spanned<String>>,
    /// File with the token, such as a mounted secret, instead of `token`. It is read with this file; a final line break is dropped.
    token_file: Option<Spanned<String>>,
}

/// Permission of a token, in ascending order.
#[word(PartialOrd, Ord)]
pub enum AdminRole {
    /// Reads.
    Read,
    /// Reads and changes.
    Write,
}

/// Tokens of the admin port. Only their hashes are kept.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AdminTokens(Vec<AdminToken>);

#[derive(Clone, PartialEq, Eq)]
struct AdminToken {
    name: Arc<str>,
    role: AdminRole,
    digest: [u8; 32],
}

impl AdminTokens {
    /// Returns true without tokens.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name and the role of `token`; `None` if it is unknown. The time does not depend on the tokens.
    pub fn find(&self, token: &[u8]) -> Option<(&Arc<str>, AdminRole)> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let (mut is_match, mut index) = (Choice::from(0), 0_u64);
        for (at, candidate) in (0_u64..).zip(&self.0) {
            let is_equal = candidate.digest.ct_eq(&digest);
            index.conditional_assign(&at, is_equal);
            is_match |= is_equal;
        }
        let token = bool::from(is_match).then(|| usize::try_from(index).ok().and_then(|index| self.0.get(index)))??;
        Some((&token.name, token.role))
    }
}

impl fmt::Debug for AdminTokens {
    /// Shows names and roles only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|token| (&token.name, token.role))).finish()
    }
}

/// Checks the tokens. Reports errors.
pub(super) fn check(raw: &[Spanned<RawToken>], diagnostics: &mut Diagnostics) -> AdminTokens {
    let mut tokens = Vec::<AdminToken>::with_capacity(raw.len());
    for Spanned { value: raw, span } in raw {
        let (Some((name, at)), Some(role), Some(token)) =
            (name(raw, *span, diagnostics), role(raw, *span, diagnostics), token(raw, *span, diagnostics))
        else {
            continue;
        };
        if tokens.iter().any(|other| *other.name == *name) {
            diagnostics.error(at, format!("duplicate token name `{name}`")).help("give each token a name of its own");
            continue;
        }
        let digest = Sha256::digest(token.as_bytes()).into();
        if let Some(twin) = tokens.iter().find(|other| other.digest == digest) {
            diagnostics
                .error(at, format!("`{name}` has the same token as `{}`", twin.name))
                .help("`openssl rand -base64 32` prints another one");
            continue;
        }
        tokens.push(AdminToken { name: name.into(), role, digest });
    }
    AdminTokens(tokens)
}

fn name(raw: &RawToken, span: Span, diagnostics: &mut Diagnostics) -> Option<(String, Span)> {
    match raw.name.spanned() {
        Some(name) => Some((name.value.clone(), name.span)),
        None => {
            diagnostics.error(span, "a token needs a `name`").help("the log shows it beside each change");
            None
        }
    }
}

fn role(raw: &RawToken, span: Span, diagnostics: &mut Diagnostics) -> Option<AdminRole> {
    if raw.role.is_none() {
        diagnostics.error(span, "a token needs a `role`").help("write `role: read` or `role: write`");
    }
    raw.role.as_ref().map(|role| role.value)
}

/// Returns the text of the token.
fn token(raw: &RawToken, span: Span, diagnostics: &mut Diagnostics) -> Option<String> {
    let (text, at) = match (&raw.token, &raw.token_file) {
        (Some(token), None) => (token.value.clone(), token.span),
        (None, Some(file)) => (files::secret(file, "token file", diagnostics).ok()?, file.span),
        (Some(token), Some(file)) => {
            both_given(file.span, ("token", "token-file"), token.span, diagnostics);
            return None;
        }
        (None, None) => {
            diagnostics
                .error(span, "a token needs `token` or `token-file`")
                .help("`token: ${TOLLGATE_TOKEN}` takes it from the environment");
            return None;
        }
    };
    let length = text.len();
    if length < MIN_BYTES {
        diagnostics
            .error(at, format!("the token has {length} bytes; at least {MIN_BYTES} are required"))
            .help("`openssl rand -base64 32` prints a good one");
        return None;
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if !text.bytes().all(is_allowed) {
        diagnostics
            .error(at, "a token may contain letters, digits and `-._~+/=` only (RFC 6750)")
            .help("`openssl rand -base64 32` prints a good one");
        return None;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tokens(yaml: &str) -> Result<AdminTokens, String> {
        let text =
            format!("management: {{tokens: {yaml}}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n");
        let env = |name: &str| (name == "OPS").then(|| "of-the-environment".to_owned());
        let loaded = crate::parse("test.yaml", &text, &env).map_err(|report| report.to_string());
        loaded.map(|loaded| loaded.config.management.tokens)
    }

    #[test]
    fn tokens_come_from_the_environment_and_from_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "of-the-mounted-file\n").unwrap();
        let yaml = format!(
            "[{{name: ops, role: write, token: '${{OPS}}'}}, {{name: prometheus, role: read, token-file: {}}}]",
            file.path().display()
        );
        let tokens = tokens(&yaml).unwrap();
        let found = |token: &str| tokens.find(token.as_bytes()).map(|(name, role)| (&**name, role));
        assert_eq!(found("of-the-environment"), Some(("ops", AdminRole::Write)));
        assert_eq!(found("of-the-mounted-file"), Some(("prometheus", AdminRole::Read)));
        for unknown in ["", "of-the-environmen", "of-the-environment ", "of-the-mounted-file\n"] {
            assert_eq!(found(unknown), None, "{unknown:?}");
        }
        assert!(!format!("{tokens:?}").contains("of-the"), "{tokens:?}");
        assert_eq!(AdminTokens::default().find(b"of-the-environment"), None);
    }

    #[test]
    fn equal_names_and_equal_tokens_are_refused() {
        let two = |name: &str, token: &str| {
            let first = "{name: a, role: read, token: 0123456789abcdef}";
            tokens(&format!("[{first}, {{name: {name}, role: write, token: {token}}}]")).unwrap_err()
        };
        assert!(two("a", "fedcba9876543210").contains("duplicate token name `a`"));
        assert!(two("b", "0123456789abcdef").contains("`b` has the same token as `a`"));
    }
}
