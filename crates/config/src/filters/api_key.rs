//! `ApiKey`.

use tollgate_filters::verify_api_key::FilterSettings;

use crate::filters::model::Filter;
use crate::filters::plain::PlainFilter;
use crate::filters::row::{Arguments, Entry};
use crate::key_resolvers::Preflights;
use crate::spec::Shortcut;

/// Arguments of `ApiKey`.
#[arguments]
struct ApiKeyArgs {
    /// Refuses requests without a key. An unknown key is refused in any case. Default true.
    required: Option<bool>,
    /// Forwards the key itself to the upstream. Default false.
    forward: Option<bool>,
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "ApiKey",
    doc: "Refuses requests without a valid API key, which `api-keys` verifies, and tells the upstream its id.",
    args: Arguments::of::<ApiKeyArgs>(Shortcut::All),
    check: |input, diagnostics| {
        let ApiKeyArgs { required, forward } = input.read(diagnostics)?;
        let limiters = &input.context.limiters;
        let keys = limiters.key_resolvers.api_keys.settings(input.spec.span, diagnostics)?;
        let mut settings = FilterSettings::new(keys, limiters.preflights == Preflights::ByAddress);
        settings.required = required.unwrap_or(true);
        settings.forward = forward.unwrap_or(false);
        Ok(Filter::Plain(PlainFilter::ApiKey(settings)))
    },
}];
