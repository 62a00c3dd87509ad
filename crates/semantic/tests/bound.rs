//! Near misses in English that hold the same words, bound in another way.

mod pairs;

use pairs::{each_differs, each_is_the_same};

#[test]
fn whoever_asks_does_it_or_has_it_done() {
    each_differs(&[
        ("How do I pay my landlord?", "How does my landlord pay me?"),
        ("How do I teach my son to swim?", "How does my son teach me to swim?"),
        ("How can I reach support?", "How can support reach me?"),
        ("How do I notify my tenant?", "How does my tenant notify me?"),
        ("How do we invoice the supplier?", "How does the supplier invoice us?"),
        ("How should I evaluate my manager?", "How should my manager evaluate me?"),
    ]);
    each_is_the_same(&[
        ("How do I pay my landlord?", "How can I pay my landlord?"),
        ("How do I submit a form?", "What is the best way to submit a form?"),
    ]);
}

#[test]
fn another_preposition_behind_the_same_word_is_another_thing() {
    each_differs(&[
        ("Where do I find emails from my boss?", "Where do I find emails to my boss?"),
        ("Is damage by tenants covered?", "Is damage to tenants covered?"),
        ("Is a complaint about a nurse public?", "Is a complaint by a nurse public?"),
        ("Can I put it in the fridge?", "Can I put it on the fridge?"),
        ("Do you sell books by Orwell?", "Do you sell books about Orwell?"),
        ("Is a transfer from my brother taxed?", "Is a transfer to my brother taxed?"),
        ("How long are letters from the court kept?", "How long are letters to the court kept?"),
        ("Are threats by patients recorded?", "Are threats to patients recorded?"),
        ("Is injury to drivers insured?", "Is injury by drivers insured?"),
        ("Who should a nurse report?", "Who should a nurse report to?"),
        ("What can I trade?", "What can I trade for?"),
        ("Who do I write about?", "Who do I write to?"),
    ]);
    each_is_the_same(&[
        ("Who reviews the code changes?", "By whom are the code changes reviewed?"),
        ("What is the warranty period for laptops?", "How long is the warranty on laptops?"),
        ("How can I speak to a human agent?", "How do I get in touch with a human agent?"),
        ("Where is the menu in the app?", "Where is the menu on the app?"),
    ]);
}

#[test]
fn what_is_done_is_not_what_describes_the_thing() {
    each_differs(&[
        ("How do I restore deleted photos?", "How do I delete restored photos?"),
        ("How do I approve rejected requests?", "How do I reject approved requests?"),
        ("Can I cook frozen fish?", "Can I freeze cooked fish?"),
        ("How do I cancel the renewal of my subscription?", "How do I renew the cancelled subscription?"),
        ("Can staff repack opened parcels?", "Can staff open repacked parcels?"),
        ("Where do I download signed contracts?", "Where do I sign downloaded contracts?"),
        ("Who may edit published articles?", "Who may publish edited articles?"),
        ("How do I request to cancel?", "How do I cancel a request?"),
    ]);
    each_is_the_same(&[
        ("How do I restore deleted photos?", "How are deleted photos restored?"),
        ("Can I cook frozen fish?", "Is it possible to cook frozen fish?"),
    ]);
}

#[test]
fn who_does_it_is_not_who_has_it_done() {
    each_differs(&[
        ("When will I pay?", "When will I be paid?"),
        ("How much rent may I charge?", "How much rent may I be charged?"),
        ("Can I refund the deposit?", "Can I be refunded the deposit?"),
        ("Do I examine?", "Am I examined?"),
        ("Why should I evaluate?", "Why should I be evaluated?"),
        ("Must I search?", "Must I be searched?"),
        ("Which nurses report?", "Which nurses are reported?"),
    ]);
    each_is_the_same(&[
        ("When did my order ship?", "When was my order shipped?"),
        ("How are timesheets submitted?", "How do I submit a timesheet?"),
    ]);
}

