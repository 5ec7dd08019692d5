//! Checks of predicates whose arguments need more than a row of the table.

use http::Method;

use crate::de::{canonical, same_name};
use crate::diagnostics::{Diagnostics, Reported};
use crate::predicates::row::{Checked, PredicateInput, take_named};
use crate::spec::{PredicateSpec, flag};
use tollgate_routing::{Predicate, PredicateArgument};

impl PredicateInput<'_> {
    /// Returns all values. Reports names of other arguments.
    pub(super) fn list(&self, diagnostics: &mut Diagnostics) -> Result<Vec<String>, Reported> {
        self.names_fit(diagnostics);
        self.spec.gather(diagnostics)
    }

    fn names_fit(&self, diagnostics: &mut Diagnostics) {
        for arg in &self.spec.args {
            let Some(name) = &arg.name else { continue };
            let base = canonical(name.split('[').next().unwrap_or(name));
            let fits = |argument: &PredicateArgument| {
                let argument_name = canonical(argument.name);
                base == argument_name || argument_name.strip_suffix('s').is_some_and(|one| base == one)
            };
            if !self.args.iter().any(fits) && !base.starts_with("genkey") {
                let argument_names: Vec<&str> = self.args.iter().map(|argument| argument.name).collect();
                diagnostics
                    .error(arg.span.key(), format!("`{}` has no argument `{name}`", self.spec.name))
                    .help(format!("known here: {}", argument_names.join(", ")));
            }
        }
    }
}

pub(super) fn path(input: &PredicateInput<'_>, diagnostics: &mut Diagnostics) -> Checked {
    warn_of_commas(input.spec, diagnostics);
    let mut spec = input.spec.clone();
    join_slashes(&mut spec, diagnostics);
    let is_last = spec.args.last().is_some_and(|arg| arg.value.parse::<bool>().is_ok());
    let slash_flag = take_named(&mut spec, "matchTrailingSlash");
    if let Some(flag) = slash_flag.as_ref().filter(|_| !is_last) {
        diagnostics
            .mistake(flag.span, "Spring reads `matchTrailingSlash` as a pattern unless it is last")
            .help("move it after the patterns");
    }
    let input = PredicateInput { spec: &spec, ..*input };
    input.names_fit(diagnostics);
    let mut patterns = spec.gather(diagnostics)?;
    // Spring's `GATHER_LIST_TAIL_FLAG`.
    let last_flag = patterns.last().and_then(|last| last.parse::<bool>().ok());
    patterns.truncate(patterns.len() - usize::from(last_flag.is_some()));
    if patterns.is_empty() {
        let message = "`Path` needs at least one argument besides the flag";
        return Err(diagnostics.error(spec.span, message).reported().into());
    }
    let ignores_slash = match &slash_flag {
        Some(arg) => flag(arg, diagnostics)?,
        None => last_flag.unwrap_or(input.context.ignores_trailing_slash),
    };
    let Some(base) = &input.context.base_path else { return Ok(Predicate::path(&patterns, ignores_slash)?) };
    // Checked alone first, so that errors quote the pattern of the file.
    Predicate::path(&patterns, ignores_slash)?;
    let below = |pattern: &String| match pattern.starts_with('/') {
        true => format!("{base}{pattern}"),
        false => format!("{base}/{pattern}"),
    };
    Ok(Predicate::path(&patterns.iter().map(below).collect::<Vec<_>>(), ignores_slash)?)
}

pub(super) fn weight(input: &PredicateInput<'_>, diagnostics: &mut Diagnostics) -> Checked {
    let mut spec = input.spec.clone();
    // Spring also has the names `weight.group` and `weight.weight`.
    for name in spec.args.iter_mut().filter_map(|arg| arg.name.as_mut()) {
        if let Some(rest) = name.strip_prefix("weight.") {
            *name = rest.to_owned();
        }
    }
    let input = PredicateInput { spec: &spec, ..*input };
    let ([group, weight], [_, _]) = input.texts(diagnostics)?;
    match weight.parse() {
        Ok(number) => Ok(Predicate::weight(group, number)),
        Err(_) => {
            let message = format!("`weight` must be a whole number from 0, found `{weight}`");
            let number = spec.args.iter().find(|arg| arg.name.as_deref().is_some_and(|name| same_name(name, "weight")));
            let at = number.or(spec.args.get(1)).map_or(spec.span, |arg| arg.span);
            Err(diagnostics.error(at, message).reported().into())
        }
    }
}

/// Warns of methods that look like typos. Custom methods are allowed.
pub(super) fn methods(spec: &PredicateSpec<'_>, diagnostics: &mut Diagnostics) {
    const USUAL: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    for arg in &spec.args {
        let method = arg.value.as_str();
        let is_usual = USUAL.iter().any(|usual| usual.eq_ignore_ascii_case(method));
        // One that is no method at all is an error.
        let is_method = Method::from_bytes(method.as_bytes()).is_ok();
        if !is_usual
            && is_method
            && let Some(near) = diagnostics.closest(method, USUAL)
        {
            diagnostics.warn(arg.span, format!("unknown method `{method}`")).did_you_mean(method, near);
        }
    }
}

/// Warns of named arguments that look like several patterns: Spring reads a text with commas as one.
pub(super) fn warn_of_commas(spec: &PredicateSpec<'_>, diagnostics: &mut Diagnostics) {
    for arg in spec.args.iter().filter(|arg| arg.name.is_some() && has_comma(&arg.value)) {
        let items: Vec<&str> = arg.value.split(',').map(str::trim).collect();
        diagnostics
            .warn(arg.span, format!("`{}` is one pattern with a comma, as in Spring", arg.value))
            .help(format!("write a list: `[{}]`", items.join(", ")));
    }
}

/// Replaces `//` in path patterns, with a warning: several slashes in the path of a request are one here.
fn join_slashes(spec: &mut PredicateSpec<'_>, diagnostics: &mut Diagnostics) {
    for arg in spec.args.iter_mut().filter(|arg| arg.value.contains("//")) {
        let mut joined = arg.value.replace("//", "/");
        while joined.contains("//") {
            joined = joined.replace("//", "/");
        }
        diagnostics
            .mistake(
                arg.span,
                format!("`{}` is read as `{joined}`; in Spring only paths with `//` match it", arg.value),
            )
            .help(format!("write `{joined}`"));
        arg.value = joined;
    }
}

/// Returns true if there is a comma outside of braces.
fn has_comma(pattern: &str) -> bool {
    let mut depth = 0_usize;
    pattern.bytes().any(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        byte == b',' && depth == 0
    })
}
