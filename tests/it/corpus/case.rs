//! A case: a folder with files and their transcript.

use std::path::PathBuf;

/// A case with its transcript.
pub struct Case {
    /// Name of the folder.
    pub name: String,
    /// Folder of the files.
    pub folder: PathBuf,
    /// Transcript as it is in the folder.
    pub transcript: String,
}

impl Case {
    /// Reads all cases.
    pub fn all() -> Vec<Self> {
        let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "corpus"].iter().collect();
        let mut folders: Vec<PathBuf> =
            std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        let case = |folder: PathBuf| Self {
            name: folder.file_name().unwrap().to_str().unwrap().to_owned(),
            transcript: std::fs::read_to_string(folder.join("transcript")).unwrap(),
            folder,
        };
        folders.into_iter().map(case).collect()
    }

    /// Returns the value of the line `key: value`, which is empty without one.
    pub fn value(&self, key: &str) -> &str {
        let line = self.transcript.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        line.unwrap_or_default()
    }

    /// Returns the words of such a line.
    pub fn words(&self, key: &str) -> Vec<&str> {
        self.value(key).split_whitespace().collect()
    }

    /// Returns the number of files of the survey that have the pattern of the case.
    pub fn weight(&self) -> usize {
        self.value("weight").parse().unwrap_or_else(|_| panic!("{} has no weight", self.name))
    }

    /// Returns the configuration files, in their order.
    pub fn files(&self) -> Vec<String> {
        let named = self.words("files");
        if !named.is_empty() {
            return named.into_iter().map(str::to_owned).collect();
        }
        let usual = ["application.yml", "application.properties"];
        usual.iter().filter(|name| self.folder.join(name).is_file()).map(|name| (*name).to_owned()).collect()
    }

    /// Returns the lines that are not results: the settings of the case, and its requests.
    pub fn inputs(&self) -> (Vec<&str>, Vec<&str>) {
        let settings = ["#", "weight:", "files:", "env:", "registry:", "redis:"];
        let lines = || self.transcript.lines();
        (
            lines().filter(|line| settings.iter().any(|setting| line.starts_with(setting))).collect(),
            lines().filter(|line| line.starts_with("> ")).collect(),
        )
    }
}

/// Splits `> GET /path | Name: value` into the method, the target and the fields.
pub fn request(line: &str) -> (&str, &str, Vec<(&str, &str)>) {
    let mut parts = line.trim_start_matches("> ").split(" | ");
    let (method, target) = parts.next().unwrap().split_once(' ').unwrap();
    (method, target, parts.map(|field| field.split_once(": ").unwrap()).collect())
}
