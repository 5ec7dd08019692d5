//! Files and imports of the active profiles.

use std::path::PathBuf;

use super::Reader;
use super::group::{Branch, Group};
use crate::source::files::{LoadError, beside};
use crate::source::profiles::Profiles;
use tollgate_document::diagnostics::Diagnostics;

impl Reader<'_> {
    /// Reads what documents for active profiles import, and the files of profiles.
    pub(super) fn activate(&mut self, group: &mut Group, profiles: &Profiles) -> Result<(), LoadError> {
        for branch in &mut group.branches {
            self.activate_branch(branch, profiles)?;
        }
        for paths in std::mem::take(&mut group.paths) {
            let of_profile = |profile| paths.iter().flat_map(move |path| beside(path, profile));
            for file in profiles.names().iter().flat_map(|profile| of_profile(profile)) {
                self.file(&file, None, &mut group.of_profiles, &[], true)?;
            }
        }
        let mut of_profiles = std::mem::take(&mut group.of_profiles);
        of_profiles.iter_mut().try_for_each(|branch| self.activate_branch(branch, profiles))?;
        group.of_profiles = of_profiles;
        Ok(())
    }

    fn activate_branch(&mut self, branch: &mut Branch, profiles: &Profiles) -> Result<(), LoadError> {
        let mut ignored = Diagnostics::default();
        if !profiles.accept(branch.document.with_profile(), self.env, &mut Vec::new(), &mut ignored) {
            return Ok(());
        }
        if branch.imports.is_none() {
            let path = self.text.files.get(branch.document.id.file).map(|file| PathBuf::from(&file.name));
            self.imports(branch, &path.unwrap_or_default())?;
        }
        match &mut branch.imports {
            Some(group) => self.activate(group, profiles),
            None => Ok(()),
        }
    }
}
