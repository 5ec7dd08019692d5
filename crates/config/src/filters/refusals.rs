//! `RequestSize`, `RequestHeaderSize` and `ApiKey`, which refuse requests.

use tollgate_filters::request_header_size::Settings;
use tollgate_filters::verify_api_key::FilterSettings;

use crate::de::Size;
use crate::filters::model::Filter;
use crate::filters::plain::PlainFilter;
use crate::filters::row::{Arguments, Entry};
use crate::key_resolvers::Preflights;
use crate::spec::{FieldName, Shortcut};

/// Spring's default for `RequestSize`: 5 000 000 bytes.
const DEFAULT_MAX_SIZE: u64 = 5_000_000;
/// Spring's default for `RequestHeaderSize`.
const DEFAULT_HEADER_SIZE: u64 = 16_000;

/// Argument of `RequestSize`.
#[arguments]
struct RequestSizeArgs {
    /// Bytes, or a size such as `5MB`. Default 5000000.
    max_size: Option<Size>,
}

/// Arguments of `RequestHeaderSize`.
#[arguments]
struct RequestHeaderSizeArgs {
    /// Bytes, or a size such as `16KB`. Default 16000.
    max_size: Option<Size>,
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
            Ok(Filter::RequestSize(max_size.map_or(DEFAULT_MAX_SIZE, |size| size.0)))
        },
    },
    Entry {
        name: "RequestHeaderSize",
        doc: "Refuses requests with a larger header, name and values together, with 431.",
        args: Arguments::of::<RequestHeaderSizeArgs>(Shortcut::All),
        check: |input, diagnostics| {
            let RequestHeaderSizeArgs { max_size, error_header_name } = input.read(diagnostics)?;
            let settings = Settings::new(max_size.map_or(DEFAULT_HEADER_SIZE, |size| size.0));
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
    /// Refuses requests without a key. An unknown key is refused in any case. Default true.
    required: Option<bool>,
    /// Forwards the key itself to the upstream. Default false.
    forward: Option<bool>,
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
        settings.required = required.unwrap_or(true);
        settings.forward = forward.unwrap_or(false);
        Ok(Filter::Plain(PlainFilter::ApiKey(settings)))
    },
}];
