//! Checks of limits, budgets and quotas.

use super::Compiler;
use crate::view::View;

pub(super) fn check_limit(compiler: &mut Compiler<'_>, owner: &View<'_>) {
    let limit = owner.at("limit");
    if limit.is_empty_mapping() {
        compiler.report(&limit, "limits nothing; write `qps`, `concurrency` or `tokens_per_minute`, or remove it");
    }
    if limit.at("burst").is_written() && !limit.at("qps").is_written() {
        compiler.report(&limit.at("burst"), "is about `qps`, which is not written");
    }
}
