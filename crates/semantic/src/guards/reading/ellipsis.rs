//! Ellipsis: which content words one of two questions may leave out, since what is asked says them already: how much it
//! *costs*, when it *takes place*, whom to *contact*; 支持退货吗 and 能退货吗.

use crate::guards::lexicon::function_words::{Case, QuestionType, SemanticRole};
use crate::guards::question::term::WordClass;
use crate::guards::question::{Question, bit};

/// What one of two questions may leave out.
pub fn optional_terms(question: &mut Question) {
    let asked = question.asked.types;
    let may = question.modality.may;
    let asks = |kinds: &[QuestionType]| kinds.iter().any(|kind| asked & bit(*kind) != 0);
    let unowned = question.roles.persons.iter().all(|mention| mention.case == Case::Possessive);
    let said = said_by_question_word(question);
    let terms = &mut question.terms;
    let beside = terms.iter().filter(|term| !term.is_one_of(ANYBODY) && !term.is_one_of(LIGHT)).count() > 2
        && !terms.iter().any(|term| term.is_one_of(STAYS));
    let paid = asks(&[QuestionType::When, QuestionType::Day]) && terms.iter().any(|term| term.is_one_of(EARNINGS));
    let counted = asks(&[QuestionType::Count, QuestionType::Amount, QuestionType::AmountIs, QuestionType::Duration]);
    let requests = terms.iter().any(|term| term.is_one_of(REQUESTS));
    let actions = terms.iter().filter(|term| term.is_action && !term.is_one_of(LIGHT)).count();
    let verbs = terms.iter().filter(|term| term.class == WordClass::Verb).count();
    let exists = asked
        & (bit(QuestionType::Polar) | bit(QuestionType::What) | bit(QuestionType::WhatIs) | bit(QuestionType::Where))
        != 0;
    let things = asked == bit(QuestionType::What) || asked == bit(QuestionType::WhatIs);
    for at in 1..terms.len() {
        let (before, rest) = terms.split_at_mut(at);
        let (Some(last), [term, behind @ ..]) = (before.last(), rest) else { continue };
        // What becomes a PDF becomes a PDF file.
        let is_format = last.role == Some(SemanticRole::Goal) && last.is_latin() && term.is_one_of(FORMATS);
        // That it is asked whether there is a fee for an action says who takes it, and who gives it.
        let is_fee = behind.first().is_some_and(|next| next.ends_with(&["费", "费用", "违约金", "押金", "罚金"]));
        let pays =
            asked == bit(QuestionType::Polar) && question.roles.persons.is_empty() && last.class == WordClass::Verb;
        term.optional |= is_format || (pays && is_fee && term.is_one_of(PAYS));
    }
    for term in terms.iter_mut() {
        if term.is_one_of(LIGHT) {
            term.class = WordClass::Verb;
        }
        let is_lone = verbs == 1 && term.class == WordClass::Verb;
        term.optional_without_agent =
            may && is_lone && (asked == bit(QuestionType::Polar) || things) && term.is_one_of(HAS);
        let located = asked == bit(QuestionType::Where);
        term.optional |=
            located && (term.is_one_of(REACHES) || unowned && term.is_one_of(LIES)) || beside && term.is_one_of(ONSITE);
        term.optional |= term.is_one_of(ANYBODY)
            || (exists && term.is_one_of(EXISTS))
            || (asked == bit(QuestionType::Polar) && term.is_one_of(OFFERS))
            || ((actions > 0 || asked == bit(QuestionType::Who)) && term.is_one_of(ANSWERS))
            || (paid && term.is_one_of(&["pay"]))
            || (counted && term.is_one_of(ENTITLES))
            || term.is_one_of(said);
        let is_request = term.is_one_of(&["申请", "request", "apply", "application"]);
        // May a dog be there, and may one bring a dog there.
        let brought = asked == bit(QuestionType::Polar) && may && verbs == 1;
        term.optional |= (brought && term.is_one_of(&["带", "携带"]))
            || (term.is_one_of(LIGHT) && (question.chinese || asked != bit(QuestionType::Who)))
            || (requests && term.is_one_of(SUPPORTS))
            || (things && term.is_one_of(BRINGS))
            || (is_request && actions <= usize::from(term.is_action));
    }
}

/// What the question word says already.
fn said_by_question_word(question: &Question) -> &'static [&'static str] {
    use QuestionType as Q;
    let asks = |types: &[Q]| types.iter().any(|asked| question.asks(*asked));
    let is_said = question.chinese || !question.roles.persons.is_empty() || question.modality.must;
    if asks(&[Q::When, Q::Clock, Q::Day, Q::Often, Q::Where]) {
        HOLDS
    } else if asks(&[Q::Price]) {
        COSTS
    } else if asks(&[Q::Duration]) {
        LASTS
    } else if question.asked.types == bit(Q::Who) && is_said {
        CONTACTS
    } else if question.asked.types == bit(Q::Polar) {
        ENJOYS
    } else {
        &[]
    }
}

