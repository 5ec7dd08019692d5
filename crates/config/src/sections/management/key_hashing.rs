//! `management.hash-keys`: hashes instead of key ids.

use std::fmt;

use crate::diagnostics::Diagnostics;
use crate::sections::management::raw::RawManagement;

/// Shortest key of the hashes, in bytes.
const MIN_BYTES: usize = 16;

/// Hashing of shown key ids.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyHashing {
    /// Key of the hashes; `None` for a random one of the process.
    pub secret: Option<Box<[u8]>>,
}

impl fmt::Debug for KeyHashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHashing").finish_non_exhaustive()
    }
}

/// Checks the key of the hashes. Reports errors.
pub(super) fn check(raw: &RawManagement, diagnostics: &mut Diagnostics) -> Option<KeyHashing> {
    let secret = raw.hash_secret.as_ref().filter(|secret| !secret.value.is_empty());
    if let Some(short) = secret.filter(|secret| secret.value.len() < MIN_BYTES) {
        let length = short.value.len();
        diagnostics
            .error(short.span, format!("`hash-secret` has {length} bytes; at least {MIN_BYTES} are required"))
            .help("`openssl rand -base64 32` prints a good one");
    }
    if raw.hash_keys != Some(true) {
        if let Some(secret) = secret {
            diagnostics.mistake(secret.span.key(), "`hash-secret` has no effect").help("add `hash-keys: true`");
        }
        return None;
    }
    Some(KeyHashing { secret: secret.map(|secret| secret.value.as_bytes().into()) })
}
