//! Function words (closed classes), and what each contributes to a question: read from `data/closed-*.txt`, whose names of
//! effects are those of [`NAMES`] and [`MOODS`].

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum QuestionType {
    /// In what way.
    How,
    /// What to do about it.
    Remedy,
    /// Which person.
    Who,
    /// At what time, of any grain.
    When,
    /// At what time of the day.
    Clock,
    /// On which day.
    Day,
    /// At what place.
    Where,
    /// For what reason.
    Why,
    /// What or which.
    What,
    /// What something is.
    WhatIs,
    /// For how much money.
    Price,
    /// How much.
    Amount,
    /// How much something is.
    AmountIs,
    /// How many.
    Count,
    /// How long.
    Duration,
    /// How long until something is so.
    Wait,
    /// How often.
    Often,
    /// How far.
    Far,
    /// How large, or of what age: 多大.
    Size,
    /// How large.
    Large,
    /// Of what age.
    Age,
    /// How tall or high.
    Height,
    /// How heavy.
    Weight,
    /// How fast.
    Speed,
    /// How deep.
    Depth,
    /// How wide.
    Width,
    /// What a word means.
    Define,
    /// Whether.
    Polar,
    /// What comes of it.
    Effect,
    /// Whether it costs anything.
    Charged,
}

/// What must be as often in both questions; each is named like the words it stands for in `data/closed-*.txt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    All,
    Some,
    Most,
    Many,
    Few,
    Only,
    Any,
    Both,
    Either,
    Even,
    Each,
    Except,
    Include,
    Instead,
    Or,
    Against,
    Over,
    Under,
    /// The most that may be, of no number that is named.
    Utmost,
    Than,
    Before,
    After,
    Until,
    Since,
    During,
}

impl Mark {
    /// Whether it bounds a quantity.
    pub fn is_comparison(self) -> bool {
        matches!(self, Self::Over | Self::Under | Self::Utmost | Self::Than)
    }

    /// Whether it places in time.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Before | Self::After | Self::Until | Self::Since | Self::During)
    }
}

/// The part that the next noun plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SemanticRole {
    /// Where something comes from.
    Source,
    /// Where it goes, or what it becomes.
    Goal,
    /// What it is compared with.
    Standard,
    /// Who does it.
    Agent,
    /// What it is done to.
    Patient,
}

/// Who is spoken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    /// Who asks.
    First,
    /// Who is asked.
    Second,
    /// Somebody else.
    Third,
}

/// What the form of a pronoun tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Nothing.
    Any,
    /// It does something.
    Subject,
    /// Something is done to it.
    Object,
    /// Something is its own.
    Possessive,
}

/// What a word of a closed class contributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Nothing but that the question begins here.
    Asking,
    /// It looks like a negator, and is none.
    Neutral,
    /// The opposite of what it stands before or behind.
    Not,
    /// Twice the opposite: an obligation.
    Twice,
    /// What is asked.
    Asks(QuestionType),
    /// Why not.
    WhyNot,
    /// A noun that only names what is asked.
    Names(QuestionType),
    /// What must be as often in both.
    Mark(Mark),
    /// Time past.
    Past,
    /// Time to come.
    Future,
    /// Permission, or ability.
    May,
    /// Asks for permission.
    AsksMay,
    /// Obligation.
    Must,
    /// A choice between two.
    Alternative,
    /// A person: who asks, who is asked, or somebody else; as the one who does it, where the word tells.
    Person(Person, Case),
    /// The part that the next noun plays.
    Role(SemanticRole),
}

/// What a name in the lists means.
pub fn effect(name: &str) -> Option<Effect> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.or_else(|| MOODS.iter().find(|(known, _)| *known == name)).map(|(_, part)| *part)
}

