//! What a hostile command tries beside what `escapes` has, each from inside: descriptors, sockets,
//! namespaces, devices, and traps that it leaves for whoever reads its files from outside.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    process::Command,
    sync::Arc,
};

use outlast_hands::{
    Hand, Keep, Provisioner as _,
    namespace::{Disks, Namespaces, Options},
};
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::{
    alone,
    escapes::python,
    support::{Node, bash, call, fine, recipe, sh, text},
};

#[tokio::test(flavor = "multi_thread")]
async fn no_way_leads_out() {
    let node = Node::new().await;
    let hand = node.hand().await;
    no_way_out(&hand).await;
    // Without root it belongs to the one user that there is.
    let found = "find /etc -writable -not -type l";
    assert_eq!(sh(&hand, found).await, "(no output)");
}

/// All that is tried as root and rootless alike.
pub(crate) async fn no_way_out(hand: &Arc<dyn Hand>) {
    no_descriptor_leads_out(hand).await;
    no_namespace_is_handed_out(hand).await;
    no_socket_of_another_kind_is_made(hand).await;
    the_filter_looks_at_what_the_kernel_does(hand).await;
    no_device_is_made_or_found(hand).await;
    no_switch_of_the_kernel_is_writable(hand).await;
    init_cannot_be_signalled_or_starved(hand).await;
    assert_eq!(sh(hand, "echo alive").await, "alive");
}

/// Runs Python that prints what it got and ought not to have; it must print nothing.
async fn nothing(hand: &Arc<dyn Hand>, what: &str, code: &str) {
    let got = text(&bash(hand, &python(code)).await);
    assert!(got.is_empty() || got == "(no output)", "{what}: {got}");
}

/// Every descriptor that can be seen is a pipe, `/dev/null` or a file of the sandbox; no socket has a
/// name that can be reached.
async fn no_descriptor_leads_out(hand: &Arc<dyn Hand>) {
    let code = r"
import glob
fine = ('pipe:', '/dev/null', '/dev/pts/', '/tmp/', '/workspace', '/proc/', 'anon_inode:')
for fd in glob.glob('/proc/[0-9]*/fd/*') + glob.glob('/proc/[0-9]*/task/*/fd/*'):
    try: link = os.readlink(fd)
    except OSError: continue
    if not link.startswith(fine): print(fd, link)
for line in list(open('/proc/net/unix'))[1:]: print(line)
for top, folders, files in os.walk('/'):
    folders[:] = [f for f in folders if os.path.join(top, f) not in ('/proc', '/usr')]
    for name in files:
        path = os.path.join(top, name)
        if os.path.exists(path) and (os.stat(path).st_mode & 0o170000) == 0o140000: print(path)";
    nothing(hand, "descriptors", code).await;
    // What is passed on within comes from within.
    let code = r"
a, b = socket.socketpair()
socket.send_fds(a, [b'x'], [os.open('/workspace', os.O_RDONLY)])
_, fds, _, _ = socket.recv_fds(b, 1, 1)
for at in ('../etc/shadow', '../../../../../../etc/shadow', '../root/x'):
    try: print(os.read(os.open(at, os.O_RDONLY, dir_fd=fds[0]), 99))
    except OSError: pass";
    nothing(hand, "passed descriptors", code).await;
}

/// Neither the namespaces of init nor those above its own can be opened or entered.
async fn no_namespace_is_handed_out(hand: &Arc<dyn Hand>) {
    let code = r"
import fcntl
USERNS, PARENT, SKNS = 0xb701, 0xb702, 0x894c
for kind in os.listdir('/proc/self/ns'):
    for pid in ('1', str(os.getppid()), 'self'):
        try: fd = os.open(f'/proc/{pid}/ns/{kind}', os.O_RDONLY)
        except OSError: continue
        if pid == '1': print('init', kind)
        if libc.setns(fd, 0) == 0: print('entered', pid, kind)
        for ask in (USERNS, PARENT):
            if kind != 'user' and ask == USERNS: continue  # its own
            try: print('above', kind, hex(ask), fcntl.ioctl(fd, ask))
            except OSError: pass
try: print('of a socket', fcntl.ioctl(socket.socket(), SKNS))
except OSError: pass
for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x80):
    if libc.unshare(flag) == 0: print('unshare', hex(flag))
for n, l in enumerate(open('/proc/self/cgroup')):
    # The group of all commands, seen from that of the sandbox: nothing of the host's stands in it.
    if not l.strip().endswith((':/', ':/commands')): print('group', l)";
    nothing(hand, "namespaces", code).await;
}

