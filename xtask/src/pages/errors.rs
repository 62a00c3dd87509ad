//! errors.md: what callers are told instead of an answer.

use base::Code;

use super::{code, head, table};
use crate::tree::Tree;

const INTRODUCTION: &str = "
Every error has OpenAI's form, on streams too (there as an event, and the stream ends without `[DONE]`):

```json
{\"error\": {\"message\": \"…\", \"type\": \"…\", \"param\": null, \"code\": \"…\"}}
```

`message` is a sentence for people; programs decide by `code`. Where the caller's own retry cannot help, the answer
carries `x-should-retry: false`, which OpenAI's SDKs obey; where waiting helps and the wait is known, `retry-after`
says how many seconds. Retrying and failing over is the gateway's job: a 502 or 504 says that it has been done.
";

pub fn page(tree: &Tree) -> String {
    let rows = Code::ALL.map(|refusal| {
        let row = refusal.row();
        let (status, name) = match refusal {
            Code::UpstreamRefused => ("the upstream's".to_owned(), "the upstream's".to_owned()),
            _ => (row.status.to_string(), code(row.code)),
        };
        let retry =
            if row.retry_helps { "helps; `retry-after` says when, where that is known" } else { "does not help" };
        let force = if is_made(tree, refusal) { "now" } else { "later" };
        vec![
            status,
            name,
            code(row.kind),
            row.when.to_owned(),
            retry.to_owned(),
            code(row.outcome.as_str()),
            force.to_owned(),
        ]
    });
    [
        head("Errors", "`Code::row` in crates/base/src/refusal.rs"),
        INTRODUCTION.to_owned(),
        table(
            &["status", "code", "type", "when", "the caller's retry", "outcome in metrics and log", "in force"],
            rows,
        ),
    ]
    .concat()
}

/// Whether any code makes this refusal.
fn is_made(tree: &Tree, refusal: Code) -> bool {
    let name = format!("Code::{refusal:?}");
    tree.rust().filter(|file| !matches!(file.package(), "base" | "xtask")).any(|file| file.uses(&name).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    #[test]
    fn a_code_is_in_force_once_something_makes_it() {
        let tree = |path: &str, text: &str| Tree { files: vec![File::new(path, text)] };
        let row = |page: String| page.lines().find(|line| line.contains("`queue_full`")).unwrap_or_default().to_owned();
        let made = "fn a() { Refusal::new(Code::QueueFull, b) }";
        assert!(row(page(&tree("crates/gateway/src/a.rs", made))).ends_with("| now |"));
        assert!(row(page(&tree("crates/base/src/a.rs", made))).ends_with("| later |"));
    }
}
