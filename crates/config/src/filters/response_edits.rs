//! Filters that edit the headers of responses. They run in reverse order, the last listed first.

use http::header::LOCATION;
use tollgate_filters::edit::{DedupeStrategy, Edit, LocationSettings, StripVersion};

use crate::de::{Flag, Spanned, canonical};
use crate::diagnostics::{Diagnostics, Reported};
use crate::filters::model::Filter;
use crate::filters::request_edits::{HeaderArgs, HeaderNameArgs};
use crate::filters::row::{Arguments, Entry, FilterInput, edit};
use crate::spec::{FieldName, HeaderText, Shortcut, Text};

/// Arguments of `AddResponseHeader`.
#[arguments]
struct AddHeaderArgs {
    /// Header name.
    name: HeaderText,
    /// Its value; may contain `{variables}` of `Path` and `Host`.
    value: Text,
    /// Adds it even if the header has a value.
    r#override: Flag<true>,
}

/// Arguments of `DedupeResponseHeader`.
#[arguments]
struct DedupeArgs {
    /// Header names, separated by spaces.
    name: Text,
    /// Values to keep: `RETAIN_FIRST`, `RETAIN_LAST` or `RETAIN_UNIQUE` (each once). Default `RETAIN_FIRST`.
    strategy: Option<Spanned<Text>>,
}

/// Arguments of `RewriteResponseHeader`.
#[arguments]
struct RewriteHeaderArgs {
    /// Header name.
    name: HeaderText,
    /// A regular expression, not anchored.
    regexp: Text,
    /// Replacement of each match: `$1`, `$\{name}` for groups.
    replacement: Text,
}

/// Arguments of `RewriteLocationResponseHeader`.
#[arguments]
struct RewriteLocationArgs {
    /// Removal of the version: `NEVER_STRIP`, `AS_IN_REQUEST` (if the request's path has none) or `ALWAYS_STRIP`. Default `AS_IN_REQUEST`.
    strip_version: Option<Spanned<Text>>,
    /// Header name. Default `Location`.
    location_header_name: Option<FieldName>,
    /// `host[:port]`. Default: the request's `Host`.
    host_value: Option<Text>,
    /// Regular expression for the schemes of locations. Default `https?|ftps?`.
    protocols: Option<Text>,
}

pub(super) const ENTRIES: &[Entry] = &[
    edit! {
        "AddResponseHeader"(AddHeaderArgs) "Adds a value to a response header, after those of the upstream.":
        |args| Edit::add_response_header(&args.name, &args.value, args.r#override.get())
    },
    edit! {
        "SetResponseHeader"(HeaderArgs) "Replaces all values of a response header.":
        |args| Edit::set_response_header(&args.name, &args.value)
    },
    edit! {
        "RemoveResponseHeader"(HeaderNameArgs) "Removes a response header.":
        |args| Edit::remove_response_header(&args.name)
    },
    Entry {
        name: "DedupeResponseHeader",
        doc: "Removes duplicate values of response headers. List it before filters that add them.",
        args: Arguments::of::<DedupeArgs>(Shortcut::All),
        check: |input, diagnostics| {
            let args: DedupeArgs = input.read(diagnostics)?;
            let strategy = constant(args.strategy.as_ref(), STRATEGIES, diagnostics)?;
            input.finish(Edit::dedupe_response_header(&args.name, strategy), diagnostics)
        },
    },
    edit! {
        "RewriteResponseHeader"(RewriteHeaderArgs) "Replaces every match in every value of a response header, as Java's `String.replaceAll` does.":
        |args| Edit::rewrite_response_header(&args.name, &args.regexp, &args.replacement)
    },
    Entry {
        name: "RewriteLocationResponseHeader",
        doc: "Replaces the upstream's host in `Location` by the gateway's, and removes versions such as `/v2`.",
        args: Arguments::of::<RewriteLocationArgs>(Shortcut::All),
        check: location,
    },
];

const STRATEGIES: &[(&str, DedupeStrategy)] = &[
    ("RETAIN_FIRST", DedupeStrategy::RetainFirst),
    ("RETAIN_LAST", DedupeStrategy::RetainLast),
    ("RETAIN_UNIQUE", DedupeStrategy::RetainUnique),
];

const STRIP_VERSION: &[(&str, StripVersion)] = &[
    ("NEVER_STRIP", StripVersion::NeverStrip),
    ("AS_IN_REQUEST", StripVersion::AsInRequest),
    ("ALWAYS_STRIP", StripVersion::AlwaysStrip),
];

fn location(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: RewriteLocationArgs = input.read(diagnostics)?;
    let settings = LocationSettings {
        strip_version: constant(args.strip_version.as_ref(), STRIP_VERSION, diagnostics)?,
        header: args.location_header_name.map_or(LOCATION, |name| name.0),
        host: args.host_value.map(|host| host.0),
        protocols: args.protocols.map_or_else(|| LocationSettings::default().protocols, |protocols| protocols.0),
    };
    input.finish(Edit::rewrite_location_response_header(&settings), diagnostics)
}

/// Reads a Java constant by its name, in any case, with hyphens or underscores.
fn constant<T: Copy + Default>(
    word: Option<&Spanned<Text>>,
    constants: &[(&str, T)],
    diagnostics: &mut Diagnostics,
) -> Result<T, Reported> {
    let Some(Spanned { value: word, span }) = word else { return Ok(T::default()) };
    match constants.iter().find(|(name, _)| canonical(name) == canonical(word.trim())) {
        Some((_, value)) => Ok(*value),
        None => {
            let names: Vec<&str> = constants.iter().map(|(name, _)| *name).collect();
            let error = diagnostics.error(*span, format!("unknown value `{}`", &**word));
            let reported = error.reported();
            error.suggest(word, &names);
            Err(reported)
        }
    }
}
