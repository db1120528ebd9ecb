//! How alike two texts are, as Python's difflib counts it, to the last bit.
//!
//! Owns [`Reference`] and [`ratio()`]: `SequenceMatcher(None, a, b, autojunk).ratio()` over
//! code points, `2 M / (|a| + |b|)` with `M` the elements in matching blocks. How blocks
//! are found is in `matcher`. Not symmetric: ties and popular elements depend on the order.

mod automaton;
mod matcher;
mod wavelet;

pub(crate) use matcher::{Block, Prepared};

/// Longest text that is compared, in code points. The time grows faster than the length:
/// hostile texts of this size take minutes in the worst case, real ones a second.
pub const LONGEST: usize = 1 << 20;

/// Whether elements that make up more than 1 % of a long second sequence may start a
/// match. Python's default is that they may not; the SWE-RL reward turns this off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autojunk {
    /// `autojunk=True`: popular elements do not start a match.
    On,
    /// `autojunk=False`: every element may.
    Off,
}

/// A text too long to compare, and its length in characters, lines or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text of length {0} is too long to compare; the limit is {LONGEST}")]
pub struct TooLong(pub usize);

/// The second text of many comparisons, prepared once.
///
/// ```
/// use patchrl_patch::{Autojunk, Reference};
/// let golden = Reference::new("abcd", Autojunk::Off)?;
/// assert_eq!(golden.ratio("bcde")?, 0.75);
/// # Ok::<(), patchrl_patch::TooLong>(())
/// ```
pub struct Reference {
    text: Prepared<char>,
}

impl Reference {
    /// Prepare `text`.
    pub fn new(text: &str, autojunk: Autojunk) -> Result<Self, TooLong> {
        check(text)?;
        Ok(Self { text: Prepared::new(text.chars(), autojunk == Autojunk::On) })
    }

    /// `SequenceMatcher(None, text, self).ratio()`; 1 if both are empty.
    pub fn ratio(&self, text: &str) -> Result<f64, TooLong> {
        let total = check(text)? + self.text.len();
        if total == 0 {
            return Ok(1.0);
        }
        let matches: usize = self.text.blocks(text.chars()).iter().map(|block| block.len).sum();
        Ok(2.0 * matches as f64 / total as f64)
    }
}

/// `difflib.SequenceMatcher(None, a, b, autojunk).ratio()`.
pub fn ratio(a: &str, b: &str, autojunk: Autojunk) -> Result<f64, TooLong> {
    Reference::new(b, autojunk)?.ratio(a)
}

/// The code points of a text that may be compared.
fn check(text: &str) -> Result<usize, TooLong> {
    let count = text.chars().count();
    if count <= LONGEST { Ok(count) } else { Err(TooLong(count)) }
}
