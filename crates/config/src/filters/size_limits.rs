//! `RequestSize` and `RequestHeaderSize`.

use tollgate_filters::request_header_size;

use crate::de::units::parse_size;
use crate::diagnostics::Diagnostics;
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::filters::plain::PlainFilter;
use crate::spec::argument::{Argument, ArgumentType};
use crate::spec::values::header_name;

/// Spring's default for `RequestSize`: 5 000 000 bytes.
const DEFAULT_MAX_SIZE: u64 = 5_000_000;
/// Spring's default for `RequestHeaderSize`.
const DEFAULT_HEADER_SIZE: u64 = 16_000;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "RequestSize",
        doc: "Refuses larger request bodies with 413, chunked ones as soon as they exceed the size.",
        args: Arguments::Listed(&[
            Argument::new("maxSize", "Bytes, or a size such as `5MB`. Default 5000000.").of(ArgumentType::Size)
        ]),
        check: request_size,
    },
    Entry {
        name: "RequestHeaderSize",
        doc: "Refuses requests with a larger header, name and values together, with 431.",
        args: Arguments::Listed(&[
            Argument::new("maxSize", "Bytes, or a size such as `16KB`. Default 16000.").of(ArgumentType::Size),
            Argument::new("errorHeaderName", "Response header that names the refused one. Default `errorMessage`.")
                .of(ArgumentType::HeaderName),
        ]),
        check: request_header_size,
    },
];

fn request_size(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [size] = input.arguments(diagnostics);
    let Some(arg) = size else { return Some(Filter::RequestSize(DEFAULT_MAX_SIZE)) };
    parse_size(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok().map(Filter::RequestSize)
}

fn request_header_size(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [size, name] = input.arguments(diagnostics);
    let max_bytes = match size {
        None => DEFAULT_HEADER_SIZE,
        Some(arg) => parse_size(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok()?,
    };
    let settings = request_header_size::Settings::new(max_bytes);
    let Some(arg) = name else { return Some(Filter::Plain(PlainFilter::RequestHeaderSize(settings))) };
    let name = header_name(&arg.value, arg.span, diagnostics)?;
    Some(Filter::Plain(PlainFilter::RequestHeaderSize(settings.error_header(name))))
}
