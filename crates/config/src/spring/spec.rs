//! Predicates and filters as written: `Name=a,b`, or a name and named arguments.

use crate::de::arg::{Arg, flatten_into};
use crate::diagnostics::{Diagnostics, closest, suggest};
use crate::spring::names::KnownNames;
use crate::yaml::key::{canonical, same_name};
use crate::yaml::{Kind, Node, Span};

/// What Spring names arguments that have a position alone; files made from its own listings hold such.
const GENERATED: &str = "_genkey_";

/// One predicate or filter, its arguments as text.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) args: Vec<Arg>,
    /// Names of arguments with nothing behind them: no value, an empty list or map. They count as absent.
    pub(crate) empty: Vec<Arg>,
    /// As its author wrote it, on one line.
    pub(crate) text: String,
}

/// Reads one definition; `kind` is "predicate" or "filter". `None` when it is beyond reading, which `sink` then knows.
pub(crate) fn parse(node: &Node, kind: &str, known: &KnownNames, diagnostics: &mut Diagnostics) -> Option<Written> {
    match &node.kind {
        Kind::Scalar(text) => shortcut(text, node.span, kind, known, diagnostics),
        Kind::Map(entries) => named(node, entries, kind, known, diagnostics),
        _ => {
            diagnostics
                .error(node.span, format!("expected a {kind} such as `{}`, found {}", example(kind), node.describe()));
            None
        }
    }
}

fn example(kind: &str) -> &'static str {
    if kind == "predicate" { "Path=/api/**" } else { "StripPrefix=1" }
}

/// `Name=a,b`: split at the first `=`, then at commas; tokens are trimmed, empty ones dropped.
pub(crate) fn shortcut(
    text: &str,
    span: Span,
    kind: &str,
    known: &KnownNames,
    diagnostics: &mut Diagnostics,
) -> Option<Written> {
    let (name, args) = match text.split_once('=') {
        Some((name, args)) => (name.trim(), args),
        None if kind == "filter" => (text.trim(), ""),
        None => {
            diagnostics.error(span, format!("expected `Name=args`, found `{text}`")).help(format!(
                "a predicate is written like `{}`; within `[…]` quote it when it holds a comma",
                example(kind)
            ));
            return None;
        }
    };
    let args = args
        .split(',')
        .map(str::trim)
        .enumerate()
        .filter(|(_, arg)| !arg.is_empty())
        .map(|(position, arg)| Arg { name: None, value: arg.to_owned(), span: span.argument(position) })
        .collect();
    swallowed(text, span, known, diagnostics);
    Some(Written { name: name.to_owned(), span, args, empty: Vec::new(), text: text.trim().to_owned() })
}

/// A list item that is indented too far is, to YAML, the end of the one above it.
fn swallowed(text: &str, span: Span, known: &KnownNames, diagnostics: &mut Diagnostics) {
    let next = text.split(" - ").skip(1).find(|item| {
        let name = item.split(['=', ':']).next().unwrap_or_default().trim();
        name == "name" || known.contains(name)
    });
    if let Some(next) = next {
        diagnostics
            .error(span, format!("`- {}` is part of the item above it: both are read as one", next.trim()))
            .help("indent both alike");
    }
}

/// `Name: …` for `Name=…` or `name: Name`: what to write instead, if that is what stands here.
fn name_as_key(entries: &[(String, Node)], kind: &str, known: &KnownNames, diagnostics: &mut Diagnostics) -> bool {
    let Some((key, value)) = entries.iter().find(|(key, _)| known.contains(key)) else { return false };
    diagnostics
        .error(value.span.key(), format!("`{key}` stands here as a key, a {kind} is a text or has a `name`"))
        .help(match &value.kind {
            Kind::Scalar(text) if key != "RequestRateLimiter" => format!("write `- {key}={text}`"),
            _ => format!("write `- name: {key}` and its arguments below `args:`"),
        });
    true
}

fn named(
    node: &Node,
    entries: &[(String, Node)],
    kind: &str,
    known: &KnownNames,
    diagnostics: &mut Diagnostics,
) -> Option<Written> {
    if !entries.iter().any(|(key, _)| canonical(key) == "name") && name_as_key(entries, kind, known, diagnostics) {
        return None;
    }
    let mut name = None;
    let (mut args, mut empty) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        match canonical(key).as_str() {
            "name" => name = value.scalar().map(|text| (text.trim().to_owned(), value.span)),
            "args" => match &value.kind {
                Kind::Map(_) | Kind::Null => flatten_into("", value, &mut args, &mut empty),
                _ => {
                    let found = value.describe();
                    let error = diagnostics.error(value.span, format!("expected a map of arguments, found {found}"));
                    if found.contains(':') {
                        error.help("a space is missing behind the colon: `name: value`");
                    }
                }
            },
            _ => diagnostics.mistake(value.span.key(), format!("unknown key `{key}`")).help(
                match closest(key, ["name", "args"]) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "arguments stand below `args:`".to_owned(),
                },
            ),
        }
    }
    let Some((name, span)) = name else {
        diagnostics
            .error(node.span, format!("{kind} without a name"))
            .help(format!("write `{}`, or `name:` and `args:`", example(kind)));
        return None;
    };
    let listed: Vec<String> =
        args.iter().map(|arg| format!("{}={}", arg.name.as_deref().unwrap_or_default(), arg.value)).collect();
    let text = format!("{name}{{{}}}", listed.join(", "));
    empty.retain(|arg: &Arg| arg.name.as_deref() != Some(""));
    Some(Written { name, span, args, empty, text })
}

