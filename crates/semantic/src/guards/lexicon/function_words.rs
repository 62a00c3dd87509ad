//! Closed classes of words: what each contributes to a question, read from `data/closed-*.txt`.

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
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
pub enum Role {
    /// Where something comes from.
    Source,
    /// Where it goes, or what it becomes.
    Goal,
    /// What it is compared with.
    Than,
    /// Who does it.
    By,
    /// What it is done to.
    Take,
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
    Owner,
}

/// What a word of a closed class contributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
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
    Asks(Kind),
    /// Why not.
    WhyNot,
    /// A noun that only names what is asked.
    Names(Kind),
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
    Role(Role),
}

/// What a name in the lists means.
pub fn part(name: &str) -> Option<Part> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.or_else(|| MOODS.iter().find(|(known, _)| *known == name)).map(|(_, part)| *part)
}

const NAMES: [(&str, Part); 82] = [
    ("drop", Part::Nothing),
    ("asking", Part::Asking),
    ("neutral", Part::Neutral),
    ("not", Part::Not),
    ("twice", Part::Twice),
    ("i", Part::Person(Person::First, Case::Any)),
    ("we", Part::Person(Person::First, Case::Subject)),
    ("us", Part::Person(Person::First, Case::Object)),
    ("first", Part::Person(Person::First, Case::Owner)),
    ("you", Part::Person(Person::Second, Case::Any)),
    ("second", Part::Person(Person::Second, Case::Owner)),
    ("they", Part::Person(Person::Third, Case::Subject)),
    ("them", Part::Person(Person::Third, Case::Object)),
    ("third", Part::Person(Person::Third, Case::Any)),
    ("how", Part::Asks(Kind::How)),
    ("remedy", Part::Asks(Kind::Remedy)),
    ("who", Part::Asks(Kind::Who)),
    ("when", Part::Asks(Kind::When)),
    ("clock", Part::Asks(Kind::Clock)),
    ("day", Part::Asks(Kind::Day)),
    ("where", Part::Asks(Kind::Where)),
    ("why", Part::Asks(Kind::Why)),
    ("why-not", Part::WhyNot),
    ("what", Part::Asks(Kind::What)),
    ("what-is", Part::Asks(Kind::WhatIs)),
    ("price", Part::Asks(Kind::Price)),
    ("amount", Part::Asks(Kind::Amount)),
    ("amount-is", Part::Asks(Kind::AmountIs)),
    ("count", Part::Asks(Kind::Count)),
    ("duration", Part::Asks(Kind::Duration)),
    ("wait", Part::Asks(Kind::Wait)),
    ("often", Part::Asks(Kind::Often)),
    ("far", Part::Asks(Kind::Far)),
    ("size", Part::Asks(Kind::Size)),
    ("large", Part::Asks(Kind::Large)),
    ("age", Part::Asks(Kind::Age)),
    ("height", Part::Asks(Kind::Height)),
    ("weight", Part::Asks(Kind::Weight)),
    ("speed", Part::Asks(Kind::Speed)),
    ("depth", Part::Asks(Kind::Depth)),
    ("width", Part::Asks(Kind::Width)),
    ("define", Part::Asks(Kind::Define)),
    ("polar", Part::Asks(Kind::Polar)),
    ("effect", Part::Asks(Kind::Effect)),
    ("charged", Part::Asks(Kind::Charged)),
    ("noun-how", Part::Names(Kind::How)),
    ("noun-when", Part::Names(Kind::When)),
    ("noun-where", Part::Names(Kind::Where)),
    ("noun-why", Part::Names(Kind::Why)),
    ("noun-price", Part::Names(Kind::Price)),
    ("noun-duration", Part::Names(Kind::Duration)),
    ("noun-often", Part::Names(Kind::Often)),
    ("noun-count", Part::Names(Kind::Count)),
    ("noun-age", Part::Names(Kind::Age)),
    ("alternative", Part::Alternative),
    ("all", Part::Mark(Mark::All)),
    ("some", Part::Mark(Mark::Some)),
    ("most", Part::Mark(Mark::Most)),
    ("many", Part::Mark(Mark::Many)),
    ("few", Part::Mark(Mark::Few)),
    ("only", Part::Mark(Mark::Only)),
    ("any", Part::Mark(Mark::Any)),
    ("both", Part::Mark(Mark::Both)),
    ("either", Part::Mark(Mark::Either)),
    ("even", Part::Mark(Mark::Even)),
    ("each", Part::Mark(Mark::Each)),
    ("except", Part::Mark(Mark::Except)),
    ("include", Part::Mark(Mark::Include)),
    ("instead", Part::Mark(Mark::Instead)),
    ("or", Part::Mark(Mark::Or)),
    ("against", Part::Mark(Mark::Against)),
    ("over", Part::Mark(Mark::Over)),
    ("under", Part::Mark(Mark::Under)),
    ("utmost", Part::Mark(Mark::Utmost)),
    ("than", Part::Mark(Mark::Than)),
    ("before", Part::Mark(Mark::Before)),
    ("after", Part::Mark(Mark::After)),
    ("until", Part::Mark(Mark::Until)),
    ("since", Part::Mark(Mark::Since)),
    ("during", Part::Mark(Mark::During)),
    ("past", Part::Past),
    ("future", Part::Future),
];

/// Names with a role, or a mood.
const MOODS: [(&str, Part); 7] = [
    ("may", Part::May),
    ("must", Part::Must),
    ("source", Part::Role(Role::Source)),
    ("goal", Part::Role(Role::Goal)),
    ("take", Part::Role(Role::Take)),
    ("by", Part::Role(Role::By)),
    ("asks-may", Part::AsksMay),
];
