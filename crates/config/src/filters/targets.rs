//! Filters that choose where a request goes, and under which `Host`.

use tollgate_filters::edit::Edit;

use crate::diagnostics::Diagnostics;
use crate::filters::edits::{finish, with_text};
use crate::filters::entry::{Argument, Call, Entry};
use crate::model::Filter;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "PreserveHostHeader",
        doc: "Sends the client's own `Host` upstream.",
        args: &[],
        check: |call, diagnostics| {
            let [] = call.bind(diagnostics);
            Some(Filter::Edit(Edit::preserve_host_header()))
        },
    },
    Entry {
        name: "SetRequestHostHeader",
        doc: "Sends this `Host` upstream.",
        args: &[Argument::new("host", "`host[:port]`, which may hold `{variables}` of `Path` and `Host`.")],
        check: |call, diagnostics| with_text(call, Edit::set_request_host_header, diagnostics),
    },
    Entry {
        name: "SetRequestUri",
        doc: "Sends the request to another URI, path and query included, whatever the other filters make of it.",
        args: &[Argument::new(
            "template",
            "An `http` or `https` URI, which may hold `{variables}` of `Path` and `Host`.",
        )],
        check: set_request_uri,
    },
    Entry {
        name: "RequestHeaderToRequestUri",
        doc: "Sends the request to the `http` or `https` URI that a header holds, if there is one.",
        args: &[Argument::new("name", "The header's name. Whoever can set it reaches all that the gateway reaches.")],
        check: |call, diagnostics| {
            let [name] = call.texts(diagnostics)?;
            diagnostics
                .warn(
                    call.written.span,
                    format!("whoever sets `{name}` chooses the server that a request goes to, internal ones too"),
                )
                .help(
                    "let a trusted proxy before the gateway set or remove the header, and nobody else reach the route",
                );
            finish(call, Edit::request_header_to_request_uri(name), diagnostics)
        },
    },
];

fn set_request_uri(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [template] = call.bind(diagnostics);
    let template = call.written.required(template, "template", diagnostics)?;
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
    finish(call, Edit::set_request_uri(&template.value), diagnostics)
}
