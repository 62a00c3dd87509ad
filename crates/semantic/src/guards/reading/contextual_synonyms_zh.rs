//! Contextual synonyms in Chinese: words that mean the same in some questions alone, beside what is asked or what they are
//! said of (发放 and 到账 of a bonus, where it is asked when); and those that then say nothing.

use crate::guards::lexicon::function_words::QuestionType;
use crate::guards::question::term::{Term, WordClass};
use crate::guards::question::{Question, bit};

/// Words that mean the same where one of these is asked, and one of these things is spoken of.
struct Like {
    /// What is asked; whatever it is, where empty.
    kinds: &'static [QuestionType],
    /// How the words for such things end; whatever they are, where empty.
    things: &'static [&'static str],
    words: &'static [&'static str],
}

/// Marks words that mean the same in this question, and those that may go without saying.
pub fn contextual_synonyms(question: &mut Question) {
    if !question.chinese {
        return;
    }
    let asked = question.asked.types;
    let asks = |kinds: &[QuestionType]| kinds.iter().any(|kind| asked & bit(*kind) != 0);
    let terms = &mut question.terms;
    for (group, like) in (FIRST_GROUP..).zip(LIKES) {
        let fits = (like.kinds.is_empty() || asks(like.kinds))
            && (like.things.is_empty() || terms.iter().any(|term| term.ends_with(like.things)));
        for term in terms.iter_mut().filter(|term| fits && term.is_one_of(like.words)) {
            term.groups.push(group);
        }
    }
    let is_what = asks(&[QuestionType::What, QuestionType::WhatIs]);
    let helps = asks(&[QuestionType::How, QuestionType::Remedy, QuestionType::Who]);
    let is_new = terms.iter().any(|term| term.is_one_of(ENTERS));
    let measured = asks(&[QuestionType::Amount, QuestionType::AmountIs, QuestionType::Price, QuestionType::Count])
        && terms
            .iter()
            .any(|term| term.ends_with(&["补贴", "津贴", "补助", "餐补", "房补", "车补", "话补", "饭补", "费"]));
    let visits = terms.iter().any(|term| term.is_one_of(VISITORS));
    let repaired = asked == bit(QuestionType::Who) && terms.iter().any(|term| term.is_one_of(FAULTS));
    let firm = |term: &Term| !term.optional && !term.is_one_of(MEETS);
    let meets = helps && terms.iter().filter(|term| firm(term)).count() > 1;
    for term in terms.iter_mut() {
        term.optional |= term.is_one_of(ANYBODY)
            || (asked == bit(QuestionType::Who) && term.is_one_of(ANSWERS))
            || (meets && term.is_one_of(MEETS))
            || (is_what && term.is_one_of(GAINS))
            || (is_new && term.is_one_of(NEWCOMERS))
            || (measured && term.is_one_of(&["标准", "金额"]))
            || (visits && term.is_one_of(VISITS))
            || (repaired && term.is_one_of(REPAIRS))
    }
    for at in 1..terms.len() {
        let [before, term, ..] = terms.get_mut(at - 1..).unwrap_or_default() else { return };
        term.optional |=
            !before.optional && (before.is_action || before.class == WordClass::Verb) && term.is_one_of(TAILS);
    }
}

/// A topic that ends in a time asks for it: 健身房的开放时间.
pub fn opening_hours(question: &mut Question) {
    let is_topic = question.asked.types == 0 && question.roles.persons.is_empty() && question.terms.len() > 1;
    let times = ["开放时间", "营业时间", "上班时间", "办公时间", "工作时间"];
    let is_time = question.terms.last().is_some_and(|term| !term.negated && term.is_one_of(&times));
    if question.chinese && is_time && (is_topic || question.asked.types == bit(QuestionType::WhatIs)) {
        question.asked.types = bit(QuestionType::When);
    }
}

/// Groups of the lists are counted from zero.
const FIRST_GROUP: u16 = 60_000;

