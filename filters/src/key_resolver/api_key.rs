//! Key resolvers of verified API keys.

use std::sync::Arc;

use super::resolver::{KeyResolver, Kind};
use crate::api_key::{KeyPart, Settings};

impl KeyResolver {
    /// Resolves to a part of the request's verified API key, which is read at the places of `settings`.
    #[must_use]
    pub fn api_key(part: KeyPart, settings: Arc<Settings>) -> Self {
        Self(Kind::ApiKey(part, Some(settings)))
    }

    /// Reads API keys at the places of `settings`. Without them, `api-key` reads no header field.
    #[must_use]
    pub fn with_api_keys(mut self, settings: &Arc<Settings>) -> Self {
        self.change_parts(&|part| {
            if let Kind::ApiKey(_, current) = part {
                *current = Some(Arc::clone(settings));
            }
        });
        self
    }

    /// Returns the resolver of plans: `api-key` alone names the plan of the key instead of its id.
    #[must_use]
    pub fn of_plan(mut self) -> Self {
        if let Kind::ApiKey(part, _) = &mut self.0 {
            *part = KeyPart::Plan;
        }
        self
    }
}
