//! `spring.config.import`: the files that documents import, and the order of all documents.
//!
//! The order is Spring's: an imported file comes right behind the document that imports it, so its values win over those of
//! this document. Files of profiles come behind all files beside them. Each file is read once.

mod group;
pub mod location;
mod paths;
mod tree;

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use self::group::{Branch, Group, Importer};
use self::location::{FileTarget, Location, Target, folder_of, folders, identity, locations};
use self::tree::{MAX_BYTES, MAX_CHAIN, MAX_FILES, refused};
use crate::Form;
use crate::source::dotted::{self, Properties};
use crate::source::expansion::{Budget, Lookup, Value};
use crate::source::files::{LoadError, NAMES_END, is_file, read_one, remedy};
use crate::source::merge::Replaced;
use crate::source::profiles::{Profiles, condition};
use crate::source::{documents, placeholder};
use tollgate_document::diagnostics::{Diagnostics, Import, Outcome, SourceFile, SourceText};
use tollgate_document::yaml::{MAX_NODES, Node, NodeKind};

/// Environment variable with the locations that are read if no path is given.
pub const LOCATION: &str = "SPRING_CONFIG_LOCATION";
/// Environment variables with further locations, in the order in which they are read.
const VARIABLES: [&str; 2] = ["SPRING_CONFIG_ADDITIONAL_LOCATION", "SPRING_CONFIG_IMPORT"];
/// Error of [`LOCATION`] without a file.
const NO_FILE: &str = "no location has a configuration file";

/// Reads the files at `paths`, those that they import, and those of their profiles. Without a path, reads those of
/// [`LOCATION`].
pub fn read(paths: &[PathBuf], env: &dyn Fn(&str) -> Option<String>) -> Result<SourceText, LoadError> {
    let mut reader = Reader {
        env,
        text: SourceText::default(),
        seen: HashSet::new(),
        bytes_left: MAX_BYTES,
        nodes: 0,
        placeholders: Budget::default(),
        root: folder_of(paths.first().map_or(Path::new(""), PathBuf::as_path)),
    };
    let mut groups = Vec::new();
    let is_last = |at: usize| paths.iter().skip(at + 1).all(|later| identity(later) != identity(&paths[at]));
    for (_, path) in paths.iter().enumerate().filter(|(at, _)| is_last(*at)) {
        groups.push(reader.path(path)?);
    }
    let locations = env(LOCATION).filter(|list| !list.trim().is_empty());
    if paths.is_empty() {
        let list = locations.unwrap_or_default();
        reader.locations(&list, &mut groups)?;
        if reader.text.files.is_empty() {
            let source = io::Error::new(ErrorKind::NotFound, NO_FILE);
            return Err(LoadError::Unreadable { path: list.into(), source });
        }
    } else if let Some(written) = locations {
        let outcome = Outcome::Replaced;
        reader.text.imports.push(Import { document: None, written, is_optional: true, outcome });
    }
    for list in VARIABLES.iter().filter_map(|variable| env(variable)) {
        reader.locations(&list, &mut groups)?;
    }
    reader.bootstrap(&mut groups)?;
    let mut documents = Vec::new();
    groups.iter().for_each(|group| group.collect(&mut documents));
    let profiles = Profiles::of(&documents, env);
    groups.iter_mut().try_for_each(|group| reader.activate(group, &profiles))?;
    let Reader { mut text, .. } = reader;
    groups.iter().for_each(|group| group.order(&mut text.documents));
    Ok(text)
}

struct Reader<'e> {
    env: &'e dyn Fn(&str) -> Option<String>,
    text: SourceText,
    /// Files that have been read.
    seen: HashSet<PathBuf>,
    /// Bytes that further files may have.
    bytes_left: usize,
    /// Values of the files so far.
    nodes: usize,
    /// Bytes that the placeholders of locations may have.
    placeholders: Budget,
    /// Folder of the first file.
    root: PathBuf,
}

