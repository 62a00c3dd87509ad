//! What another model may decide, and what it may not: only what no guard sees but those that compare words.

use semantic::guards::{Question, only_words_differ};

fn is_open(one: &str, two: &str) -> bool {
    let (one, two) = (Question::read(one), Question::read(two));
    assert_eq!(only_words_differ(&one, &two), only_words_differ(&two, &one), "either way round");
    only_words_differ(&one, &two)
}

#[test]
fn the_same_in_other_words_is_left_to_a_model_that_reads_both() {
    for (one, two) in [
        ("How do I reset my password?", "How do I get a new login secret?"),
        (
            "How can I get admin rights on my work computer?",
            "How can I obtain administrator privileges on a company machine?",
        ),
        ("怎么申请办公电脑的管理员权限", "怎么拿到公司机器的超级用户身份"),
    ] {
        assert!(is_open(one, two), "{one} {two}");
    }
}

#[test]
fn what_is_said_differently_stays_so_whatever_word_or_sign_stands_before_it() {
    for (one, two) in [
        ("请假3天需要谁批准✓", "请假30天需要谁批准"),
        ("the *basic* plan with 5 seats", "basic plan with 50 seats"),
        ("Can I get a refund 🙂?", "Can I not get a refund?"),
        ("price > 100", "price < 100"),
        ("How do I set it to 5 degrees?", "How do I set it to -5 degrees?"),
        ("How do I move data from Oslo to Rome?", "How do I move archived data from Rome to Oslo?"),
        ("怎么把人民币换成美元", "怎么在手机上把美元换成人民币"),
        ("所有年龄大于60岁的人有优惠吗", "部分年龄小于60岁的人有优惠吗"),
        ("Can all staff leave before noon?", "Can any staff leave after noon?"),
        ("How much do I owe the bank?", "How much does she owe me at the bank?"),
        ("How do I open a new account?", "How do I not open some old account?"),
    ] {
        assert!(!is_open(one, two), "{one} {two}");
    }
}
