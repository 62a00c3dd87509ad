//! Quotas of clients over days and months, and the ledger of what calls have used.

pub mod ledger;
pub mod quotas;
