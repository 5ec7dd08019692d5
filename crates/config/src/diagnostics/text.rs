//! The text of a configuration: a file, followed by those of its profiles.

/// One file.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Name in diagnostics.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Several files as one text of several documents.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceText {
    pub(crate) whole: String,
    /// The files, each with the number of lines before it in `whole`.
    pub(crate) files: Vec<(usize, SourceFile)>,
}

impl SourceFile {
    /// Returns the file `name` with the content `text`, without a byte order mark.
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.strip_prefix('\u{feff}').unwrap_or(text).to_owned() }
    }
}

impl SourceText {
    /// Joins `files`, each a document of its own.
    pub(crate) fn new(files: Vec<SourceFile>) -> Self {
        let mut text = Self::default();
        for file in files {
            if !text.files.is_empty() {
                text.whole.push_str(if text.whole.ends_with('\n') { "---\n" } else { "\n---\n" });
            }
            let before = text.whole.bytes().filter(|byte| *byte == b'\n').count();
            text.whole.push_str(&file.text);
            text.files.push((before, file));
        }
        text
    }

    /// Returns the index of the file that holds the 1-based `line` of the whole text, and the line's number in it.
    pub(crate) fn place(&self, line: usize) -> (usize, usize) {
        let file = self.files.iter().rposition(|(before, _)| line > *before).unwrap_or(0);
        (file, line - self.files.get(file).map_or(0, |(before, _)| (*before).min(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_belongs_to_its_file() {
        let file = |name: &str, text: &str| SourceFile { name: name.to_owned(), text: text.to_owned() };
        let text = SourceText::new(vec![file("a", "x: 1\ny: 2"), file("b", "z: 3\n"), file("c", "w: 4\n")]);
        assert_eq!(text.whole, "x: 1\ny: 2\n---\nz: 3\n---\nw: 4\n");
        assert_eq!([0, 1, 2, 4, 6, 7].map(|line| text.place(line)), [(0, 0), (0, 1), (0, 2), (1, 1), (2, 1), (2, 2)]);
    }
}
