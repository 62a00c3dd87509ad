//! Drills: faults that operators inject into tries at an upstream, to see what becomes of an outage before
//! there is one.
//!
//! As long as there are none, a try costs the look at one flag. A drill ends by itself within an hour, and
//! is never written down: a restart ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base::{Clock, Dice};
use config::Snapshot;
use tokio::task::{AbortHandle, JoinSet};

/// Drills under way at most.
pub const MOST: usize = 32;

/// No drill runs longer.
pub const LONGEST: Duration = Duration::from_secs(60 * 60);

/// What an operator wants rehearsed.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The upstream, by its label.
    pub upstream: Arc<str>,
    /// On this route alone; `None` on every one that has it.
    pub route: Option<Arc<str>>,
    /// What befalls a try.
    pub harm: Harm,
    /// Of how many of its tries, in percent: above 0, at most 100.
    pub percent: f64,
    /// For how long: above zero, at most [`LONGEST`].
    pub length: Duration,
    /// Who wants it.
    pub by: Box<str>,
}

/// What befalls a try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Harm {
    /// It takes so much longer, within its own clock.
    pub latency: Option<Duration>,
    /// And then it fails; else it goes out as ever.
    pub then: Option<Failure>,
}

/// How a try fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Answered with this status, 400 to 599, and an error object.
    Status(u16),
    /// The connection breaks off without an answer.
    Reset,
}

/// One drill under way.
#[derive(Debug)]
pub struct Drill {
    /// Names it.
    pub id: Box<str>,
    /// What is rehearsed.
    pub wanted: Wanted,
    /// When it began.
    pub began: Instant,
    /// When it ends by itself.
    pub until: Instant,
    /// Tries that it has harmed so far.
    harmed: AtomicU64,
    /// It has ended before its time.
    has_ended: AtomicBool,
    /// Rings when its time is over.
    bell: AbortHandle,
}

impl Drill {
    /// Tries that it has harmed so far.
    #[must_use]
    pub fn harmed(&self) -> u64 {
        self.harmed.load(Relaxed)
    }

    /// Whether it goes on. The rests that it has brought about end with it.
    #[must_use]
    pub fn is_on(&self, now: Instant) -> bool {
        now < self.until && !self.has_ended.load(Relaxed)
    }
}

impl Wanted {
    fn is_about(&self, route: &str, upstream: &str) -> bool {
        &*self.upstream == upstream && self.route.as_deref().is_none_or(|own| own == route)
    }

    /// Whether a configuration still allows it, and has what it is about.
    fn is_possible(&self, snapshot: &Snapshot) -> bool {
        snapshot.general.drills
            && snapshot
                .routes
                .iter()
                .any(|route| route.upstreams.iter().any(|upstream| self.is_about(&route.name, &upstream.label)))
    }
}

/// Why a drill does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDrill {
    /// The configuration does not allow any.
    Disabled,
    /// No route, or not this one, has such an upstream.
    NoSuchUpstream,
    /// [`MOST`] are under way.
    TooMany,
}

/// Why one ended, for the log.
#[derive(Clone, Copy)]
enum End {
    Time,
    Operator,
    Reload,
}

/// The drills under way.
#[derive(Debug, Default)]
pub struct Drills {
    /// All that a try looks at while there are none.
    any: AtomicBool,
    under_way: ArcSwap<Vec<Arc<Drill>>>,
    /// Held by whoever changes them: what rings when their times are over.
    bells: Mutex<JoinSet<()>>,
}

