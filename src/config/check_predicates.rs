//! Predicates as written to predicates that match.

use super::definition::{Arg, Written};
use super::names::{Known, PREDICATES, look_up};
use super::problem::{Sink, closest, reasons};
use crate::routing::Predicate;

/// The predicate that `written` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(written: &Written, sink: &mut Sink) -> Option<Predicate> {
    let result = match written.name.as_str() {
        "Path" => {
            let (patterns, trailing_slash) = written.gather_with_flag(sink)?;
            Predicate::path(&patterns, trailing_slash.unwrap_or(false))
        }
        "Method" => {
            methods(written, sink);
            Predicate::method(&written.gather(sink)?)
        }
        "Host" => Predicate::host(&written.gather(sink)?),
        "RemoteAddr" => Predicate::remote_addr(&written.gather(sink)?),
        "Header" => {
            let [name, regexp] = written.bind(["header", "regexp"], sink);
            Predicate::header(text(written, name, "header", sink)?, regexp.map(|arg| arg.value.as_str()))
        }
        "Query" => {
            let [param, regexp] = written.bind(["param", "regexp"], sink);
            Predicate::query(text(written, param, "param", sink)?, regexp.map(|arg| arg.value.as_str()))
        }
        "Cookie" => {
            let [name, regexp] = written.bind(["name", "regexp"], sink);
            Predicate::cookie(text(written, name, "name", sink)?, text(written, regexp, "regexp", sink)?)
        }
        "After" => {
            let [datetime] = written.bind(["datetime"], sink);
            Predicate::after(text(written, datetime, "datetime", sink)?)
        }
        "Before" => {
            let [datetime] = written.bind(["datetime"], sink);
            Predicate::before(text(written, datetime, "datetime", sink)?)
        }
        "Between" => {
            let [from, to] = written.bind(["datetime1", "datetime2"], sink);
            Predicate::between(text(written, from, "datetime1", sink)?, text(written, to, "datetime2", sink)?)
        }
        "CloudFoundryRouteService" => {
            let [] = written.bind([], sink);
            Ok(Predicate::cloud_foundry_route_service())
        }
        name => {
            unknown(written, name, sink);
            return None;
        }
    };
    let complain = |error| {
        let message = reasons(&error);
        sink.error(written.quoted_in(&message), message);
    };
    result.map_err(complain).ok()
}

/// A method of one's own is allowed; one that looks like a slip of the finger is pointed out.
fn methods(written: &Written, sink: &mut Sink) {
    const USUAL: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    for arg in &written.args {
        let method = arg.value.as_str();
        let near = closest(method, USUAL).filter(|near| !near.eq_ignore_ascii_case(method));
        if let Some(near) = near {
            sink.warn(arg.origin, format!("`{method}` is none of the usual methods"))
                .help(format!("did you mean `{near}`?"));
        }
    }
}

fn text<'w>(written: &Written, arg: Option<&'w Arg>, field: &str, sink: &mut Sink) -> Option<&'w str> {
    written.required(arg, field, sink).map(|arg| arg.value.as_str())
}

fn unknown(written: &Written, name: &str, sink: &mut Sink) {
    match look_up(name) {
        Known::Later => sink
            .error(written.origin, format!("predicate `{name}` is not supported yet"))
            .help("remove it, or keep this route on Spring Cloud Gateway for now"),
        Known::Refused(why, instead) => {
            sink.error(written.origin, format!("predicate `{name}` cannot be used: {why}")).help(instead)
        }
        Known::No => {
            sink.error(written.origin, format!("unknown predicate `{name}`")).help(match closest(name, PREDICATES) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("predicates: {}", PREDICATES.join(", ")),
            })
        }
    }
}
