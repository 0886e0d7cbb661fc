//! As many processes and threads as there may be: whoever meets the bound is told, also who goes on as if
//! nothing had happened, and nobody else is.

use std::{sync::Arc, time::Duration};

use outlast_hands::{
    Hand, Limits,
    namespace::{Cgroups, Verdict},
};
use outlast_protocol::{CallResult, Outcome};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    escapes::python,
    support::{GENEROUS, Node, bash, call, failed, fine, sh, text},
};

/// The bounds of the hands here.
pub(crate) fn limits() -> Limits {
    Limits {
        pids: 40,
        ..Limits::default()
    }
}

/// What a result says of it.
const WORDS: &str = "limit of 40 processes was reached";

/// Makes more threads than there may be, survives that, and holds them for a while.
const THREADS: &str = "
import threading, time
made, go = 0, threading.Event()
for _ in range(100):
    try: threading.Thread(target=go.wait, daemon=True).start(); made += 1
    except RuntimeError: pass
time.sleep(0.5)
go.set()
print('went on')";

/// Forks as a build with many jobs does, which waits for one when it can start no other.
const JOBS: &str = "
import time
made = failed = 0
while made < 60:
    try: pid = os.fork()
    except BlockingIOError:
        failed += 1; time.sleep(0.05)
        try: os.waitpid(-1, os.WNOHANG)
        except ChildProcessError: pass
        continue
    if pid == 0: time.sleep(0.3); os._exit(0)
    made += 1
while True:
    try: os.wait()
    except ChildProcessError: break
print('went on' if failed else 'nothing failed')";

/// A call that is told of the bound, and is no failure.
#[track_caller]
fn is_told(result: &CallResult) {
    let said = fine(result);
    assert!(said.contains("went on") && said.contains(WORDS), "{said}");
    assert_eq!(said.matches(WORDS).count(), 1, "once: {said}");
}

/// All that holds whoever keeps the bound.
pub(crate) async fn whoever_meets_the_bound_is_told(hand: &Arc<dyn Hand>) {
    is_told(&bash(hand, &python(THREADS)).await);
    is_told(&bash(hand, &python(JOBS)).await);
    // Who fails by it fails by a limit.
    let code = format!("{THREADS}\nraise SystemExit(3)");
    let result = bash(hand, &python(&code)).await;
    assert!(failed(&result).contains(WORDS), "{result:?}");
    assert_eq!(result.outcome, Outcome::Limit);
    // Nobody else is told, whatever is printed.
    assert_eq!(sh(hand, "echo alone").await, "alone");
    let said = bash(hand, "echo 'fork: Resource temporarily unavailable'").await;
    assert!(!fine(&said).contains(WORDS), "{said:?}");
    assert!(!failed(&bash(hand, "false").await).contains(WORDS));
    between_two_calls_the_next_is_told(hand).await;
}

/// Something that was left running meets the bound while no call runs.
async fn between_two_calls_the_next_is_told(hand: &Arc<dyn Hand>) {
    let code = THREADS.replace("sleep(0.5)", "sleep(2.5)");
    leave(hand, &format!("import time; time.sleep(0.5)\n{code}")).await;
    let result = told(hand, "glob", json!({"pattern": "nothing*"})).await;
    let said = text(&result);
    assert!(said.contains("[before this call, the sandbox's "), "{said}");
    assert_ne!(
        result.outcome,
        Outcome::Limit,
        "it is not the call's: {said}"
    );
    // It is over by then.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(sh(hand, "echo alone").await, "alone");
}

/// Calls a tool now and then, until it is told of the bound.
async fn told(hand: &Arc<dyn Hand>, tool: &str, input: Value) -> CallResult {
    let until = Instant::now() + GENEROUS;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let result = call(hand, tool, input.clone()).await;
        if text(&result).contains(WORDS) || Instant::now() > until {
            assert!(text(&result).contains(WORDS), "{result:?}");
            return result;
        }
    }
}

/// Leaves a program running, and the call is over.
async fn leave(hand: &Arc<dyn Hand>, code: &str) {
    let left = format!("({}\n) > /dev/null 2>&1 &", python(code));
    assert_eq!(sh(hand, &left).await, "(no output)");
}

/// With all processes used up, file tools work and are not told of it; a restart ends the others.
async fn file_tools_have_room(hand: &Arc<dyn Hand>) {
    leave(hand, &THREADS.replace("sleep(0.5)", "sleep(600)")).await;
    let input = json!({"file_path": "beside", "content": "x"});
    fine(&told(hand, "write", input.clone()).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Some were still being refused when it was told.
    call(hand, "write", input.clone()).await;
    let said = fine(&call(hand, "write", input.clone()).await);
    assert!(!said.contains(WORDS), "{said}");
    restart(hand).await;
    assert_eq!(sh(hand, "cat beside; pgrep python3 | wc -l").await, "x0");
}

async fn restart(hand: &Arc<dyn Hand>) {
    fine(&call(hand, "bash", json!({"restart": true})).await);
}

/// Whether the bound is kept by a control group.
fn counted(verdict: &Verdict) -> bool {
    !matches!(verdict.cgroups, Cgroups::None { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_of_processes_is_told_to_whom_it_concerns() {
    let node = Node::new().await;
    let hand = node.limited(limits()).await;
    whoever_meets_the_bound_is_told(&hand).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_in_a_group_that_they_can_neither_leave_nor_see() {
    let node = Node::new().await;
    if !counted(node.driver.verdict()) {
        return;
    }
    let hand = node.limited(limits()).await;
    file_tools_have_room(&hand).await;
    // One refusal that is over at once, and nobody speaks of.
    let short = "
made = []
try:
    while True:
        made.append(os.fork())
        if made[-1] == 0: import signal; signal.pause()
except OSError: pass
for pid in made: os.kill(pid, 9)
for pid in made: os.wait()
print('went on')";
    is_told(&bash(&hand, &python(short)).await);
    // No descriptor leads to a control group, in the shell or in PID 1.
    let open = "ls -l /proc/[0-9]*/fd/ 2>/dev/null | grep -cE 'cgroup|tasks|commands'; \
                ls /proc/1/fd 2>&1 | grep -c denied";
    assert_eq!(sh(&hand, open).await, "0\n1");
    // Also behind a restart.
    restart(&hand).await;
    is_told(&bash(&hand, &python(short)).await);
    assert_eq!(sh(&hand, "ls /sys/fs/cgroup 2>&1 | wc -l").await, "1");
}
