//! Near misses that no similarity tells apart: numbers as they are written, order and sides, and signs that are no words.

use semantic::guards::{Guard, Question, compare};

fn verdict(a: &str, b: &str) -> Result<(), Guard> {
    compare(&Question::read(a), &Question::read(b))
}

fn each_differs(pairs: &[(&str, &str)]) {
    let passed: Vec<_> = pairs.iter().filter(|(a, b)| verdict(a, b).is_ok() || verdict(b, a).is_ok()).collect();
    assert!(passed.is_empty(), "{passed:?}");
}

fn each_is_the_same(pairs: &[(&str, &str)]) {
    let refused: Vec<_> =
        pairs.iter().filter(|(a, b)| verdict(a, b).is_err()).map(|(a, b)| (a, b, verdict(a, b))).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn a_number_is_what_it_is_written_as() {
    each_differs(&[
        ("Does it run on Python 3.1?", "Does it run on Python 3.10?"),
        ("Python 3.1 支持吗", "Python 3.10 支持吗"),
        ("Is -5 allowed?", "Is 5 allowed?"),
        ("气温 -5 度可以施工吗", "气温 5 度可以施工吗"),
        ("一百零五元可以报销吗", "一百五元可以报销吗"),
        ("两千五能贷款吗", "两千零五能贷款吗"),
        ("一万五的采购谁审批", "一万零五的采购谁审批"),
    ]);
    each_is_the_same(&[
        ("一百五十元可以报销吗", "150元可以报销吗"),
        ("一百五元可以报销吗", "150元可以报销吗"),
        ("两千零五元可以报销吗", "2005元可以报销吗"),
        ("一万二千五百元可以报销吗", "12500元可以报销吗"),
        ("Is $3.50 enough?", "Is $3.5 enough?"),
        ("Can I take 3-5 days off?", "Can I take 3-5 days off"),
    ]);
}

#[test]
fn sides_and_order_tell_who_does_what() {
    each_differs(&[
        ("Is 5 greater than 3?", "Is 3 greater than 5?"),
        ("5比3大吗", "3比5大吗"),
        ("Can I change from plan 2 to plan 4?", "Can I change from plan 4 to plan 2?"),
        ("after surgery can I drive", "before surgery can I drive"),
        ("手术前可以开车吗", "手术后可以开车吗"),
        ("饭前可以吃药吗", "饭后可以吃药吗"),
        ("他被公司起诉了怎么办", "他起诉了公司怎么办"),
        ("我被银行投诉了怎么办", "我投诉了银行怎么办"),
        ("谁批准张三的报销", "张三批准谁的报销"),
        ("谁投诉了李经理", "李经理投诉了谁"),
        ("只有经理能审批吗", "经理只能审批吗"),
        ("Can only managers approve refunds?", "Can managers only approve refunds?"),
        ("Can only I use the card?", "Can I only use the card?"),
    ]);
    each_is_the_same(&[
        ("他被公司起诉了怎么办", "公司起诉了他怎么办"),
        ("Is it open from 9 am to 5 pm?", "is it open from 9 am to 5 pm"),
        ("Is the shop open on Saturday and Sunday?", "Is the shop open on Sunday and Saturday?"),
        ("只有经理能审批吗", "是不是只有经理可以审批"),
    ]);
}

#[test]
fn what_does_it_and_what_it_is_done_to_stand_on_either_side_of_the_verb() {
    each_differs(&[
        ("缺水会引起什么", "什么会引起缺水"),
        ("哪些因素影响睡眠", "睡眠影响哪些因素"),
        ("啥会影响信用评分", "信用评分会影响啥"),
        ("什么造成了系统崩溃", "系统崩溃造成了什么"),
        ("什么取代了旧版接口", "旧版接口取代了什么"),
        ("哪个系统依赖订单服务", "订单服务依赖哪个系统"),
        ("贷款需要什么", "什么需要贷款"),
        ("咖啡对睡眠有什么影响", "睡眠对咖啡有什么影响"),
        ("汇率对出口会带来哪些影响", "出口对汇率会带来哪些影响"),
        ("What causes headaches?", "What do headaches cause?"),
    ]);
    each_is_the_same(&[
        ("需要什么条件申请公租房", "哪些条件才能申请公租房"),
        ("贷款需要什么条件", "需要什么条件才能贷款"),
        ("哪些材料需要提交", "需要提交哪些材料"),
    ]);
}

#[test]
fn a_thing_that_is_named_twice_is_told_by_the_word_before_it() {
    each_differs(&[
        ("如何把测试库的表复制到生产库", "如何把生产库的表复制到测试库"),
        ("把研发环境的配置同步到测试环境需要什么权限", "把测试环境的配置同步到研发环境需要什么权限"),
        ("从试用账户把余额转入正式账户", "从正式账户把余额转入试用账户"),
        ("怎么把华北仓库的货调到华南仓库", "怎么把华南仓库的货调到华北仓库"),
        ("如何将个人账户的余额转到企业账户", "如何将企业账户的余额转到个人账户"),
        (
            "How do I move files from my old laptop to my new laptop?",
            "How do I move files from my new laptop to my old laptop?",
        ),
    ]);
    each_is_the_same(&[
        ("怎么把测试环境的数据同步到生产环境", "如何将测试环境的数据同步到生产环境"),
        ("怎么把旧电脑的文件传到新电脑", "旧电脑的文件怎么传到新电脑"),
    ]);
}

#[test]
fn what_is_done_is_not_what_will_be() {
    each_differs(&[
        ("Which shops have been closed?", "Which shops will be closed?"),
        ("Which shops are being closed?", "Which shops have been closed?"),
        ("Which shops closed this year?", "Which shops will close this year?"),
        ("Who was promoted in May?", "Who is going to be promoted in May?"),
        ("Has the office moved?", "Will the office move?"),
        ("Have they fixed the elevator?", "Will they fix the elevator?"),
        ("When was the policy changed?", "When will the policy be changed?"),
        ("When was the invoice paid?", "When is the invoice paid?"),
        ("When did the fiscal year end?", "When does the fiscal year end?"),
        ("哪些门店被关了", "哪些门店将被关"),
        ("谁去过总部", "谁将去总部"),
    ]);
    each_is_the_same(&[
        ("Which features were removed?", "Which features have been removed?"),
        ("When did my order ship?", "When was my order shipped?"),
        ("Do you know when the fiscal year ends?", "When does the fiscal year end?"),
        ("Will the office move?", "Is the office going to move?"),
    ]);
}

#[test]
fn signs_that_are_no_words_must_agree() {
    each_differs(&[
        ("Does a < b hold?", "Does a > b hold?"),
        ("What does x == y mean?", "What does x != y mean?"),
        ("What is 2 * 3?", "What is 2 ^ 3?"),
        ("What is 2 + 3?", "What is 2 * 3?"),
        ("箭头 → 是什么意思", "箭头 ← 是什么意思"),
        ("☑ 表示什么", "☒ 表示什么"),
        ("What does 😀 mean?", "What does 😡 mean?"),
        ("Is 5 m enough?", "Is 5 M enough?"),
        ("Is 5m enough?", "Is 5M enough?"),
    ]);
    each_is_the_same(&[
        ("What does a ≠ b mean?", "what does a != b mean"),
        ("怎么申请退款？", "怎么申请退款!!"),
        ("How do I enable two-factor login?", "How do I enable two-factor login…"),
        ("Is $5M enough?", "Is $5m enough?"),
        ("Who approves 10K?", "Who approves 10k?"),
    ]);
}
