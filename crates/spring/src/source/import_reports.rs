//! Diagnostics about `spring.config.import` and its relatives.

use crate::source::imports::LOCATION;
use crate::source::imports::location::{Location, Target, import_nodes};
use tollgate_document::diagnostics::{Diagnostics, DocumentId, Import, Outcome};
use tollgate_document::yaml::{Node, Span};

/// Paths in one message.
const MAX_PATHS: usize = 5;

/// Reports imports of a document that were not read.
pub(super) fn document(document: &Node, id: DocumentId, imports: &[Import], diagnostics: &mut Diagnostics) {
    for (node, locations) in import_nodes(document) {
        for location in locations {
            let mut reads =
                imports.iter().filter(|import| import.document == Some(id) && import.written == location).peekable();
            if reads.peek().is_none() {
                unread(&location, node.span, diagnostics);
            }
            reads.for_each(|import| report(import, node.span, diagnostics));
        }
    }
    for key in ["additional-location", "location"] {
        if let Some(node) = document.follow(&["spring", "config", key]) {
            diagnostics
                .warn(node.span.key(), format!("`spring.config.{key}` has no effect in a file, as in Spring"))
                .ineffective()
                .help("`spring.config.import` reads further files; so do `--config` and SPRING_CONFIG_ADDITIONAL_LOCATION");
        }
    }
}

/// Reports locations of the environment that were not read.
pub(super) fn environment(imports: &[Import], diagnostics: &mut Diagnostics) {
    imports
        .iter()
        .filter(|import| import.document.is_none())
        .for_each(|import| report(import, Span::ROOT, diagnostics));
}

/// Reports an import of a text that has no files.
fn unread(location: &str, at: Span, diagnostics: &mut Diagnostics) {
    match Location::parse(location).target {
        Target::Server(server) => report_server(location, &server, at, diagnostics),
        Target::File(_) | Target::Tree(_) => diagnostics
            .note(at, format!("`spring.config.import` is not read: `{location}`"))
            .help("a text without a file has no folder: give the file by its path, which reads its imports"),
    }
}

fn report(import: &Import, at: Span, diagnostics: &mut Diagnostics) {
    let location = &import.written;
    match &import.outcome {
        Outcome::Read => {}
        Outcome::Bootstrap => diagnostics
            .note(
                at,
                format!("{location} is read first, as in Spring Cloud: its values count unless another file sets them"),
            )
            .help("`spring.cloud.bootstrap.enabled: false` leaves it out"),
        Outcome::Replaced => diagnostics
            .note(at, format!("{LOCATION}=`{location}` is not read: the command line names files"))
            .help("SPRING_CONFIG_ADDITIONAL_LOCATION adds files to those"),
        Outcome::Missing(_) if import.is_optional => {}
        Outcome::Missing(tried) => diagnostics
            .error(at, format!("`spring.config.import`: `{location}` does not exist"))
            .help(format!("tried {tried}; `optional:{location}` may be absent")),
        Outcome::Unreadable { reason, help } => {
            let error = format!("`spring.config.import`: `{location}` is not read: {reason}");
            let error = diagnostics.error(at, error);
            if let Some(help) = *help {
                error.help(help);
            }
        }
        Outcome::Cycle(path) => diagnostics
            .warn(at, format!("`spring.config.import` leads back to {path}, which is read once"))
            .help("remove this import"),
        Outcome::Server(server) => report_server(location, server, at, diagnostics),
        Outcome::Special(paths) => {
            let shown: Vec<String> = paths.iter().take(MAX_PATHS).map(|path| path.display().to_string()).collect();
            let more =
                if paths.len() > MAX_PATHS { format!(" and {} more", paths.len() - MAX_PATHS) } else { String::new() };
            let names = shown.join(", ");
            let message =
                format!("`{location}` gives no value of pipes, sockets and devices, as in Spring: {names}{more}");
            diagnostics.warn(at, message).help(
                "write the value to a regular file, or read the pipe by `spring.config.import: \"file:PATH[.yml]\"`",
            );
        }
    }
}

/// Reports a location at a server, with advice for its settings.
fn report_server(location: &str, server: &str, at: Span, diagnostics: &mut Diagnostics) {
    let how = match server {
        "configserver" => "`curl http://SERVER/APPLICATION/PROFILE`, or the files of its repository",
        "nacos" => "`curl 'http://SERVER/nacos/v1/cs/configs?dataId=NAME&group=DEFAULT_GROUP'`",
        "consul" => "`consul kv get config/APPLICATION/data`",
        "zookeeper" | "kubernetes" | "vault" => "its own client",
        _ => "its own client or API",
    };
    diagnostics
        .warn(at, format!("`spring.config.import` is not read: `{location}` needs a server of the kind `{server}`"))
        .help(format!(
            "export what the gateway needs of it with {how}, and pass it as a second file: `--config exported.yml`"
        ));
}
