//! Spring's switches of predicates, filters and global filters, such as `filter.<name>.enabled: false`.
//!
//! They are removed from the tree before the raw structs are read, so that the structs need no fields for them.

use crate::de::parse_flag;
use crate::diagnostics::{Diagnostics, Reported};
use crate::spec::FilterSpec;
use crate::spring::names::KnownNames;
use crate::yaml::key::canonical;
use crate::yaml::{Node, NodeKind, Span};

/// Kinds of components that can be switched off by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComponentKind {
    /// A filter of routes (`GatewayFilterFactory`).
    Filter,
    /// A predicate of routes (`RoutePredicateFactory`).
    Predicate,
    /// A part of Spring's own chain (`GlobalFilter`).
    GlobalFilter,
}

/// The filter with an `enabled` of its own: the shared cache is off by default.
const OWN_SWITCH: &str = "LocalResponseCache";

/// Effect of switching off a global filter.
enum Meaning {
    /// No effect, and the reason.
    Nothing(&'static str),
    /// Without it Spring forwards nothing, except through filters in Java.
    Needed,
    /// The gateway's counterpart is switched off too: see [`Switches::is_off`].
    Supported,
}

/// Spring's global filters.
const GLOBAL_FILTERS: [(&str, Meaning); 11] = [
    ("adapt-cached-body", Meaning::Nothing("no body is cached here unless a filter asks for it")),
    ("remove-cached-body", Meaning::Nothing("a cached body is dropped with its request")),
    ("load-balancer-service-instance-cookie", Meaning::Nothing("no such cookie is set")),
    ("forward-path", Meaning::Needed),
    ("route-to-request-url", Meaning::Needed),
    ("netty-routing", Meaning::Needed),
    ("netty-write-response", Meaning::Needed),
    ("forward-routing", Meaning::Supported),
    ("reactive-load-balancer-client", Meaning::Supported),
    ("websocket-routing", Meaning::Supported),
    ("local-response-cache", Meaning::Supported),
];

/// Components that are switched off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switches(Vec<(ComponentKind, String)>);

impl Switches {
    /// Removes the switches from `root`.
    pub(crate) fn take(root: &mut Node, names: &KnownNames, diagnostics: &mut Diagnostics) -> Self {
        let mut off = Vec::new();
        let sections = [
            ("filter", ComponentKind::Filter),
            ("predicate", ComponentKind::Predicate),
            ("global-filter", ComponentKind::GlobalFilter),
        ];
        let NodeKind::Map(entries) = &mut root.kind else { return Self::default() };
        for (section, kind) in sections {
            let Some(at) = entries.iter().position(|(key, _)| canonical(key) == canonical(section)) else { continue };
            let NodeKind::Map(components) = &mut entries[at].1.kind else { continue };
            components.retain_mut(|(name, settings)| {
                if kind == ComponentKind::Filter && canonical(name) == canonical(OWN_SWITCH) {
                    return true;
                }
                let Some((switch, is_last)) = take_enabled(settings) else { return true };
                if is_off(&switch, diagnostics) {
                    report_meaning(section, kind, name, switch.span, names, diagnostics);
                    off.push((kind, canonical(name)));
                }
                !is_last
            });
            if components.is_empty() {
                entries.remove(at);
            }
        }
        Self(off)
    }

    /// Returns true if the component `name` is off, spelled `StripPrefix` or `strip-prefix`.
    pub(crate) fn is_off(&self, kind: ComponentKind, name: &str) -> bool {
        self.0.iter().any(|(of, off)| *of == kind && *off == canonical(name))
    }

    /// Reports an error if the component of `spec` is off, since Spring does not know it then.
    pub(crate) fn refuse(
        &self,
        kind: ComponentKind,
        spec: &FilterSpec<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Result<(), Reported> {
        if !self.is_off(kind, &spec.name) {
            return Ok(());
        }
        let section = if kind == ComponentKind::Predicate { "predicate" } else { "filter" };
        let setting = format!("{section}.{}.enabled", kebab(&spec.name));
        let message = format!("the {section} `{}` is switched off by `{setting}: false`", spec.name);
        Err(diagnostics.error(spec.span, message).reported_with("remove one of the two"))
    }

    /// Reports an error if the scheme of the target `uri` is off.
    pub(crate) fn refuse_target(&self, uri: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
        let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme.trim());
        let filter = match scheme {
            "forward" => "forward-routing",
            "lb" => "reactive-load-balancer-client",
            _ => return Ok(()),
        };
        if !self.is_off(ComponentKind::GlobalFilter, filter) {
            return Ok(());
        }
        let message = format!("`{scheme}:` is switched off by `global-filter.{filter}.enabled: false`");
        Err(diagnostics.error(at, message).reported_with("remove one of the two"))
    }
}

/// Removes `enabled` from `settings`; true if nothing else is left.
fn take_enabled(settings: &mut Node) -> Option<(Node, bool)> {
    let NodeKind::Map(entries) = &mut settings.kind else { return None };
    let at = entries.iter().position(|(key, _)| canonical(key) == "enabled")?;
    let (_, switch) = entries.remove(at);
    Some((switch, entries.is_empty()))
}

fn is_off(switch: &Node, diagnostics: &mut Diagnostics) -> bool {
    let flag = switch.scalar().and_then(parse_flag);
    if flag.is_none() {
        diagnostics.error(switch.span, format!("expected true or false, found {}", switch.describe()));
    }
    flag == Some(false)
}

/// Reports a switch of an unknown component, or one without effect.
fn report_meaning(
    section: &str,
    kind: ComponentKind,
    name: &str,
    at: Span,
    names: &KnownNames,
    diagnostics: &mut Diagnostics,
) {
    let setting = format!("{section}.{name}.enabled");
    let is = |known: &str| canonical(known) == canonical(name);
    let component_names: Vec<String> = match kind {
        ComponentKind::Filter => names.all_filters().map(kebab).collect(),
        ComponentKind::Predicate => names.all_predicates().map(kebab).collect(),
        ComponentKind::GlobalFilter => GLOBAL_FILTERS.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    if !component_names.iter().any(|known| is(known)) {
        let near = diagnostics
            .closest(name, component_names.iter().map(String::as_str))
            .map(|near| format!("did you mean `{near}`?"));
        diagnostics
            .mistake(at.key(), format!("`{setting}` switches off what does not exist"))
            .help(near.unwrap_or_else(|| "remove it".to_owned()));
        return;
    }
    match GLOBAL_FILTERS
        .iter()
        .find(|(known, _)| kind == ComponentKind::GlobalFilter && is(known))
        .map(|(_, meaning)| meaning)
    {
        Some(Meaning::Nothing(why)) => {
            diagnostics.note(at.key(), format!("`{setting}` has no effect here")).ineffective().help(*why)
        }
        Some(Meaning::Needed) => diagnostics
            .error(at, format!("`{setting}: false` leaves a gateway that forwards nothing but through Java"))
            .help("remove it: routes are forwarded by the gateway itself"),
        Some(Meaning::Supported) | None => {}
    }
}

/// Returns the kebab-case form of a name: `strip-prefix` for `StripPrefix`.
fn kebab(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for (at, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && at > 0 {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}
