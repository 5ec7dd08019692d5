//! Filters: the position of Spring's cache, and arguments that Spring reads in another way.

use crate::names::HYSTRIX;
use crate::translate::Explicit;
use crate::translate::component::{Argument, Component, each_filter};
use crate::tree::find;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::{Node, NodeKind};

/// Section of the settings of all caches.
const CACHE: [&str; 2] = ["filter", "local-response-cache"];

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let [filter, cache] = CACHE;
    let is_shared = find(root, &[filter, cache, "enabled"]).and_then(|node| node.scalar()) == Some("true");
    let has_size = find(root, &[filter, cache, "size"]).is_some();
    let (mut has_cache, mut has_retry) = (false, false);
    each_filter(root, &mut |filter| {
        rename_hystrix(filter, explicit, diagnostics);
        let Some(component) = Component::read(filter) else { return };
        match component.name.as_str() {
            "LocalResponseCache" => {
                has_cache = true;
                report_cache(&component, is_shared, has_size, diagnostics);
            }
            "PrefixPath" | "SetPath" => drop_query(filter, &component, diagnostics),
            "Retry" => has_retry = true,
            _ => report(&component, diagnostics),
        }
    });
    if has_retry {
        let reason = "As in Spring, retries ignore `Retry-After`; Tollgate's default is `obey`.";
        explicit.add_missing(root, &[filter, "retry", "retry-after"], "ignore", reason);
    }
    if has_cache {
        let reason = "As in Spring, the cache precedes all other filters.";
        explicit.add_missing(root, &[filter, cache, "position"], "first", reason);
    }
    if has_cache || is_shared {
        let reason = "Spring's default; Tollgate's is `revalidate`, so that a reload of a browser gets a current page.";
        let path = [filter, cache, "request", "no-cache-strategy"];
        explicit.add_missing(root, &path, "skip-update-cache-entry", reason);
    }
}

/// Writes a filter `Hystrix`, which Spring Cloud Gateway 2 has, as `CircuitBreaker`.
fn rename_hystrix(filter: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let span = filter.span;
    let name = match &filter.kind {
        NodeKind::Map(_) => find(filter, &["name"]),
        _ => Some(filter),
    };
    let Some(Node { span: at, kind: NodeKind::Scalar(text) }) = name else { return };
    let Some(rest) = text.trim_start().strip_prefix(HYSTRIX).map(str::trim_start) else { return };
    if !rest.is_empty() && !rest.starts_with('=') {
        return;
    }
    *text = format!("CircuitBreaker{rest}");
    explicit.explain(span, "Was `Hystrix`.");
    diagnostics
        .note(*at, "`Hystrix` runs as `CircuitBreaker`")
        .help("timeouts and thresholds below `hystrix.command` are read as those of `resilience4j`");
}

fn report_cache(component: &Component, is_shared: bool, has_size: bool, diagnostics: &mut Diagnostics) {
    if !is_shared {
        diagnostics
            .warn(
                component.at,
                "Spring has `LocalResponseCache` only with `filter.local-response-cache.enabled: true`; here it applies",
            )
            .help("with it, routes without their own cache share one");
    }
    if component.named("size").or(component.args.get(1)).is_none() && !has_size {
        diagnostics.note(component.at, "the cache holds up to 64 MB; Spring's is unbounded without `size`");
    }
}

/// Removes query and fragment, which Spring ignores, from the path of a filter.
fn drop_query(filter: &mut Node, component: &Component, diagnostics: &mut Diagnostics) {
    // A placeholder may have a `?` in its default; an expression is refused.
    let begins = |text: &str| text.find(['?', '#']).filter(|_| !text.contains("${") && !text.contains("#{"));
    let Some((arg, at)) = component.args.iter().find_map(|arg| Some((arg, begins(&arg.value)?))) else { return };
    let message = format!("`{}` takes only a path: `{}` is ignored, as in Spring", component.name, &arg.value[at..]);
    diagnostics.warn(arg.at, message).help("AddRequestParameter adds parameters");
    let cut = |node: &mut Node| {
        if let NodeKind::Scalar(text) = &mut node.kind
            && let Some(at) = begins(text)
        {
            text.truncate(at);
        }
    };
    match find(filter, &["args"]).map(|args| &mut args.kind) {
        Some(NodeKind::Map(entries)) => entries.iter_mut().for_each(|(_, value)| cut(value)),
        _ => cut(filter),
    }
}

/// Reports arguments that Spring ignores or reads in another way.
fn report(component: &Component, diagnostics: &mut Diagnostics) {
    match component.name.as_str() {
        "RequestSize" => {
            if let Some(arg) = component.args.first().filter(|arg| arg.name.is_none()) {
                let message = format!(
                    "Spring ignores the argument of `{}` and allows 5000000 bytes; here it applies",
                    component.text
                );
                diagnostics
                    .warn(arg.at, message)
                    .help("for the same meaning in both write `name: RequestSize` and `args: {maxSize: …}`");
            }
        }
        "RequestHeaderSize" => {
            if let Some(arg) = component.args.get(1).filter(|arg| arg.name.is_none()) {
                diagnostics
                    .warn(
                        arg.at,
                        format!("Spring ignores the second argument of `{}`; here it applies", component.text),
                    )
                    .help(
                        "for the same meaning in both write `name: RequestHeaderSize` and `args: {errorHeaderName: …}`",
                    );
            }
        }
        "AddRequestHeadersIfNotPresent" => {
            let has_second = |arg: &&Argument| arg.value.matches(':').count() > 1;
            for arg in component.args.iter().filter(has_second) {
                let message =
                    format!("Spring does not start with a second `:` in `{}`; here it belongs to the value", arg.value);
                diagnostics.warn(arg.at, message);
            }
        }
        "RemoveJsonAttributesResponseBody" => {
            let flag = component.named("deleteRecursively");
            if let Some(arg) = flag.filter(|_| component.args.last().is_some_and(|last| !last.is("deleteRecursively")))
            {
                diagnostics
                    .warn(arg.at.key(), "Spring reads the last argument as the flag, whatever its name")
                    .help("write `deleteRecursively` after `fieldList`");
            }
        }
        _ => {}
    }
}
