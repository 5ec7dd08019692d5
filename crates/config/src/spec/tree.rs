//! Arguments of a [`Spec`] as one map, which the deserializer reads.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::de::{self, field_names, same_name};
use crate::diagnostics::{Diagnostics, Reported, UnknownKey};
use crate::source::dotted;
use crate::spec::definition::{Arg, GENERATED, Spec};
use crate::spring::Form;
use crate::yaml::{Node, NodeKind};

/// Assignment of the values of a shortcut `Name=a,b` to the arguments, as Spring's `ShortcutType`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shortcut {
    /// One value per argument, in the order of the struct.
    All,
    /// One value for each of these arguments.
    Some(&'static [&'static str]),
    /// All values, whatever their names, to the first argument, a list. Others are given by their names.
    List,
    /// As [`List`](Self::List); a last `true` or `false` goes to the second argument, unless it is named.
    ListAndFlag,
    /// No shortcut: the long form of an example.
    None(&'static str),
}

impl Spec<'_> {
    /// Reads the arguments as a `T`. Reports values of the wrong type, and arguments that are unknown or missing. Optional
    /// values of the wrong type are absent in the result, which then has the proof of their errors.
    ///
    /// # Errors
    /// A required argument is missing or wrong.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        shortcut: Shortcut,
        diagnostics: &mut Diagnostics,
    ) -> Result<(T, Option<Reported>), Reported> {
        let tree = self.tree(shortcut, field_names::<T>(), diagnostics)?;
        let report_missing = |field: &str, diagnostics: &mut Diagnostics| {
            diagnostics.error(self.span, format!("`{}` needs the argument `{field}`", self.name)).reported()
        };
        de::read_struct(
            &tree,
            diagnostics,
            |unknown, diagnostics| self.report_unknown(unknown, diagnostics),
            report_missing,
        )
    }

    /// Reads `tree`, the arguments of this specification, as a `T` whose fields say if they are wrong.
    pub(crate) fn read_tree<T>(&self, tree: &Node, diagnostics: &mut Diagnostics) -> T
    where
        T: DeserializeOwned + Default,
    {
        let (value, unknown) = de::read::<T>(tree, diagnostics);
        unknown.iter().for_each(|unknown| self.report_unknown(unknown, diagnostics));
        value
    }

    /// Returns the arguments as one map: that of the file, or one made of a shortcut. `fields` are the names of all
    /// arguments. Dotted names mean nested ones: `backoff.factor` is `factor` in `backoff`.
    ///
    /// # Errors
    /// A shortcut without a meaning is reported.
    pub(crate) fn tree(
        &self,
        shortcut: Shortcut,
        fields: &'static [&'static str],
        diagnostics: &mut Diagnostics,
    ) -> Result<Cow<'_, Node>, Reported> {
        let positions = match shortcut {
            Shortcut::All => fields,
            Shortcut::Some(names) => names,
            Shortcut::List => return Ok(Cow::Owned(self.gathered(fields, false))),
            Shortcut::ListAndFlag => return Ok(Cow::Owned(self.gathered(fields, true))),
            Shortcut::None(example) => {
                if let Some(arg) = self.args.iter().find(|arg| arg.name.is_none()) {
                    let message = format!("`{}` has no shortcut form", self.name);
                    let help = format!("write `name: {}` and `args: {example}`", self.name);
                    return Err(diagnostics.error(arg.span, message).reported_with(help));
                }
                &[]
            }
        };
        let entries = match self.map {
            Some(map) => match renamed(map, positions) {
                Some(entries) => entries,
                None => return Ok(Cow::Borrowed(map)),
            },
            None => self.by_position(positions, fields, diagnostics),
        };
        let map = Node { span: self.span, kind: NodeKind::Map(entries) };
        Ok(Cow::Owned(dotted::expand(map, Form::Own, diagnostics)))
    }

    /// Returns the values of a shortcut by the names of their `positions`.
    fn by_position(&self, positions: &[&str], fields: &[&str], diagnostics: &mut Diagnostics) -> Vec<(String, Node)> {
        match self.args.get(positions.len()) {
            None => {}
            Some(arg) if positions.len() == fields.len() => self.report_surplus(arg, positions.len(), diagnostics),
            Some(arg) => self.report_no_position(arg, diagnostics),
        }
        positions.iter().zip(&self.args).map(|(name, arg)| ((*name).to_owned(), arg.node())).collect()
    }

    /// Returns the arguments with all values in the first of `fields`, but for those that are named like another field.
    fn gathered(&self, fields: &[&str], has_flag: bool) -> Node {
        let mut entries: Vec<(String, Node)> = Vec::new();
        let mut items: Vec<Node> = Vec::new();
        let (list, others) = fields.split_first().unwrap_or((&"", &[]));
        for arg in &self.args {
            let name = arg.name.as_deref();
            match others.iter().find(|field| name.is_some_and(|name| same_name(field, name))) {
                Some(field) => entries.push(((*field).to_owned(), arg.node())),
                None => items.push(arg.node()),
            }
        }
        if has_flag
            && entries.is_empty()
            && let Some(flag) = items.pop_if(|last| last.scalar().is_some_and(|text| text.parse::<bool>().is_ok()))
        {
            entries.extend(others.first().map(|field| ((*field).to_owned(), flag)));
        }
        if !items.is_empty() {
            entries.push(((*list).to_owned(), Node { span: self.span, kind: NodeKind::Seq(items) }));
        }
        Node { span: self.span, kind: NodeKind::Map(entries) }
    }

    /// Reports a value of a shortcut that gives some arguments only.
    fn report_no_position(&self, arg: &Arg, diagnostics: &mut Diagnostics) {
        let (name, value) = (&self.name, &arg.value);
        diagnostics
            .mistake(arg.span, format!("the shortcut form of `{name}` has no argument for `{value}`"))
            .ineffective()
            .help(format!("use the long form for all arguments: `name: {name}` and `args:`"));
    }

    fn report_unknown(&self, unknown: &UnknownKey, diagnostics: &mut Diagnostics) {
        let path = unknown.path.join(".");
        let name = unknown.path.last().map_or("", String::as_str);
        let error = diagnostics.mistake(unknown.span.key(), format!("`{}` has no argument `{path}`", self.name));
        match unknown.fields.as_slice() {
            [] => error.help("it takes no arguments"),
            fields => error.suggest(name, fields),
        }
    }
}

/// Returns the entries of `map` by the names of arguments: those that Spring generates for values of a shortcut are those
/// of `positions`. `None` if no name changes, and none is dotted.
fn renamed(map: &Node, positions: &[&str]) -> Option<Vec<(String, Node)>> {
    let NodeKind::Map(entries) = &map.kind else { return None };
    if !entries.iter().any(|(key, _)| key.contains(['.', '[']) || key.starts_with(GENERATED)) {
        return None;
    }
    let entries = entries.iter().enumerate().map(|(position, (key, value))| {
        let key = match positions.get(position) {
            Some(name) if key.starts_with(GENERATED) => (*name).to_owned(),
            _ => key.clone(),
        };
        (key, value.clone())
    });
    Some(entries.collect())
}
