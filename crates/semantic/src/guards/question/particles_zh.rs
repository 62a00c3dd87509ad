//! What Chinese particles and adverbs say by their place or choice, one bit each, and which of them must agree:
//! 可以不 is not 不可以, 没有都 not 都没有, 才能 not 就能.

/// What such words say of a question, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParticleSenses(pub(in crate::guards) u32);

impl ParticleSenses {
    /// It must not be: 不能, 不可以.
    pub const FORBIDS: Self = Self(1);
    /// It may be, or should, that it is not: 可以不, 不去行吗.
    pub const PERMITS: Self = Self(1 << 1);
    /// It need not be: 不用.
    pub const SPARES: Self = Self(1 << 2);
    /// Not all: 不都, 没有全部.
    pub const NOT_ALL: Self = Self(1 << 3);
    /// Not only: 不能只.
    pub const NOT_ONLY: Self = Self(1 << 4);
    /// Only not: 只不能.
    pub const ONLY_NOT: Self = Self(1 << 5);
    /// Nobody, or nothing: 没有一个人, 没人.
    pub const NONE: Self = Self(1 << 6);
    /// On that condition alone: 才能.
    pub const ONLY_IF: Self = Self(1 << 7);
    /// On that condition already: 就能.
    pub const SUFFICES: Self = Self(1 << 8);
    /// Once more, in time to come: 再.
    pub const AGAIN: Self = Self(1 << 9);
    /// Once more, in the past: 又.
    pub const ANEW: Self = Self(1 << 10);
    /// To oneself: 给自己.
    pub const REFLEXIVE: Self = Self(1 << 11);
    /// It has been so before: 去过.
    pub const EXPERIENCED: Self = Self(1 << 12);
    /// It is done: 已经, 发了吗.
    pub const DONE: Self = Self(1 << 13);
    /// It will be done: 会发, 要发了.
    pub const WILL: Self = Self(1 << 14);
    /// 搬到哪里.
    pub const WHITHER: Self = Self(1 << 15);
    /// 从哪里.
    pub const WHENCE: Self = Self(1 << 16);
    /// Who is asked for gets it, or gives it: 给谁.
    pub const WHOM: Self = Self(1 << 17);
    /// Whoever and whatever: 谁都, 什么都.
    pub const WHOEVER: Self = Self(1 << 18);
    /// It is lent, not borrowed: 借给.
    pub const LENDS: Self = Self(1 << 19);
    /// It is borrowed: 向他借.
    pub const BORROWS: Self = Self(1 << 20);
    /// Somebody is made to do it: 让.
    pub const CAUSES: Self = Self(1 << 21);
    /// It is done to or for somebody: 给.
    pub const GIVES: Self = Self(1 << 22);
    /// Something is done to the subject, by nobody who is named: 被骗.
    pub const PATIENT_SUBJECT: Self = Self(1 << 23);
    /// It says may, should or the like.
    pub const MODAL: Self = Self(1 << 24);
    /// It says no more than not.
    pub const PLAIN: Self = Self(1 << 25);

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub fn add(&mut self, other: Self, found: bool) {
        if found {
            self.0 |= other.0;
        }
    }

    /// Whether it tells what is done, or in which case something may be.
    fn tells(self) -> bool {
        self.has(Self::DONE) || self.has(Self::MODAL)
    }

    /// Whether something is done to the subject by nobody who is named.
    pub fn has_patient_subject(self) -> bool {
        self.has(Self::PATIENT_SUBJECT)
    }

    /// Whether both say the same in them.
    pub fn agree(self, other: Self) -> bool {
        let alike = |one: Self| self.has(one) == other.has(one);
        let clash = |one: Self, two: Self| {
            let only = |side: Self| (side.has(one) && !side.has(two), side.has(two) && !side.has(one));
            matches!((only(self), only(other)), ((true, _), (_, true)) | ((_, true), (true, _)))
        };
        // That it has been so before may go without saying where it is a condition: 打过疫苗能喝酒吗.
        let before = (self.has(Self::EXPERIENCED) != other.has(Self::EXPERIENCED)) && !self.tells() && !other.tells();
        !before && MUST_AGREE.into_iter().all(alike) && !CLASHES.into_iter().any(|(one, two)| clash(one, two))
    }
}

/// What both must say, or neither.
const MUST_AGREE: [ParticleSenses; 8] = [
    ParticleSenses::NOT_ALL,
    ParticleSenses::NOT_ONLY,
    ParticleSenses::ONLY_NOT,
    ParticleSenses::NONE,
    ParticleSenses::REFLEXIVE,
    ParticleSenses::WHOM,
    ParticleSenses::WHOEVER,
    ParticleSenses::LENDS,
];

/// What one of two must not say where the other says the other.
const CLASHES: [(ParticleSenses, ParticleSenses); 8] = [
    (ParticleSenses::FORBIDS, ParticleSenses::PERMITS),
    (ParticleSenses::FORBIDS, ParticleSenses::SPARES),
    (ParticleSenses::ONLY_IF, ParticleSenses::SUFFICES),
    (ParticleSenses::AGAIN, ParticleSenses::ANEW),
    (ParticleSenses::DONE, ParticleSenses::WILL),
    (ParticleSenses::WHITHER, ParticleSenses::WHENCE),
    (ParticleSenses::LENDS, ParticleSenses::BORROWS),
    (ParticleSenses::CAUSES, ParticleSenses::GIVES),
];
