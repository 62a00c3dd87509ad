//! What replicas could share, as questions: each trait is named for what it is asked, and comes with
//! the answer of a single process, which needs no store and is ready at once.
//!
//! A store beside the process (crate `drivers`) answers the same questions. Callers do not tell one from
//! the other: an [`Answer`] may be ready or come later. [`conformance`] is what every implementation
//! must pass; the in-process one is its oracle. Each trait says what holds while its store is out.

mod accounts;
mod answer;
pub mod answers;
mod book;
pub mod conformance;
mod counters;
mod ledger;
pub mod objects;
pub mod requests;
mod usage;
mod versions;

pub use accounts::{Account, Accounts, Amounts, Change, InProcessAccount, InProcessAccounts, Limits, Standing, Wish};
pub use answer::{Answer, Coming};
pub use answers::{Answers, InProcessAnswers};
pub use book::{Book, joined};
pub use counters::{Counters, InProcessCounters, Meter, Scope, Settled};
pub use ledger::{Damage, Health, InProcessLedger, Ledger, Trouble, Unreadable};
pub use objects::{InProcessObjects, Objects};
pub use requests::{InProcessRequests, Requests};
pub use usage::{Columns, Entry, QUARTER, Question, Row, Sums};
pub use versions::{InProcessVersions, Versioned, Versions};