#[test]
fn who_is_helped_is_not_who_asks_for_help() {
    each_differs(&[
        ("How do I help my mother?", "How does my mother help me?"),
        ("How do I remind the app?", "How does the app remind me?"),
    ]);
    each_is_the_same(&[("Help me find out how to reset my router.", "How do I reset my router?")]);
}

#[test]
fn what_was_is_not_what_must_be_or_is() {
    each_differs(&[
        ("Which invoices must be paid this week?", "Which invoices were paid this week?"),
        ("Which forms should be signed?", "Which forms were signed?"),
        ("Did I have to register?", "Do I have to register?"),
        ("Were masks required?", "Are masks required?"),
        ("Was the fee refunded?", "Is the fee refunded?"),
        ("Would I have been paid?", "Will I have been paid?"),
        ("Which rooms were cleaned?", "Which rooms need to be cleaned?"),
        ("Was parking allowed?", "Is parking allowed?"),
        ("Is the pool already open?", "Is the pool still open?"),
        ("Is the meeting on yet?", "Is the meeting still on?"),
        ("Do I not have to sign?", "Must I not sign?"),
        ("Do nurses not need to wear masks?", "Should nurses not wear masks?"),
    ]);
    each_is_the_same(&[
        ("Do I have to register?", "Must I register?"),
        ("Is the shop still not open?", "Is the shop not open yet?"),
        ("Which forms need to be signed?", "Which forms must be signed?"),
    ]);
}

#[test]
fn a_number_a_bound_or_a_time_belongs_to_its_word() {
    each_differs(&[
        ("Do I buy one and get two?", "Do I buy two and get one?"),
        ("Do you have a three bedroom flat with one bath?", "Do you have a one bedroom flat with three bath?"),
        ("Do I pay 3 and receive 5?", "Do I pay 5 and receive 3?"),
        ("What is the maximum fine for the minimum speed?", "What is the minimum fine for the maximum speed?"),
        ("What's the minimum for a maximum discount?", "What's the maximum for a minimum discount?"),
        ("Should the eggs boil for 10 minutes?", "Should the eggs boil in 10 minutes?"),
        ("How do I change an appointment for Tuesday?", "How do I change an appointment to Tuesday?"),
        ("Can I return it by Friday?", "Can I return it on Friday?"),
        ("Is the rent reduced by $200?", "Is the rent reduced to $200?"),
    ]);
    each_is_the_same(&[("Can I book 2 rooms for 3 nights?", "May I book 2 rooms for 3 nights?")]);
}

#[test]
fn the_case_of_flags_and_units_decides() {
    each_differs(&[
        ("What does ls -a do?", "What does ls -A do?"),
        ("What does grep -v do?", "What does grep -V do?"),
        ("Is 5 mW safe?", "Is 5 MW safe?"),
        ("Is 3 mA safe?", "Is 3 MA safe?"),
        ("How fast is a 100 Mb line?", "How fast is a 100 MB line?"),
        ("How long does it take at 10 Mb/s?", "How long does it take at 10 MB/s?"),
        ("Is 1 Gbps enough?", "Is 1 GBps enough?"),
    ]);
    each_is_the_same(&[
        ("Is a 10 mb file too large?", "Is a 10 MB file too large?"),
        ("Can I sign up - please?", "Can I sign up please?"),
    ]);
}

#[test]
fn a_form_of_a_word_may_be_another_word() {
    each_differs(&[
        ("Who founded the company?", "Who found the company?"),
        ("Where did you find the firm?", "Where did you found the firm?"),
        ("Which employees are left?", "Which employees leave?"),
        ("How many days of leave do I have?", "How many days do I have left?"),
        ("Do I need glasses?", "Do I need a glass?"),
        ("Is customs open?", "Is the custom open?"),
        ("What are the terms of the loan?", "What is the term of the loan?"),
        ("Do I need to stop to eat?", "Do I need to stop eating?"),
        ("Should I remember to lock it?", "Should I remember locking it?"),
        ("Did you forget to pay?", "Did you forget paying?"),
        ("Is alternate parking allowed?", "Is alternative parking allowed?"),
        ("How do I automatically stop updates?", "How do I stop automatic updates?"),
        ("How do I manually cancel renewals?", "How do I cancel manual renewals?"),
        ("Is theft of staff property insured?", "Is staff theft of property insured?"),
        ("Can I eat with braces?", "Can I eat braces?"),
    ]);
    each_is_the_same(&[
        ("Who founded the company?", "Who has founded the company?"),
        ("Do you ship internationally?", "Is international shipping available?"),
        ("Where can lost property be found?", "Where can I find lost property?"),
    ]);
}

