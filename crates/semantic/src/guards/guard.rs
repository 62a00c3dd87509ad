//! Why two questions are not the same: a closed list, with names for metrics and logs.

/// Why two questions are not the same; the first difference that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// A question is empty, or too long to be compared.
    Length,
    /// Another number, or rank.
    Number,
    /// Another day, month, year, hour or time named from now; before instead of after.
    Date,
    /// Another amount of money.
    Amount,
    /// Another version.
    Version,
    /// The same number of something else.
    Unit,
    /// One says what the other denies.
    Negation,
    /// The same words with their parts exchanged: from A to B, and from B to A.
    Direction,
    /// Another thing or person.
    Entity,
    /// Another action.
    Action,
    /// More, or less, is asked about: all instead of some, one kind instead of every.
    Scope,
    /// At least instead of at most.
    Comparison,
    /// May instead of must; was instead of will be.
    Mood,
    /// Something else is asked: when instead of where.
    Kind,
}

impl Guard {
    /// All of them, in the order in which they are asked.
    pub const ALL: [Self; 14] = [
        Self::Length,
        Self::Number,
        Self::Date,
        Self::Amount,
        Self::Version,
        Self::Unit,
        Self::Negation,
        Self::Comparison,
        Self::Scope,
        Self::Mood,
        Self::Kind,
        Self::Action,
        Self::Entity,
        Self::Direction,
    ];

    /// Its name in metrics, logs and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Number => "number",
            Self::Date => "date",
            Self::Amount => "amount",
            Self::Version => "version",
            Self::Unit => "unit",
            Self::Negation => "negation",
            Self::Direction => "direction",
            Self::Entity => "entity",
            Self::Action => "action",
            Self::Scope => "scope",
            Self::Comparison => "comparison",
            Self::Mood => "mood",
            Self::Kind => "kind",
        }
    }
}