impl Written {
    /// Arguments by field, positional ones by the order of `fields`. What belongs to no field goes to `sink`.
    pub(crate) fn bind<'w, const N: usize>(
        &'w self,
        fields: [&str; N],
        diagnostics: &mut Diagnostics,
    ) -> [Option<&'w Arg>; N] {
        let mut bound = [None; N];
        self.check_empty(&fields, diagnostics);
        for (position, arg) in self.args.iter().enumerate() {
            let field = match &arg.name {
                None => (position < N).then_some(position),
                Some(name) => {
                    let generated = (name.starts_with(GENERATED) && position < N).then_some(position);
                    fields.iter().position(|field| same_name(field, name)).or(generated)
                }
            };
            match (field, &arg.name) {
                (Some(field), _) => bound[field] = Some(arg),
                (None, Some(name)) => {
                    self.unknown(arg, name, &fields, diagnostics);
                }
                (None, None) => {
                    let takes = match N {
                        0 => "no argument".to_owned(),
                        1 => "1 argument".to_owned(),
                        _ => format!("{N} arguments"),
                    };
                    let message = format!("`{}` takes {takes}, `{}` is one too many", self.name, arg.value);
                    diagnostics.mistake(arg.span, message).ineffective().help(if N == 0 {
                        format!("write `{}` alone", self.name)
                    } else {
                        "a value that holds a comma needs the long form: `name:` and `args:`".to_owned()
                    });
                    return bound;
                }
            }
        }
        bound
    }

    /// Refuses Spring's expressions: a value `#{…}` is evaluated there and would be taken as it stands here.
    pub(crate) fn refuse_expressions(&self, diagnostics: &mut Diagnostics) -> bool {
        let is_one = |arg: &&Arg| {
            let text = arg.value.trim();
            text.starts_with("#{") && text.ends_with('}')
        };
        let before = diagnostics.mark();
        for arg in self.args.iter().filter(is_one) {
            diagnostics
                .error(
                    arg.span,
                    format!(
                        "`{}` is an expression that Spring evaluates in Java, which Tollgate cannot",
                        arg.value.trim()
                    ),
                )
                .help("write the value itself, or `${NAME}` for one of the environment");
        }
        diagnostics.has_errors_since(before)
    }

    /// Complains about arguments that nobody knows and that say nothing besides.
    pub(crate) fn check_empty(&self, known: &[&str], diagnostics: &mut Diagnostics) {
        for arg in &self.empty {
            let name = arg.name.as_deref().unwrap_or_default();
            let name = name.split('[').next().unwrap_or(name);
            if !known.iter().any(|field| canonical(field) == canonical(name)) {
                self.unknown(arg, name, known, diagnostics);
            }
        }
    }

    fn unknown(&self, arg: &Arg, name: &str, known: &[&str], diagnostics: &mut Diagnostics) {
        let known: Vec<&str> = known.iter().copied().filter(|field| !field.is_empty()).collect();
        diagnostics
            .mistake(arg.span.key(), format!("`{}` has no argument `{name}`", self.name))
            .help(if known.is_empty() { "it takes none".to_owned() } else { suggest(name, &known) });
    }

    /// The same with every list as one argument: `x[0]` and `x[1]` are `x`, its items joined by commas.
    pub(crate) fn with_joined_lists(&self) -> Self {
        let mut args: Vec<Arg> = Vec::with_capacity(self.args.len());
        for arg in &self.args {
            let name = arg.name.as_deref().map(|name| name.split('[').next().unwrap_or(name));
            let is_item = name.is_some_and(|name| Some(name.len()) != arg.name.as_deref().map(str::len));
            match args.iter_mut().find(|known| is_item && known.name.as_deref() == name) {
                Some(known) => {
                    known.value.push(',');
                    known.value.push_str(&arg.value);
                }
                None => args.push(Arg { name: name.map(str::to_owned), ..arg.clone() }),
            }
        }
        Self { args, ..self.clone() }
    }

    /// Every argument's value, whatever its name: Spring's GATHER_LIST.
    pub(crate) fn gather(&self, diagnostics: &mut Diagnostics) -> Option<Vec<String>> {
        if self.args.is_empty() {
            diagnostics.error(self.span, format!("`{}` needs at least one argument", self.name));
            return None;
        }
        Some(self.args.iter().map(|arg| arg.value.clone()).collect())
    }

    /// [`Written::gather`], with a last `true` or `false` as a flag: Spring's GATHER_LIST_TAIL_FLAG.
    pub(crate) fn gather_with_flag(&self, diagnostics: &mut Diagnostics) -> Option<(Vec<String>, Option<bool>)> {
        let mut values = self.gather(diagnostics)?;
        let flag = values.last().and_then(|last| last.parse::<bool>().ok());
        if flag.is_some() {
            values.pop();
        }
        if values.is_empty() {
            diagnostics.error(self.span, format!("`{}` needs at least one argument besides the flag", self.name));
            return None;
        }
        Some((values, flag))
    }

    /// The place of the argument that `message` quotes, or of the whole.
    pub(crate) fn quoted_in(&self, message: &str) -> Span {
        let quoted = self.args.iter().find(|arg| message.contains(&format!("`{}`", arg.value)));
        match (quoted, self.args.as_slice()) {
            (Some(arg), _) => arg.span,
            (None, [only]) => only.span,
            _ => self.span,
        }
    }

    /// The argument, or a problem that it is missing.
    pub(crate) fn required<'w>(
        &self,
        arg: Option<&'w Arg>,
        field: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<&'w Arg> {
        if arg.is_none() {
            diagnostics.error(self.span, format!("`{}` needs the argument `{field}`", self.name));
        }
        arg
    }
}
