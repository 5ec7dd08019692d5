//! Filters that change the target of a request, or its `Host`.

use tollgate_filters::edit::Edit;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Reported};
use crate::filters::model::Filter;
use crate::filters::row::{Arguments, Entry, FilterInput, edit};
use crate::spec::{Shortcut, Text};

/// A filter without arguments.
#[arguments]
struct NoArgs {}

/// Argument of `SetRequestHostHeader`.
#[arguments]
struct HostArgs {
    /// `host[:port]`; may contain `{variables}` of `Path` and `Host`.
    host: Text,
}

/// Argument of `SetRequestUri`.
#[arguments]
struct UriArgs {
    /// An `http` or `https` URI; may contain `{variables}` of `Path` and `Host`.
    template: Spanned<Text>,
}

/// Argument of `RequestHeaderToRequestUri`.
#[arguments]
struct HeaderToUriArgs {
    /// Header name. Clients that can set it can reach every server that the gateway can reach.
    name: Text,
}

pub(super) const ENTRIES: &[Entry] = &[
    edit! {
        "PreserveHostHeader"(NoArgs) "Sends the client's `Host` to the upstream.":
        |_| Ok(Edit::preserve_host_header())
    },
    edit! {
        "SetRequestHostHeader"(HostArgs) "Sends this `Host` to the upstream.":
        |args| Edit::set_request_host_header(&args.host)
    },
    Entry {
        name: "SetRequestUri",
        doc: "Replaces the target of the request, path and query included, after all other filters.",
        args: Arguments::of::<UriArgs>(Shortcut::All),
        check: set_request_uri,
    },
    Entry {
        name: "RequestHeaderToRequestUri",
        doc: "Sends the request to the `http` or `https` URI in a header, if it has one.",
        args: Arguments::of::<HeaderToUriArgs>(Shortcut::All),
        check: |input, diagnostics| {
            let HeaderToUriArgs { name } = input.read(diagnostics)?;
            diagnostics
                .warn(
                    input.spec.span,
                    format!("clients that can set `{}` choose the server of a request, including internal ones", &*name),
                )
                .help(
                    "let a trusted proxy in front of the gateway set or remove the header, and admit only that proxy to the route",
                );
            input.finish(Edit::request_header_to_request_uri(&name), diagnostics)
        },
    },
];

fn set_request_uri(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let UriArgs { template: Spanned { value: template, span } } = input.read(diagnostics)?;
    let scheme = template.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some(scheme) if ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) => {
            let authority = template.split('/').nth(2).unwrap_or_default();
            if authority.contains('{') {
                diagnostics
                    .warn(span, "the client's path chooses the server of a request")
                    .help("restrict the variable to allowed values: `Path=/{name:a|b}/**`");
            }
        }
        Some(scheme) if scheme.contains('{') => {}
        Some("lb") => {
            let error = diagnostics.error(span, "`SetRequestUri` to `lb://` is not supported");
            return Err(error.reported_with("give each upstream its own route with `uri: lb://…`"));
        }
        _ => diagnostics
            .mistake(span, format!("`{}` is not an absolute http or https URI: requests keep their target", &*template))
            .help("write `http://host/path`; SetPath changes only the path"),
    }
    input.finish(Edit::set_request_uri(&template), diagnostics)
}
