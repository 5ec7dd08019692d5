//! Settings that are based on others.
//!
//! Settings of a name come from `instances`, then from the entry of `configs` that its `baseConfig` names (else the one
//! of its own name, else `default`), then from resilience4j's defaults.

use std::collections::{BTreeMap, BTreeSet};

use crate::de::Spanned;
use crate::diagnostics::Diagnostics;

/// Settings of one name, possibly based on those of another.
pub(super) trait Based: Clone + Default {
    fn base(&self) -> Option<&Spanned<String>>;
    /// Returns these settings, completed by those of `base`.
    fn over(self, base: Self) -> Self;
}

/// Returns `own` with the values of these fields in `base` that are absent in it.
macro_rules! completed {
    ($own:ident, $base:ident: $($field:ident)*) => {
        Self { $($field: $own.$field.or($base.$field),)* ..$own }
    };
}

pub(super) use completed;

/// Checks each name of `instances` and `configs` with `check`.
pub(super) fn resolved<T: Based, C>(
    instances: &BTreeMap<String, Spanned<T>>,
    configs: &BTreeMap<String, Spanned<T>>,
    diagnostics: &mut Diagnostics,
    check: impl Fn(&T, &mut Diagnostics) -> C,
) -> BTreeMap<String, C> {
    let mut all = BTreeMap::new();
    for name in configs.keys().chain(instances.keys()) {
        let merged = match instances.get(name) {
            Some(instance) => match instance.value.base() {
                Some(base) => instance.value.clone().over(base_config(base, configs, diagnostics)),
                None if configs.contains_key(name) => {
                    instance.value.clone().over(inherited(name, configs, diagnostics))
                }
                None => instance.value.clone().over(inherited("default", configs, diagnostics)),
            },
            None => inherited(name, configs, diagnostics),
        };
        all.insert(name.clone(), check(&merged, diagnostics));
    }
    all
}

/// Returns the entry of `configs` that a `baseConfig` names.
fn base_config<T: Based>(
    base: &Spanned<String>,
    configs: &BTreeMap<String, Spanned<T>>,
    diagnostics: &mut Diagnostics,
) -> T {
    if !configs.contains_key(&base.value) {
        let config_names: Vec<&str> = configs.keys().map(String::as_str).collect();
        let help = diagnostics.error(base.span, format!("`configs` has no `{}`", base.value));
        match config_names.is_empty() {
            true => help.help("write it beside `instances`"),
            false => help.suggest(&base.value, &config_names),
        }
    }
    inherited(&base.value, configs, diagnostics)
}

/// Returns the entry `name` of `configs`, completed by all entries that it is based on.
pub(super) fn inherited<T: Based>(
    name: &str,
    configs: &BTreeMap<String, Spanned<T>>,
    diagnostics: &mut Diagnostics,
) -> T {
    let Some(mut at) = configs.get(name) else { return T::default() };
    let (mut merged, mut seen) = (at.value.clone(), BTreeSet::from([name]));
    while let Some(base) = at.value.base() {
        let Some(next) = configs.get(&base.value) else {
            base_config::<T>(base, configs, diagnostics);
            break;
        };
        if !seen.insert(&base.value) {
            diagnostics
                .error(base.span, format!("`{}` is based on itself", base.value))
                .help("remove one `baseConfig`");
            break;
        }
        merged = merged.over(next.value.clone());
        at = next;
    }
    merged
}
