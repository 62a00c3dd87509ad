//! Whether the promises were kept.

use std::time::Duration;

use crate::evidence::Evidence;
use crate::figures::Figures;
use crate::incident::{DEADLINE, Incident, Promise};

/// What a busy machine may add to a time.
const SLACK: Duration = Duration::from_secs(1);

/// The part of its usual share that a recovered upstream may have had after 4 of at least 5 s, and that it has at last.
const MOST_IN_4S: f64 = 0.75;
const LEAST_AT_LAST: f64 = 0.7;

/// A second of a share that grows over 5 s does not by chance look like the whole before this.
const LEAST_WHOLE: Duration = Duration::from_secs(3);

/// Calls that are named for a broken promise.
const SUCH_AS: usize = 4;

/// A budget's share of calls and its floor for each `BUDGET_WINDOW`.
const BUDGET: f64 = 0.2;
const BUDGET_FLOOR: f64 = 10.0;
const BUDGET_WINDOW: f64 = 10.0;

/// One promise and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    /// What was promised.
    pub(crate) promise: String,
    /// What was found.
    pub(crate) found: String,
    pub(crate) is_kept: bool,
    /// It concerns the calls that a sick upstream gets.
    pub(crate) is_about_trials: bool,
    /// Calls to look at, where it was not: request ids, or lines of the access log.
    pub(crate) such_as: Vec<String>,
}

impl Judgement {
    fn such_as(self, calls: &[String]) -> Self {
        Self { such_as: calls.iter().take(SUCH_AS).cloned().collect(), ..self }
    }
}

fn judgement(promise: impl Into<String>, found: impl Into<String>, is_kept: bool) -> Judgement {
    Judgement { promise: promise.into(), found: found.into(), is_kept, is_about_trials: false, such_as: Vec::new() }
}

/// All promises of an incident.
pub(crate) fn judge(incident: &Incident, figures: &Figures, evidence: &Evidence) -> Vec<Judgement> {
    let mut all = vec![one_at_a_time(figures), adds_up(figures), in_time(figures)];
    all.extend(incident.promises.iter().map(|promise| {
        let is_about_trials = matches!(promise, Promise::OneTrial | Promise::Spared { .. });
        Judgement { is_about_trials, ..one(*promise, incident, figures, evidence) }
    }));
    all
}

fn one(promise: Promise, incident: &Incident, figures: &Figures, evidence: &Evidence) -> Judgement {
    let back = &figures.back;
    match promise {
        Promise::Failures { per_mille } => failures(per_mille, figures),
        Promise::Tries(most) => judgement(
            format!("at most {most} tries of a call, but for stale connections"),
            figures.most_moves.0.to_string(),
            figures.most_moves.0 <= most,
        )
        .such_as(std::slice::from_ref(&figures.most_moves.1)),
        Promise::Switch(most) => {
            let promise = format!("another upstream answers within {}", seconds(most));
            match figures.switched {
                Some((_, longest)) => judgement(promise, seconds(longest), longest <= most),
                None => judgement(promise, "no call was moved", false),
            }
        }
        Promise::OneTrial => judgement(
            "at most one trial in flight",
            format!("{} at a time", back.together.len()),
            back.together.len() <= 1,
        )
        .such_as(&back.together),
        Promise::Spared { trials } => judgement(
            format!("probes spare callers the trials: at most {trials}"),
            back.trials.to_string(),
            back.trials <= trials,
        ),
        Promise::LeftAlone { hold } => left_alone(hold, incident, figures),
        Promise::BackWithin(most) => {
            let found = back.first.map_or_else(|| "never".to_owned(), seconds);
            judgement(format!("back within {}", seconds(most)), found, back.first.is_some_and(|first| first <= most))
        }
        Promise::GrowsBack => grows_back(figures),
        Promise::Met { least } => {
            judgement(format!("at least {least} faults met"), figures.faults.to_string(), figures.faults >= least)
        }
        Promise::RestsKept(_) => judgement(
            "a throttled upstream is left alone for as long as it asks",
            format!("{} calls came too early", figures.early.len()),
            figures.early.is_empty(),
        )
        .such_as(&figures.early),
        Promise::Degrades { least } => judgement(
            format!("at least {least} degraded answers, and as many errors for who wants those"),
            format!("{} and {}", figures.degraded, figures.refused),
            figures.degraded >= least && figures.refused >= least / 2,
        ),
        Promise::RepeatsBounded => repeats_bounded(incident, figures),
        Promise::RepeatsCounted { client } => repeats_counted(client, figures, evidence),
        Promise::NamedOnce { client } => {
            let count = evidence.log.lines().filter(|line| line.contains(client)).count();
            judgement(format!("the log names `{client}` once"), format!("{count} lines"), count == 1)
        }
    }
}

