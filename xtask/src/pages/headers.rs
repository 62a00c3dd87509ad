//! headers.md: what callers may send, what they are told, what goes upstream.

use gateway::caller::header_table::{Header, REQUEST, RESPONSE, UPSTREAM};

use super::{codes, head, table};

pub fn page() -> String {
    let rows = |headers: &[Header]| {
        let rows = headers.iter().map(|header| vec![codes(header.name.split(", ")), header.meaning.to_owned()]);
        table(&["header", "meaning"], rows.collect::<Vec<_>>())
    };
    [
        head("Headers", "the tables in crates/gateway/src/caller/header_table.rs"),
        "\n## From callers\n\nAll optional but the key. Every other header is ignored and goes no further.\n"
            .to_owned(),
        rows(REQUEST),
        "\n## To callers\n\nThe headers of a stream go out with its first content.\n".to_owned(),
        rows(RESPONSE),
        "\n## To upstreams\n\nNothing else that a caller sent travels; its key never does.\n".to_owned(),
        rows(UPSTREAM),
    ]
    .concat()
}
