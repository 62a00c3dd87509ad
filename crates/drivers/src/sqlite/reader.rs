//! The thread that reads: a report over years of usage takes seconds, and commits do not wait for it.

use std::sync::mpsc::Receiver;

use state::{Question, Row, Unreadable, joined};

use super::desk::{Desk, Reply};
use super::store::View;
use crate::failure::Failure;

/// A question, with everything that was booked before it was put.
#[derive(Debug)]
pub(super) struct Sitting {
    pub question: Question,
    /// What had been written.
    pub view: View,
    /// What had not.
    pub unwritten: Vec<Row>,
    pub reply: Reply,
}

/// Answers one question after the other, until nobody is left who asks.
pub(super) fn read_out(desk: &Desk, sittings: &Receiver<Sitting>) {
    while let Ok(Sitting { question, view, unwritten, reply }) = sittings.recv() {
        let answer = match view.report(&question, &|| !reply.is_closed()) {
            Ok(Some(rows)) => Ok(joined(rows.into_iter().chain(unwritten))),
            // Nobody waits for it any more.
            Ok(None) => Ok(Vec::new()),
            Err(Failure::Damaged(what)) => {
                desk.report_damage(view.file, what.clone());
                Err(Unreadable(format!("the database is damaged ({what}); ask again in a moment")))
            }
            Err(other) => Err(Unreadable(other.what())),
        };
        // Its end lets the file's log be taken up again; only then is there room for another question.
        drop(view);
        desk.answered();
        let _ = reply.send(answer);
    }
}
