//! Every way out again, each with the error that it must meet: what fails for another reason than
//! the one that is meant would be no refusal.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use outlast_hands::Hand;

use crate::{
    escapes::python,
    support::{Node, sh},
};

/// What a hostile program tries, in Python: a name, what to do, and how it has to fail.
///
/// `c(number, ...)` makes a system call; `DATA`, `PORT`, `NAME` and `PID` are the host's: a file in its data
/// directory, a listener, an abstract socket and a process.
const ATTEMPTS: &str = r#"
import fcntl, pty, resource, signal, stat, struct
def c(number, *args):
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    if libc.syscall(ctypes.c_long(number), *args) < 0: raise OSError(ctypes.get_errno(), '')
def connect(family, address):
    s = socket.socket(family); s.settimeout(5); s.connect(address)
def write(path, text=b'1'): os.write(os.open(path, os.O_WRONLY), text)
def read(path): os.read(os.open(path, os.O_RDONLY), 1)
def node(kind, major, minor): os.mknod('/workspace/node', kind | 0o666, os.makedev(major, minor))
def ioctl(request): fcntl.ioctl(pty.openpty()[1], request, b'x')
open('/workspace/own', 'w').close(); os.makedirs('/workspace/old', exist_ok=True)
own = os.open('/workspace/own', os.O_RDWR)
buffer = ctypes.create_string_buffer(256)
AT = -100
attempts = [
    # Sockets that a network namespace does not confine, or that speak to the kernel.
    ('vsock', lambda: socket.socket(40, 1), 'EPERM'),
    ('vsock of datagrams', lambda: socket.socket(40, 2), 'EPERM'),
    ('netlink', lambda: socket.socket(16, 3, 0), 'EPERM'),
    ('audit', lambda: socket.socket(16, 3, 9), 'EPERM'),
    ('packets', lambda: socket.socket(17, 3, 3), 'EPERM'),
    ('raw', lambda: socket.socket(2, 3, 1), 'EPERM'),
    ('raw of version 6', lambda: socket.socket(10, 3, 58), 'EPERM'),
    ('alg', lambda: socket.socket(38, 5, 0), 'EPERM'),
    ('bluetooth', lambda: socket.socket(31, 3, 0), 'EPERM'),
    # The host's own.
    ('abstract socket', lambda: connect(socket.AF_UNIX, '\0' + NAME), 'ECONNREFUSED'),
    ('listener', lambda: connect(socket.AF_INET, ('127.0.0.1', PORT)), 'ECONNREFUSED'),
    ('metadata', lambda: connect(socket.AF_INET, ('169.254.169.254', 80)), 'ENETUNREACH'),
    ('data directory', lambda: read(DATA), 'ENOENT'),
    ('its folder', lambda: os.listdir(os.path.dirname(DATA)), 'ENOENT'),
    ('by the root of init', lambda: read('/proc/1/root' + DATA), 'EACCES'),
    ('by its folder', lambda: read('/proc/1/cwd/../../../../..' + DATA), 'EACCES'),
    ('host process', lambda: os.kill(PID, 0), 'ESRCH'),
    ('its folder in /proc', lambda: os.listdir(f'/proc/{PID}'), 'ENOENT'),
    # PID 1.
    ('environment of init', lambda: read('/proc/1/environ'), 'EACCES'),
    ('memory of init', lambda: read('/proc/1/mem'), 'EACCES'),
    ('program of init', lambda: os.readlink('/proc/1/exe'), 'EACCES'),
    ('descriptors of init', lambda: os.listdir('/proc/1/fd'), 'EACCES'),
    ('namespaces of init', lambda: os.open('/proc/1/ns/mnt', os.O_RDONLY), 'EACCES'),
    ('attach to init', lambda: c(101, 16, 1, 0, 0), 'EPERM'),
    ('seize init', lambda: c(101, 0x4206, 1, 0, 0), 'EPERM'),
    ('be traced', lambda: c(101, 0, 0, 0, 0), 'EPERM'),
    ('read memory', lambda: c(310, os.getpid(), buffer, 1, buffer, 1, 0), 'EPERM'),
    ('take a descriptor', lambda: c(438, os.pidfd_open(1), 0, 0), 'EPERM'),
    # Parts of the kernel that have led out before.
    ('keyctl', lambda: c(250, 0, -3, 0), 'EPERM'),
    ('add_key', lambda: c(248, b'user', b'x', b'x', 1, -3), 'EPERM'),
    ('request_key', lambda: c(249, b'user', b'x', 0, -3), 'EPERM'),
    ('io_uring', lambda: c(425, 8, buffer), 'EPERM'),
    ('userfaultfd', lambda: c(323, 1), 'EPERM'),
    ('userfaultfd by its device', lambda: os.open('/dev/userfaultfd', os.O_RDWR), 'ENOENT'),
    ('bpf', lambda: c(321, 0, buffer, 128), 'EPERM'),
    ('perf', lambda: c(298, buffer, 0, -1, -1, 0), 'EPERM'),
    ('fanotify', lambda: c(300, 0, 0), 'EPERM'),
    ('kexec', lambda: c(246, 0, 0, 0, 0), 'EPERM'),
    ('module', lambda: c(313, own, b'', 0), 'EPERM'),
    ('reboot', lambda: c(169, 0xfee1dead, 672274793, 0, 0), 'EPERM'),
    ('swap', lambda: c(167, b'/workspace/own', 0), 'EPERM'),
    ('clock', lambda: c(227, 0, buffer), 'EPERM'),
    ('host name', lambda: c(170, b'other', 5), 'EPERM'),
    ('quota', lambda: c(179, 0x80000100, b'/dev/vda', 0, buffer), 'EPERM'),
    # Mounts, old and new, and what stands in for them.
    ('mount', lambda: c(165, b'x', b'/mnt', b'tmpfs', 0, 0), 'EPERM'),
    ('mount control groups', lambda: c(165, b'x', b'/mnt', b'cgroup2', 0, 0), 'EPERM'),
    ('bind', lambda: c(165, b'/', b'/mnt', 0, 4096, 0), 'EPERM'),
    ('remount', lambda: c(165, b'x', b'/usr', 0, 32 | 4096, 0), 'EPERM'),
    ('unmount', lambda: c(166, b'/proc/sys', 2), 'EPERM'),
    ('open_tree', lambda: c(428, AT, b'/', 1), 'EPERM'),
    ('move_mount', lambda: c(429, AT, b'/', AT, b'/mnt', 0), 'EPERM'),
    ('fsopen', lambda: c(430, b'tmpfs', 0), 'EPERM'),
    ('mount_setattr', lambda: c(442, AT, b'/usr', 0, buffer, 32), 'EPERM'),
    ('pivot_root', lambda: c(155, b'/workspace', b'/workspace/old'), 'EPERM'),
    ('chroot', lambda: os.chroot('/workspace'), 'EPERM'),
    ('by handle', lambda: c(304, own, buffer, 0), 'EPERM'),
    ('handle of a file', lambda: c(303, AT, b'/', buffer, buffer, 0), 'EPERM'),
    # Namespaces.
    ('unshare', lambda: c(272, 0x10000000), 'EPERM'),
    ('clone', lambda: c(56, 0x10000011, 0, 0, 0, 0), 'EPERM'),
    ('clone3', lambda: c(435, buffer, 88), 'ENOSYS'),
    ('enter', lambda: c(308, os.open('/proc/self/ns/net', os.O_RDONLY), 0), 'EPERM'),
    # What concerns the whole machine.
    ('core pattern', lambda: write('/proc/sys/kernel/core_pattern', b'|/workspace/own'), 'EROFS|EACCES'),
    ('modprobe', lambda: write('/proc/sys/kernel/modprobe'), 'EROFS|EACCES|ENOENT'),
    ('interpreter', lambda: write('/proc/sys/fs/binfmt_misc/register'), 'ENOENT|EROFS|EACCES'),
    ('/sys', lambda: os.open('/sys/x', os.O_CREAT | os.O_WRONLY), 'EROFS|EACCES'),
    ('power', lambda: os.listdir('/sys/power'), 'ENOENT'),
    ('release agent', lambda: os.stat('/sys/fs/cgroup/release_agent'), 'ENOENT'),
    ('control groups', lambda: os.listdir('/sys/fs/cgroup'), 'ENOENT'),
    ('own group', lambda: write('/proc/self/cgroup'), 'EACCES|EINVAL'),
    # Devices.
    ('disk', lambda: node(stat.S_IFBLK, 254, 0), 'EPERM'),
    ('loop', lambda: node(stat.S_IFBLK, 7, 0), 'EPERM'),
    ('memory', lambda: node(stat.S_IFCHR, 1, 1), 'EPERM'),
    ('null', lambda: node(stat.S_IFCHR, 1, 3), 'EPERM'),
    ('kmsg', lambda: os.open('/dev/kmsg', os.O_RDONLY), 'ENOENT'),
    # Rights.
    ('root', lambda: os.setresuid(0, 0, 0), 'EPERM|EINVAL'),
    ('group of root', lambda: os.setresgid(0, 0, 0), 'EPERM|EINVAL'),
    ('groups', lambda: os.setgroups([0]), 'EPERM'),
    ('give away', lambda: os.chown('/workspace/own', 0, 0), 'EPERM|EINVAL'),
    ('capability of a file', lambda: os.setxattr(own, 'security.capability', b'\1\0\0\2' + bytes(16)), 'EPERM'),
    ('map of ids', lambda: write('/proc/self/uid_map', b'0 0 1'), 'EPERM|EACCES'),
    ('be spared', lambda: write('/proc/self/oom_score_adj', b'-1000'), 'EACCES'),
    ('be first', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), 'EPERM'),
    ('be nicer', lambda: os.setpriority(os.PRIO_PROCESS, 0, -5), 'EACCES|EPERM'),
    # Words in another's mouth.
    ('TIOCSTI', lambda: ioctl(0x5412), 'EPERM'),
    ('TIOCLINUX', lambda: ioctl(0x541c), 'EPERM'),
]
for name, attempt, wanted in attempts:
    try: attempt(); got = 'done'
    except OSError as error: got = errno.errorcode.get(error.errno, str(error))
    except ValueError as error: got = f'ValueError {error}'
    if got not in wanted.split('|'): print(f'{name}: {got}, not {wanted}')
print(len(attempts))"#;

/// Makes every attempt in a hand whose host has `data`, a folder that anybody may read.
pub(crate) async fn all_are_refused(hand: &Arc<dyn Hand>, data: &Path) {
    if !cfg!(target_arch = "x86_64") {
        // The numbers above are this architecture's.
        return;
    }
    let secret = data.join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("outlast-kinds-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        );
    let _abstract = std::os::unix::net::UnixListener::bind_addr(&address.unwrap()).unwrap();
    let host = format!(
        "DATA, PORT, NAME, PID = '{}', {port}, '{name}', {}",
        secret.display(),
        std::process::id()
    );
    let told = sh(hand, &python(&format!("{host}\n{ATTEMPTS}"))).await;
    let count: usize = told.parse().unwrap_or_else(|_| panic!("{told}"));
    assert_eq!(count, ATTEMPTS.matches("\n    ('").count());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_out_is_refused_with_its_kind() {
    let node = Node::new().await;
    let hand = node.hand().await;
    all_are_refused(&hand, node.dir.path()).await;
}