/// Of all families and types only the harmless ones, by any call that makes sockets.
async fn no_socket_of_another_kind_is_made(hand: &Arc<dyn Hand>) {
    let code = r"
import array
for family in range(64):
    for kind in (1, 2, 3, 4, 5, 10):
        fine = family == 1 or (family in (2, 10) and kind in (1, 2))
        pair = array.array('i', [0, 0])
        one = libc.syscall(41, family, kind, 0)
        two = libc.syscall(53, family, kind, 0, ctypes.c_void_p(pair.buffer_info()[0]))
        three = libc.syscall(41, ctypes.c_ulong(family | 1 << 32), kind, 0)
        if not fine and max(one, two, three) >= 0: print('made', family, kind, one, two, three)
        if two == 0 and family != 1: print('pair', family, kind)
        for fd in (one, three, *(pair if two == 0 else ())):
            if fd > 2: os.close(fd)
for family in (2, 10):
    for protocol in (1, 58, 255, 6):
        if libc.syscall(41, family, 3, protocol) >= 0: print('raw', family, protocol)
s = socket.socket()
for level, name, value in ((0, 19, 1), (1, 36, 7), (1, 12, 7), (1, 33, 1 << 30), (1, 32, 1 << 30)):
    try: s.setsockopt(level, name, value); name in (19, 36, 33, 32) and print('option', level, name)
    except OSError: pass";
    nothing(hand, "sockets", code).await;
}