#[test]
fn other_words_and_trades_are_bound_no_less() {
    each_differs(&[
        ("Who may an auditor inform?", "Who may an auditor inform about?"),
        ("What should I cook?", "What should I cook with?"),
        ("Which client does the lawyer act against?", "Which client does the lawyer act for?"),
        ("Is a debt to the bank deductible?", "Is a debt from the bank deductible?"),
        ("Are calls from clients logged?", "Are calls to clients logged?"),
        ("Is abuse of carers punished?", "Is abuse by carers punished?"),
        ("Are paintings of Picasso on display?", "Are paintings by Picasso on display?"),
        ("Do you offer courses on immigrants?", "Do you offer courses for immigrants?"),
        ("Should the keys be kept in the safe?", "Should the keys be kept on the safe?"),
        ("Can I store my bike under the stairs?", "Can I store my bike on the stairs?"),
        ("How do I lend my neighbour a drill?", "How does my neighbour lend me a drill?"),
        ("How do I thank my teacher?", "How does my teacher thank me?"),
        ("How can I insure my employer?", "How can my employer insure me?"),
        ("How do we audit the bank?", "How does the bank audit us?"),
        ("Can I visit my lawyer?", "Can my lawyer visit me?"),
        ("Will I be fined?", "Will I fine?"),
        ("How often do I vaccinate?", "How often am I vaccinated?"),
        ("When should we be notified?", "When should we notify?"),
        ("Can a guardian be appointed?", "Can a guardian appoint?"),
        ("Could my doctor be sued?", "Could my doctor sue?"),
        ("Which tests have to be repeated?", "Which tests were repeated?"),
        ("Did I need a permit?", "Do I need a permit?"),
        ("Are tolls charged?", "Were tolls charged?"),
        ("Was smoking permitted?", "Is smoking permitted?"),
        ("How do I export imported contacts?", "How do I import exported contacts?"),
        ("Can I wash dried herbs?", "Can I dry washed herbs?"),
        ("How do I block muted users?", "How do I mute blocked users?"),
        ("How do I sell leased equipment?", "How do I lease sold equipment?"),
        ("How do I approve a change?", "How do I change an approval?"),
        ("How do I apply to transfer?", "How do I transfer an application?"),
        ("Do I weld before I paint?", "Do I paint before I weld?"),
        ("How do I permanently delete backups?", "How do I delete permanent backups?"),
        ("Do I get 2 points for 5 purchases?", "Do I get 5 points for 2 purchases?"),
        ("Do I take one pill and drink two cups?", "Do I take two pills and drink one cup?"),
        ("Is the dose cut by 5 mg?", "Is the dose cut to 5 mg?"),
        ("Does the sale last until Friday?", "Does the sale start on Friday?"),
        ("What does curl -o do?", "What does curl -O do?"),
        ("Is 10 mV ok?", "Is 10 MV ok?"),
        ("Are guests not required to pay?", "Are guests required not to pay?"),
        ("Is my visa still valid?", "Is my visa valid already?"),
        ("What is the maximum weight at the minimum speed?", "What is the minimum weight at the maximum speed?"),
        ("Are any rooms left?", "Do any rooms leave?"),
        ("Can I wear glasses?", "Can I wear glass?"),
        ("Is it my landlord who pays me?", "Is it me who pays my landlord?"),
        ("Can I give a present to my nurse?", "Can I give a present from my nurse?"),
        ("Do I have to tip the driver?", "Does the driver have to tip me?"),
        ("How do I get hired by a start-up?", "How do I hire a start-up?"),
        ("Is the report about the director?", "Is the report by the director?"),
        ("Which drivers must be tested?", "Which drivers must test?"),
        ("Should the tenant be warned by the agent?", "Should the agent be warned by the tenant?"),
        ("How do I greet my patients?", "How do my patients greet me?"),
        ("How can we compensate the carrier?", "How can the carrier compensate us?"),
        ("May I photograph the guard?", "May the guard photograph me?"),
        ("Is a loan to the director taxable?", "Is a loan from the director taxable?"),
        ("Who can I vote for?", "Who can I vote against?"),
        ("Is noise from neighbours illegal?", "Is noise to neighbours illegal?"),
        ("Do you publish reviews by dentists?", "Do you publish reviews of dentists?"),
        ("Is there a film about Lincoln?", "Is there a film by Lincoln?"),
        ("Can the parcel be left at the door?", "Can the parcel be left on the door?"),
        ("Who does the plumber invoice?", "Who invoices the plumber?"),
        ("When do I promote?", "When do I get promoted?"),
        ("Can trainees be supervised?", "Can trainees supervise?"),
        ("May the court summon me?", "May I summon the court?"),
        ("How do I unlock archived projects?", "How do I archive unlocked projects?"),
        ("Can I grill marinated tofu?", "Can I marinate grilled tofu?"),
        ("Where do I scan shipped boxes?", "Where do I ship scanned boxes?"),
        ("How do I refuse to extend?", "How do I extend a refusal?"),
        ("Which samples should be tested?", "Which samples were tested?"),
        ("Was the gate locked?", "Is the gate locked?"),
        ("Had I to pay a fee?", "Have I to pay a fee?"),
        ("Do I buy three and get one?", "Do I buy one and get three?"),
        ("Is there a two storey house with four garages?", "Is there a four storey house with two garages?"),
        ("Is the price up by 10%?", "Is the price up to 10%?"),
        ("Does the ban start in 2 weeks?", "Does the ban last for 2 weeks?"),
        ("Can I visit for two hours?", "Can I visit in two hours?"),
        ("Is 2 MHz ok?", "Is 2 mHz ok?"),
        ("What does sed -n do?", "What does sed -N do?"),
        ("Am I not obliged to answer?", "Am I obliged not to answer?"),
        ("Is the lift already broken?", "Is the lift still broken?"),
        ("Did he forget to call?", "Did he forget calling?"),
        ("How do I quickly cancel orders?", "How do I cancel quick orders?"),
        ("How do I bring the dog to the vet?", "How do I bring the vet to the dog?"),
        ("Can a nurse inject a doctor?", "Can a doctor inject a nurse?"),
        ("Do customers rate drivers?", "Do drivers rate customers?"),
        ("Is the oldest car the cheapest?", "Is the cheapest car the oldest?"),
        ("Should I call before I write?", "Should I write before I call?"),
        ("Does the seller warn the buyer?", "Is the seller warned by the buyer?"),
        ("Who can lend to the bank?", "Who can the bank lend to?"),
        ("What do I swap?", "What do I swap for?"),
        ("Is insurance against theft by guests included?", "Is insurance against theft from guests included?"),
        ("What are the funds of the club?", "What is the fund of the club?"),
    ]);
    each_is_the_same(&[
        ("What should I wear for an interview?", "What should I wear to an interview?"),
        ("How do I connect my phone to the projector?", "How can I connect my phone with the projector?"),
        ("Does my insurance cover damage by water?", "Does my insurance cover water damage?"),
        ("Where should I send the form?", "Where do I send the form to?"),
        ("How do I download the invoice from the portal?", "How can I download the invoice in the portal?"),
        ("Can I pay with a credit card?", "Can I pay by credit card?"),
        ("Who do I report a leak to?", "To whom do I report a leak?"),
        ("Was my order shipped?", "Has my order been shipped?"),
        ("How many vacation days do I have left?", "How many vacation days are left?"),
        ("How do I request approval for a trip?", "How do I request approval of a trip?"),
        ("Which documents need to be signed?", "Which documents do I have to sign?"),
        ("Can deleted files be restored?", "Can I restore deleted files?"),
    ]);
}
