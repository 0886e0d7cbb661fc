//! What a hostile command tries, each from inside. No network is given yet, so its escapes are
//! those of local sockets.

use std::{fs, sync::Arc};

use outlast_hands::{Hand, Keep, Provisioner as _};

use crate::support::{Node, bash, sh, text};

/// Runs a command that must not get what it wants; returns what it printed.
async fn refused(hand: &Arc<dyn Hand>, command: &str, wanted: &str) -> String {
    let result = bash(hand, command).await;
    let text = text(&result);
    assert!(result.is_error, "{command} succeeded: {text}");
    assert!(!text.contains(wanted), "{command} got it: {text}");
    text
}

/// Runs a line of Python, which the host has below `/usr`.
pub(crate) fn python(code: &str) -> String {
    format!(
        "/usr/bin/python3 - <<'END'\nimport ctypes, os, socket, errno\nlibc = ctypes.CDLL(None, use_errno=True)\n{code}\nEND"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn init_is_closed_and_unkillable() {
    let node = Node::new().await;
    let hand = node.hand().await;
    for file in [
        "environ",
        "mem",
        "maps",
        "auxv",
        "stack",
        "syscall",
        "fd/0",
        "root/etc/passwd",
        "cwd/etc",
    ] {
        refused(&hand, &format!("cat /proc/1/{file}"), "root:").await;
    }
    for link in ["exe", "root", "cwd", "fd/0", "ns/mnt"] {
        refused(&hand, &format!("readlink /proc/1/{link}"), "/").await;
    }
    sh(&hand, "kill 1; kill -9 1; kill -TERM 1; kill -STOP 1; true").await;
    // Everything but PID 1 and the shell that asks.
    sh(&hand, "setsid sleep 600 & sleep 0.1; kill -9 -1; true").await;
    let text = sh(&hand, "pgrep sleep | wc -l").await;
    assert!(text.lines().any(|line| line == "0"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_has_no_rights_and_cannot_get_any() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let status = sh(&hand, "cat /proc/self/status; id").await;
    for line in [
        "CapInh:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapAmb:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "uid=1000(agent) gid=1000(agent) groups=1000(agent)",
    ] {
        assert!(
            status.lines().any(|found| found == line),
            "{line} is missing from {status}"
        );
    }
    for command in [
        "su -c id",
        "su root -c id",
        "cat /etc/shadow",
        "chroot / id",
        "chown root /workspace",
        "mknod /workspace/sda b 8 0",
        "mknod /dev/x c 1 1",
        "touch /etc/x",
        "touch /usr/x",
        "touch /x",
        "touch /dev/x",
        "echo x > /etc/passwd",
        "rm /etc/passwd",
        "mkdir /root/x",
        "setpriv --reuid 0 id",
        "nsenter -t 1 -m id",
        "unshare -Ur id",
        "unshare -m id",
        "unshare -n id",
        "mount -t tmpfs x /mnt",
        "mount -t proc x /mnt",
        "mount --bind / /mnt",
        "umount /proc/sys",
        "umount /usr",
        "mount -o remount,rw /usr",
        "hostname other",
        "date -s 2020-01-01",
        "renice -n -5 $$",
        "ulimit -n 100000000",
        "ulimit -u 100000000",
        "echo -1000 > /proc/self/oom_score_adj",
        "dmesg",
        "losetup -f",
        "ip link add d type dummy",
        "ls /sys/kernel",
        "cat /proc/kcore",
        "head -c1 /dev/mem",
        "head -c1 /dev/vda",
        "head -c1 /dev/sda",
        "head -c1 /dev/loop0",
        "ls /dev/loop-control",
        "ls /dev/kvm",
        "ls /dev/fuse",
        "ls /dev/net",
        "ls /disk",
        "ls /sys/fs/cgroup/release_agent",
        "cat /proc/1/cgroup > /sys/x",
        "ln /etc/passwd hard && echo x >> hard",
        "touch /mnt/session/uploads/x",
    ] {
        refused(&hand, command, "uid=0").await;
    }
    // A set-user-ID program gains nothing.
    let root = sh(&hand, "cp /bin/bash b; chmod 4755 b; ./b -p -c 'id -u'").await;
    assert_eq!(root, "1000");
}

#[tokio::test(flavor = "multi_thread")]
async fn kernel_switches_are_out_of_reach() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let before = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/irq/0/x",
        "/proc/sys/kernel/modprobe",
        "/sys/kernel/uevent_helper",
        "/proc/self/loginuid",
    ] {
        refused(
            &hand,
            &format!("echo '|/workspace/evil' > {path}"),
            "nothing",
        )
        .await;
    }
    assert_eq!(
        fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(),
        before
    );
    // Hidden, so writing goes nowhere and reading gives nothing.
    assert_eq!(
        sh(
            &hand,
            "cat /proc/sysrq-trigger /proc/kallsyms /proc/keys /proc/timer_list 2>/dev/null | wc -c"
        )
        .await,
        "0"
    );
    assert_eq!(
        sh(
            &hand,
            "ls /proc/scsi /proc/acpi 2>/dev/null | grep -v : | wc -w"
        )
        .await,
        "0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dangerous_system_calls_fail() {
    let node = Node::new().await;
    let hand = node.hand().await;
    no_call_leads_out(&hand).await;
}

/// Number and name on this architecture; what must come back is EPERM.
#[cfg(target_arch = "x86_64")]
const CALLS: &[(u32, &str)] = &[
    (101, "ptrace"),
    (310, "process_vm_readv"),
    (321, "bpf"),
    (425, "io_uring_setup"),
    (250, "keyctl"),
    (248, "add_key"),
    (298, "perf_event_open"),
    (323, "userfaultfd"),
    (272, "unshare"),
    (308, "setns"),
    (165, "mount"),
    (155, "pivot_root"),
    (161, "chroot"),
    (169, "reboot"),
    (175, "init_module"),
    (246, "kexec_load"),
    (304, "open_by_handle_at"),
    (428, "open_tree"),
    (430, "fsopen"),
    (442, "mount_setattr"),
    (438, "pidfd_getfd"),
    (103, "syslog"),
    (164, "settimeofday"),
    (167, "swapon"),
    (300, "fanotify_init"),
    (312, "kcmp"),
    (154, "modify_ldt"),
    (172, "iopl"),
    (0x4000_0027, "x32 getpid"),
    (303, "name_to_handle_at"),
    (179, "quotactl"),
    (443, "quotactl_fd"),
    (320, "kexec_file_load"),
    (313, "finit_module"),
    (176, "delete_module"),
    (227, "clock_settime"),
    (305, "clock_adjtime"),
    (159, "adjtimex"),
    (249, "request_key"),
    (426, "io_uring_enter"),
    (427, "io_uring_register"),
    (432, "fsmount"),
    (429, "move_mount"),
    (433, "fspick"),
    (166, "umount2"),
    (163, "acct"),
    (153, "vhangup"),
    (170, "sethostname"),
    (168, "swapoff"),
    (311, "process_vm_writev"),
    (440, "process_madvise"),
    (173, "ioperm"),
    (256, "migrate_pages"),
    (279, "move_pages"),
    (431, "fsconfig"),
];
/// The same elsewhere.
#[cfg(not(target_arch = "x86_64"))]
const CALLS: &[(u32, &str)] = &[
    (117, "ptrace"),
    (280, "bpf"),
    (425, "io_uring_setup"),
    (97, "unshare"),
];

/// Makes every system call that could lead out.
pub(crate) async fn no_call_leads_out(hand: &Arc<dyn Hand>) {
    sh(hand, "test -x /usr/bin/python3").await;
    for (number, name) in CALLS {
        let code = python(&format!(
            "r = libc.syscall({number}, 0, 0, 0, 0, 0)\nprint(r, errno.errorcode.get(ctypes.get_errno()))"
        ));
        assert_eq!(sh(hand, &code).await, "-1 EPERM", "{name}");
    }
    let clone3 = python("print(libc.syscall(435, 0, 0), errno.errorcode[ctypes.get_errno()])");
    assert_eq!(sh(hand, &clone3).await, "-1 ENOSYS");
    for flag in [
        0x1000_0000_u64,
        0x2000_0000,
        0x4000_0000,
        0x0002_0000,
        0x0200_0000,
    ] {
        let clone = python(&format!(
            "r = libc.syscall(56, {flag} | 17, 0, 0, 0, 0)\nif r == 0: os._exit(0)\nprint(r)"
        ));
        assert_eq!(sh(hand, &clone).await, "-1", "{flag:x}");
    }
    // Threads and processes, which need clone, work all the same.
    let threads = python(
        "import threading\nt = threading.Thread(target=lambda: print('t')); t.start(); t.join()",
    );
    assert_eq!(sh(hand, &threads).await, "t");
    // Words are put into nobody's mouth.
    let typed = python(
        "import fcntl, pty\nmaster, slave = pty.openpty()\ntry: fcntl.ioctl(slave, 0x5412, b'x'); print('typed')\nexcept OSError as e: print(errno.errorcode[e.errno])",
    );
    assert_eq!(sh(hand, &typed).await, "EPERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_harmless_sockets_and_no_way_out() {
    let node = Node::new().await;
    nothing_else_is_reached(&node.hand().await).await;
}

/// A way out leads to whoever holds its listener, and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn a_way_out_opens_no_other() {
    let node = Node::new().await;
    let recipe = outlast_hands::Recipe {
        outlet: Some(outlast_hands::Outlet::default()),
        ..crate::support::recipe()
    };
    nothing_else_is_reached(&node.provision(&recipe).await).await;
}

async fn nothing_else_is_reached(hand: &Arc<dyn Hand>) {
    // netlink, packet, alg, vsock, bluetooth, xdp, key
    for family in [16, 17, 38, 40, 31, 44, 15] {
        let code = python(&format!(
            "try:\n  socket.socket({family}, socket.SOCK_DGRAM if {family} != 40 else socket.SOCK_STREAM)\n  print('open')\nexcept OSError as e: print(errno.errorcode[e.errno])"
        ));
        assert_eq!(sh(hand, &code).await, "EPERM", "family {family}");
    }
    // A listener of the host on all addresses, and one of its abstract sockets.
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("outlast-test-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        );
    let _abstract = std::os::unix::net::UnixListener::bind_addr(&address.unwrap()).unwrap();
    for host in [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "172.17.0.1",
        "1.1.1.1",
    ] {
        refused(hand, &format!("echo > /dev/tcp/{host}/{port}"), "nothing").await;
    }
    let connect = python(&format!(
        "s = socket.socket(socket.AF_UNIX)\ntry: s.connect('\\0{name}'); print('in')\nexcept OSError as e: print(errno.errorcode[e.errno])"
    ));
    assert_eq!(sh(hand, &connect).await, "ECONNREFUSED");
    // Its own loopback works.
    let own = python(
        "a = socket.socket(); a.bind(('127.0.0.1', 0)); a.listen()\nb = socket.create_connection(a.getsockname()); print('ok')",
    );
    assert_eq!(sh(hand, &own).await, "ok");
    assert_eq!(sh(hand, "tail -n +3 /proc/net/dev | wc -l").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_host_is_in_sight() {
    let node = Node::new().await;
    let hand = node.hand().await;
    assert_eq!(
        sh(
            &hand,
            "ls -A /home /opt /srv /sys /workspace | tr '\\n' ' '"
        )
        .await
        .trim(),
        "/home: agent  /opt:  /srv:  /sys:  /workspace:"
    );
    let dir = node.hands().display().to_string();
    // Of a folder that is shown the kernel tells the way to it, and nothing more can be had of it.
    let mounts = sh(
        &hand,
        "cat /proc/self/mountinfo /proc/self/mounts | grep -v ' /mnt/session/uploads '",
    )
    .await;
    assert!(!mounts.contains(&dir), "{mounts}");
    assert_eq!(
        sh(&hand, "hostname; cat /proc/sys/kernel/hostname").await,
        "sandbox\nsandbox"
    );
    let own = std::process::id();
    assert!(text(&bash(&hand, &format!("kill -0 {own}")).await).contains("No such process"));
    // The shell has three descriptors and what it put aside for later; its children only three.
    assert_eq!(sh(&hand, "ls /proc/$$/fd").await, "0\n1\n10\n11\n2");
    assert_eq!(sh(&hand, "/bin/ls /proc/self/fd | wc -l").await, "4");
    let environment = sh(&hand, "env | sed 's/=.*//' | sort | tr '\\n' ' '").await;
    assert_eq!(
        environment.trim(),
        "HOME LANG LOGNAME NODE_PATH PATH PWD SHELL SHLVL TERM USER _"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_at_once() {
    let node = Node::new().await;
    let hands = (0..200).map(|_| node.hand());
    let hands = futures::future::join_all(hands).await;
    let asked = hands
        .iter()
        .map(|hand| sh(hand, "echo $((6 * 7)) > file; cat file"));
    let answers = futures::future::join_all(asked).await;
    assert!(answers.iter().all(|answer| answer == "42"));
    // What an idle one takes: PID 1, before it has a shell, and all that it does not share.
    let idle = node.hand().await;
    let name = idle.incarnation().to_string();
    let status = sh(&idle, "cat /proc/1/status | grep -E 'VmRSS|RssAnon'").await;
    println!("PID 1 of {name}: {status}");
    let ended = hands
        .iter()
        .map(|hand| node.driver.reap(hand.incarnation(), Keep::Nothing));
    for ended in futures::future::join_all(ended).await {
        ended.unwrap();
    }
}
