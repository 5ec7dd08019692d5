//! Faults that correspond to Java exceptions.

use tollgate_filters::fault::FaultSet;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;

/// Faults that correspond to these Java classes.
pub(super) fn of_classes(classes: &[Spanned<String>], diagnostics: &mut Diagnostics) -> FaultSet {
    classes.iter().fold(FaultSet::NONE, |set, class| {
        let faults = FaultSet::of_class_excluding_causes(class.value.trim());
        if faults == FaultSet::NONE {
            report_unknown_class(class, diagnostics);
        }
        set.or(faults)
    })
}

/// Reports a Java exception without a corresponding fault.
pub(crate) fn report_unknown_class(class: &Spanned<String>, diagnostics: &mut Diagnostics) {
    diagnostics.warn(class.span, format!("no failure here corresponds to `{}`: it has no effect", class.value.trim())).ineffective()
        .help("supported: java.io.IOException, java.net.ConnectException, java.util.concurrent.TimeoutException, org.springframework.cloud.gateway.support.TimeoutException and similar ones");
}
