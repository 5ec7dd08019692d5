//! Files, compressed or not, and standard input, merged by time.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use serde::Serialize;
use thiserror::Error;

use super::field_names::{FieldCounts, LackingField};
use super::fields::Fields;
use super::lines::{Line, Lines, MAX_LINE_BYTES};
use super::log_entry::LogEntry;
use super::map::{Map, Slot};
use super::{combined, json};

/// Number of broken lines that are shown.
const SHOWN_BROKEN: usize = 3;
/// First bytes of a gzip file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Size of the read buffers.
const BUFFER_BYTES: usize = 128 * 1024;

/// Error of opening a log.
#[derive(Debug, Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct OpenError {
    path: PathBuf,
    source: io::Error,
}

/// Lines that were read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InputStats {
    /// Lines, blank ones excluded.
    pub lines: u64,
    /// Lines that could not be used.
    pub broken: u64,
    /// First broken lines.
    pub first_broken: Vec<BrokenLine>,
    /// Requests whose time lies before one that was replayed already. They are replayed at that later time.
    pub out_of_order: u64,
    /// Largest of these differences, in seconds.
    pub out_of_order_secs: f64,
    /// Fields of `--map` that lines lack.
    pub lacking_fields: Vec<LackingField>,
    /// Fields of the first lines, if there is a map.
    #[serde(skip)]
    pub first_fields: Vec<String>,
}

impl InputStats {
    /// Describes the fields of `--map` that no line has; `None` if there are none.
    pub fn missing_fields(&self) -> Option<String> {
        let missing = self.lacking_fields.iter().filter(|field| field.lacking == field.lines);
        let missing: Vec<_> = missing.map(|field| field.field.as_str()).collect();
        let names = missing.join("`, `");
        let first = self.first_fields.join(", ");
        let has_fields = !missing.is_empty() && !first.is_empty();
        has_fields
            .then(|| format!("no line has the field `{names}` of --map; the fields of the first lines are {first}"))
    }
}

/// Line that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct BrokenLine {
    /// File.
    pub file: String,
    /// Number of the line, from 1.
    pub line: u64,
    /// Problem.
    pub problem: String,
}

/// Logs, read so that the one furthest behind in time comes next.
pub struct Inputs {
    sources: Vec<Source>,
    pub(crate) map: Map,
    /// Lines that were read.
    pub stats: InputStats,
    read_bytes: Rc<Cell<u64>>,
    total_bytes: Option<u64>,
}

struct Source {
    name: String,
    lines: Lines,
    line: u64,
    /// LogEntry that was read and not returned yet.
    next: Option<Box<LogEntry>>,
    has_ended: bool,
    /// True for JSON, false for another format; `None` for an empty file.
    is_json: Option<bool>,
    /// Error of the first read.
    failed: Option<io::Error>,
    /// Fields of the latest line.
    fields: Fields,
}

/// Reader that counts its bytes.
struct Counted<R> {
    reader: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

impl Inputs {
    /// Opens the logs at `paths`; `-` is standard input. Compressed files are recognized by their content.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn open(paths: &[PathBuf], map: Map) -> Result<Self, OpenError> {
        let read_bytes = Rc::<Cell<u64>>::default();
        let mut total_bytes = Some(0);
        let mut sources = Vec::new();
        for path in paths {
            let failed = |source| OpenError { path: path.clone(), source };
            let reader: Box<dyn Read> = if path == Path::new("-") {
                total_bytes = None;
                Box::new(io::stdin())
            } else {
                let file = File::open(path).map_err(failed)?;
                let metadata = file.metadata().map_err(failed)?;
                if metadata.is_dir() {
                    return Err(failed(io::ErrorKind::IsADirectory.into()));
                }
                total_bytes = total_bytes.filter(|_| metadata.is_file()).map(|total| total + metadata.len());
                Box::new(file)
            };
            let counted = Counted { reader, bytes: Rc::clone(&read_bytes) };
            let name = path.display().to_string();
            sources.push(Source::new(name, counted).map_err(failed)?);
        }
        Ok(Self { sources, map, stats: InputStats::default(), read_bytes, total_bytes })
    }

    /// Returns true if every log is in JSON.
    pub fn is_json(&self) -> bool {
        self.sources.iter().all(|source| source.is_json != Some(false))
    }

    /// Returns the share of the files that has been read, from 0 to 1; `None` for standard input.
    #[expect(clippy::cast_precision_loss, reason = "shown in percent")]
    pub fn progress(&self) -> Option<f64> {
        Some(self.read_bytes.get() as f64 / self.total_bytes?.max(1) as f64)
    }

    /// Leaves out fields for which `is_read` is false: nothing reads them.
    pub fn skip_fields(&mut self, is_read: impl Fn(&Slot) -> bool) {
        self.map = std::mem::take(&mut self.map).without_unread(is_read);
    }

    /// Returns the fields of the map that lines lack, and the fields of the first lines.
    pub fn lacking_fields(&self) -> (Vec<LackingField>, Vec<String>) {
        FieldCounts::lacking(self.sources.iter().map(|source| &source.fields.counts), &self.map)
    }

