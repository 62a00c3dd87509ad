//! The gateway as a process: tied to the drill's life, stopped by its id.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

/// How long a stopped gateway may take, and how often it is looked at meanwhile.
const STOP_LOOKS: u32 = 100;
const STOP_LOOK: Duration = Duration::from_millis(50);

/// The program under test; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts `program serve --config CONFIG` with its access log in `DIR/access.log` and its own log in `DIR/gateway.log`.
    pub(crate) fn start(program: &Path, config: &Path, dir: &Path) -> io::Result<Self> {
        let data = dir.join("data");
        fs::create_dir_all(&data)?;
        let child = Command::new(std::env::current_exe()?)
            .arg("tied")
            .arg(program)
            .args(["serve", "--config"])
            .arg(config)
            .env("MAI_DATA_DIR", data)
            .env_remove("MAI_LISTEN")
            .env_remove("MAI_ADMIN_LISTEN")
            .env_remove("MAI_LOG_LEVEL")
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("access.log"))?)
            .stderr(File::create(dir.join("gateway.log"))?)
            .spawn()?;
        Ok(Self { child })
    }

    /// How it ended, where it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to read its configuration anew.
    pub(crate) fn reload(&self) {
        self.signal(Signal::HUP);
    }

    /// Asks it to stop and waits for its end, so that its logs are whole.
    pub(crate) async fn stop(mut self) -> io::Result<()> {
        self.signal(Signal::TERM);
        for _ in 0..STOP_LOOKS {
            if let Some(status) = self.ended() {
                return match status.success() {
                    true => Ok(()),
                    false => Err(io::Error::other(format!("the gateway ended with {status}"))),
                };
            }
            tokio::time::sleep(STOP_LOOK).await;
        }
        Err(io::Error::other("the gateway did not stop when asked to"))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // A process that is gone already is what we want.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Becomes the program in `words`, which gets SIGTERM when our parent ends, however it ends.
pub(crate) fn become_tied(words: &[String]) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let (program, rest) = words.split_first().ok_or_else(|| io::Error::other("tied COMMAND [ARGUMENT…]"))?;
    Err(Command::new(program).args(rest).exec())
}

/// A directory that is removed with its content when dropped, unless it is to be kept.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: PathBuf,
    is_kept: bool,
}

impl Scratch {
    /// `keep`, made where it is missing, or a new one below the system's temporary directory.
    pub(crate) fn make(keep: Option<&Path>) -> io::Result<Self> {
        let of_our_own = || std::env::temp_dir().join(format!("mai-drill-{}", std::process::id()));
        let dir = keep.map_or_else(of_our_own, Path::to_path_buf);
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, is_kept: keep.is_some() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
