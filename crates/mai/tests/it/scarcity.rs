//! When the machine has too little of something.

use std::process::Command;

use crate::process::{Dir, Gateway, Program, chat, program, until, upstream, usual};
use tokio::net::TcpStream;

fn serve(dir: &Dir, config: &str) -> Command {
    let path = dir.write("gateway.yaml", config);
    let mut command = program();
    command.arg("serve").arg("-c").arg(path).env("MAI_DATA_DIR", dir.path("data"));
    command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--workers", "2"]);
    command
}

#[tokio::test]
async fn without_descriptors_it_waits_and_recovers() {
    let up = upstream("").await;
    let dir = Dir::new();
    let serve = serve(&dir, &usual(&up.url()));
    let mut limited = Command::new("sh");
    limited
        .env_clear()
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
        .arg(serve.get_program())
        .args(serve.get_args());
    let gateway = Gateway::start(dir, &mut limited).await;
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(TcpStream::connect(gateway.data).await.unwrap());
    }
    until("it runs out", || gateway.process.err.has("could not be accepted")).await;
    drop(held);
    for ask in [chat(), chat().stream()] {
        assert_eq!(gateway.ask(&ask).await.status, 200, "it has recovered");
    }
    assert!(gateway.process.err.text().lines().count() < 10, "it does not flood its log");
}

#[tokio::test]
async fn an_access_log_that_nobody_reads_holds_up_nobody() {
    let up = upstream("").await;
    for is_closed in [true, false] {
        let dir = Dir::new();
        let process = Program::start_unheard(&mut serve(&dir, &usual(&up.url())), is_closed);
        let mut gateway = Gateway::of(dir, process).await;
        let mut caller = gateway.caller().await;
        // More lines than a pipe holds.
        for _ in 0..300 {
            let ask = chat().header("x-request-id", "i".repeat(120));
            assert_eq!(caller.ask(&ask).await.status, 200);
        }
        if is_closed {
            assert!(gateway.metric("mai_log_lines_lost", "").await > 0.0, "it is counted");
        }
        gateway.process.signal("TERM");
        assert_eq!(gateway.process.exit().await, Some(0));
    }
}