const LIKES: &[Like] = &[
    // When it is paid out, and when one has it.
    Like {
        kinds: &[
            QuestionType::When,
            QuestionType::Clock,
            QuestionType::Day,
            QuestionType::Wait,
            QuestionType::Duration,
        ],
        things: &[
            "奖", "金", "补贴", "津贴", "补助", "工资", "薪", "薪资", "礼品", "福利", "提成", "分红", "报销", "报账",
            "礼盒", "礼物", "证明",
        ],
        words: &[
            "发放", "发", "派发", "到账", "入账", "领取", "领", "领到", "拿到", "拿", "收到", "下发", "打款", "到手",
            "发到",
        ],
    },
    // A right is applied for where it is given.
    Like {
        kinds: &[QuestionType::How, QuestionType::Remedy, QuestionType::Where],
        things: &["权限", "账号", "账户", "帐号", "vpn", "VPN", "邮箱", "远程桌面", "远程访问"],
        words: &["申请", "开通", "获得", "获取", "取得", "拿到", "开"],
    },
    Like {
        kinds: &[QuestionType::How, QuestionType::Remedy, QuestionType::Where],
        things: &["账号", "账户", "帐号"],
        words: &["申请", "开通", "创建", "新建", "注册", "开"],
    },
    // Where papers are found.
    Like {
        kinds: &[QuestionType::Where],
        things: &[
            "模板", "模版", "范本", "文件", "手册", "表", "表格", "资料", "说明", "指南", "文档", "制度", "规定",
            "清单", "名单", "名录", "报告", "课件", "录像", "回放", "录屏", "纪要",
        ],
        words: &[
            "下载", "获取", "获得", "找", "找到", "拿到", "得到", "查找", "查看", "看", "看到", "查", "查到", "查询",
            "查阅",
        ],
    },
    // Data about somebody are changed where they are brought up to date.
    Like {
        kinds: &[],
        things: &[
            "信息",
            "资料",
            "联系人",
            "地址",
            "号码",
            "电话",
            "手机号",
            "银行卡",
            "卡号",
            "头像",
            "简历",
            "档案",
            "住址",
            "签名",
            "工资卡",
        ],
        words: &["更新", "修改", "更改", "变更", "更换", "换", "改", "换成", "改成"],
    },
    // How long it holds is how long until it ends.
    Like {
        kinds: &[QuestionType::Duration, QuestionType::Wait],
        things: &[],
        words: &["有效期", "有效期限", "有效时间", "有效", "过期", "失效", "到期"],
    },
    // Who repairs it is who is told.
    Like { kinds: &[QuestionType::Who], things: &[], words: REPAIRS },
    // Somebody is found to be spoken to.
    Like {
        kinds: &[QuestionType::How, QuestionType::Remedy],
        things: &[
            "客服",
            "人事",
            "财务",
            "法务",
            "行政",
            "前台",
            "老师",
            "经理",
            "负责人",
            "管理员",
            "支持",
            "部门",
            "顾问",
        ],
        words: &["联系", "找", "联络", "找到"],
    },
    // Tickets are ordered by buying them.
    Like { kinds: &[], things: &["票"], words: &["订", "定", "预订", "预定", "订购", "买", "购买"] },
    // Whether it is paid for.
    Like {
        kinds: &[QuestionType::Polar],
        things: &["费", "费用", "钱", "款"],
        words: &["承担", "负担", "出", "报销", "报", "报账"],
    },
];

/// The asker's own side, besides what the other lists have.
const ANYBODY: &[&str] =
    &["职员", "职工", "雇员", "我司", "本公司", "咱公司", "咱们公司", "我们公司", "公司里", "公司内"];
/// That it is somebody's task, where it is asked whose.
const ANSWERS: &[&str] = &["受理", "经办", "承办", "分管", "归口", "对接", "求助", "主管", "代办"];
/// That somebody has met with it, where it is asked what to do.
const MEETS: &[&str] = &["出现", "发生", "遇到", "碰到", "遭遇", "发现", "碰上", "遇上", "收到"];
/// What one does with a benefit, where it is asked which there is.
const GAINS: &[&str] = &["获得", "得到", "享受到"];
/// Whoever enters is new.
const ENTERS: &[&str] = &["入职", "报到", "入司", "办入职", "入职报到"];
const NEWCOMERS: &[&str] = &["新员工", "新人", "新入职员工", "新入职的员工"];
/// Whoever visits is a visitor.
const VISITORS: &[&str] = &["访客", "来访者", "来访人员", "外部人员", "来宾", "外来人员", "到访人员"];
const VISITS: &[&str] = &["来访", "到访", "拜访"];
/// What is out of order is repaired by whoever is asked for.
const FAULTS: &[&str] = &[
    "故障",
    "坏",
    "坏了",
    "坏掉",
    "坏掉了",
    "出故障",
    "失灵",
    "出问题",
    "出毛病",
    "漏水",
    "渗水",
    "堵",
    "堵了",
    "用不了",
];
const REPAIRS: &[&str] = &["报修", "维修", "修理", "修", "检修", "来修"];
/// What an action is called besides.
const TAILS: &[&str] = &["工作", "事宜", "事项", "一事", "事件", "现象"];