/// The other ways to the same call: 32-bit calls, and numbers with bits that the kernel ignores.
async fn the_filter_looks_at_what_the_kernel_does(hand: &Arc<dyn Hand>) {
    let code = r"
import pty
master, slave = pty.openpty()
for request in (0x5412, 0x541c, 0x5412 | 1 << 32, 0x541c | 5 << 40):
    if libc.syscall(16, slave, ctypes.c_ulong(request), b'x') >= 0: print('typed', hex(request))
for flag in (0x10000000, 0x20000000, 0x40000000):
    pid = libc.syscall(56, ctypes.c_ulong(flag | 17 | 1 << 35), 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid > 0: print('clone', hex(flag))";
    nothing(hand, "other bits", code).await;
    if cfg!(target_arch = "x86_64") {
        // getpid, asked for as 32-bit programs do: the process ends of it.
        let code = r"
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(b'\xb8\x14\x00\x00\x00\xcd\x80\xc3')
pid = os.fork()
if pid == 0:
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    os._exit(0)
print(os.WTERMSIG(os.waitpid(pid, 0)[1]))";
        let signal = sh(hand, &python(code)).await;
        assert!(
            ["31", "11"].contains(&signal.as_str()),
            "a 32-bit call: {signal}"
        );
    }
}

/// No device but the six, wherever it is made.
async fn no_device_is_made_or_found(hand: &Arc<dyn Hand>) {
    let code = r"
import fcntl, stat
disks = [tuple(map(int, l.split()[:2])) for l in list(open('/proc/partitions'))[2:]]
chars = [(1, 1), (1, 2), (1, 4), (10, 237), (10, 229), (10, 200), (10, 232), (5, 1), (4, 0), (0, 0)]
for at in ('/workspace', '/tmp', '/dev/shm', '/mnt/session/outputs', '/home/agent'):
    for kind, numbers in ((stat.S_IFBLK, disks), (stat.S_IFCHR, chars)):
        for number in numbers:
            try: os.mknod(f'{at}/device', kind | 0o666, os.makedev(*number))
            except OSError: continue
            if number != (0, 0): print('made', at, number)
            # One of no device at all is allowed, and opens nothing.
            try: print('opened', at, os.open(f'{at}/device', os.O_RDWR))
            except OSError: os.unlink(f'{at}/device')
known = {'full', 'null', 'random', 'tty', 'urandom', 'zero', 'ptmx'}
for top, folders, files in os.walk('/'):
    folders[:] = [f for f in folders if os.path.join(top, f) not in ('/proc', '/usr', '/dev/pts')]
    for name in files:
        path = os.path.join(top, name)
        mode = os.lstat(path).st_mode
        if (stat.S_ISBLK(mode) or stat.S_ISCHR(mode)) and name not in known: print('found', path)
# What a file is not to become: one that nobody can remove, or that gives rights.
fd = os.open('/workspace/file', os.O_RDWR | os.O_CREAT)
for flag in (0x10, 0x20):
    try: fcntl.ioctl(fd, 0x40086602, flag.to_bytes(8, 'little')); print('flag', flag)
    except OSError: pass
# A label of SELinux is not tried: where it is not enforced, a kernel may let every owner write one,
# outside as well, and no pack keeps it.
for name in ('security.capability', 'trusted.overlay.opaque', 'security.ima', 'trusted.x'):
    try: os.setxattr(fd, name, b'\x01\x00\x00\x02' + bytes(16)); print('attribute', name)
    except OSError: pass
for path in ('/dev/mem', '/dev/kmem', '/dev/port', '/dev/kmsg', '/dev/loop-control', '/dev/loop0',
             '/dev/fuse', '/dev/userfaultfd', '/dev/vsock', '/dev/vhost-vsock', '/dev/net/tun'):
    if os.path.lexists(path): print('there', path)";
    nothing(hand, "devices", code).await;
}

/// What concerns the whole machine cannot be written, and no control group can be seen.
async fn no_switch_of_the_kernel_is_writable(hand: &Arc<dyn Hand>) {
    let code = r"
for root in ('/proc/sys', '/proc/irq', '/proc/bus', '/proc/fs', '/sys', '/usr/lib/os-release'):
    for top, folders, files in os.walk(root):
        for name in files:
            path = os.path.join(top, name)
            try: os.close(os.open(path, os.O_WRONLY)); print('writable', path)
            except OSError: pass
for path in ('/proc/sysrq-trigger', '/proc/keys', '/proc/key-users', '/proc/kcore', '/proc/kallsyms'):
    try: print(path, os.read(os.open(path, os.O_RDONLY), 99)) if os.stat(path).st_size else None
    except OSError: pass
for line in open('/proc/self/mountinfo'):
    kind = line.split(' - ')[1].split()[0]
    if kind.startswith(('cgroup', 'sysfs', 'securityfs', 'debugfs', 'bpf', 'tracefs')): print(line)
for top, folders, files in os.walk('/'):
    folders[:] = [f for f in folders if os.path.join(top, f) not in ('/proc', '/usr')]
    for name in files:
        if name in ('release_agent', 'cgroup.procs', 'notify_on_release', 'devices.allow'): print(top, name)";
    nothing(hand, "switches", code).await;
}

/// PID 1 goes on, whatever is sent to it.
async fn init_cannot_be_signalled_or_starved(hand: &Arc<dyn Hand>) {
    let code = r"
import signal
init = os.pidfd_open(1)
for number in range(1, 65):
    try: signal.pidfd_send_signal(init, number)
    except (OSError, ValueError): pass
libc.syscall(448, init, 0)
libc.ptrace(16, 1, 0, 0)
for path in ('oom_score_adj', 'oom_adj', 'coredump_filter', 'clear_refs', 'timerslack_ns', 'mem', 'comm',
             'attr/current', 'uid_map', 'gid_map', 'setgroups', 'autogroup'):
    try: os.write(os.open(f'/proc/1/{path}', os.O_WRONLY), b'1'); print('written', path)
    except OSError: pass";
    nothing(hand, "init", code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sandboxes_do_not_meet() {
    let node = Node::new().await;
    let (one, two) = (node.hand().await, node.hand().await);
    // Whatever one offers, by any name, under the eyes of the other.
    let offer = r"
import time
made = []
for name in ('\0meet', '/tmp/meet', '/workspace/meet', '/dev/shm/meet', '/mnt/session/outputs/meet'):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen(); made.append(s)
s = socket.socket(); s.bind(('0.0.0.0', 4711)); s.listen(); made.append(s)
open('/dev/shm/file', 'w').write('one')
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    while True: time.sleep(1)
print(len(made))";
    assert_eq!(sh(&one, &python(offer)).await, "6");
    let take = r"
for name in ('\0meet', '/tmp/meet', '/workspace/meet', '/dev/shm/meet', '/mnt/session/outputs/meet'):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(name); print('met', repr(name))
    except OSError: pass
for host in ('127.0.0.1', '0.0.0.0'):
    try: socket.create_connection((host, 4711), 1); print('met', host)
    except OSError: pass
for path in ('/dev/shm/file', '/tmp/meet'):
    if os.path.exists(path): print(path)
key = libc.shmget(4711, 4096, 0o1666)";
    nothing(&two, "two sandboxes", take).await;
    let own = r"
s = socket.socket(socket.AF_UNIX); s.connect('\0meet'); print('met')";
    assert_eq!(sh(&one, &python(own)).await, "met");
    // Queues and memory by key are their own too.
    let make = "print(libc.shmget(815, 4096, 0o1666) >= 0)";
    assert_eq!(sh(&one, &python(make)).await, "True");
    let find = "print(libc.shmget(815, 4096, 0))";
    assert_eq!(sh(&two, &python(find)).await, "-1");
    // Neither is a process of the other in sight.
    let marker = "731.25";
    sh(&one, &format!("sleep {marker} > /dev/null 2>&1 &")).await;
    assert_eq!(sh(&one, &format!("pgrep -fc 'sleep {marker}'")).await, "1");
    let seen = text(&bash(&two, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await);
    assert!(!seen.contains(marker), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_that_change_under_the_reader_are_never_another_file() {
    let node = Node::new().await;
    let recipe = recipe();
    let hand = node.provision(&recipe).await;
    let one = recipe.incarnation;
    // A folder and a link to the host's, a file and a pipe and a link, exchanged again and again.
    let trap = r"
at = '/mnt/session/outputs/'
os.mkdir(at + 'sub'); open(at + 'sub/passwd', 'w').write('mine\n'); os.symlink('/etc', at + 'evil')
open(at + 'file', 'w').write('mine\n'); os.mkfifo(at + 'pipe'); os.symlink('/etc/passwd', at + 'link')
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    while True:
        for a, b in (('sub', 'evil'), ('file', 'pipe'), ('file', 'link'), ('sub', 'file')):
            libc.renameat2(-100, (at + a).encode(), -100, (at + b).encode(), 2)";
    sh(&hand, &python(trap)).await;
    let (mut read, mut refused) = (0, 0);
    // Until both were seen often enough; neither may be anything else.
    while read < 40 || refused < 40 {
        let listed = node.driver.outputs(one).await.unwrap();
        for output in &listed {
            assert!(output.bytes <= 5, "{output:?}");
        }
        for path in ["sub/passwd", "file", "evil/passwd", "link", "pipe"] {
            let Ok(mut output) = node.driver.output(one, path).await else {
                refused += 1;
                continue;
            };
            let mut content = String::new();
            output.read_to_string(&mut content).await.unwrap();
            assert_eq!(content, "mine\n", "{path}");
            read += 1;
        }
    }
    // The same tricks are no trouble for whoever packs it, and for whoever takes it away.
    let packed = node.driver.checkpoint(one).await.unwrap();
    assert!(packed.sum.entries > 5);
    drop(packed);
    node.driver.reap(one, Keep::Nothing).await.unwrap();
    assert!(node.driver.list().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_in_a_layer_gives_nobody_rights() {
    let room = tempfile::tempdir().unwrap();
    fs::set_permissions(room.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // A folder, where a file could be found by its path; an image is mounted nowhere.
    let options = Options {
        disks: Disks::Never,
        ..Options::at(room.path().join("hands"))
    };
    let driver = Namespaces::new(options).await.unwrap();
    let recipe = recipe();
    let hand = driver.provision(&recipe).await.unwrap();
    sh(
        &hand,
        "cp /bin/bash b; chmod 6755 b; mkdir open; chmod 1777 open; cp b open; chmod 6755 open/b; mkfifo p; \
         ln -s /etc/shadow s; ln -s ../../../../../../../etc/shadow t",
    )
    .await;
    fine(
        &call(
            &hand,
            "write",
            json!({"file_path": "/mnt/session/outputs/o", "content": "o"}),
        )
        .await,
    );
    let folder = driver_folder(room.path(), recipe.incarnation);
    let workspace = folder.join("tree/upper/workspace");
    for file in ["b", "open/b"] {
        let file = workspace.join(file).metadata().unwrap();
        assert_eq!(file.mode() & 0o7777, 0o6755, "it is there as it was made");
        if rustix::process::geteuid().is_root() {
            assert!(file.uid() != 0 && file.gid() != 0, "it is root's");
        }
    }
    // Nobody else comes there.
    for closed in [room.path().join("hands"), folder.clone()] {
        let mode = closed.metadata().unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", closed.display());
    }
    if rustix::process::geteuid().is_root() {
        for file in ["b", "open/b"] {
            let mut run = Command::new(workspace.join(file));
            let done = run
                .arg("-pc")
                .arg("id")
                .uid(alone::NOBODY)
                .gid(alone::NOBODY)
                .output();
            assert!(done.is_err(), "{file} was run: {done:?}");
        }
    }
    driver
        .reap(recipe.incarnation, Keep::Nothing)
        .await
        .unwrap();
    assert!(!folder.exists());
}

fn driver_folder(
    room: &std::path::Path,
    incarnation: outlast_protocol::id::IncarnationId,
) -> std::path::PathBuf {
    room.join("hands").join(incarnation.to_string())
}
