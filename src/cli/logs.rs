//! Arguments of commands that read access logs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::cli::load::Selection;
use crate::cli::report::usage;
use tollgate_simulate::input::{Inputs, Map};

/// A configuration and access logs.
#[derive(Debug, Args)]
pub(super) struct LogArguments {
    /// FILE: configuration with the routes, the first of several names. LOG: access logs, plain or gzip; `-` is standard input. Formats: Tollgate's JSON, common, combined, or other JSON with --map
    #[arg(value_names = ["FILE", "LOG"], num_args = 1.., required = true)]
    names: Vec<PathBuf>,
    /// Fields of other JSON logs: time=ts,client=remote_addr,method=verb,path=uri,host=host,header.X-Api-Key=key
    #[arg(long, value_name = "PART=FIELD,…", value_parser = Map::parse)]
    map: Option<Map>,
    #[command(flatten)]
    pub(super) selection: Selection,
}

impl LogArguments {
    /// Returns true if the arguments name a configuration file.
    pub(super) fn names_files(&self) -> bool {
        self.file().is_some() || self.selection.names_files()
    }

    /// Returns FILE. A single name is a log.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.names.first().filter(|_| self.names.len() > 1)
    }

    /// Opens the logs.
    pub(super) fn open(&self) -> Result<Inputs, ExitCode> {
        let logs = &self.names[usize::from(self.names.len() > 1)..];
        Inputs::open(logs, self.map.clone().unwrap_or_default()).map_err(usage)
    }
}
