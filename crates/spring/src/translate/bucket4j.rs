//! Spring's second limiter, Bucket4j: arguments of a `RequestRateLimiter` with the prefix `bucket4j-rate-limiter.`.
//!
//! | Argument | Becomes |
//! |---|---|
//! | `capacity` | `burst-capacity` |
//! | `refill-tokens`, or the capacity | `replenish-rate` |
//! | `refill-period` | `period` |
//! | `refill-style`, `time-of-first-refill` | `refill`, `refill-anchor` |
//! | `requested-tokens`, `header-name` | `requested-tokens`, `remaining-header` |
//!
//! In Spring, such a limiter sends one header field, counts by the key alone, and denies while its store fails.

use crate::translate::Explicit;
use crate::tree::{add, find, take};
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::{canonical, same_name};
use tollgate_document::yaml::{Node, NodeKind, Span};

/// Spring's section of the arguments.
const SECTION: &str = "bucket4j-rate-limiter";
/// Arguments of Spring's Redis limiter, which Bucket4j ignores.
const IGNORED: [&str; 4] = ["redis-rate-limiter", "replenish-rate", "burst-capacity", "requested-tokens"];
/// Arguments that are copied: Spring's name and ours.
const COPIED: [(&str, &str); 4] = [
    ("capacity", "burst-capacity"),
    ("refill-period", "period"),
    ("requested-tokens", "requested-tokens"),
    ("header-name", "remaining-header"),
];
/// Arguments that decide the refill.
const OF_REFILL: [&str; 3] = ["refill-tokens", "refill-style", "time-of-first-refill"];

/// Writes the arguments of Bucket4j in `filter`, whose name is at `at`, as our own. Returns true if it has any.
pub(super) fn translate(
    filter: &mut Node,
    at: Span,
    has_redis: bool,
    explicit: &mut Explicit,
    diagnostics: &mut Diagnostics,
) -> bool {
    let Some(section) = take(filter, &["args", SECTION]) else { return false };
    let bean = take(filter, &["args", "rate-limiter"]);
    if bean.as_ref().and_then(Node::scalar).is_some_and(|bean| bean.contains("redisRateLimiter")) {
        diagnostics
            .warn(section.span, format!("`{SECTION}` has no effect: `rate-limiter` is Spring's `redisRateLimiter`"))
            .ineffective()
            .help("remove one of them");
        return false;
    }
    for name in IGNORED {
        if let Some(ignored) = take(filter, &["args", name]) {
            diagnostics
                .warn(ignored.span, format!("`{name}` has no effect beside `{SECTION}`, as in Spring"))
                .ineffective()
                .help("remove it");
        }
    }
    let mut section = Section { section, at, filter };
    section.report_unknown(diagnostics);
    section.copy(explicit, diagnostics);
    section.copy_refill(diagnostics);
    let mut add = |name, value, reason| explicit.add_missing(section.filter, &["args", name], value, reason);
    add("bucket", "bucket4j", "As in Spring, the key alone names the bucket: all routes with this limiter share it.");
    add("headers", "remaining", "As in Spring, this limiter sends the remaining tokens only.");
    let mut shared = "the key alone names the bucket, as in Spring: all routes with this limiter share it".to_owned();
    let mut help = "`bucket: NAME` beside it counts apart".to_owned();
    if has_redis {
        let reason =
            "As in Spring, this limiter denies requests while its store fails; `local` limits in memory meanwhile.";
        if add("on-store-failure", "deny", reason) {
            shared += "; while Redis is unreachable every request is denied";
            help += ", and `on-store-failure: local` limits in memory meanwhile";
        }
    }
    diagnostics.note(at, shared).help(help);
    true
}

/// The section of one limiter.
struct Section<'f> {
    section: Node,
    /// Place of the filter's name.
    at: Span,
    filter: &'f mut Node,
}

impl Section<'_> {
    fn report_unknown(&self, diagnostics: &mut Diagnostics) {
        let argument_names: Vec<&str> = COPIED.iter().map(|(name, _)| *name).chain(OF_REFILL).collect();
        for (key, value) in self.section.entries().unwrap_or_default() {
            if !argument_names.iter().any(|name| same_name(name, key)) {
                let error = diagnostics.error(value.span.key(), format!("unknown argument `{SECTION}.{key}`"));
                error.suggest(key, &argument_names);
            }
        }
    }

    /// Copies the arguments that mean the same. Reports those that Spring needs.
    fn copy(&mut self, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
        for (name, our_name) in COPIED {
            match take(&mut self.section, &[name]) {
                Some(value) => {
                    if name == "capacity" {
                        self.copy_rate(&value, explicit);
                    }
                    add(self.filter, &["args", our_name], value);
                }
                None if ["capacity", "refill-period"].contains(&name) => {
                    diagnostics.error(self.at, format!("`{SECTION}.{name}` is missing")).help(format!(
                        "`{SECTION}.capacity: 10` and `{SECTION}.refill-period: 1s` admit 10 per second"
                    ));
                }
                None => {}
            }
        }
    }

    /// Adds the rate: without `refill-tokens`, the capacity.
    fn copy_rate(&mut self, capacity: &Node, explicit: &mut Explicit) {
        let tokens = take(&mut self.section, &["refill-tokens"]).unwrap_or_else(|| {
            let same = Node { span: capacity.span.again(), kind: capacity.kind.clone() };
            explicit.explain(same.span, "Spring's default: the capacity.");
            same
        });
        add(self.filter, &["args", "replenish-rate"], tokens);
    }

    fn copy_refill(&mut self, diagnostics: &mut Diagnostics) {
        let first = take(&mut self.section, &["time-of-first-refill"]);
        let style = find(&mut self.section, &["refill-style"]).map(|style| {
            let text = style.scalar().unwrap_or_default();
            (style.span, text.trim().to_owned(), canonical(text.trim()))
        });
        let word = match &style {
            None => "smooth",
            Some((at, text, name)) => match name.as_str() {
                "greedy" => "smooth",
                "intervally" => "interval",
                "intervallyaligned" => "aligned",
                _ => {
                    diagnostics
                        .error(*at, format!("unknown refill style `{text}`"))
                        .help("write GREEDY, INTERVALLY or INTERVALLY_ALIGNED");
                    return;
                }
            },
        };
        if let Some((at, ..)) = style.filter(|_| word != "smooth") {
            add(self.filter, &["args", "refill"], Node { span: at, kind: NodeKind::Scalar(word.to_owned()) });
        }
        match first {
            Some(first) if word == "aligned" => add(self.filter, &["args", "refill-anchor"], first),
            Some(first) => {
                diagnostics
                    .warn(
                        first.span,
                        format!("`{SECTION}.time-of-first-refill` has no effect without INTERVALLY_ALIGNED"),
                    )
                    .ineffective()
                    .help("remove it");
            }
            None if word == "aligned" => {
                diagnostics
                    .error(self.at, format!("`{SECTION}.time-of-first-refill` is missing"))
                    .help("INTERVALLY_ALIGNED needs a time such as `2027-01-01T00:00:00Z`");
            }
            None => {}
        }
    }
}
