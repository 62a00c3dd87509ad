//! The words of two questions, compared: what must agree before one answer may serve both.