fn one_at_a_time(figures: &Figures) -> Judgement {
    let found = format!("{} calls with more", figures.overlapping.len());
    judgement("one try of a call at a time", found, figures.overlapping.is_empty()).such_as(&figures.overlapping)
}

fn adds_up(figures: &Figures) -> Judgement {
    let sums = &figures.sums;
    let found = format!(
        "told {}, logged {}, at upstreams {}, not connected {}, reset or left {}",
        sums.told, sums.logged, sums.reached, sums.unconnected, sums.unsure
    );
    judgement("the sums of tries agree", found, sums.agree())
}

fn in_time(figures: &Figures) -> Judgement {
    judgement(
        format!("every call ends within its deadline of {}", seconds(DEADLINE)),
        seconds(figures.slowest),
        figures.slowest <= DEADLINE + SLACK,
    )
}

fn failures(per_mille: usize, figures: &Figures) -> Judgement {
    let failed = figures.failures.len();
    let promise = match per_mille {
        0 => "no caller sees a failure".to_owned(),
        _ => format!("at most {per_mille} of 1,000 callers see a failure"),
    };
    let is_kept = figures.calls > 0 && failed * 1000 <= per_mille * figures.calls;
    judgement(promise, format!("{failed} of {}", figures.calls), is_kept)
}

fn left_alone(hold: Duration, incident: &Incident, figures: &Figures) -> Judgement {
    let known = incident.fault.map_or(Duration::ZERO, |fault| fault.until.saturating_sub(fault.from));
    let sick = known.saturating_sub(crate::incident::SETTLED);
    // One more for where the time begins within a hold, one for its end.
    let most = (sick.as_secs_f64() / hold.as_secs_f64()).ceil() as usize + 2;
    judgement(format!("at most {most} trials while sick"), figures.back.trials.to_string(), figures.back.trials <= most)
}

fn grows_back(figures: &Figures) -> Judgement {
    let back = &figures.back;
    let at_once = back.full.is_some_and(|full| full < LEAST_WHOLE);
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    judgement(
        "its share grows back over at least 5 s, and to the whole",
        format!(
            "{} in 1 s, {} in 4 s, {} at last; whole after {}",
            percent(back.in_1s),
            percent(back.in_4s),
            percent(back.at_last),
            back.full.map_or_else(|| "the end".to_owned(), seconds)
        ),
        back.first.is_some() && !at_once && back.in_4s <= MOST_IN_4S && back.at_last >= LEAST_AT_LAST,
    )
}

fn repeats_bounded(incident: &Incident, figures: &Figures) -> Judgement {
    let reached: usize = figures.reached.iter().sum();
    let floors = (incident.length.as_secs_f64() / BUDGET_WINDOW).ceil() + 1.0;
    let most = (figures.calls as f64 * (1.0 + BUDGET) + floors * BUDGET_FLOOR) as usize;
    judgement(format!("at most {most} tries for {} calls", figures.calls), reached.to_string(), reached <= most)
}

