//! Files that the gateway cannot write on this machine.

use std::fmt;
use std::path::Path;

use rustix::fs::Access;

use crate::diagnostics::Diagnostics;
use crate::model::LogOutput;
use crate::raw_config::RawConfig;
use crate::yaml::Node;

/// Begin of the warning of a file for the access log. A gateway that runs knows better: it has the file open, or not.
pub const ACCESS_LOG_WARNING: &str = "the access log ";

/// Reason why a file cannot be written.
#[derive(Clone, Copy)]
enum Problem {
    NoFolder,
    IsFolder,
    IsFile,
    NotPermitted,
    NotReadable,
}

/// Warns of the file of the access log, of the file for buckets and of the folder for certificates, if they cannot be written
/// here.
pub(super) fn warn_of_files(raw: &RawConfig, root: &Node, diagnostics: &mut Diagnostics) {
    if let LogOutput::File(path) = &raw.access_log.output
        && let Some(problem) = problem(path, true)
        && let Some(at) = root.follow(&["access-log", "output"])
    {
        diagnostics
            .warn(at.span, format!("{ACCESS_LOG_WARNING}{} cannot be opened: {problem}", path.display()))
            .help(format!("{}, or log to `stdout`", problem.help(path)));
    }
    if let Some(path) = &raw.memory.state_file
        && let Some(at) = root.follow(&["memory", "state-file"])
    {
        if path.as_os_str().is_empty() {
            diagnostics.error(at.span, "`state-file` is empty").help("name a file, or leave out the key");
        } else if !raw.memory.hand_over.get() {
            diagnostics
                .warn(at.span.key(), "`state-file` has no effect beside `hand-over: false`")
                .help("leave out one of them");
        } else if let Some(problem) = problem(path, false) {
            let use_of = if matches!(problem, Problem::NotReadable) { "read" } else { "written" };
            diagnostics
                .warn(at.span, format!("the state file {} cannot be {use_of}: {problem}", path.display()))
                .help(format!("{}: without the file, buckets are full after a restart", problem.help(path)));
        }
    }
    if let Some(storage) = raw.server.acme.as_ref().and_then(|acme| acme.storage.spanned())
        && let Some(problem) = folder_problem(Path::new(&storage.value))
    {
        let folder = &storage.value;
        diagnostics
            .warn(storage.span, format!("the folder {folder} for certificates cannot be written: {problem}"))
            .help(format!("{}: certificates must outlive the process", problem.help(Path::new(folder))));
    }
}

/// Returns the reason why files cannot be created in `folder`, if there is one. Folders that are missing are created.
fn folder_problem(folder: &Path) -> Option<Problem> {
    let mut folders = folder.ancestors().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    let existing = folders.find(|path| path.exists())?;
    if !existing.is_dir() {
        return Some(Problem::IsFile);
    }
    let may_write = rustix::fs::access(existing, Access::WRITE_OK).is_ok();
    (!may_write).then_some(Problem::NotPermitted)
}

/// Returns the reason why the file at `path` cannot be written, if there is one. A file that is not `appended` to is replaced,
/// which only its folder permits, once it has been read.
fn problem(path: &Path, is_appended: bool) -> Option<Problem> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Some(Problem::NoFolder);
    }
    if path.is_dir() {
        return Some(Problem::IsFolder);
    }
    let written = if is_appended && path.exists() { path } else { folder };
    if rustix::fs::access(written, Access::WRITE_OK).is_err() {
        return Some(Problem::NotPermitted);
    }
    let is_unreadable = !is_appended && path.exists() && rustix::fs::access(path, Access::READ_OK).is_err();
    is_unreadable.then_some(Problem::NotReadable)
}

// === impl Problem ===

impl Problem {
    fn help(self, path: &Path) -> String {
        match self {
            Self::NoFolder => "create the folder for the user that runs the gateway".to_owned(),
            Self::IsFolder => format!("name a file in it, such as `{}`", path.join("tollgate").display()),
            Self::IsFile => "name a folder".to_owned(),
            Self::NotPermitted => "let the user that runs the gateway write it".to_owned(),
            Self::NotReadable => "give the file to the user that runs the gateway, or remove it".to_owned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFolder => "its folder does not exist here",
            Self::IsFolder => "it is a folder",
            Self::IsFile => "it is a file, or below one",
            Self::NotPermitted => "this user may not write it",
            Self::NotReadable => "this user may not read it",
        })
    }
}