    /// Takes the memory of an entry that is no longer needed.
    pub(super) fn recycle(&mut self, entry: Box<LogEntry>) {
        if let Some(source) = self.sources.iter_mut().find(|source| source.fields.spare.is_none()) {
            source.fields.spare = Some(entry);
        }
    }

    /// Returns the next entry of the log that is furthest behind; `None` at the end of all.
    pub fn next_entry(&mut self) -> Option<Box<LogEntry>> {
        let Self { sources, map, stats, .. } = self;
        for source in sources.iter_mut().filter(|source| source.next.is_none()) {
            source.next = source.read(map, stats);
        }
        let behind = sources.iter_mut().filter(|source| source.next.is_some());
        behind.min_by_key(|source| source.next.as_ref().map(|entry| entry.at()))?.next.take()
    }
}

impl Source {
    fn new(name: String, reader: impl Read + 'static) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        let is_gzip = reader.fill_buf()?.starts_with(&GZIP);
        let reader: Box<dyn BufRead> = if is_gzip {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(reader)))
        } else {
            Box::new(reader)
        };
        let mut reader = reader;
        let (start, failed) = match reader.fill_buf() {
            Ok(start) => (start.trim_ascii_start().first().copied(), None),
            Err(error) => (None, Some(error)),
        };
        let is_json = start.map(|byte| byte == b'{');
        let (lines, fields) = (Lines::new(reader), Fields::default());
        Ok(Self { name, lines, line: 0, next: None, has_ended: false, is_json, failed, fields })
    }

    /// Reads up to the next usable line.
    fn read(&mut self, map: &Map, stats: &mut InputStats) -> Option<Box<LogEntry>> {
        while !self.has_ended {
            let read = match self.failed.take() {
                Some(error) => Err(error),
                None => self.lines.next(),
            };
            let parsed = match read {
                Err(error) => {
                    self.has_ended = true;
                    Err(format!("reading failed: {error}"))
                }
                Ok(Line::End) => {
                    self.has_ended = true;
                    continue;
                }
                Ok(Line::TooLong) => Err(format!("longer than {MAX_LINE_BYTES} bytes")),
                Ok(Line::Text(line)) => match line.trim_ascii() {
                    [] => {
                        self.line += 1;
                        continue;
                    }
                    line @ [b'{', ..] => json::parse(line, map, &mut self.fields),
                    line => combined::parse(line, &mut self.fields),
                },
            };
            self.line += 1;
            stats.lines += 1;
            match parsed {
                Ok(entry) => return Some(entry),
                Err(problem) => self.report(problem, stats),
            }
        }
        None
    }

    fn report(&self, problem: String, stats: &mut InputStats) {
        stats.broken += 1;
        if stats.first_broken.len() < SHOWN_BROKEN {
            stats.first_broken.push(BrokenLine { file: self.name.clone(), line: self.line, problem });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write as _;

    use super::*;

    fn line(second: u32, target: &str) -> String {
        format!("{{\"time\":\"2026-11-22T10:00:{second:02}Z\",\"client\":\"192.0.2.1\",\"target\":\"{target}\"}}\n")
    }

    #[test]
    fn files_are_merged_by_time_and_broken_lines_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, packed) = (folder.path().join("a.log"), folder.path().join("b.log.gz"));
        let huge = "x".repeat(MAX_LINE_BYTES + 1);
        let text = format!("{}\n{huge}\nhello\n{}no end", line(1, "/1"), line(4, "/4"));
        std::fs::write(&plain, text).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::fast());
        gzip.write_all([line(2, "/2"), line(3, "/3")].concat().as_bytes()).unwrap();
        gzip.finish().unwrap();
        let mut inputs = Inputs::open(&[plain, packed], Map::default()).unwrap();
        let targets: Vec<_> = std::iter::from_fn(|| inputs.next_entry()).map(|entry| entry.target()).collect();
        assert_eq!(targets, ["/1", "/2", "/3", "/4"]);
        assert_eq!((inputs.stats.lines, inputs.stats.broken), (7, 3));
        let places: Vec<_> = inputs.stats.first_broken.iter().map(|broken| broken.line).collect();
        assert_eq!(places, [3, 4, 6]);
        assert!(inputs.stats.first_broken[0].problem.starts_with("longer than 1048576 bytes"));
        assert_eq!(inputs.progress(), Some(1.0));
    }

    #[test]
    fn a_cut_gzip_file_and_a_missing_one_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.gz");
        std::fs::write(&path, [0x1f, 0x8b, 8, 0]).unwrap();
        let mut inputs = Inputs::open(std::slice::from_ref(&path), Map::default()).unwrap();
        assert!(inputs.next_entry().is_none());
        assert!(inputs.stats.first_broken[0].problem.starts_with("reading failed"));
        let missing = Inputs::open(&[folder.path().join("none.log")], Map::default()).err().unwrap();
        assert!(missing.to_string().starts_with("cannot read "));
    }
}
