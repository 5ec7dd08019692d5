//! `RemoveJsonAttributesResponseBody`.

use serde::Deserialize;
use tollgate_filters::remove_json_attributes;

use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, Reported};
use crate::filters::model::Filter;
use crate::filters::plain::PlainFilter;
use crate::filters::row::{Arguments, Entry, FilterInput};
#[cfg(test)]
use crate::spec::schema::arguments;
use crate::spec::tree::Shortcut;
use crate::spec::types::Text;
use crate::spec::values::above_zero;

/// Four times the limit of Spring's codecs.
const DEFAULT_JSON_SIZE: u64 = 1024 * 1024;

/// Arguments of `RemoveJsonAttributesResponseBody`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(transform = arguments))]
#[serde(rename_all = "camelCase")]
struct RemoveJsonAttributesArgs {
    /// Names of the attributes.
    field_list: Vec<Spanned<Text>>,
    /// Removes them at any depth, not only from the outermost object. Default false.
    delete_recursively: Option<bool>,
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "RemoveJsonAttributesResponseBody",
    doc: "Removes attributes from responses of the type `application/json` or `…+json`; if the body cannot be parsed, the response is 500.",
    args: Arguments::of::<RemoveJsonAttributesArgs>(Shortcut::ListAndFlag),
    check: remove_json_attributes,
}];

fn remove_json_attributes(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: RemoveJsonAttributesArgs = input.read(diagnostics)?;
    if let Some(name) = args.field_list.iter().find(|name| name.value.contains(',')) {
        diagnostics
            .warn(name.span, format!("`{}` is one attribute name, as in Spring", &*name.value))
            .help("write several as a list: `fieldList: [a, b]`");
    }
    let size = &input.context.filter.remove_json_attributes_response_body.max_size;
    let max_bytes = usize::try_from(above_zero(size.as_ref(), DEFAULT_JSON_SIZE, diagnostics)).unwrap_or(usize::MAX);
    let names: Vec<String> = args.field_list.into_iter().map(|name| name.value.0).collect();
    let settings = remove_json_attributes::Settings::new(names, args.delete_recursively.unwrap_or(false), max_bytes);
    Ok(Filter::Plain(PlainFilter::RemoveJsonAttributes(settings)))
}
