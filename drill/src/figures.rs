//! From what was seen to figures: arithmetic alone.

use std::collections::HashMap;
use std::time::Duration;

use crate::evidence::{Ending, Evidence, Line, Told, Try};
use crate::incident::{Expect, Fault, Incident, Promise, SETTLED};

/// Two tries of one call overlap only beyond this: an upstream may hear late that it has been given up.
const HEARING: Duration = Duration::from_millis(250);

/// Calls that were under way when an upstream asked for a rest may arrive so late, and a busy machine may let the
/// gateway hear of it late. What is left of the shortest rest sees several calls of whoever does not keep it.
const UNDER_WAY: Duration = Duration::from_millis(750);

/// A sick upstream hears so late of a call that was given up that the next one may seem to run beside it.
const HEARING_OF_TRIALS: Duration = Duration::from_millis(100);

/// After a fault callers may still be told of it for so long: the hold, one more try, and slack.
const AFTERMATH: Duration = Duration::from_secs(4);

/// The share of its usual share at which an upstream counts as fully back.
const FULLY: f64 = 0.95;

/// What is shown and judged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// What callers asked, repeats included.
    pub(crate) calls: usize,
    /// Calls whose callers did not get what they must.
    pub(crate) failures: Vec<Failure>,
    /// Callers that were told a degraded answer, and those that were told an error where that is right.
    pub(crate) degraded: usize,
    pub(crate) refused: usize,
    /// What reached each upstream, and the first one's faults among that.
    pub(crate) reached: Vec<usize>,
    pub(crate) faults: usize,
    /// Most tries of one call, a second one on a new connection included.
    pub(crate) most_tries: usize,
    /// The call with the most tries, where that second one is left out: how many, and its line of the access log.
    pub(crate) most_moves: (usize, String),
    /// Calls with more than one try.
    pub(crate) moved: usize,
    /// From the first failure to the answer by another upstream: of the first such call, and the longest.
    pub(crate) switched: Option<(Duration, Duration)>,
    /// How the first upstream came back.
    pub(crate) back: Back,
    /// Request ids of calls that were tried twice at a time.
    pub(crate) overlapping: Vec<String>,
    /// Counts of tries that must agree.
    pub(crate) sums: Sums,
    /// The longest call.
    pub(crate) slowest: Duration,
    /// Calls that reached a throttled upstream within the rest that it asked for.
    pub(crate) early: Vec<String>,
    /// Repeats that SDKs sent.
    pub(crate) repeats: usize,
}

/// A call that failed, as far as its caller knows, and what the gateway says about it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) id: String,
    pub(crate) what: String,
    pub(crate) line: Option<String>,
}

/// An upstream's way back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Back {
    /// Its calls while it was sick, once that was known, and those which ran at a time until it had answered one.
    pub(crate) trials: usize,
    pub(crate) together: Vec<String>,
    /// From its recovery to the first call that it answered.
    pub(crate) first: Option<Duration>,
    /// From then to where it has its usual share again.
    pub(crate) full: Option<Duration>,
    /// Its part of its usual share in the first second, the first four, and the last four of the incident.
    pub(crate) in_1s: f64,
    pub(crate) in_4s: f64,
    pub(crate) at_last: f64,
}

/// Tries, counted on all sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// By `x-mai-attempts`.
    pub(crate) told: usize,
    /// By the access log.
    pub(crate) logged: usize,
    /// At the upstreams.
    pub(crate) reached: usize,
    /// Logged as connections that were not to be had: nothing reached anybody.
    pub(crate) unconnected: usize,
    /// Logged as resets, or as given up with their caller: they may have reached an upstream or not.
    pub(crate) unsure: usize,
}

impl Sums {
    /// Whether they agree.
    pub(crate) const fn agree(&self) -> bool {
        let least = self.reached + self.unconnected;
        self.told == self.logged && least <= self.told && self.told <= least + self.unsure
    }
}

