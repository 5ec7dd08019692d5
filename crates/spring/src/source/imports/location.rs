//! Locations of `spring.config.import`: `optional:file:/etc/gateway/`, `classpath:limits.yml`, `configtree:/run/secrets/`.

use std::path::{Path, PathBuf};

use tollgate_document::diagnostics::Format;
use tollgate_document::yaml::{Node, NodeKind};

/// A location as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// True if it may be missing.
    pub is_optional: bool,
    /// Target of the location.
    pub target: Target,
}

/// Target of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, or a folder with files.
    File(FileTarget),
    /// A folder with a file for each property.
    Tree(FileTarget),
    /// A server, by the prefix of the location.
    Server(String),
}

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTarget {
    path: String,
    base: Base,
    /// Format of a file without an extension, `[.yml]`.
    pub(super) format: Option<Format>,
    /// True for `[encoding=utf-8]`, which concerns files of properties.
    pub(super) is_utf8: bool,
}

/// Folder that a relative path begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The folder of the importing file.
    File,
    /// The working directory, then the folder of the importing file.
    Working,
    /// The class path: the folder of the importing file, then that of the first file.
    ClassPath,
}

impl Location {
    /// Reads a location.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let (is_optional, rest) = text.strip_prefix("optional:").map_or((false, text), |rest| (true, rest));
        Self { is_optional, target: Target::parse(rest) }
    }
}

impl Target {
    fn parse(text: &str) -> Self {
        let text = text.strip_prefix("resource:").unwrap_or(text);
        if let Some(path) = text.strip_prefix("configtree:") {
            let path = path.strip_prefix("file:").unwrap_or(path);
            return Self::Tree(FileTarget::parse(path, Base::File));
        }
        if let Some(path) = text.strip_prefix("classpath*:").or_else(|| text.strip_prefix("classpath:")) {
            return Self::File(FileTarget::parse(path.trim_start_matches('/'), Base::ClassPath));
        }
        if let Some(path) = text.strip_prefix("file:") {
            return Self::File(FileTarget::parse(path.strip_prefix("//").unwrap_or(path), Base::Working));
        }
        let is_name =
            |name: &str| name.len() > 1 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-+_".contains(c));
        match text.split_once(':') {
            Some((server, _)) if is_name(server) => Self::Server(server.to_owned()),
            _ => Self::File(FileTarget::parse(text, Base::File)),
        }
    }
}

impl FileTarget {
    fn parse(text: &str, base: Base) -> Self {
        let (mut path, mut format, mut is_utf8) = (text, None, false);
        while let Some((before, hint)) = path.strip_suffix(']').and_then(|path| path.rsplit_once('[')) {
            match hint.to_ascii_lowercase().as_str() {
                ".properties" => format = Some(Format::Properties),
                hint if hint.starts_with('.') => format = Some(Format::Yaml),
                hint => is_utf8 |= hint.strip_prefix("encoding=").is_some_and(|name| name == "utf-8"),
            }
            path = before;
        }
        Self { path: path.to_owned(), base, format, is_utf8 }
    }

    /// Returns true for a folder by its spelling.
    pub(super) fn is_folder(&self) -> bool {
        self.path.is_empty() || self.path.ends_with('/')
    }

    /// Returns the paths that are tried, for an import of a file in the folder `beside`. `root` is the folder of the
    /// first file.
    pub(super) fn paths(&self, beside: &Path, root: &Path) -> Vec<PathBuf> {
        let path = Path::new(&self.path);
        if path.is_absolute() {
            return vec![path.to_owned()];
        }
        let mut paths = match self.base {
            Base::File => vec![join(beside, path)],
            Base::Working => vec![join(Path::new(""), path), join(beside, path)],
            Base::ClassPath => vec![join(beside, path), join(root, path)],
        };
        paths.dedup();
        paths
    }
}

/// Joins two paths, without `.` steps.
fn join(folder: &Path, path: &Path) -> PathBuf {
    let joined: PathBuf = folder.join(path).components().filter(|step| step.as_os_str() != ".").collect();
    if joined.as_os_str().is_empty() { PathBuf::from(".") } else { joined }
}

/// Returns the folders that `path` means: itself, or for `a/*` those in `a`, in the order of their names.
pub(super) fn folders(path: &Path) -> Vec<PathBuf> {
    if path.file_name().is_none_or(|name| name != "*") {
        return vec![path.to_owned()];
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    tollgate_bounded_file::note(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_shown = |path: &PathBuf| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'));
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_shown).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders
}

/// Returns the folder of the file at `path`.
pub(super) fn folder_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.to_owned() } else { path.parent().unwrap_or(Path::new("")).to_owned() }
}

/// Returns a path that is the same for all spellings of one file.
pub(super) fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns the locations that a document imports, as they are written.
pub(super) fn locations(document: &Node) -> Vec<String> {
    import_nodes(document).into_iter().flat_map(|(_, texts)| texts).collect()
}

/// Returns the values of `spring.config.import`, each with its locations.
pub fn import_nodes(document: &Node) -> Vec<(&Node, Vec<String>)> {
    let Some(import) = document.follow(&["spring", "config", "import"]) else { return Vec::new() };
    let nodes: Vec<&Node> = match &import.kind {
        NodeKind::Seq(items) => items.iter().collect(),
        _ => vec![import],
    };
    let split = |text: &str| text.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect();
    nodes.into_iter().filter_map(|node| Some((node, split(node.scalar()?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_have_a_kind_and_a_base() {
        let paths = |text: &str| match Location::parse(text).target {
            Target::File(file) | Target::Tree(file) => {
                let paths = file.paths(Path::new("conf/sub"), Path::new("conf"));
                paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
            }
            Target::Server(name) => format!("server {name}"),
        };
        assert_eq!(paths("limits.yml"), "conf/sub/limits.yml");
        assert_eq!(paths("./limits.yml"), "conf/sub/limits.yml");
        assert_eq!(paths("optional:file:./limits.yml"), "limits.yml conf/sub/limits.yml");
        assert_eq!(paths("file:///etc/limits.yml"), "/etc/limits.yml");
        assert_eq!(paths("classpath:/limits.yml"), "conf/sub/limits.yml conf/limits.yml");
        assert_eq!(paths("configtree:/run/secrets/"), "/run/secrets/");
        assert_eq!(paths("file:/etc/limits[.yml]"), "/etc/limits");
        for server in ["configserver:", "optional:nacos:a.yml?group=B", "consul:", "aws-parameterstore:/a"] {
            assert!(paths(server).starts_with("server "), "{server}");
        }
        let Target::File(file) = Location::parse("a[.properties][encoding=utf-8]").target else { unreachable!() };
        assert_eq!((file.format, file.is_utf8, file.path.as_str()), (Some(Format::Properties), true, "a"));
    }
}
