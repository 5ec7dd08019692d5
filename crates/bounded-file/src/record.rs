//! Record of the files that a load of the configuration has read, and of those that it has looked for.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Links that a path may lead through, as in the kernel.
const MAX_LINKS: u8 = 40;

thread_local! {
    /// Record of the load that runs on this thread.
    static RECORD: RefCell<Option<FileRecord>> = const { RefCell::new(None) };
}

/// Files and folders that a load has read or looked for, each in its state before that.
#[derive(Clone, Debug, Default)]
pub struct FileRecord(BTreeMap<PathBuf, Entry>);

/// Path of a [`FileRecord`].
#[derive(Clone, Debug)]
struct Entry {
    stamp: Stamp,
    /// SHA-256 of the content or of the error; `None` if the path was not read.
    content: Option<[u8; 32]>,
}

/// State of a path that differs after each change: device, inode, size, and times of the last changes. `None` if there is no
/// file or folder; a pipe or a device counts as none.
type Stamp = Option<(u64, u64, u64, [i64; 4])>;

/// Calls `load`, and returns its result with the files that it has read or looked for on this thread.
pub fn recorded<R>(load: impl FnOnce() -> R) -> (R, FileRecord) {
    RECORD.set(Some(FileRecord::default()));
    let result = load();
    (result, RECORD.take().unwrap_or_default())
}

/// Calls `read`, and records nothing: its files have a watch of their own.
pub fn unrecorded<R>(read: impl FnOnce() -> R) -> R {
    let record = RECORD.take();
    let result = read();
    RECORD.set(record);
    result
}

/// Records that the load looks for `path`, or lists it: a change of it can change the configuration.
pub fn note(path: &Path) {
    record(path, stamp, || None);
}

/// Calls `read`, and records the content of `path`.
pub(super) fn read(path: &Path, read: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    // Before the content: a change meanwhile is noticed.
    let before = stamp(path);
    let result = read();
    record(path, |_| before, || Some(digest(&result)));
    result
}

fn record(path: &Path, stamp: impl FnOnce(&Path) -> Stamp, content: impl FnOnce() -> Option<[u8; 32]>) {
    RECORD.with_borrow_mut(|record| {
        let Some(FileRecord(entries)) = record else { return };
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let entry = entries.entry(path).or_insert_with_key(|path| Entry { stamp: stamp(path), content: None });
        entry.content = entry.content.or_else(content);
    });
}

fn digest(result: &io::Result<Vec<u8>>) -> [u8; 32] {
    match result {
        Ok(bytes) => Sha256::digest(bytes),
        Err(error) => Sha256::digest(format!("error: {error}")),
    }
    .into()
}

fn stamp(path: &Path) -> Stamp {
    let state = fs::metadata(path).ok().filter(|state| state.is_file() || state.is_dir())?;
    let times = [state.mtime(), state.mtime_nsec(), state.ctime(), state.ctime_nsec()];
    Some((state.dev(), state.ino(), state.size(), times))
}

impl FileRecord {
    /// Returns true if no path has changed since the load.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.0.iter().all(|(path, entry)| stamp(path) == entry.stamp)
    }

    /// Returns a value that differs after each change of the files.
    #[must_use]
    pub fn state(&self) -> impl PartialEq + Send + use<> {
        self.0.keys().map(|path| stamp(path)).collect::<Vec<_>>()
    }

    /// Returns true if both loads have read the same files with the same contents.
    #[must_use]
    pub fn has_same_contents(&self, other: &Self) -> bool {
        let contents = |record: &Self| -> Vec<_> {
            let read = record.0.iter().filter_map(|(path, entry)| Some((path.clone(), entry.content?)));
            read.collect()
        };
        contents(self) == contents(other)
    }

    /// Returns the number of files that the load has read.
    #[must_use]
    pub fn files(&self) -> usize {
        self.0.values().filter(|entry| entry.content.is_some()).count()
    }

    /// Returns the folders whose entries lead to the files: that of each file, and those of the links on its way. So a
    /// `ConfigMap` is covered, whose files are links through `..data`, a link that an update replaces.
    #[must_use]
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let mut walk = FolderWalk::default();
        self.0.keys().for_each(|path| walk.add(path, MAX_LINKS));
        walk.folders
    }
}

