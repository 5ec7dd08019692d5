//! API keys: an id, a plan and the routes that a key may use, by the hash of the key.
//!
//! A [`KeyTable`] holds SHA-256 hashes of keys; a key itself is never stored. The layers of
//! [`verify_api_key`](crate::verify_api_key) look up the key of a request and insert its [`Identity`] into the extensions, which
//! the key resolver `api-key` reads.

mod identity;
mod sources;

#[cfg(feature = "verify-api-key")]
mod expiry;
#[cfg(feature = "verify-api-key")]
mod file;
#[cfg(feature = "verify-api-key")]
mod key_entry;
#[cfg(feature = "verify-api-key")]
mod lines;
#[cfg(feature = "verify-api-key")]
mod table;
#[cfg(all(test, feature = "verify-api-key"))]
mod tests;

#[cfg(feature = "verify-api-key")]
pub use self::file::KeyFileError;
pub use self::identity::{ApiKey, Identity, Refusal};
#[cfg(feature = "verify-api-key")]
pub use self::key_entry::EntryError;
pub use self::sources::{ApiKeySource, KeyPart, Settings};
#[cfg(feature = "verify-api-key")]
pub use self::table::{KeyHash, KeyTable, hash, hex};
