//! `config`: the files of the configuration.

use serde::Deserialize;

use crate::de::defaults::Flag;

/// Files of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub struct ConfigFiles {
    /// Reloads the configuration when a file that it has read changes: its own files, imports, certificates, keys, passwords, tokens and key sets.
    pub watch: Flag<true>,
}
