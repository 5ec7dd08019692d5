//! Verifies API keys: looks up the key of a request, and refuses requests without a valid one.
//!
//! A [`KeyTable`](crate::api_key::KeyTable) holds SHA-256 hashes of keys, read by [`KeyTable::parse`](crate::api_key::KeyTable::parse); a key itself is never stored. [`IdentifyLayer`] looks up the key of a
//! request once and inserts its [`Identity`](crate::api_key::Identity) into the extensions. Behind it, the key resolver `api-key` returns the id, and
//! [`ApiKeyLayer`] refuses requests without a valid key.
//!
//! Requests with an unknown key, or with several different ones, are guesses. Each client address has a bucket of
//! [guesses](Guesses); if it is empty, the request is refused with 429. Keys that the store knows pass without it.
//!
//! ```
//! use std::sync::Arc;
//! use http::{Request, Response, StatusCode};
//! use bytes::Bytes;
//! use http_body_util::Full;
//! use tollgate_filters::api_key::{KeyTable, Settings};
//! use tollgate_filters::verify_api_key::{ApiKeyLayer, FilterSettings, Guesses, Identifier, IdentifyLayer, KeyStore};
//! use tollgate_filters::limiter::rule::TokenBucket;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The hash of `test`.
//! let file = "- {id: alice, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}";
//! let settings = Arc::new(Settings::default());
//! let guesses = Guesses::new(Guesses::store(), TokenBucket::per_second(1, 10)?.into());
//! let store = KeyStore::Table(Arc::new(KeyTable::parse(file)?));
//! let identifier = Identifier::new(Arc::clone(&settings), store, guesses);
//! let layers = (IdentifyLayer::new(identifier), ApiKeyLayer::new(FilterSettings::new(settings, true)));
//! let upstream = service_fn(|_: Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let service = layers.layer(upstream);
//! let with = Request::builder().header("x-api-key", "test").body(())?;
//! assert_eq!(service.clone().oneshot(with).await?.status(), StatusCode::OK);
//! assert_eq!(service.oneshot(Request::new(())).await?.status(), StatusCode::UNAUTHORIZED);
//! # Ok(())
//! # }
//! ```

mod filter;
mod guesses;
mod identifier;
mod remote;
mod usage;

pub use self::filter::{ApiKeyLayer, FilterSettings};
pub use self::guesses::Guesses;
pub use self::identifier::{Identifier, IdentifyLayer, KeyStore};
pub use self::remote::{Fetched, KeyFetcher, RemoteCache, RemoteKeys};
pub use self::usage::{KeyUsage, Usage};
