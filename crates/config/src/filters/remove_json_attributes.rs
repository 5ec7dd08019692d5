//! `RemoveJsonAttributesResponseBody`.

use tollgate_filters::remove_json_attributes;

use crate::de::canonical;
use crate::diagnostics::Diagnostics;
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::filters::plain::PlainFilter;
use crate::spec::argument::{Argument, ArgumentType};
use crate::spec::definition::Arg;
use crate::spec::values::{above_zero, flag};

/// Four times the limit of Spring's codecs.
const DEFAULT_JSON_SIZE: u64 = 1024 * 1024;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "RemoveJsonAttributesResponseBody",
    doc: "Removes attributes from responses of the type `application/json` or `…+json`; if the body cannot be parsed, the response is 500.",
    args: Arguments::Listed(&[
        Argument::new("fieldList", "Names of the attributes.").of(ArgumentType::List),
        Argument::new(
            "deleteRecursively",
            "Removes them at any depth, not only from the outermost object. Default false.",
        )
        .of(ArgumentType::Flag),
    ]),
    check: remove_json_attributes,
}];

fn remove_json_attributes(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let spec = input.spec;
    let is_flag = |arg: &&Arg| arg.name.as_deref().is_some_and(|name| canonical(name) == "deleterecursively");
    let (names, recursively) = match spec.args.iter().find(is_flag) {
        None => spec.gather_with_flag(diagnostics)?,
        Some(arg) => {
            let names: Vec<_> = spec.args.iter().filter(|arg| !is_flag(arg)).map(|arg| arg.value.clone()).collect();
            if names.is_empty() {
                diagnostics.error(spec.span, format!("`{}` needs the argument `fieldList`", spec.name));
                return None;
            }
            (names, Some(flag(Some(arg), false, diagnostics)?))
        }
    };
    if let Some(arg) = spec.args.iter().find(|arg| arg.value.contains(',')) {
        diagnostics
            .warn(arg.span, format!("`{}` is one attribute name, as in Spring", arg.value))
            .help("write several as a list: `fieldList: [a, b]`");
    }
    let size = &input.context.filter.remove_json_attributes_response_body.max_size;
    let max_bytes = usize::try_from(above_zero(size.as_ref(), DEFAULT_JSON_SIZE, diagnostics)).unwrap_or(usize::MAX);
    let settings = remove_json_attributes::Settings::new(names, recursively.unwrap_or(false), max_bytes);
    Some(Filter::Plain(PlainFilter::RemoveJsonAttributes(settings)))
}
