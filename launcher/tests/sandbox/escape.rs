//! System calls that the sandbox refuses, executed. Each is first run outside, where it must not
//! be refused for the same reason, so that the refusal means something.

use super::body::{Body, as_both_users};

/// Prints for each call its name and the error number, 0 when it went through.
const CALLS: &str = r#"
import ctypes, os, socket, struct, fcntl, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(name, number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(number, *arguments)
    print(name, ctypes.get_errno() if answer == -1 else 0)
def sock(name, *arguments):
    try: socket.socket(*arguments).close(); print(name, 0)
    except OSError as error: print(name, error.errno)
def ioctl(name, request):
    ctypes.set_errno(0)
    answer = libc.ioctl(0, ctypes.c_ulong(request), ctypes.c_char_p(b"x"))
    print(name, ctypes.get_errno() if answer == -1 else 0)
call("keyctl", 250, 0, -3, 0)
call("add_key", 248, b"user", b"aegis", b"x", 1, -2)
call("request_key", 249, b"user", b"aegis", 0, 0)
call("io_uring_setup", 425, 1, 0)
call("unshare_user", 272, 0x10000000)
call("unshare_mount", 272, 0x20000)
call("setns", 308, 0, 0)
call("clone3", 435, 0, 0)
call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, 0)
call("open_tree", 428, -100, b"/", 1)
call("ptrace", 101, 0, 0, 0, 0)
call("process_vm_readv", 310, os.getpid(), 0, 0, 0, 0, 0)
call("bpf", 321, 0, 0, 0)
call("userfaultfd", 323, 0)
call("open_by_handle_at", 304, -100, 0, 0)
call("chroot", 161, b"/")
sock("vsock", 40, socket.SOCK_STREAM)
sock("alg", 38, socket.SOCK_SEQPACKET)
sock("packet", socket.AF_PACKET, socket.SOCK_RAW)
sock("raw", socket.AF_INET, socket.SOCK_RAW, 1)
sock("netlink_audit", socket.AF_NETLINK, socket.SOCK_RAW, 9)
sock("netlink_route", socket.AF_NETLINK, socket.SOCK_RAW, 0)
sock("tcp", socket.AF_INET, socket.SOCK_STREAM)
sock("udp6", socket.AF_INET6, socket.SOCK_DGRAM)
sock("unix", socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
def pair(name, *arguments):
    try: [s.close() for s in socket.socketpair(*arguments)]; print(name, 0)
    except OSError as error: print(name, error.errno)
pair("pair_unix", socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
pair("pair_netlink_audit", socket.AF_NETLINK, socket.SOCK_RAW, 9)
pair("pair_raw", socket.AF_INET, socket.SOCK_RAW, 1)
pair("pair_vsock", 40, socket.SOCK_STREAM)
pair("pair_tipc", 30, socket.SOCK_STREAM)
# The kernel has no such pair; the filter says another number.
pair("pair_tcp", socket.AF_INET, socket.SOCK_STREAM)
ioctl("tiocsti", 0x5412)
ioctl("tiocsti_high", 0x1_0000_5412)
ioctl("tioclinux", 0x541c)
"#;

const EXPECTED: &str = "\
keyctl 1
add_key 1
request_key 1
io_uring_setup 38
unshare_user 1
unshare_mount 1
setns 1
clone3 38
mount 1
open_tree 1
ptrace 1
process_vm_readv 1
bpf 1
userfaultfd 1
open_by_handle_at 1
chroot 1
vsock 97
alg 97
packet 97
raw 97
netlink_audit 97
netlink_route 0
tcp 0
udp6 0
unix 0
pair_unix 0
pair_netlink_audit 97
pair_raw 97
pair_vsock 97
pair_tipc 97
pair_tcp 95
tiocsti 1
tiocsti_high 1
tioclinux 1
";

#[test]
#[cfg(target_arch = "x86_64")]
fn dangerous_calls_are_refused() {
    as_both_users("sandbox::escape::dangerous_calls_are_refused", || {
        let ended = Body::new().run(&format!("/usr/bin/python3 - <<'end'\n{CALLS}\nend"));
        assert_eq!(ended.said, EXPECTED);
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn numbers_of_another_architecture_kill() {
    let x32 = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)";
    let ended = Body::new().run(&format!("/usr/bin/python3 -c '{x32}'; echo $?"));
    // 128 + SIGSYS
    assert!(ended.said.contains("159"), "{}", ended.said);
}

#[test]
fn a_signal_does_not_leave_the_sandbox() {
    let mut body = Body::new();
    let ended = body.run("kill -9 -1 2>/dev/null & kill -TERM 1; sleep 0.1; echo alive");
    // Signal 9 to everything hits the script itself at most; the launcher is here to see it.
    assert!(matches!(ended.code, 0 | 137), "{ended:?}");
}
