//! A hand that is misused from inside: it stays one's own trouble, and the hand goes on.

use std::sync::Arc;

use outlast_hands::Hand;
use outlast_protocol::Outcome;
use serde_json::json;

use crate::{
    escapes::python,
    support::{Node, bash, call, failed, fine, sh, text},
};

/// All that is tried as root and rootless alike; the hand may have 100 processes.
pub(crate) async fn all_is_ones_own_trouble(hand: &Arc<dyn Hand>) {
    memory_file_systems_fill(hand).await;
    a_held_pipe_holds_no_call(hand).await;
    output_is_bounded(hand).await;
    peers_are_stopped(hand).await;
    everything_is_killed(hand).await;
    processes_run_out(hand).await;
}

/// Ends what is left, and has a shell again.
async fn again(hand: &Arc<dyn Hand>) {
    fine(&call(hand, "bash", json!({"restart": true})).await);
    assert_eq!(sh(hand, "echo alive").await, "alive");
}

/// A call that ends at its own bound.
async fn timed_out(hand: &Arc<dyn Hand>, command: &str) {
    let input = json!({"command": command, "timeout_ms": 700});
    let result = call(hand, "bash", input).await;
    assert_eq!(result.outcome, Outcome::Limit, "{result:?}");
    assert!(
        failed(&result).contains("timed out after 700 ms"),
        "{result:?}"
    );
}

/// What lies in memory is bounded in bytes and in files.
async fn memory_file_systems_fill(hand: &Arc<dyn Hand>) {
    for at in ["/dev/shm", "/tmp"] {
        let fill = format!("head -c 3G /dev/zero > {at}/x; s=$?; rm {at}/x; (exit $s)");
        let words = failed(&bash(hand, &fill).await);
        assert!(words.contains("No space left on device"), "{at}: {words}");
    }
    let code = "
for at in ('/dev/shm', '/tmp'):
    os.makedirs(at + '/many'); n = 0
    try:
        while n < 1000000: os.close(os.open(f'{at}/many/{n}', os.O_CREAT)); n += 1
    except OSError as error: print(errno.errorcode[error.errno])
    for i in range(n): os.unlink(f'{at}/many/{i}')
    os.rmdir(at + '/many')";
    assert_eq!(sh(hand, &python(code)).await, "ENOSPC\nENOSPC");
    // The folder of devices itself takes nothing.
    let words = failed(&bash(hand, "touch /dev/file").await);
    assert!(words.contains("Read-only file system"), "{words}");
}

/// Whoever keeps the output open keeps it alone.
async fn a_held_pipe_holds_no_call(hand: &Arc<dyn Hand>) {
    assert_eq!(
        sh(hand, "sleep 600 & setsid sleep 600 & echo on").await,
        "on"
    );
    let code = "
if os.fork() == 0:
    os.setsid()
    import time; time.sleep(600)
print('left')";
    assert_eq!(sh(hand, &python(code)).await, "left");
    sh(hand, "pkill sleep; pkill python3; true").await;
}

/// Much output is cut and counted.
async fn output_is_bounded(hand: &Arc<dyn Hand>) {
    let words = sh(
        hand,
        "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end",
    )
    .await;
    assert!(
        words.starts_with("[output truncated: the first "),
        "{}",
        &words[..80]
    );
    assert!(
        words.ends_with("the end") && words.len() < 200_000,
        "{}",
        words.len()
    );
}

/// The shell, a peer of it, and all at once are stopped; file tools are none of them.
async fn peers_are_stopped(hand: &Arc<dyn Hand>) {
    timed_out(hand, "kill -STOP $$; echo on").await;
    again(hand).await;
    let code = "
import signal
os.kill(-1, signal.SIGSTOP)";
    let stop_all = python(code);
    let stopped = timed_out(hand, &stop_all);
    let beside = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        call(
            hand,
            "write",
            json!({"file_path": "beside", "content": "x"}),
        )
        .await
    };
    let ((), beside) = tokio::join!(stopped, beside);
    fine(&beside);
    again(hand).await;
    assert_eq!(sh(hand, "cat beside").await, "x");
}

/// Every process but PID 1 gets every signal.
async fn everything_is_killed(hand: &Arc<dyn Hand>) {
    let code = "
import signal
for number in [n for n in range(1, 65) if n not in (9, 17, 19)] + [9]:
    try: os.kill(1, number)
    except OSError: pass
for pid in [int(p) for p in os.listdir('/proc') if p.isdigit()]:
    if pid not in (1, os.getpid(), os.getppid()):
        try: os.kill(pid, 9)
        except OSError: pass
print('sent')";
    sh(hand, "setsid sleep 600 > /dev/null 2>&1 & true").await;
    let words = text(&bash(hand, &python(code)).await);
    assert!(words.contains("sent"), "{words}");
    let ended = failed(&bash(hand, "kill -9 -1; kill -9 $$").await);
    assert!(
        ended.contains("the shell was killed by signal 9"),
        "{ended}"
    );
    again(hand).await;
    assert_eq!(sh(hand, "pgrep sleep | wc -l").await, "0");
}

/// A bomb meets the bound, and a restart ends it.
async fn processes_run_out(hand: &Arc<dyn Hand>) {
    drop(bash(hand, "f() { f | f & }; f; sleep 1; true").await);
    fine(&call(hand, "read", json!({"file_path": "beside"})).await);
    again(hand).await;
    let code = "
import time
n = 0
try:
    while n < 5000:
        if os.fork() == 0: time.sleep(600)
        n += 1
except OSError as error: print(errno.errorcode[error.errno], n < 120)";
    let words = text(&bash(hand, &python(code)).await);
    assert!(words.contains("EAGAIN True"), "{words}");
    again(hand).await;
    assert_eq!(sh(hand, "pgrep python3 | wc -l").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_misused_is_ones_own() {
    let node = Node::new().await;
    let limits = outlast_hands::Limits {
        pids: 100,
        ..outlast_hands::Limits::default()
    };
    let hand = node.limited(limits).await;
    all_is_ones_own_trouble(&hand).await;
}
