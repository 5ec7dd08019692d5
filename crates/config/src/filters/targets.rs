//! Filters that choose where a request goes, and under which `Host`.

use tollgate_filters::edit::Edit;

use crate::diagnostics::Diagnostics;
use crate::filters::edit::{finish, with_text};
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::spec::argument::Argument;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "PreserveHostHeader",
        doc: "Sends the client's own `Host` upstream.",
        args: Arguments::Listed(&[]),
        check: |input, diagnostics| {
            let [] = input.arguments(diagnostics);
            Some(Filter::Edit(Edit::preserve_host_header()))
        },
    },
    Entry {
        name: "SetRequestHostHeader",
        doc: "Sends this `Host` upstream.",
        args: Arguments::Listed(&[Argument::new(
            "host",
            "`host[:port]`, which may hold `{variables}` of `Path` and `Host`.",
        )]),
        check: |input, diagnostics| with_text(input, Edit::set_request_host_header, diagnostics),
    },
    Entry {
        name: "SetRequestUri",
        doc: "Sends the request to another URI, path and query included, whatever the other filters make of it.",
        args: Arguments::Listed(&[Argument::new(
            "template",
            "An `http` or `https` URI, which may hold `{variables}` of `Path` and `Host`.",
        )]),
        check: set_request_uri,
    },
    Entry {
        name: "RequestHeaderToRequestUri",
        doc: "Sends the request to the `http` or `https` URI that a header holds, if there is one.",
        args: Arguments::Listed(&[Argument::new(
            "name",
            "The header's name. Whoever can set it reaches all that the gateway reaches.",
        )]),
        check: |input, diagnostics| {
            let [name] = input.texts(diagnostics)?;
            diagnostics
                .warn(
                    input.spec.span,
                    format!("whoever sets `{name}` chooses the server that a request goes to, internal ones too"),
                )
                .help(
                    "let a trusted proxy before the gateway set or remove the header, and nobody else reach the route",
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
                    .warn(template.span, "the client's own path says which server a request goes to")
                    .help("hold the variable to what may stand there: `Path=/{name:a|b}/**`");
            }
        }
        Some(scheme) if scheme.contains('{') => {}
        Some("lb") => {
            diagnostics
                .error(template.span, "`SetRequestUri` to `lb://` is not supported")
                .help("give each upstream a route of its own with `uri: lb://…`");
            return None;
        }
        _ => diagnostics
            .mistake(
                template.span,
                format!("`{}` is no absolute http or https URI: requests keep their target", template.value),
            )
            .help("write `http://host/path`; SetPath changes the path alone"),
    }
    finish(input, Edit::set_request_uri(&template.value), diagnostics)
}