impl Reader<'_> {
    /// Reads the locations of an environment variable. Those with `;` between them are one group: the files of a profile
    /// come behind all others of the group.
    fn locations(&mut self, list: &str, groups: &mut Vec<Group>) -> Result<(), LoadError> {
        for locations in list.split(',') {
            let mut group = Group::default();
            for location in locations.split(';').map(str::trim).filter(|location| !location.is_empty()) {
                self.import(location, None, &[], &mut group)?;
            }
            group.paths = vec![group.paths.drain(..).flatten().collect()];
            groups.push(group);
        }
        Ok(())
    }

    /// Reads the file at `path` and what its documents without a condition import.
    fn file(
        &mut self,
        path: &Path,
        target: Option<&FileTarget>,
        into: &mut Vec<Branch>,
        chain: &[PathBuf],
        is_of_profile: bool,
    ) -> Result<(), LoadError> {
        let id = identity(path);
        if self.seen.contains(&id) {
            return Ok(());
        }
        if self.text.files.len() >= MAX_FILES {
            return Err(refused(path, "a configuration has at most 4,096 files"));
        }
        if chain.len() >= MAX_CHAIN {
            return Err(refused(path, "more than 64 files import each other in a row"));
        }
        self.seen.insert(id.clone());
        let hints = target.map_or((None, false), |target| (target.format.clone(), target.is_utf8));
        let file = SourceFile { is_of_profile, ..read_one(path, hints, self.bytes_left)? };
        self.bytes_left = self.bytes_left.saturating_sub(file.text.len());
        let chain: Vec<PathBuf> = chain.iter().cloned().chain([id]).collect();
        self.add(file, into, path, &chain)
    }

    /// Adds a file and what its documents without a condition import.
    fn add(
        &mut self,
        file: SourceFile,
        into: &mut Vec<Branch>,
        path: &Path,
        chain: &[PathBuf],
    ) -> Result<(), LoadError> {
        let mut ignored = Diagnostics::default();
        self.text.files.push(file);
        let documents =
            documents::read_file(&self.text, self.text.files.len() - 1, &mut Replaced::default(), &mut ignored);
        self.nodes += documents.iter().map(|document| document.node.count()).sum::<usize>();
        if self.nodes > MAX_NODES {
            return Err(refused(path, "the files of a configuration have at most 250,000 values"));
        }
        // Documents that are no maps stay, so that they are reported.
        for mut document in documents {
            document.node = dotted::expand(document.node, Form::Own, &mut ignored);
            let has_condition = condition(&document.node).is_some();
            let mut branch = Branch { document, imports: None, chain: chain.to_vec() };
            if !has_condition {
                self.imports(&mut branch, path)?;
            }
            into.push(branch);
        }
        Ok(())
    }

    /// Reads what `branch`, a document of the file at `path`, imports.
    fn imports(&mut self, branch: &mut Branch, path: &Path) -> Result<(), LoadError> {
        let mut group = Group::default();
        for written in locations(&branch.document.node) {
            let resolved = self.resolved(&written, &branch.document.node);
            let importer = Importer { document: branch.document.id, folder: folder_of(path), written };
            for location in resolved.split(';').map(str::trim).filter(|location| !location.is_empty()) {
                self.import(location, Some(&importer), &branch.chain, &mut group)?;
            }
        }
        branch.imports = Some(group);
        Ok(())
    }

    /// Resolves the placeholders of a location by the environment and the properties of its document.
    fn resolved(&self, location: &str, document: &Node) -> String {
        let mut node = Node { span: document.span, kind: NodeKind::Scalar(location.to_owned()) };
        let properties = Properties::of(document);
        let lookup = |name: &str| {
            let value = placeholder::in_environment(name, self.env).map(Value::Literal);
            value.or_else(|| properties.text(name).map(Value::Text))
        };
        placeholder::resolve_quietly(&mut node, &Lookup::new(&lookup, &self.placeholders));
        node.scalar().unwrap_or(location).to_owned()
    }

    /// Reads one location; `None` as importer is the environment.
    fn import(
        &mut self,
        location: &str,
        importer: Option<&Importer>,
        chain: &[PathBuf],
        group: &mut Group,
    ) -> Result<(), LoadError> {
        if self.text.imports.len() >= MAX_FILES {
            return Err(refused(Path::new(location), "a configuration has at most 4,096 imports"));
        }
        let Location { is_optional, target } = Location::parse(location);
        let read = match target {
            Target::Server(server) => Ok(Outcome::Server(server)),
            Target::File(file) => self.local(&file, false, importer, chain, group),
            Target::Tree(file) => self.local(&file, true, importer, chain, group),
        };
        let outcome = match read {
            // A pipe was waited for: the next one is not.
            Err(LoadError::Unreadable { path, source })
                if importer.is_some() && source.kind() != ErrorKind::TimedOut =>
            {
                let reason = format!("{}: {source}", path.display());
                Outcome::Unreadable { reason, help: remedy(source.kind()) }
            }
            read => read?,
        };
        if let (Outcome::Missing(tried), None, false) = (&outcome, importer, is_optional) {
            let path = PathBuf::from(tried);
            return Err(LoadError::Unreadable { path, source: ErrorKind::NotFound.into() });
        }
        let import = Import {
            document: importer.map(|importer| importer.document),
            written: importer.map_or(location, |importer| &importer.written).to_owned(),
            is_optional,
            outcome,
        };
        self.text.imports.push(import);
        Ok(())
    }

    /// Reads a file or folder.
    fn local(
        &mut self,
        target: &FileTarget,
        is_tree: bool,
        importer: Option<&Importer>,
        chain: &[PathBuf],
        group: &mut Group,
    ) -> Result<Outcome, LoadError> {
        let beside = importer.map_or(PathBuf::new(), |importer| importer.folder.clone());
        let paths = target.paths(&beside, &self.root);
        let exists = |path: &PathBuf| {
            let folders = folders(path);
            folders.iter().for_each(|path| tollgate_bounded_file::note(path));
            folders.iter().any(|path| path.exists())
        };
        let Some(path) = paths.iter().find(|path| exists(path)) else {
            let tried: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            return Ok(Outcome::Missing(tried.join(", ")));
        };
        if is_tree || target.is_folder() || path.is_dir() {
            let mut special = Vec::new();
            for folder in folders(path) {
                if !is_tree {
                    self.folder(&folder, group, chain)?;
                    continue;
                }
                let bounds = (MAX_FILES.saturating_sub(self.text.files.len()), self.bytes_left);
                let files = tree::read(&folder, bounds);
                let (files, others) = files.map_err(|source| LoadError::Unreadable { path: folder.clone(), source })?;
                special.extend(others);
                for file in files {
                    self.bytes_left = self.bytes_left.saturating_sub(file.text.len());
                    self.add(file, &mut group.branches, &folder, chain)?;
                }
            }
            return Ok(if special.is_empty() { Outcome::Read } else { Outcome::Special(special) });
        }
        if chain.contains(&identity(path)) {
            return Ok(Outcome::Cycle(path.display().to_string()));
        }
        self.file(path, Some(target), &mut group.branches, chain, false)?;
        group.paths.push(vec![path.clone()]);
        Ok(Outcome::Read)
    }

    /// Reads `application.yaml`, `.yml` and `.properties` of a folder.
    fn folder(&mut self, folder: &Path, group: &mut Group, chain: &[PathBuf]) -> Result<(), LoadError> {
        let names = (self.env)("SPRING_CONFIG_NAME").unwrap_or_else(|| "application".to_owned());
        let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.contains(['/', '\\'])).collect();
        for name in &names {
            for end in NAMES_END {
                let path = folder.join(format!("{name}.{end}"));
                if is_file(&path) {
                    self.file(&path, None, &mut group.branches, chain, false)?;
                }
            }
        }
        group.paths.push(names.iter().map(|name| folder.join(name)).collect());
        Ok(())
    }
}