const NAMES: [(&str, Effect); 82] = [
    ("drop", Effect::Nothing),
    ("asking", Effect::Asking),
    ("neutral", Effect::Neutral),
    ("not", Effect::Not),
    ("twice", Effect::Twice),
    ("i", Effect::Person(Person::First, Case::Any)),
    ("we", Effect::Person(Person::First, Case::Subject)),
    ("us", Effect::Person(Person::First, Case::Object)),
    ("first", Effect::Person(Person::First, Case::Possessive)),
    ("you", Effect::Person(Person::Second, Case::Any)),
    ("second", Effect::Person(Person::Second, Case::Possessive)),
    ("they", Effect::Person(Person::Third, Case::Subject)),
    ("them", Effect::Person(Person::Third, Case::Object)),
    ("third", Effect::Person(Person::Third, Case::Any)),
    ("how", Effect::Asks(QuestionType::How)),
    ("remedy", Effect::Asks(QuestionType::Remedy)),
    ("who", Effect::Asks(QuestionType::Who)),
    ("when", Effect::Asks(QuestionType::When)),
    ("clock", Effect::Asks(QuestionType::Clock)),
    ("day", Effect::Asks(QuestionType::Day)),
    ("where", Effect::Asks(QuestionType::Where)),
    ("why", Effect::Asks(QuestionType::Why)),
    ("why-not", Effect::WhyNot),
    ("what", Effect::Asks(QuestionType::What)),
    ("what-is", Effect::Asks(QuestionType::WhatIs)),
    ("price", Effect::Asks(QuestionType::Price)),
    ("amount", Effect::Asks(QuestionType::Amount)),
    ("amount-is", Effect::Asks(QuestionType::AmountIs)),
    ("count", Effect::Asks(QuestionType::Count)),
    ("duration", Effect::Asks(QuestionType::Duration)),
    ("wait", Effect::Asks(QuestionType::Wait)),
    ("often", Effect::Asks(QuestionType::Often)),
    ("far", Effect::Asks(QuestionType::Far)),
    ("size", Effect::Asks(QuestionType::Size)),
    ("large", Effect::Asks(QuestionType::Large)),
    ("age", Effect::Asks(QuestionType::Age)),
    ("height", Effect::Asks(QuestionType::Height)),
    ("weight", Effect::Asks(QuestionType::Weight)),
    ("speed", Effect::Asks(QuestionType::Speed)),
    ("depth", Effect::Asks(QuestionType::Depth)),
    ("width", Effect::Asks(QuestionType::Width)),
    ("define", Effect::Asks(QuestionType::Define)),
    ("polar", Effect::Asks(QuestionType::Polar)),
    ("effect", Effect::Asks(QuestionType::Effect)),
    ("charged", Effect::Asks(QuestionType::Charged)),
    ("noun-how", Effect::Names(QuestionType::How)),
    ("noun-when", Effect::Names(QuestionType::When)),
    ("noun-where", Effect::Names(QuestionType::Where)),
    ("noun-why", Effect::Names(QuestionType::Why)),
    ("noun-price", Effect::Names(QuestionType::Price)),
    ("noun-duration", Effect::Names(QuestionType::Duration)),
    ("noun-often", Effect::Names(QuestionType::Often)),
    ("noun-count", Effect::Names(QuestionType::Count)),
    ("noun-age", Effect::Names(QuestionType::Age)),
    ("alternative", Effect::Alternative),
    ("all", Effect::Mark(Mark::All)),
    ("some", Effect::Mark(Mark::Some)),
    ("most", Effect::Mark(Mark::Most)),
    ("many", Effect::Mark(Mark::Many)),
    ("few", Effect::Mark(Mark::Few)),
    ("only", Effect::Mark(Mark::Only)),
    ("any", Effect::Mark(Mark::Any)),
    ("both", Effect::Mark(Mark::Both)),
    ("either", Effect::Mark(Mark::Either)),
    ("even", Effect::Mark(Mark::Even)),
    ("each", Effect::Mark(Mark::Each)),
    ("except", Effect::Mark(Mark::Except)),
    ("include", Effect::Mark(Mark::Include)),
    ("instead", Effect::Mark(Mark::Instead)),
    ("or", Effect::Mark(Mark::Or)),
    ("against", Effect::Mark(Mark::Against)),
    ("over", Effect::Mark(Mark::Over)),
    ("under", Effect::Mark(Mark::Under)),
    ("utmost", Effect::Mark(Mark::Utmost)),
    ("than", Effect::Mark(Mark::Than)),
    ("before", Effect::Mark(Mark::Before)),
    ("after", Effect::Mark(Mark::After)),
    ("until", Effect::Mark(Mark::Until)),
    ("since", Effect::Mark(Mark::Since)),
    ("during", Effect::Mark(Mark::During)),
    ("past", Effect::Past),
    ("future", Effect::Future),
];

/// Names with a role, or a mood.
const MOODS: [(&str, Effect); 7] = [
    ("may", Effect::May),
    ("must", Effect::Must),
    ("source", Effect::Role(SemanticRole::Source)),
    ("goal", Effect::Role(SemanticRole::Goal)),
    ("take", Effect::Role(SemanticRole::Patient)),
    ("by", Effect::Role(SemanticRole::Agent)),
    ("asks-may", Effect::AsksMay),
];
