//! Key ids as people and log systems see them: the id, or a keyed hash of it (`management.hash-keys`).

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwapOption;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use tollgate_config::KeyHashing;

/// Bytes of a hash that are shown, as twice as many digits.
const SHOWN_BYTES: usize = 8;

/// Key of the hashes; `None` shows key ids.
static HASHING: ArcSwapOption<Key> = ArcSwapOption::const_empty();
/// Key without `management.hash-secret`: the same over reloads, another one at the next start.
static RANDOM: LazyLock<Arc<Key>> = LazyLock::new(|| Arc::new(random_key()));

/// Applies `management.hash-keys` to all further calls of [`shown`].
pub fn configure(hashing: Option<&KeyHashing>) {
    HASHING.store(hashing.map(|hashing| match &hashing.secret {
        Some(secret) => Arc::new(Key::new(HMAC_SHA256, secret.0.as_bytes())),
        None => Arc::clone(&RANDOM),
    }));
}

/// Returns true if [`shown`] hashes key ids.
pub fn is_hashed() -> bool {
    HASHING.load().is_some()
}

/// Returns the text in place of the key id `id`: the id, or a hash of 16 hexadecimal digits. Everything that shows a key
/// id calls this function or [`shown_bytes`]: the API and logs.
pub fn shown(id: &[u8]) -> Cow<'_, str> {
    match shown_bytes(id) {
        Cow::Borrowed(id) => String::from_utf8_lossy(id),
        Cow::Owned(hash) => String::from_utf8_lossy(&hash).into_owned().into(),
    }
}

/// Returns the bytes in place of the key id `id`: the id, which may be invalid UTF-8, or the hash.
pub fn shown_bytes(id: &[u8]) -> Cow<'_, [u8]> {
    match &*HASHING.load() {
        Some(key) => hash(key, id).into_bytes().into(),
        None => id.into(),
    }
}

fn hash(key: &Key, id: &[u8]) -> String {
    use std::fmt::Write as _;
    let tag = sign(key, id);
    let mut text = String::with_capacity(2 * SHOWN_BYTES);
    for byte in tag.as_ref().iter().take(SHOWN_BYTES) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn random_key() -> Key {
    let mut bytes = [0; 32];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        // The library aborts before it returns an error here. A guessable key would show the ids.
        std::process::abort();
    }
    Key::new(HMAC_SHA256, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_depend_on_the_secret_and_show_no_id() {
        let hashed = |secret: &[u8], id: &[u8]| hash(&Key::new(HMAC_SHA256, secret), id);
        // RFC 4231, test case 2: the first 8 bytes.
        assert_eq!(hashed(b"Jefe", b"what do ya want for nothing?"), "5bdcc146bf60754e");
        assert_ne!(hashed(b"a", b"alice"), hashed(b"b", b"alice"));
        assert_eq!(hash(&RANDOM, b"alice"), hash(&RANDOM, b"alice"));
        assert_eq!(hash(&RANDOM, b"\xff\n").len(), 16);
    }
}