fn repeats_counted(client: &str, figures: &Figures, evidence: &Evidence) -> Judgement {
    let counted = evidence.repeats.get(client).copied().unwrap_or_default();
    let others = evidence.repeats.iter().filter(|(name, _)| *name != client).fold(0.0, |sum, (_, count)| sum + count);
    judgement(
        format!("the {} repeats of `{client}` are counted, and nobody else's", figures.repeats),
        format!("{counted}, of others {others}"),
        (counted - figures.repeats as f64).abs() < 0.5 && others == 0.0,
    )
}

/// A time for people.
pub(crate) fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Back, Sums};
    use crate::incidents::ALL;

    fn judged(promise: Promise, figures: &Figures) -> bool {
        let incident = ALL.iter().find(|incident| incident.name == "errors").unwrap();
        one(promise, incident, figures, &Evidence::default()).is_kept
    }

    #[test]
    fn a_tenth_of_a_percent_is_one_of_a_thousand() {
        let failed = |count: usize, calls: usize| {
            let failure = crate::figures::Failure { id: String::new(), what: String::new(), line: None };
            let figures = Figures { calls, failures: vec![failure; count], ..Figures::default() };
            judged(Promise::Failures { per_mille: 1 }, &figures)
        };
        assert!(failed(0, 10) && failed(1, 1000) && failed(2, 2000));
        assert!(!failed(1, 999) && !failed(2, 1999));
        assert!(!failed(0, 0), "a drill without calls proves nothing");
    }

    #[test]
    fn a_share_that_is_back_at_once_or_never_is_no_growth() {
        let grows = |in_4s: f64, at_last: f64, full: Option<u64>| {
            let full = full.map(Duration::from_secs);
            let back = Back { first: Some(Duration::ZERO), full, in_4s, at_last, ..Back::default() };
            judged(Promise::GrowsBack, &Figures { back, ..Figures::default() })
        };
        assert!(grows(0.4, 1.0, Some(5)));
        assert!(!grows(1.0, 1.0, Some(0)));
        assert!(!grows(0.4, 1.0, Some(2)));
        assert!(!grows(0.1, 0.2, None));
    }

    #[test]
    fn trials_are_bounded_by_the_hold() {
        let trials = |count: usize| {
            let back = Back { trials: count, ..Back::default() };
            judged(Promise::LeftAlone { hold: Duration::from_secs(1) }, &Figures { back, ..Figures::default() })
        };
        // Ten seconds, three of which it takes to notice, and two for the ends.
        assert!(trials(9));
        assert!(!trials(10));
    }

    #[test]
    fn repeats_are_bounded_by_the_calls() {
        let reached = |count: usize| {
            let figures = Figures { calls: 1000, reached: vec![count], ..Figures::default() };
            judged(Promise::RepeatsBounded, &figures)
        };
        assert!(reached(1240));
        assert!(!reached(1241));
    }

    #[test]
    fn repeats_are_counted_for_their_client_alone() {
        let incident = ALL.iter().find(|incident| incident.name == "storm").unwrap();
        let kept = |repeats: &[(&str, f64)]| {
            let repeats = repeats.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            let evidence = Evidence { repeats, ..Evidence::default() };
            let figures = Figures { repeats: 30, ..Figures::default() };
            one(Promise::RepeatsCounted { client: "impatient-sdk" }, incident, &figures, &evidence).is_kept
        };
        assert!(kept(&[("impatient-sdk", 30.0)]));
        assert!(!kept(&[("impatient-sdk", 29.0)]));
        assert!(!kept(&[("impatient-sdk", 30.0), ("assistant", 1.0)]));
    }

    #[test]
    fn what_always_must_hold_is_judged_too() {
        let sound = Figures::default();
        assert!(one_at_a_time(&sound).is_kept && adds_up(&sound).is_kept && in_time(&sound).is_kept);
        assert!(!one_at_a_time(&Figures { overlapping: vec!["a".to_owned()], ..Figures::default() }).is_kept);
        let sums = Sums { told: 3, logged: 3, reached: 2, ..Sums::default() };
        assert!(!adds_up(&Figures { sums, ..Figures::default() }).is_kept);
        assert!(!in_time(&Figures { slowest: Duration::from_secs(7), ..Figures::default() }).is_kept);
    }
}