impl Figures {
    /// Of one incident.
    pub(crate) fn of(incident: &Incident, evidence: &Evidence) -> Self {
        let told = &evidence.told;
        let lines: HashMap<&str, &Line> = evidence.lines.iter().map(|line| (line.id.as_str(), line)).collect();
        let count = |ending: fn(&Ending) -> bool| told.iter().filter(|call| ending(&call.ending)).count();
        let most_moves = evidence.lines.iter().max_by_key(|line| moves(line));
        let ids: std::collections::HashSet<&str> = told.iter().map(|call| call.id.as_str()).collect();
        Self {
            calls: told.len(),
            failures: failures(incident, told, &lines),
            degraded: count(|ending| *ending == Ending::Degraded),
            refused: count(|ending| matches!(ending, Ending::Refused(_))),
            reached: reached(incident, &evidence.tries),
            faults: faults(incident, evidence),
            most_tries: evidence.lines.iter().map(|line| line.attempts.len()).max().unwrap_or_default(),
            most_moves: most_moves.map(|line| (moves(line), line.text.clone())).unwrap_or_default(),
            moved: evidence.lines.iter().filter(|line| line.attempts.len() > 1).count(),
            switched: switched(&evidence.lines),
            back: incident.fault.map_or_else(Back::default, |fault| Back::of(incident, fault, &evidence.tries)),
            overlapping: overlapping(&evidence.tries),
            sums: sums(evidence),
            slowest: told.iter().map(|call| call.took).max().unwrap_or_default(),
            early: early(incident, &evidence.tries),
            repeats: told.len() - ids.len(),
        }
    }
}

fn failures(incident: &Incident, told: &[Told], lines: &HashMap<&str, &Line>) -> Vec<Failure> {
    let of_call = |call: &Told| {
        let what = failure(incident, call)?;
        let what = format!("{what}, status {}, at {:.1} s", call.status, call.at.as_secs_f64());
        let line = lines.get(call.id.as_str()).map(|line| line.text.clone());
        Some(Failure { id: call.id.clone(), what, line })
    };
    told.iter().filter_map(of_call).collect()
}

/// What was wrong with a call, if anything was.
fn failure(incident: &Incident, call: &Told) -> Option<String> {
    let expects = incident.groups.get(call.group).map_or(Expect::Answer, |group| group.expects);
    let is_excused =
        incident.fault.is_some_and(|fault| fault.from <= call.at + call.took && call.at < fault.until + AFTERMATH);
    match (&call.ending, expects) {
        (Ending::Right | Ending::Left, _) => None,
        (Ending::Degraded, Expect::Degraded) | (Ending::Refused(_), Expect::Refused) if is_excused => None,
        (Ending::Degraded, _) => Some("a degraded answer".to_owned()),
        (Ending::Refused(code), _) => Some(format!("error `{code}`")),
        (Ending::Broken(what), _) => Some(what.clone()),
    }
}

/// Tries of a call, but for those that only repeat on a new connection what met a stale one.
fn moves(line: &Line) -> usize {
    let pairs = line.attempts.iter().zip(line.attempts.iter().skip(1));
    let anew = pairs.filter(|(one, next)| one.outcome == "reset" && one.upstream == next.upstream).count();
    line.attempts.len() - anew
}

fn reached(incident: &Incident, tries: &[Try]) -> Vec<usize> {
    let at = |upstream: usize| tries.iter().filter(|one| one.upstream == upstream).count();
    (0..incident.upstreams.len()).map(at).collect()
}

/// Faults that were met at the first upstream; what it did not even accept is in the access log alone.
fn faults(incident: &Incident, evidence: &Evidence) -> usize {
    let first = incident.upstreams.first().map(|upstream| format!("{}-{}/", incident.name, upstream.name));
    let is_first = |name: &str| first.as_deref().is_some_and(|first| name.starts_with(first));
    let attempts = evidence.lines.iter().flat_map(|line| &line.attempts);
    let unconnected = attempts.filter(|one| one.outcome == "connect_error" && is_first(&one.upstream)).count();
    unconnected + evidence.tries.iter().filter(|one| one.upstream == 0 && !one.is_sound).count()
}

fn switched(lines: &[Line]) -> Option<(Duration, Duration)> {
    let mut times = lines.iter().filter(|line| line.status == 200).filter_map(|line| {
        let (first, last) = (line.attempts.first()?, line.attempts.last()?);
        let is_elsewhere = first.upstream != last.upstream;
        is_elsewhere.then(|| Duration::from_secs_f64((line.ms - first.ms).max(0.0) / 1000.0))
    });
    let first = times.next()?;
    Some((first, times.fold(first, Duration::max)))
}

fn sums(evidence: &Evidence) -> Sums {
    let logged = |outcome: &str| {
        let attempts = evidence.lines.iter().flat_map(|line| &line.attempts);
        attempts.filter(|attempt| attempt.outcome == outcome).count()
    };
    // Who left was told nothing; what the access log says of that call has to do.
    let by_id: HashMap<&str, usize> =
        evidence.lines.iter().map(|line| (line.id.as_str(), line.attempts.len())).collect();
    let told = |call: &Told| match call.ending {
        Ending::Left => by_id.get(call.id.as_str()).copied().unwrap_or_default(),
        _ => call.attempts as usize,
    };
    Sums {
        told: evidence.told.iter().map(told).sum(),
        logged: evidence.lines.iter().map(|line| line.attempts.len()).sum(),
        reached: evidence.tries.len(),
        unconnected: logged("connect_error"),
        unsure: logged("reset") + logged("caller_gone"),
    }
}

