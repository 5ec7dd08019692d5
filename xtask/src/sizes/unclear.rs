//! Types of results that do not say what they mean: an option in an option, and an error that is a flag, a place or nothing.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{GenericArgument, PathArguments, PathSegment, Type};

use crate::sizes::lines::{attributes, is_test};

/// Places of such types.
#[derive(Default)]
pub(super) struct Unclear(Vec<String>);

impl Unclear {
    /// Adds the types of a file that ships, `name` from the repository's root.
    ///
    /// # Errors
    /// The file cannot be parsed.
    pub(super) fn add(&mut self, name: &str, text: &str) -> Result<(), String> {
        let file = syn::parse_file(text).map_err(|error| format!("cannot parse {name}: {error}\n"))?;
        let mut types = Types(Vec::new());
        types.visit_file(&file);
        self.0.extend(types.0.iter().map(|line| format!("{name}:{line}")));
        Ok(())
    }

    /// Returns the violation, if there is one.
    pub(super) fn violation(&self) -> Option<String> {
        let places = self.0.join(", ");
        let message = format!(
            "unclear types: {} (limit 0): name what they mean, as `Result<_, Reported>` does: {places}",
            self.0.len()
        );
        (!self.0.is_empty()).then_some(message)
    }
}

/// Lines of unclear types.
struct Types(Vec<usize>);

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !attributes(item).iter().any(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_path_segment(&mut self, segment: &'ast PathSegment) {
        if is_unclear(segment) {
            self.0.push(segment.span().start().line);
        }
        visit::visit_path_segment(self, segment);
    }
}

fn is_unclear(segment: &PathSegment) -> bool {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
    let types: Vec<&Type> = arguments
        .args
        .iter()
        .filter_map(|argument| if let GenericArgument::Type(argument) = argument { Some(argument) } else { None })
        .collect();
    match (segment.ident.to_string().as_str(), types.as_slice()) {
        ("Option", [inner]) => is_named(inner, &["Option"]),
        ("Result", [_, Type::Tuple(error)]) => error.elems.is_empty(),
        ("Result", [_, error]) => is_named(error, &["bool", "Span"]),
        _ => false,
    }
}

/// Returns true if the last part of the type's path is one of `names`.
fn is_named(of: &Type, names: &[&str]) -> bool {
    let Type::Path(path) = of else { return false };
    path.path.segments.last().is_some_and(|segment| names.iter().any(|name| segment.ident == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_options_and_errors_without_a_meaning_are_found() {
        let text = "fn a() -> Option<Option<u8>> {}\nfn b() -> Result<u8, bool> {}\nfn c() -> std::result::Result<(), ()> {}\n\
                    fn d() -> Result<u8, yaml::Span> {}\nfn e() -> Result<Option<u8>, Reported> {}\nfn f() -> fmt::Result {}\n\
                    struct A { b: Vec<Option<Option<u8>>> }\n#[cfg(test)]\nmod tests { fn g() -> Option<Option<u8>> {} }\n";
        let mut unclear = Unclear::default();
        assert_eq!(unclear.add("a.rs", text), Ok(()));
        assert_eq!(unclear.0, ["a.rs:1", "a.rs:2", "a.rs:3", "a.rs:4", "a.rs:7"]);
        assert_eq!(Unclear::default().violation(), None);
        assert!(unclear.violation().is_some_and(|violation| violation.contains("a.rs:1, a.rs:2")));
    }
}
