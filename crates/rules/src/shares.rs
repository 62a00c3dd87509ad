//! Who passes whom where places are scarce: `online` goes before `batch`, and `batch` keeps a tenth.

/// `priority` of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Somebody waits for the answer: passes `batch` wherever a place is scarce.
    #[default]
    Online,
    /// May wait.
    Batch,
}

impl Class {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Online, Self::Batch];

    /// As configuration, metrics and log write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Batch => "batch",
        }
    }
}

/// Of so many places one is for batch calls that wait.
const TENTH: u32 = 10;

/// Places that batch calls leave free for online ones, where both come.
#[must_use]
pub const fn spared(most: u32) -> u32 {
    if most < 2 { 0 } else { most.div_ceil(TENTH) }
}

/// Who has had the places of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Places given to online calls while a batch call waited, since the last one that batch was given.
    passed: u32,
}

impl Shares {
    /// Whether the next place is for a batch call that waits: nine others have passed it, or batch calls
    /// hold less than a tenth of `most` places.
    #[must_use]
    pub fn is_batch_due(&self, batch_holds: u32, most: Option<u32>) -> bool {
        self.passed + 1 >= TENTH || most.is_some_and(|most| batch_holds < most / TENTH)
    }

    /// A place was given.
    pub fn granted(&mut self, class: Class, batch_waits: bool) {
        self.passed = match class {
            Class::Online => self.passed.saturating_add(u32::from(batch_waits)),
            Class::Batch => 0,
        };
    }
}
