//! `RequestSize`, `RequestHeaderSize` and `ApiKey`, which refuse requests.

use tollgate_filters::request_header_size::Settings;
use tollgate_filters::verify_api_key::FilterSettings;

use crate::de::{Flag, Or, Size};
use crate::filters::model::Filter;
use crate::filters::plain::PlainFilter;
use crate::filters::row::{Arguments, Entry};
use crate::key_resolvers::Preflights;
use crate::spec::{FieldName, Shortcut};

/// Argument of `RequestSize`.
#[arguments]
struct RequestSizeArgs {
    /// Bytes, or a size such as `5MB`. Default {}, as in Spring.
    max_size: Or<Size, 5_000_000>,
}

/// Arguments of `RequestHeaderSize`.
#[arguments]
struct RequestHeaderSizeArgs {
    /// Bytes, or a size such as `16KB`. Default {}, as in Spring.
    max_size: Or<Size, 16_000>,
    /// Response header that names the refused one. Default `errorMessage`.
    error_header_name: Option<FieldName>,
}

pub(super) const SIZES: &[Entry] = &[
    Entry {
        name: "RequestSize",
        doc: "Refuses larger request bodies with 413, chunked ones as soon as they exceed the size.",
        args: Arguments::of::<RequestSizeArgs>(Shortcut::All),
        check: |input, diagnostics| {
            let RequestSizeArgs { max_size } = input.read(diagnostics)?;
            Ok(Filter::RequestSize(max_size.get() as u64))
        },
    },
    Entry {
        name: "RequestHeaderSize",
        doc: "Refuses requests with a larger header, name and values together, with 431.",
        args: Arguments::of::<RequestHeaderSizeArgs>(Shortcut::All),
        check: |input, diagnostics| {
            let RequestHeaderSizeArgs { max_size, error_header_name } = input.read(diagnostics)?;
            let settings = Settings::new(max_size.get() as u64);
            let settings = match error_header_name {
                Some(name) => settings.error_header(name.0),
                None => settings,
            };
            Ok(Filter::Plain(PlainFilter::RequestHeaderSize(settings)))
        },
    },
];

/// Arguments of `ApiKey`.
#[arguments]
struct ApiKeyArgs {
    /// Refuses requests without a key. An unknown key is refused in any case.
    required: Flag<true>,
    /// Forwards the key itself to the upstream.
    forward: Flag<false>,
}

pub(super) const API_KEY: &[Entry] = &[Entry {
    name: "ApiKey",
    doc: "Refuses requests without a valid API key, which `api-keys` verifies, and tells the upstream its id.",
    args: Arguments::of::<ApiKeyArgs>(Shortcut::All),
    check: |input, diagnostics| {
        let ApiKeyArgs { required, forward } = input.read(diagnostics)?;
        let limiters = &input.context.limiters;
        let keys = limiters.key_resolvers.api_keys.settings(input.spec.span, diagnostics)?;
        let mut settings = FilterSettings::new(keys, limiters.preflights == Preflights::ByAddress);
        settings.required = required.get();
        settings.forward = forward.get();
        Ok(Filter::Plain(PlainFilter::ApiKey(settings)))
    },
}];
