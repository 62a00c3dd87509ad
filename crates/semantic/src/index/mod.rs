//! The vectors of stored questions, and which of them are nearest to a new one.
