//! Attributes of the types that keys of the configuration are read into, and of the replies of the admin port. Each names what
//! all types of its kind have: the spelling of names, defaults, and the JSON Schema. The arguments of an attribute are further
//! traits.

use proc_macro::TokenStream;

/// A section of the file: keys in kebab-case, each with a default. Tests make the schema.
#[proc_macro_attribute]
pub fn section(further: TokenStream, item: TokenStream) -> TokenStream {
    let in_tests = "cfg_attr(test, derive(schemars::JsonSchema))";
    with_attributes(
        &["derive(Debug, Default, ::serde::Deserialize)", in_tests, r#"serde(default, rename_all = "kebab-case")"#],
        &further,
        item,
    )
}

/// An enum of words in kebab-case. Tests make the schema, and write default words.
#[proc_macro_attribute]
pub fn word(further: TokenStream, item: TokenStream) -> TokenStream {
    let in_tests = "cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))";
    let traits = "derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Deserialize)";
    with_attributes(&[traits, in_tests, r#"serde(rename_all = "kebab-case")"#], &further, item)
}

/// The arguments of a filter or a predicate, in camelCase. An `Option`, and a value whose type has a default, may be absent.
/// Tests make the schema.
#[proc_macro_attribute]
pub fn arguments(further: TokenStream, item: TokenStream) -> TokenStream {
    let in_tests = "cfg_attr(test, derive(schemars::JsonSchema), schemars(transform = crate::spec::arguments))";
    with_attributes(&["derive(::serde::Deserialize)", in_tests, r#"serde(rename_all = "camelCase")"#], &further, item)
}

/// A reply of the admin port, or a part of one, in kebab-case.
#[proc_macro_attribute]
pub fn reply(further: TokenStream, item: TokenStream) -> TokenStream {
    let traits = "derive(::serde::Serialize, ::schemars::JsonSchema)";
    with_attributes(&[traits, r#"serde(rename_all = "kebab-case")"#], &further, item)
}

/// Puts `attributes` before `item`, and derives the `further` traits.
fn with_attributes(attributes: &[&str], further: &TokenStream, item: TokenStream) -> TokenStream {
    let all = format!("#[derive({further})] #[{}]", attributes.join("] #["));
    let mut all: TokenStream = all.parse().unwrap_or_default();
    all.extend(item);
    all
}