/// Search for the folders of paths.
#[derive(Default)]
struct FolderWalk {
    folders: BTreeSet<PathBuf>,
    /// Paths that are followed already, each with those above it.
    seen: HashSet<PathBuf>,
}

impl FolderWalk {
    fn add(&mut self, path: &Path, links_left: u8) {
        if links_left == 0 {
            return;
        }
        for step in path.ancestors() {
            if !self.seen.insert(step.to_owned()) {
                break;
            }
            if let (Ok(target), Some(parent)) = (fs::read_link(step), step.parent()) {
                self.folders.insert(parent.to_owned());
                self.add(&parent.join(target), links_left - 1);
            }
        }
        // The folder itself if it is listed, and the nearest one of a path that is not there.
        let is_known = |folder: &&Path| self.folders.contains(*folder) || folder.is_dir();
        let listed = Some(path).filter(is_known);
        let nearest = path.ancestors().skip(1).find(is_known);
        self.folders.extend(listed.into_iter().chain(nearest).map(Path::to_owned).collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    fn tick() {
        std::thread::sleep(std::time::Duration::from_millis(30));
    }

    fn load(paths: &[&Path]) -> FileRecord {
        let read = || paths.iter().map(|path| crate::read(path, 1024).is_ok()).filter(|is_read| *is_read).count();
        let (read, record) = recorded(read);
        assert!(read <= record.files());
        record
    }

    #[test]
    fn a_record_has_the_files_of_one_load() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "a").unwrap();
        crate::read(&path, 9).unwrap();
        let ((), nothing) = recorded(|| ());
        assert_eq!((nothing.files(), nothing.folders().len()), (0, 0));
        let record = load(&[&path]);
        assert_eq!((record.files(), record.folders().len()), (1, 1));
        assert!(record.is_current() && record.has_same_contents(&load(&[&path])));
        let (_, nothing) = recorded(|| unrecorded(|| crate::read(&path, 9)));
        assert_eq!(nothing.files(), 0);
    }

    #[test]
    fn each_change_is_noticed_and_a_touch_has_the_same_contents() {
        let folder = tempfile::tempdir().unwrap();
        let (path, absent) = (folder.path().join("file"), folder.path().join("absent"));
        fs::write(&path, "a").unwrap();
        let before = load(&[&path]);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let touched = load(&[&path]);
        assert!(!before.is_current() && touched.is_current() && touched.has_same_contents(&before));
        // As long as before, with its time. The clock of files ticks each few milliseconds.
        tick();
        fs::write(&path, "b").unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(!touched.is_current() && !touched.has_same_contents(&load(&[&path])));
        // A file that appears, and one that is not there any more.
        let both = load(&[&path, &absent]);
        fs::write(&absent, "").unwrap();
        assert!(!both.is_current() && !both.has_same_contents(&load(&[&path, &absent])));
        let both = load(&[&path, &absent]);
        fs::remove_file(&path).unwrap();
        assert!(!both.is_current() && !both.has_same_contents(&load(&[&path, &absent])));
        // A listed folder.
        let ((), listed) = recorded(|| note(folder.path()));
        assert!(listed.is_current() && listed.files() == 0);
        tick();
        fs::write(&path, "").unwrap();
        assert!(!listed.is_current());
    }

    #[test]
    fn the_folders_of_links_are_watched_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for version in ["..1", "..2"] {
            fs::create_dir(root.join(version)).unwrap();
            fs::write(root.join(version).join("file"), version).unwrap();
        }
        symlink("..1", root.join("..data")).unwrap();
        symlink("..data/file", root.join("file")).unwrap();
        fs::create_dir(root.join("elsewhere")).unwrap();
        symlink(root.join("file"), root.join("elsewhere/link")).unwrap();
        let record = load(&[&root.join("elsewhere/link"), &root.join("later/file")]);
        let expected = [root.clone(), root.join("..1"), root.join("..data"), root.join("elsewhere")];
        assert_eq!(record.folders(), BTreeSet::from(expected));
        symlink("..2", root.join("..tmp")).unwrap();
        fs::rename(root.join("..tmp"), root.join("..data")).unwrap();
        assert!(!record.is_current());
        // A ring of links ends.
        symlink("ring", root.join("ring")).unwrap();
        assert!(!load(&[&root.join("ring")]).folders().is_empty());
    }
}
