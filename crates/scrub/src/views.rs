//! The same bytes as whoever decodes them reads them.

mod escapes;
mod lines;

use super::Found;

/// Bytes as they are read by whoever decodes them.
///
/// Where they came from is only worked out once something was found in them: it takes longer.
pub(super) struct View {
    bytes: Vec<u8>,
    /// How they were decoded.
    step: Step,
    /// How that was decoded before.
    before: Option<Step>,
}

#[derive(Clone, Copy)]
enum Step {
    Percent,
    Json,
    Lines,
}

/// Takes what was decoded.
trait Sink {
    /// Bytes that stand for themselves, from a place on.
    fn run(&mut self, bytes: &[u8], at: usize);

    /// Bytes that something else at a place stands for.
    fn instead(&mut self, bytes: &[u8], at: usize);
}

/// The bytes.
impl Sink for Vec<u8> {
    fn run(&mut self, bytes: &[u8], _at: usize) {
        self.extend_from_slice(bytes);
    }

    fn instead(&mut self, bytes: &[u8], _at: usize) {
        self.extend(bytes);
    }
}

/// Where each byte came from.
struct Starts(Vec<usize>);

impl Sink for Starts {
    fn run(&mut self, bytes: &[u8], at: usize) {
        self.0.extend(at..at + bytes.len());
    }

    fn instead(&mut self, bytes: &[u8], at: usize) {
        self.0.extend(bytes.iter().map(|_| at));
    }
}

/// Returns the most bytes that one occurrence of a secret of that length can be long in the original.
pub(super) fn reach(longest: usize) -> usize {
    // Hex is two for one, in lines with an end that may be escaped itself.
    let lines = longest * 2 + (longest * 2 / lines::SHORTEST + 1) * 2 * escapes::WIDEST;
    lines.max(longest * escapes::WIDEST) + 1
}

/// Returns the views that can show what the bytes themselves do not.
pub(super) fn of(bytes: &[u8]) -> Vec<View> {
    let mut views: Vec<View> = View::new(bytes, Step::Lines, None).into_iter().collect();
    for step in [Step::Percent, Step::Json] {
        if let Some(view) = View::new(bytes, step, None) {
            views.extend(View::new(&view.bytes, Step::Lines, Some(step)));
            views.push(view);
        }
    }
    views
}

impl View {
    /// Decodes; `None` if nothing is encoded so.
    fn new(bytes: &[u8], step: Step, before: Option<Step>) -> Option<Self> {
        // Nothing is longer decoded; room that is not used costs nothing.
        let mut view = Vec::with_capacity(bytes.len() + 1);
        let any = step.read(bytes, &mut view);
        any.then_some(Self {
            bytes: view,
            step,
            before,
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns what was found in it as what stands in the original.
    pub(super) fn origins(&self, original: &[u8], found: Vec<Found>) -> Vec<Found> {
        if found.is_empty() {
            return found;
        }
        let starts = self.starts(original);
        let at = |index: usize| starts.get(index).copied().unwrap_or_default();
        // The byte behind the last one may begin after something that was skipped: that goes too.
        let origin = |(range, secret): Found| (at(range.start)..at(range.end), secret);
        found.into_iter().map(origin).collect()
    }

    /// Returns where each byte begins in the original; one more at the end.
    fn starts(&self, original: &[u8]) -> Vec<usize> {
        let Some(before) = self.before else {
            return self.step.starts(original);
        };
        let mut middle = Vec::new();
        before.read(original, &mut middle);
        let below = before.starts(original);
        let upper = self.step.starts(&middle).into_iter();
        upper
            .map(|at| below.get(at).copied().unwrap_or_default())
            .collect()
    }
}

impl Step {
    /// Decodes; tells whether anything is encoded so.
    fn read(self, bytes: &[u8], sink: &mut impl Sink) -> bool {
        match self {
            Self::Percent => escapes::read(bytes, b'%', escapes::percent, sink),
            Self::Json => escapes::read(bytes, b'\\', escapes::json, sink),
            Self::Lines => lines::read(bytes, sink),
        }
    }

    fn starts(self, bytes: &[u8]) -> Vec<usize> {
        let mut starts = Starts(Vec::new());
        self.read(bytes, &mut starts);
        starts.0.push(bytes.len());
        starts.0
    }
}
