//! Filters that change the target of a request, or its `Host`.

use tollgate_filters::edit::Edit;

use crate::diagnostics::Diagnostics;
use crate::filters::edit::{finish, with_text};
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::spec::argument::Argument;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "PreserveHostHeader",
        doc: "Sends the client's `Host` to the upstream.",
        args: Arguments::Listed(&[]),
        check: |input, diagnostics| {
            let [] = input.arguments(diagnostics);
            Some(Filter::Edit(Edit::preserve_host_header()))
        },
    },
    Entry {
        name: "SetRequestHostHeader",
        doc: "Sends this `Host` to the upstream.",
        args: Arguments::Listed(&[Argument::new(
            "host",
            "`host[:port]`; may contain `{variables}` of `Path` and `Host`.",
        )]),
        check: |input, diagnostics| with_text(input, Edit::set_request_host_header, diagnostics),
    },
    Entry {
        name: "SetRequestUri",
        doc: "Replaces the target of the request, path and query included, after all other filters.",
        args: Arguments::Listed(&[Argument::new(
            "template",
            "An `http` or `https` URI; may contain `{variables}` of `Path` and `Host`.",
        )]),
        check: set_request_uri,
    },
    Entry {
        name: "RequestHeaderToRequestUri",
        doc: "Sends the request to the `http` or `https` URI in a header, if it has one.",
        args: Arguments::Listed(&[Argument::new(
            "name",
            "Header name. Clients that can set it can reach every server that the gateway can reach.",
        )]),
        check: |input, diagnostics| {
            let [name] = input.texts(diagnostics)?;
            diagnostics
                .warn(
                    input.spec.span,
                    format!("clients that can set `{name}` choose the server of a request, including internal ones"),
                )
                .help(
                    "let a trusted proxy in front of the gateway set or remove the header, and admit only that proxy to the route",
                );
            finish(input, Edit::request_header_to_request_uri(name), diagnostics)
        },
    },
];

fn set_request_uri(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [template] = input.arguments(diagnostics);
    let template = input.spec.required(template, "template", diagnostics)?;
    let scheme = template.value.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some(scheme) if ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) => {
            let authority = template.value.split('/').nth(2).unwrap_or_default();
            if authority.contains('{') {
                diagnostics
                    .warn(template.span, "the client's path chooses the server of a request")
                    .help("restrict the variable to allowed values: `Path=/{name:a|b}/**`");
            }
        }
        Some(scheme) if scheme.contains('{') => {}
        Some("lb") => {
            diagnostics
                .error(template.span, "`SetRequestUri` to `lb://` is not supported")
                .help("give each upstream its own route with `uri: lb://…`");
            return None;
        }
        _ => diagnostics
            .mistake(
                template.span,
                format!("`{}` is not an absolute http or https URI: requests keep their target", template.value),
            )
            .help("write `http://host/path`; SetPath changes only the path"),
    }
    finish(input, Edit::set_request_uri(&template.value), diagnostics)
}
