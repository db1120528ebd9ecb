//! The kinds of bugs that are injected, by the word that stands for each on disk.

use std::fmt;

/// What was done to correct code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A comparison turned around: `<` to `>`, `==` to `!=`.
    Comparison,
    /// A boundary moved in or out: `<` to `<=`.
    Boundary,
    /// `+` to `-`, `*` to `+`, and the like.
    Arithmetic,
    /// `//` to `/` and back.
    Division,
    /// A number one too large or too small, or `+ 1` lost.
    OffByOne,
    /// A variable that starts with the wrong number.
    InitialValue,
    /// The end of a `range` one too far or too near.
    RangeEnd,
    /// The wrong position of a sequence.
    Index,
    /// The wrong side of a slice.
    Slice,
    /// `and` to `or` and back.
    Logic,
    /// A `not` lost or added.
    Negation,
    /// `min` to `max`, `any` to `all`.
    Extremum,
    /// One method for its sibling: `startswith` to `endswith`.
    Method,
    /// `True` to `False` and back.
    Constant,
    /// Short text, such as a separator, for another.
    ShortText,
    /// One variable for another.
    Variable,
    /// Two arguments, or the two sides of `-`, exchanged.
    Swapped,
    /// `x.strip()` to `x`, `abs(x)` to `x`.
    DroppedCall,
    /// `+=` to `-=`.
    Accumulation,
    /// An early `return` or `raise` with its condition, gone.
    EarlyExit,
}

impl Kind {
    /// Every kind, in order.
    pub const ALL: [Self; 20] = [
        Self::Comparison,
        Self::Boundary,
        Self::Arithmetic,
        Self::Division,
        Self::OffByOne,
        Self::InitialValue,
        Self::RangeEnd,
        Self::Index,
        Self::Slice,
        Self::Logic,
        Self::Negation,
        Self::Extremum,
        Self::Method,
        Self::Constant,
        Self::ShortText,
        Self::Variable,
        Self::Swapped,
        Self::DroppedCall,
        Self::Accumulation,
        Self::EarlyExit,
    ];

    /// The word used on disk.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Comparison => "comparison",
            Self::Boundary => "boundary",
            Self::Arithmetic => "arithmetic",
            Self::Division => "division",
            Self::OffByOne => "off_by_one",
            Self::InitialValue => "initial_value",
            Self::RangeEnd => "range_end",
            Self::Index => "index",
            Self::Slice => "slice",
            Self::Logic => "logic",
            Self::Negation => "negation",
            Self::Extremum => "extremum",
            Self::Method => "method",
            Self::Constant => "constant",
            Self::ShortText => "short_text",
            Self::Variable => "variable",
            Self::Swapped => "swapped",
            Self::DroppedCall => "dropped_call",
            Self::Accumulation => "accumulation",
            Self::EarlyExit => "early_exit",
        }
    }

    /// Reads the word used on disk.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
