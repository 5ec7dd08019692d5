//! Positions of nodes, independent of lines and columns.

/// Position of a node: an index into [`Places`], for its value or for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) place: u32,
    /// True for the key that leads to the node, false for its value.
    pub(crate) key: bool,
    /// 1-based index of an argument of a shortcut (`Name=a,b`); 0 for the whole node.
    pub(crate) argument: u8,
}

impl Span {
    /// The first document.
    pub(crate) const ROOT: Self = Self::new(0);

    /// Returns the span of the node at `place`.
    pub(crate) const fn new(place: u32) -> Self {
        Self { place, key: false, argument: 0 }
    }

    /// Returns the span of the argument at `position` (0-based) of this shortcut.
    pub(crate) fn argument(self, position: usize) -> Self {
        Self { argument: u8::try_from(position + 1).unwrap_or(0), ..self }
    }

    /// Returns the span of the key that leads to this node.
    pub(crate) fn key(self) -> Self {
        Self { key: true, ..self }
    }
}

/// Places of all nodes of a configuration, indexed by [`Span::place`].
#[derive(Debug, Default)]
pub(crate) struct Places {
    all: Vec<Place>,
    /// File whose values the environment cannot override.
    pub(crate) final_file: Option<usize>,
}

/// Path to a node as it was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Index of the file.
    pub(crate) file: usize,
    /// 0-based number of the document in the file.
    pub(crate) document: usize,
    /// Positions of the entries that lead to the node, in maps as in lists.
    pub(crate) path: Vec<u32>,
}

impl Places {
    pub(crate) fn get(&self, span: Span) -> Option<&Place> {
        self.all.get(span.place as usize)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true for a value that the environment cannot override.
    pub(crate) fn is_final(&self, span: Span) -> bool {
        self.final_file.is_some_and(|first| self.get(span).is_some_and(|place| place.file >= first))
    }

    /// Adds a place and returns its span.
    pub(crate) fn push(&mut self, place: Place) -> Span {
        let index = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(place);
        Span::new(index)
    }

    /// Adds a second node at the place of `span`: a dotted key becomes several nodes.
    pub(crate) fn again(&mut self, span: Span) -> Span {
        let place = self.get(span).cloned().unwrap_or_default();
        Span { key: span.key, ..self.push(place) }
    }
}