/// Ids of calls of which a try began while an earlier one still ran; the tries are in order.
fn overlapping(tries: &[Try]) -> Vec<String> {
    let mut ends: HashMap<&str, Duration> = HashMap::new();
    let mut found = Vec::new();
    for one in tries {
        let end = one.ended.unwrap_or(Duration::MAX);
        let earlier = ends.entry(one.id.as_str()).or_insert(Duration::ZERO);
        if *earlier > one.at + HEARING {
            found.push(one.id.clone());
        }
        *earlier = end.max(*earlier);
    }
    found
}

/// The ids of these trials, in their order, that ran at a time when they were most.
fn at_a_time<'a>(tries: impl Iterator<Item = &'a Try>) -> Vec<String> {
    let (mut running, mut most): (Vec<&Try>, Vec<&Try>) = (Vec::new(), Vec::new());
    for one in tries {
        running.retain(|earlier| {
            let late = if earlier.is_given_up { HEARING_OF_TRIALS } else { Duration::ZERO };
            earlier.over().is_none_or(|over| over > one.at + late)
        });
        running.push(one);
        if running.len() > most.len() {
            most.clone_from(&running);
        }
    }
    most.iter().map(|one| one.id.clone()).collect()
}

fn early(incident: &Incident, tries: &[Try]) -> Vec<String> {
    let rests = incident.promises.iter().find_map(|promise| match promise {
        Promise::RestsKept(rests) => Some(*rests),
        _ => None,
    });
    let first: Vec<&Try> = tries.iter().filter(|one| one.upstream == 0).collect();
    let rests_of = |one: &&Try| {
        let rest = rests?.get(one.rule?.checked_sub(1)?).filter(|_| one.status == 429)?;
        // Calls under way when the word came do not count, nor does a clock's breath at the end.
        let begins = one.ended? + UNDER_WAY;
        Some(begins..(one.ended? + *rest).saturating_sub(Duration::from_millis(50)))
    };
    let resting: Vec<_> = first.iter().filter_map(rests_of).collect();
    let early = first.iter().filter(|one| resting.iter().any(|rest| rest.contains(&one.at)));
    early.map(|one| one.id.clone()).collect()
}

impl Back {
    /// Of the first upstream, after this fault.
    fn of(incident: &Incident, fault: Fault, tries: &[Try]) -> Self {
        let first: Vec<&Try> = tries.iter().filter(|one| one.upstream == 0).collect();
        let served = first.iter().find(|one| one.is_sound && one.at >= fault.until);
        let known = fault.from + SETTLED;
        let trials = || first.iter().copied().filter(|one| one.at >= known);
        // With that the share begins to grow. The clocks of drill and upstream differ by a breath: the trial that
        // succeeds may begin before the end.
        let answered = first.iter().filter(|one| one.is_sound && one.at >= known).filter_map(|one| one.over()).min();
        let answered = answered.unwrap_or(Duration::MAX);
        let mut back = Self {
            trials: trials().filter(|one| one.at < fault.until).count(),
            together: at_a_time(trials().filter(|one| one.at < answered)),
            ..Self::default()
        };
        let Some(served) = served else { return back };
        let share = |from: Duration, until: Duration| {
            let within = tries.iter().filter(|one| (from..until).contains(&one.at));
            let (own, all) =
                within.fold((0.0, 0.0), |(own, all), one| (own + f64::from(u8::from(one.upstream == 0)), all + 1.0));
            if all > 0.0 { own / all / incident.full_share } else { 0.0 }
        };
        let second = Duration::from_secs(1);
        let start = served.at;
        back.first = Some(start.saturating_sub(fault.until));
        (back.in_1s, back.in_4s) = (share(start, start + second), share(start, start + second * 4));
        back.at_last = share(incident.length.saturating_sub(second * 4), incident.length);
        // Steps of half a second, each with the two seconds behind it: less would be chance.
        let steps =
            (0..).map(|step| second / 2 * step).take_while(|step| start + *step + second * 2 <= incident.length);
        back.full = steps.into_iter().find(|step| share(start + *step, start + *step + second * 2) >= FULLY);
        back
    }
}

#[cfg(test)]
mod tests;
