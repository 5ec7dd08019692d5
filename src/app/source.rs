//! Source of the configuration, and its reading.

use std::path::PathBuf;

use crate::admin::ConfigState;
use tollgate_bounded_file::{FileRecord, recorded};
use tollgate_config::{CommandLine, Config, LoadError, Loaded, Services};

/// Environment variable that names the files as in Spring Boot.
pub const LOCATION: &str = "SPRING_CONFIG_LOCATION";
/// Number of times that a reload reads files that change meanwhile.
const MAX_READS: usize = 3;

/// Source of the configuration, read again on a reload.
#[derive(Clone, Debug)]
pub enum Source {
    /// Files.
    Files {
        /// Paths of the files; values of later ones win.
        paths: Vec<PathBuf>,
        /// Profiles and properties of the command line.
        command_line: CommandLine,
    },
    /// A text in the binary. A reload leaves it unchanged.
    Embedded,
}

/// Configuration that was read, or the reason for which it cannot be used, with its text, which takes time to render.
pub(super) type Read = Result<Option<(Config, ConfigState)>, Box<(LoadError, String)>>;

/// Reads the configuration of `source`, and logs its warnings. Returns `None` for one whose files have the contents of
/// `last_read`. Files that are replaced meanwhile are read again, so that old ones are not used with new ones.
pub(super) fn read(source: &Source, services: &Services, last_read: Option<&FileRecord>) -> (Read, FileRecord) {
    let load = || recorded(|| tollgate_config::load(source.paths(), &source.command_line()));
    let (mut loaded, mut files) = load();
    for _ in 1..MAX_READS {
        if files.is_current() {
            break;
        }
        (loaded, files) = load();
    }
    if last_read.is_some_and(|last_read| files.has_same_contents(last_read)) {
        return (Ok(None), files);
    }
    let read = loaded.map(|loaded| {
        loaded.notes.log();
        let Loaded { config, notes } = with_services(loaded, services, source);
        Some((config, ConfigState::new(source.paths(), notes)))
    });
    let with_text = |error: LoadError| {
        let text = error.render(false);
        Box::new((error, text))
    };
    (read.map_err(with_text), files)
}

/// Returns `loaded` with the routes of `discovery.locator`, if they can be used with those of the file.
pub(super) fn with_services(loaded: Loaded, services: &Services, source: &Source) -> Loaded {
    Loaded { config: located(loaded.config, services, &source.command_line()), ..loaded }
}

/// Returns `config` with the routes of `discovery.locator` for `services`, if they can be used with its own.
pub(super) fn located(config: Config, services: &Services, command_line: &CommandLine) -> Config {
    let Some(locator) = config.locator.as_ref().filter(|_| !services.is_empty()) else { return config };
    match tollgate_config::load_with_services(locator, services, command_line) {
        Ok(Loaded { config, .. }) => config,
        Err(error) => {
            tracing::error!("routes of the registries cannot be used:\n{}", error.render(false));
            config
        }
    }
}

/// Returns the names of `files` for a message; without files, the setting that names them.
pub fn names(files: &[PathBuf], command_line: &CommandLine) -> String {
    if files.is_empty() {
        let option = "--spring.config.location";
        return if command_line.has_location() { option } else { LOCATION }.to_owned();
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}

impl Source {
    /// Returns the profiles and properties of the command line.
    pub fn command_line(&self) -> CommandLine {
        match self {
            Self::Files { command_line, .. } => command_line.clone(),
            Self::Embedded => CommandLine::default(),
        }
    }

    /// Returns the names of the files for a message; without files, the setting that names them.
    pub fn names(&self) -> String {
        names(self.paths(), &self.command_line())
    }

    /// Returns the paths of the files.
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::Files { paths, .. } => paths,
            Self::Embedded => &[],
        }
    }
}
