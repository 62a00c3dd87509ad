//! Question type: what is asked, be it a time, a place, a person, a manner, a measure or a yes; and whether it is asked for
//! the subject or the object.
//!
//! Refuses 会议什么时候开 / 会议在哪里开, How tall is the tower? / How heavy is the tower? (`kind`), Who pays? / Who is paid?
//! (`direction`). Types that ask the same stand in [`ALIKE`]; where something is found is how it is found.

use crate::guards::guard::Guard;
use crate::guards::lexicon::function_words::{Case, Person, QuestionType, SemanticRole};
use crate::guards::question::term::{Term, WordClass};
use crate::guards::question::{Question, bit};

pub fn question_type(one: &Question, two: &Question) -> Result<(), Guard> {
    if one.asked.types == two.asked.types {
        let by = |question: &Question| question.terms.iter().any(|term| term.role == Some(SemanticRole::Agent));
        if one.asks(QuestionType::Who) && (undergoes(one, two) || undergoes(two, one)) {
            return Err(Guard::Direction);
        }
        let is_who = one.asks(QuestionType::Who) || one.asks(QuestionType::What);
        return if is_who
            && one.asked.for_object != two.asked.for_object
            && !by(one)
            && !by(two)
            && !one.roles.passive
            && !two.roles.passive
        {
            Err(Guard::Direction)
        } else {
            Ok(())
        };
    }
    let both = (one.asked.types, two.asked.types);
    // Where something can be seen is how it can be.
    let (how, place) = (bit(QuestionType::How), bit(QuestionType::Where));
    let is_seen = |term: &Term| term.is_one_of(SEES) || term.is_one_of(DONE_THERE) || term.is_one_of(GETS);
    let sees = |question: &Question| {
        let terms = &question.terms;
        // What stands before a noun describes it: 登录密码.
        let describes =
            |at: usize| terms.get(at + 1).is_some_and(|next| next.class == WordClass::Noun && !next.is_action);
        let mut actions = terms.iter().enumerate().filter(|(_, term)| term.is_action);
        actions.all(|(at, term)| is_seen(term) || term.class == WordClass::Noun || describes(at))
    };
    if (both == (how, place) || both == (place, how))
        && sees(one)
        && sees(two)
        && [one, two].iter().all(|side| side.terms.iter().any(is_seen))
    {
        return Ok(());
    }
    let fits = ALIKE.iter().any(|(a, b)| {
        let (a, b) = (a.map_or(0, bit), b.map_or(0, bit));
        both == (a, b) || both == (b, a)
    });
    if fits || tell_somebody(one, two) { Ok(()) } else { Err(Guard::Kind) }
}

/// Whether it asks in English who something is done to, where the other asks who does it: who is paid, who pays.
fn undergoes(passive: &Question, active: &Question) -> bool {
    let does = active.roles.persons.iter().any(|mention| mention.case != Case::Possessive);
    passive.asked.for_patient && !active.asked.for_patient && !active.asked.for_object && !active.roles.passive && !does
}

/// Whether one asks where something is reported, and the other whom one tells.
fn tell_somebody(one: &Question, two: &Question) -> bool {
    let tells = |question: &Question| question.terms.iter().any(|term| term.is_one_of(TELLS));
    let asker = |question: &Question| question.roles.persons.iter().any(|mention| mention.person == Person::First);
    let fits = |one: &Question, two: &Question| {
        one.asked.types == bit(QuestionType::Who) && asker(one) && two.asked.types == bit(QuestionType::Where)
    };
    (fits(one, two) || fits(two, one)) && tells(one) && tells(two)
}

/// What to do about something, and how to do the one thing that the other names.
pub fn remedy(asked: &Question, named: &Question, left: &[usize]) -> bool {
    let is_verb = |at: &usize| named.terms.get(*at).is_some_and(|term| term.is_action && !term.negated);
    asked.asked.types == bit(QuestionType::Remedy)
        && named.asked.types == bit(QuestionType::How)
        && left.len() == 1
        && left.iter().all(is_verb)
        && (asked.terms.len() > 2
            || asked.terms.len() > 1
                && left.iter().all(|at| named.terms.get(*at).is_some_and(|term| term.is_one_of(RESTORES))))
}

/// Verbs of finding and seeing, and of turning to the place where it is done.
const SEES: &[&str] = &[
    "查询",
    "查看",
    "查",
    "看",
    "查阅",
    "查找",
    "找到",
    "看到",
    "下载",
    "see",
    "view",
    "find",
    "check",
    "look at",
    "look up",
    "download",
    "access",
    "修改",
    "更改",
    "改",
    "设置",
    "更新",
    "重置",
    "change",
    "update",
    "edit",
    "reset",
    "set",
    "报名",
    "举报",
    "反馈",
    "register",
    "sign up",
    "sign up for",
    "enroll",
    "report",
];

/// What is done in one place, which is told with how it is done: besides what is seen there.
const DONE_THERE: &[&str] = &[
    "查到",
    "查得到",
    "看得到",
    "获取",
    "获得",
    "拿到",
    "填报",
    "填写",
    "填",
    "提交",
    "预订",
    "预约",
    "预定",
    "订",
    "导出",
    "变更",
    "更换",
    "开通",
    "报",
    "上报",
];

/// Verbs of getting something: where that is done is how it is.
const GETS: &[&str] = &[
    "get",
    "obtain",
    "get hold of",
    "locate",
    "look",
    "request",
    "apply for",
    "apply",
    "adjust",
    "book",
    "reserve",
    "order",
    "read",
];

/// Verbs of telling somebody what is amiss.
const TELLS: &[&str] = &["report", "tell", "notify", "inform", "flag"];

/// Verbs that say no more than that it is put right again.
const RESTORES: &[&str] =
    &["补办", "找回", "恢复", "修复", "维修", "修理", "修", "排查", "recover", "restore", "fix", "repair"];

/// Kinds that ask the same; none is a topic, without a question.
const ALIKE: [(Option<QuestionType>, Option<QuestionType>); 19] = [
    (Some(QuestionType::Size), Some(QuestionType::Age)),
    (Some(QuestionType::Wait), Some(QuestionType::When)),
    (Some(QuestionType::Wait), Some(QuestionType::Day)),
    (Some(QuestionType::Wait), Some(QuestionType::Duration)),
    (Some(QuestionType::What), Some(QuestionType::WhatIs)),
    (Some(QuestionType::WhatIs), Some(QuestionType::AmountIs)),
    (Some(QuestionType::WhatIs), Some(QuestionType::Amount)),
    (Some(QuestionType::WhatIs), Some(QuestionType::Price)),
    (Some(QuestionType::Amount), Some(QuestionType::AmountIs)),
    (Some(QuestionType::Amount), Some(QuestionType::Price)),
    (Some(QuestionType::AmountIs), Some(QuestionType::Price)),
    (Some(QuestionType::Amount), Some(QuestionType::Count)),
    (Some(QuestionType::When), Some(QuestionType::Clock)),
    (Some(QuestionType::When), Some(QuestionType::Day)),
    (Some(QuestionType::How), Some(QuestionType::Remedy)),
    (None, Some(QuestionType::How)),
    (None, Some(QuestionType::What)),
    (None, Some(QuestionType::WhatIs)),
    (None, Some(QuestionType::AmountIs)),
];
