//! Rows of the table of filters, and the input of their checks.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::diagnostics::Diagnostics;
use crate::filters::context::FilterContext;
use crate::filters::model::Filter;
use crate::spec::FilterSpec;
use crate::spec::argument::{self, Argument};
use crate::spec::definition::Arg;

/// A filter that routes can have.
#[derive(Debug)]
pub struct Entry {
    /// Its name, in Spring Cloud Gateway too if Spring has it.
    pub name: &'static str,
    /// Its effect, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments.
    pub args: Arguments,
    pub(super) check: fn(&FilterInput<'_>, &mut Diagnostics) -> Option<Filter>,
}

/// Arguments of a filter.
#[derive(Clone, Copy, Debug)]
pub enum Arguments {
    /// A list in the order of the shortcut `Name=a,b`.
    Listed(&'static [Argument]),
    /// A typed struct, by its schema. A shortcut has the first arguments of the struct.
    Typed(fn(&mut SchemaGenerator) -> Schema),
    /// A typed struct, by its schema, without a shortcut. Values may be Spring's bean references `#{@name}`.
    LongForm(fn(&mut SchemaGenerator) -> Schema),
}

/// Name and documentation of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentDoc {
    /// Its name; nested ones are dotted: `backoff.factor`.
    pub name: String,
    /// Meaning, unit and default, in sentences of Markdown.
    pub doc: String,
}

/// The specification of a filter, and what its check needs.
pub(super) struct FilterInput<'c> {
    pub(super) spec: &'c FilterSpec,
    pub(super) args: &'static [Argument],
    pub(super) context: &'c FilterContext<'c>,
}

impl Entry {
    /// Name and documentation of each argument.
    #[must_use]
    pub fn arguments(&self) -> Vec<ArgumentDoc> {
        let schema = match self.args {
            Arguments::Listed(list) => {
                let doc =
                    |argument: &Argument| ArgumentDoc { name: argument.name.to_owned(), doc: argument.doc.to_owned() };
                return list.iter().map(doc).collect();
            }
            Arguments::Typed(schema) | Arguments::LongForm(schema) => schema,
        };
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let root = schema(&mut generator).to_value();
        let definitions = Value::Object(generator.take_definitions(true));
        let mut rows = Vec::new();
        collect_rows("", resolve(&root, &definitions), &definitions, &mut rows);
        rows
    }

    /// Schema of the map of arguments.
    pub(super) fn schema(&self, generator: &mut SchemaGenerator) -> Value {
        match self.args {
            Arguments::Listed(list) => argument::schema(list, generator),
            Arguments::Typed(schema) | Arguments::LongForm(schema) => schema(generator).to_value(),
        }
    }
}

/// The schema that `node` refers to, or `node`.
fn resolve<'s>(node: &'s Value, definitions: &'s Value) -> &'s Value {
    let name = node["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    name.map_or(node, |name| &definitions[name])
}

fn collect_rows(prefix: &str, schema: &Value, definitions: &Value, rows: &mut Vec<ArgumentDoc>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if name.starts_with("redis-rate-limiter") {
            continue;
        }
        let name = format!("{prefix}{name}");
        let inner = resolve(property, definitions);
        if inner["properties"].is_object() {
            collect_rows(&format!("{name}."), inner, definitions, rows);
        } else {
            let doc = property["description"].as_str().unwrap_or_default().replace('\n', " ");
            rows.push(ArgumentDoc { name, doc });
        }
    }
}

impl<'c> FilterInput<'c> {
    /// Returns the first `N` arguments of the entry, if the file has them.
    pub(super) fn arguments<const N: usize>(&self, diagnostics: &mut Diagnostics) -> [Option<&'c Arg>; N] {
        let names = std::array::from_fn(|at| self.args.get(at).map_or("", |argument| argument.name));
        self.spec.arguments(names, diagnostics)
    }

    /// Returns the values of the first `N` arguments of the entry. Reports missing ones.
    pub(super) fn texts<const N: usize>(&self, diagnostics: &mut Diagnostics) -> Option<[&'c str; N]> {
        let found = self.arguments::<N>(diagnostics);
        let mut texts = [""; N];
        for ((text, arg), argument) in texts.iter_mut().zip(found).zip(self.args) {
            *text = &self.spec.required(arg, argument.name, diagnostics)?.value;
        }
        Some(texts)
    }
}