/// Where it is asked whether something can be done: that it is supported goes without saying, 支持退货吗, and so does
/// the place for it, 有没有停车的地方.
pub fn offers(question: &mut Question) {
    if question.asked.types != bit(QuestionType::Polar) {
        return;
    }
    for at in 1..question.terms.len() {
        let [before, term, ..] = question.terms.get_mut(at - 1..).unwrap_or_default() else { return };
        before.optional |= (at == 1 || term.is_action) && before.is_one_of(&["支持"]);
        term.optional |= before.is_action && term.is_one_of(&["地方"]);
    }
}

/// Verbs that say no more than that something is done.
const LIGHT: &[&str] = &[
    "receive",
    "get",
    "make",
    "take",
    "perform",
    "go",
    "carry out",
    "obtain",
    "休",
    "走",
    "spend",
    "be issue",
    "be give",
    "be grant",
];

/// What a file is called behind the name of its format.
const FORMATS: &[&str] = &["文件", "格式", "文档", "file", "format"];

/// What is done with a fee, from either side.
const PAYS: &[&str] = &["收", "收取", "付", "支付", "交", "缴", "缴纳", "交纳"];

/// Words for whoever it is.
const ANYBODY: &[&str] = &[
    "员工",
    "人员",
    "人",
    "有人",
    "people",
    "person",
    "employee",
    "someone",
    "somebody",
    "anyone",
    "anybody",
    "公司",
    "company",
    "employer",
    "staff",
    "staff member",
    "personnel",
    "organization",
    "organisation",
    "firm",
];

/// What is done with an event, which is asked with its time or place.
const HOLDS: &[&str] = &[
    "举行",
    "举办",
    "召开",
    "开展",
    "进行",
    "组织",
    "安排",
    "发生",
    "hold",
    "conduct",
    "carry out",
    "take place",
    "happen",
    "occur",
];

/// What «how much money» says already.
const COSTS: &[&str] = &["收", "收取", "花", "花费", "cost", "charge"];

/// What «how long» says already.
const LASTS: &[&str] = &["持续", "花", "花费", "耗费", "last"];

/// What one does with whoever is asked for.
pub const CONTACTS: &[&str] =
    &["contact", "ask", "talk to", "speak to", "talk", "speak", "联系", "咨询", "询问", "问", "找"];

/// That somebody has it, where it is asked whether they may.
const ENJOYS: &[&str] = &["享受", "享有", "拥有", "enjoy", "entitle", "eligible", "qualify"];

/// That somebody has it, where it is asked how much.
const ENTITLES: &[&str] = &["entitle", "grant", "eligible", "be grant", "be give", "due"];

/// What is paid to whoever asks: when it is paid is when one gets it.
const EARNINGS: &[&str] = &["salary", "wage", "bonus", "annual bonus", "yearly bonus", "paycheck", "overtime pay"];

/// That somebody gives it, where it is asked whether it is there.
const OFFERS: &[&str] = &["offer", "provide", "提供"];

/// That it is somebody's task, where it is asked whose, or what is done.
const ANSWERS: &[&str] =
    &["负责", "responsible for", "in charge of", "handle", "deal with", "take care of", "look after", "see to"];

/// Words that say no more than that something is there.
const EXISTS: &[&str] = &["available", "exist", "存在", "located", "find", "locate"];

/// What one does with things that one must or may have: said or left out where it is asked which they are.
const BRINGS: &[&str] = &[
    "带", "携带", "准备", "提供", "提交", "交", "出示", "享受", "享有", "拥有", "bring", "provide", "submit",
    "present", "show", "carry", "enjoy", "meet", "satisfy", "fulfil", "fulfill", "满足", "符合", "具备",
];

/// What is put to somebody.
const REQUESTS: &[&str] =
    &["申请", "投诉", "举报", "request", "application", "claim", "complaint", "appeal", "ticket", "order", "dispute"];

/// Verbs that say no more than that it is put to somebody.
const SUPPORTS: &[&str] = &[
    "提交", "提出", "发起", "递交", "submit", "file", "place", "lodge", "raise", "put", "open", "create", "log", "make",
];

/// What one does with what lies somewhere, where it is asked where that is.
const REACHES: &[&str] = &["download", "access", "view", "see", "look", "look at", "check", "read", "look up"];

/// That it lies there, where it is asked where, and nobody puts it there.
const LIES: &[&str] = &["keep", "store", "save", "publish", "post", "host", "situate", "place"];

/// Verbs that say no more than that one has it, where it is asked whether one may: may I use it, is it allowed.
const HAS: &[&str] = &["use", "bring", "have", "wear", "keep", "own", "carry"];

/// Where the one who asks works, which goes without saying beside what is asked about.
const ONSITE: &[&str] = &["onsite", "on-site", "on site"];

/// Verbs that say where somebody is.
const STAYS: &[&str] =
    &["work", "come", "attend", "present", "day", "visit", "return", "go", "stay", "move", "commute"];
