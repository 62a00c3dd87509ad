//! Processes that a run starts: tied to its life, stopped by their id, and read from `/proc`.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getrlimit, kill_process, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How long a stopped process may take before it is killed: 40 looks, one every 50 ms.
const STOP_LOOKS: u32 = 40;
const STOP_LOOK: Duration = Duration::from_millis(50);

/// Open files that a run asks for: 1,000 streams are up to 3,000 of them in one process.
const OPEN_FILES: u64 = 16_384;

/// Niceness of a run, where the machine allows it.
const NICER: i32 = -10;

/// The group that the kernel shares cores by.
const GROUP: &str = "/proc/self/autogroup";

/// Bytes of a page, as `/proc/PID/statm` counts.
const PAGE: u64 = 4096;

/// A started process; dropping it stops it and its children.
pub(crate) struct Started {
    child: Child,
    pids: Vec<u32>,
}

impl Started {
    /// Starts `words` tied to this process's life, with stdout and stderr in `NAME.out` and `NAME.err` of `dir`.
    pub(crate) fn start(dir: &Path, name: &str, words: &[String], env: &[(&str, String)]) -> io::Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .arg("tied")
            .args(words)
            .envs(env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(File::create(dir.join(format!("{name}.out")))?)
            .stderr(File::create(dir.join(format!("{name}.err")))?)
            .spawn()?;
        Ok(Self { child, pids: Vec::new() })
    }

    /// Whether the process has ended.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The process and its children, as they are now that it serves.
    pub(crate) fn learn_family(&mut self) {
        self.pids = family(self.child.id());
    }

    /// Their ids.
    pub(crate) fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// CPU time of all its threads and children so far, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.pids.iter().map(|pid| cpu_ns(*pid)).sum()
    }

    /// Resident bytes of it and its children; pages that they share count once for each.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.pids.iter().filter_map(|pid| resident_bytes(*pid)).sum()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let family = family(self.child.id());
        signal(self.child.id(), Signal::TERM);
        for _ in 0..STOP_LOOKS {
            if self.ended() {
                return;
            }
            pause(STOP_LOOK);
        }
        for pid in family {
            signal(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing else is left to run while a process is being stopped")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // A process that is gone already is what we want.
        let _ = kill_process(pid, signal);
    }
}

/// Becomes the program in `words`, which gets SIGTERM when our parent ends, however it ends.
pub(crate) fn become_tied(words: &[String]) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let (program, rest) = words.split_first().ok_or_else(|| io::Error::other("tied COMMAND [ARGUMENT…]"))?;
    Err(Command::new(program).args(rest).exec())
}

/// Raises the limit of open files; children inherit it.
pub(crate) fn raise_open_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })?;
    }
    Ok(())
}

/// While it lives, this process and what it starts run before the builds and editors of a shared machine.
pub(crate) struct First {
    /// Niceness of the session's group before, where the kernel groups by session.
    group_before: Option<String>,
}

impl First {
    /// Takes the lead; an error where the machine does not let us.
    pub(crate) fn come() -> io::Result<Self> {
        rustix::process::nice(NICER)?;
        // Where the kernel shares cores between sessions, a process's own niceness counts only inside its session.
        let group = fs::read_to_string(GROUP).ok();
        let group_before = group.as_deref().and_then(|text| text.rsplit(' ').next()).map(|nice| nice.trim().to_owned());
        if group_before.is_some() {
            fs::write(GROUP, NICER.to_string())?;
        }
        Ok(Self { group_before })
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if let Some(before) = &self.group_before {
            let _ = fs::write(GROUP, before);
        }
    }
}

/// Cores of the machine, whatever this process may use of them.
pub(crate) fn cores() -> usize {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count().max(1)
}

/// While it lives, all threads of some processes run on one core.
pub(crate) struct OneCore {
    before: CpuSet,
    pids: Vec<u32>,
}

impl OneCore {
    /// Moves `pids` and this process to the first core that this process may use.
    pub(crate) fn hold(pids: &[u32]) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap_or(0);
        let mut one = CpuSet::new();
        one.set(first);
        let pids: Vec<u32> = pids.iter().copied().chain([std::process::id()]).collect();
        place(&pids, &one);
        Ok(Self { before, pids })
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        place(&self.pids, &self.before);
    }
}

fn place(pids: &[u32], cpus: &CpuSet) {
    for task in pids.iter().flat_map(|pid| numbers_in(&format!("/proc/{pid}/task"))) {
        // A thread that is gone already needs no place.
        let _ = sched_setaffinity(i32::try_from(task).ok().and_then(Pid::from_raw), cpus);
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn family(pid: u32) -> Vec<u32> {
    let mut pids = vec![pid];
    for task in numbers_in(&format!("/proc/{pid}/task")) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{task}/children")).unwrap_or_default();
        pids.extend(children.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    pids
}

fn numbers_in(dir: &str) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Run time of a process's threads: nanoseconds where the scheduler tells them, else the ticks of `stat`.
fn cpu_ns(pid: u32) -> u64 {
    let tasks = numbers_in(&format!("/proc/{pid}/task"));
    let exact = tasks.iter().filter_map(|task| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{task}/schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    match exact.sum() {
        0 => ticks(pid).unwrap_or(0) * 10_000_000,
        exact => exact,
    }
}

/// `utime + stime` of a process, in ticks of 10 ms.
fn ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn resident_bytes(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * PAGE)
}

/// CPU time of this process so far, in nanoseconds.
pub(crate) fn own_cpu_ns() -> u64 {
    cpu_ns(std::process::id())
}

/// CPU time that the whole machine has spent so far, in nanoseconds, idle time left out.
pub(crate) fn machine_cpu_ns() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system [idle iowait] irq softirq steal
    fields.iter().take(8).enumerate().filter(|(at, _)| !(3..=4).contains(at)).map(|(_, ticks)| ticks * 10_000_000).sum()
}

/// A directory that is removed with its content when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A new one below the system's temporary directory.
    pub(crate) fn make() -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("mai-bench-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
