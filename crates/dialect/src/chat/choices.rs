//! Which of a stream's choices have begun and which have ended.

use smallvec::SmallVec;

/// More choices than this are not kept apart.
const CHOICES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unseen,
    Open,
    Finished,
}

/// The choices of one stream, by their index.
#[derive(Debug)]
pub(super) struct Choices {
    wanted: u64,
    states: SmallVec<[State; 4]>,
}

impl Choices {
    pub(super) fn new(wanted: u64) -> Self {
        Self { wanted, states: SmallVec::new() }
    }

    /// A piece of a choice came, perhaps its last.
    pub(super) fn see(&mut self, index: u64, is_last: bool) {
        let at = usize::try_from(index).unwrap_or(CHOICES_MAX).min(CHOICES_MAX);
        if self.states.len() <= at {
            self.states.resize(at + 1, State::Unseen);
        }
        if let Some(state) = self.states.get_mut(at) {
            match state {
                _ if is_last => *state = State::Finished,
                State::Unseen => *state = State::Open,
                State::Open | State::Finished => {}
            }
        }
    }

    /// Every choice that has begun has ended, and one has.
    pub(super) fn none_is_open(&self) -> bool {
        self.states.contains(&State::Finished) && !self.states.contains(&State::Open)
    }

    /// As many choices as were asked for have ended, and none is open.
    pub(super) fn all_finished(&self) -> bool {
        let finished = self.states.iter().filter(|state| **state == State::Finished).count();
        self.none_is_open() && finished as u64 >= self.wanted
    }
}