impl Drills {
    /// What befalls a try at an upstream that begins now, if anything: the oldest drill that it is drawn for
    /// counts.
    #[must_use]
    pub fn draw(&self, route: &str, upstream: &str, now: Instant, dice: &Dice) -> Option<Arc<Drill>> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let drills = self.under_way.load();
        let mut drills = drills.iter().filter(|drill| now < drill.until && drill.wanted.is_about(route, upstream));
        let drawn = drills.find(|drill| dice.unit() * 100.0 < drill.wanted.percent)?;
        drawn.harmed.fetch_add(1, Relaxed);
        Some(drawn.clone())
    }

    /// Those under way, the oldest first.
    #[must_use]
    pub fn under_way(&self, now: Instant) -> Vec<Arc<Drill>> {
        self.under_way.load().iter().filter(|drill| now < drill.until).cloned().collect()
    }

    /// Begins one, if the configuration allows it, which is asked for while no reload can come in between. It
    /// rings when its time is over on the runtime of whoever calls.
    ///
    /// # Errors
    /// Why it does not begin.
    pub(crate) fn begin<R: AsRef<Snapshot>>(
        self: &Arc<Self>,
        wanted: Wanted,
        dice: &Dice,
        in_force: impl FnOnce() -> Arc<R>,
    ) -> Result<Arc<Drill>, NoDrill> {
        let mut bells = self.bells();
        let began = Clock.now();
        let running = in_force();
        let snapshot = (*running).as_ref();
        if !snapshot.general.drills {
            return Err(NoDrill::Disabled);
        }
        let until = began + wanted.length.min(LONGEST);
        let id: Box<str> = format!("{:012x}", dice.bits() >> 16).into();
        if !wanted.is_possible(snapshot) {
            return Err(NoDrill::NoSuchUpstream);
        }
        let mut drills = self.under_way(began);
        if drills.len() >= MOST {
            return Err(NoDrill::TooMany);
        }
        while bells.try_join_next().is_some() {}
        let bell = bells.spawn(ring(Arc::downgrade(self), id.clone(), until));
        let drill = Arc::new(Drill {
            id,
            wanted,
            began,
            until,
            harmed: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            bell,
        });
        tell_begin(&drill);
        drills.push(drill.clone());
        self.publish(drills);
        drop(bells);
        Ok(drill)
    }

    /// Ends one; false where there is none of that name.
    pub fn end(&self, id: &str) -> bool {
        self.finish(id, End::Operator)
    }

    /// Ends those that a configuration that is in force now does not allow, or has no upstream for.
    pub(crate) fn keep_to(&self, snapshot: &Snapshot) {
        // Also where none is seen: one may be beginning under the configuration that was in force before.
        self.retain(End::Reload, |drill| drill.wanted.is_possible(snapshot));
    }

    fn finish(&self, id: &str, why: End) -> bool {
        self.retain(why, |drill| &*drill.id != id)
    }

    fn retain(&self, why: End, stays: impl Fn(&Drill) -> bool) -> bool {
        let _bells = self.bells();
        let drills = self.under_way.load_full();
        let (stay, go): (Vec<_>, Vec<_>) = drills.iter().cloned().partition(|drill| stays(drill));
        if !go.is_empty() {
            self.publish(stay);
        }
        for drill in &go {
            drill.has_ended.store(true, Relaxed);
            tell_end(drill, why);
            // Where it is ringing already it is past every wait, and ends as it would.
            drill.bell.abort();
        }
        !go.is_empty()
    }

    fn publish(&self, drills: Vec<Arc<Drill>>) {
        let any = !drills.is_empty();
        self.under_way.store(Arc::new(drills));
        self.any.store(any, Relaxed);
    }

    fn bells(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a drill when its time is over.
async fn ring(drills: Weak<Drills>, id: Box<str>, until: Instant) {
    tokio::time::sleep_until(until.into()).await;
    if let Some(drills) = drills.upgrade() {
        drills.finish(&id, End::Time);
    }
}

fn tell_begin(drill: &Drill) {
    let Wanted { upstream, route, harm, percent, length, by } = &drill.wanted;
    let (status, reset) = match harm.then {
        Some(Failure::Status(status)) => (Some(status), false),
        Some(Failure::Reset) => (None, true),
        None => (None, false),
    };
    tracing::warn!(
        drill = &*drill.id,
        upstream = &**upstream,
        route = route.as_deref(),
        latency_ms = harm.latency.map(millis),
        status,
        reset,
        percent,
        for_ms = millis(*length),
        by = &**by,
        "a drill begins: faults are injected into the upstream"
    );
}

fn tell_end(drill: &Drill, why: End) {
    let why = match why {
        End::Time => "its time is over",
        End::Operator => "an operator has ended it",
        End::Reload => "the configuration has no place for it any more",
    };
    let (upstream, tries) = (&*drill.wanted.upstream, drill.harmed());
    tracing::warn!(drill = &*drill.id, upstream, tries, why, "a drill ends");
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use base::KeyHasher;
    use config::Source;

    use super::*;

    const TEXT: &str = r#"
drills: enabled
providers: [{ name: a, base_url: "http://a/v1" }]
routes: [{ name: chat, upstreams: [{ provider: a, model: m }] }]
"#;

    struct InForce(Snapshot);

    impl AsRef<Snapshot> for InForce {
        fn as_ref(&self) -> &Snapshot {
            &self.0
        }
    }

    fn snapshot(text: &str) -> Snapshot {
        let source = Source::Text { name: "drill.yaml".to_owned(), text: text.to_owned() };
        config::load(&source, &|_| None, &KeyHasher::new(&[0; 64])).unwrap().snapshot
    }

    #[tokio::test]
    async fn a_drill_that_begins_while_a_reload_forbids_it_is_ended_by_that_reload() {
        let drills = Arc::<Drills>::default();
        let wanted = Wanted {
            upstream: "a/m".into(),
            route: None,
            harm: Harm { latency: None, then: Some(Failure::Reset) },
            percent: 100.0,
            length: LONGEST,
            by: "rehearser".into(),
        };
        let mut reload = None;
        let before = || {
            // In between another configuration takes force on another thread, as far as it comes.
            let (told, hears) = mpsc::sync_channel(1);
            let drills = drills.clone();
            reload = Some(std::thread::spawn(move || {
                told.send(()).unwrap();
                drills.keep_to(&snapshot(&TEXT.replace("enabled", "disabled")));
            }));
            hears.recv().unwrap();
            (0..10_000).for_each(|_| std::thread::yield_now());
            Arc::new(InForce(snapshot(TEXT)))
        };
        assert!(drills.begin(wanted, &Dice::loaded(1), before).is_ok());
        reload.unwrap().join().unwrap();
        assert!(drills.under_way(Clock.now()).is_empty());
    }
}
