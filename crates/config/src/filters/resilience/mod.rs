//! Filters for upstreams that fail: `Retry`, `CircuitBreaker`, `FallbackHeaders`.

mod circuit_breaker;
mod retry;

use http::StatusCode;

pub(crate) use self::circuit_breaker::bind;
use crate::de::arg::Arg;
use crate::de::canonical;
use crate::de::spanned::Spanned;
use crate::de::status::parse_status;
use crate::de::units::parse_size;
use crate::diagnostics::{Diagnostics, suggest};
use crate::filters::entry::{Argument, Call, Entry};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "Retry",
        doc: "Runs requests that failed again, through every filter listed after it.",
        args: &[
            Argument::new("retries", "Attempts after the first. Default 3."),
            Argument::new("statuses", "Statuses that are repeated besides the series. Default none."),
            Argument::new("methods", "Methods that are repeated. Default GET."),
            Argument::new("backoff.firstBackoff", "The first pause. Default 5ms; without `backoff` there is none."),
            Argument::new("backoff.maxBackoff", "No pause is longer. Default any length."),
            Argument::new("backoff.factor", "What each pause is multiplied by. Default 2."),
            Argument::new("backoff.basedOnPreviousValue", "Whether jitter is multiplied too. Default true."),
            Argument::new("jitter.randomFactor", "The part, from 0 to 1, by which a pause may differ. Default 0."),
            Argument::new("timeout", "No retry begins later than this after the request. Default any time."),
            Argument::new("series", "Kinds of statuses that are repeated. Default SERVER_ERROR."),
            Argument::new(
                "exceptions",
                "Java exceptions whose failures are repeated. Default IOException and the gateway's TimeoutException.",
            ),
            Argument::new(
                "maxBodySize",
                "Bytes of a body that are kept to be sent again; requests with more are sent once. Default 64KB.",
            ),
            Argument::new(
                "budget.percent",
                "How many retries there may be, in percent of the last ten seconds' requests. Default 20.",
            ),
            Argument::new("budget.minPerSecond", "Retries a second that there may be in any case. Default 10."),
        ],
        check: retry::check,
    },
    Entry {
        name: "CircuitBreaker",
        doc: "Asks an upstream that fails no more, for a while, and sends requests to a fallback instead.",
        args: &[
            Argument::new(
                "name",
                "The breaker's name, under which `resilience4j` has its settings. Default the route's id.",
            ),
            Argument::new("fallbackUri", "`forward:/path`, which is routed anew. Default 503 or 504 is answered."),
            Argument::new("statusCodes", "Statuses that are failures. Default none."),
            Argument::new(
                "resumeWithoutError",
                "Whether an upstream that cannot be reached is answered with an empty 200. Default false.",
            ),
            Argument::new("maxBodySize", "Bytes of a body that are kept for the fallback. Default 64KB."),
        ],
        check: circuit_breaker::check,
    },
    Entry {
        name: "FallbackHeaders",
        doc: "Tells the upstream of a breaker's fallback what went wrong.",
        args: &[
            Argument::new("executionExceptionTypeHeaderName", "Default `Execution-Exception-Type`."),
            Argument::new("executionExceptionMessageHeaderName", "Default `Execution-Exception-Message`."),
            Argument::new("rootCauseExceptionTypeHeaderName", "Default `Root-Cause-Exception-Type`."),
            Argument::new("rootCauseExceptionMessageHeaderName", "Default `Root-Cause-Exception-Message`."),
        ],
        check: circuit_breaker::fallback_headers,
    },
];

/// Arguments by name, lists with all their items.
struct Args<'c> {
    call: &'c Call<'c>,
    bound: Vec<(&'static str, &'c Arg)>,
}

impl<'c> Args<'c> {
    /// The arguments of `call`, of which the first `positions` may stand in the shortcut.
    fn new(call: &'c Call<'c>, positions: usize, diagnostics: &mut Diagnostics) -> Self {
        let names: Vec<&'static str> = call.args.iter().map(|argument| argument.name).collect();
        let filter = &call.written.name;
        let mut bound: Vec<(&'static str, &'c Arg)> = Vec::new();
        for (position, arg) in call.written.args.iter().enumerate() {
            let Some(name) = &arg.name else {
                match names.get(position).filter(|_| position < positions) {
                    Some(name) => bound.push((name, arg)),
                    None => {
                        let message = format!("the short form of `{filter}` has no place for `{}`", arg.value);
                        diagnostics
                            .mistake(arg.span, message)
                            .help(format!("the long form takes all arguments: `name: {filter}` and `args:`"));
                    }
                }
                continue;
            };
            let bare = name.split('[').next().unwrap_or(name);
            match names.iter().find(|known| canonical(known) == canonical(bare)) {
                Some(known) => bound.push((known, arg)),
                None => diagnostics
                    .mistake(arg.span.key(), format!("`{filter}` has no argument `{bare}`"))
                    .help(suggest(bare, &names)),
            }
        }
        call.written.check_empty(&names, diagnostics);
        Self { call, bound }
    }

    fn get(&self, name: &str) -> Option<&'c Arg> {
        self.bound.iter().rev().find(|(known, _)| *known == name).map(|(_, arg)| *arg)
    }

    /// The items of a list, each split at commas; `None` where it is not given, and no items where it is empty.
    fn list(&self, name: &str) -> Option<Vec<Spanned<String>>> {
        let given = self.bound.iter().filter(|(known, _)| *known == name).map(|(_, arg)| *arg);
        let items: Vec<Spanned<String>> = given
            .flat_map(|arg| arg.value.split(',').map(|item| Spanned { value: item.trim().to_owned(), span: arg.span }))
            .collect();
        let is_given = !items.is_empty()
            || self
                .call
                .written
                .empty
                .iter()
                .any(|arg| arg.name.as_deref().is_some_and(|given| canonical(given) == canonical(name)));
        is_given.then(|| items.into_iter().filter(|item| !item.value.is_empty()).collect())
    }

    /// The argument as `read` reads it; `Err` where it cannot be, which `sink` then knows.
    fn read<T>(
        &self,
        name: &str,
        diagnostics: &mut Diagnostics,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ()> {
        let Some(arg) = self.get(name) else { return Ok(None) };
        read(arg.value.trim()).map(Some).map_err(|message| {
            diagnostics.error(arg.span, message);
        })
    }

    fn statuses(&self, name: &str, diagnostics: &mut Diagnostics) -> Option<Vec<StatusCode>> {
        let items = self.list(name).unwrap_or_default();
        let read = |item: &Spanned<String>| {
            parse_status(&item.value).map_err(|message| diagnostics.error(item.span, message)).ok()
        };
        items.iter().map(read).collect()
    }
}

/// A size in bytes that may be held in memory for each request.
fn kept(text: &str) -> Result<usize, String> {
    const MOST: u64 = 64 * 1024 * 1024;
    let bytes = parse_size(text)?;
    match usize::try_from(bytes) {
        Ok(size) if bytes <= MOST => Ok(size),
        _ => Err(format!("at most 64MB of each request may be kept in memory, found `{text}`")),
    }
}
