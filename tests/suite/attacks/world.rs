//! What an attacker could want: secrets, a neighbour process, sockets that listen, files to change.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use aegis_tests::{Finished, TestEnv};

/// A host with something to lose.
pub(super) struct World {
    pub(super) env: TestEnv,
    /// A text that only someone who read a secret can know.
    pub(super) canary: String,
    /// The port on 127.0.0.1 that listens for TCP and UDP.
    pub(super) port: u16,
    victim: Child,
    received: Arc<Mutex<Vec<u8>>>,
}

/// Descriptors, keys and variables that the launcher has, so that a careless one hands them on.
const CARELESS: &str = r#"
import ctypes, os, socket, sys
home, port, canary = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.dup2(os.open(home, os.O_RDONLY | os.O_DIRECTORY), 57)
connection = socket.create_connection(("127.0.0.1", port))
os.dup2(connection.fileno(), 58)
for descriptor in (57, 58):
    os.set_inheritable(descriptor, True)
libc = ctypes.CDLL(None)
payload = canary.encode()
libc.syscall(248, b"user", b"aegis-canary", payload, len(payload), -3)
os.execvp(sys.argv[4], sys.argv[4:])
"#;

impl World {
    pub(super) fn new() -> Self {
        let env = TestEnv::with_repository();
        let canary = fs::read_to_string("/proc/sys/kernel/random/uuid")
            .unwrap()
            .trim()
            .to_owned();
        for file in SECRET_FILES {
            env.write_home(file, format!("secret of {file} is {canary}\n"));
        }
        env.write_home(".bashrc", "# shell\n");
        env.write_home(".claude/settings.json", "{}\n");
        env.write_home("src/sibling/file.txt", "sibling\n");
        let victim = env
            .command("sleep")
            .arg("600")
            .env("VICTIM_TOKEN", &canary)
            .spawn()
            .unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let port = listen(&env, &canary, &received);
        Self {
            env,
            canary,
            port,
            victim,
            received,
        }
    }

    /// The script outside the sandbox, started as carelessly as inside.
    pub(super) fn bare(&self, script: &str) -> Finished {
        self.start(&[], script)
    }

    /// The script in `aegis-os run`.
    pub(super) fn enforced(&self, script: &str) -> Finished {
        let binary = self.env.binary().to_str().unwrap();
        self.start(&[binary, "run", "--"], script)
    }

    fn start(&self, prefix: &[&str], script: &str) -> Finished {
        let mut command = self.env.command("python3");
        command
            .args(["-c", CARELESS])
            .arg(self.env.home())
            .arg(self.port.to_string());
        command.arg(&self.canary).args(prefix);
        command.args(["bash", "-c", &format!("echo STARTED\n{script}")]);
        for name in SECRET_VARIABLES {
            command.env(name, format!("{name}-{}", self.canary));
        }
        Finished::of(&mut command)
    }

    /// The neighbour: a process of the same user outside the sandbox.
    pub(super) fn victim(&self) -> u32 {
        self.victim.id()
    }

    /// Whether the neighbour is still alive.
    pub(super) fn victim_lives(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/stat", self.victim.id()));
        status.is_ok_and(|text| !text.contains(") Z "))
    }

    /// Whether `text` arrives at any of the listening sockets.
    pub(super) fn hears(&self, text: &str) -> bool {
        // What was sent just before the end of the session may still be on its way.
        soon(Duration::from_secs(1), || {
            String::from_utf8_lossy(&self.received.lock().unwrap()).contains(text)
        })
    }

    /// Whether a file below the home directory holds `text`.
    pub(super) fn home_has(&self, file: &str, text: &str) -> bool {
        contains(&self.env.home().join(file), text)
    }

    /// Whether a file of the project holds `text`.
    pub(super) fn project_has(&self, file: &str, text: &str) -> bool {
        contains(&self.env.project().join(file), text)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// Whether something becomes true within `limit`.
pub(super) fn soon(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}

fn contains(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|content| content.contains(text))
}

/// TCP and UDP on one port, a socket in the home directory, an abstract socket.
fn listen(env: &TestEnv, canary: &str, received: &Arc<Mutex<Vec<u8>>>) -> u16 {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let udp = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let path = env.home().join("socket");
    let named = UnixListener::bind(&path).unwrap();
    env.user.own(&path);
    let name = SocketAddr::from_abstract_name(format!("aegis-{canary}")).unwrap();
    let nameless = UnixListener::bind_addr(&name).unwrap();

    keep_all(received, move || tcp.accept().map(|(stream, _)| stream));
    keep_all(received, move || named.accept().map(|(stream, _)| stream));
    keep_all(received, move || {
        nameless.accept().map(|(stream, _)| stream)
    });
    keep_datagrams(received, udp);
    port
}

/// Keeps what connections bring, each in a thread of its own: an inherited one stays open for long.
fn keep_all<R: Read + Send + 'static>(
    received: &Arc<Mutex<Vec<u8>>>,
    accept: impl Fn() -> std::io::Result<R> + Send + 'static,
) {
    let received = Arc::clone(received);
    thread::spawn(move || {
        while let Ok(mut stream) = accept() {
            let received = Arc::clone(&received);
            thread::spawn(move || {
                let mut bytes = [0; 2048];
                while let Ok(size @ 1..) = stream.read(&mut bytes) {
                    received.lock().unwrap().extend_from_slice(&bytes[..size]);
                }
            });
        }
    });
}

fn keep_datagrams(received: &Arc<Mutex<Vec<u8>>>, udp: UdpSocket) {
    let received = Arc::clone(received);
    thread::spawn(move || {
        let mut datagram = [0; 2048];
        while let Ok(size) = udp.recv(&mut datagram) {
            received
                .lock()
                .unwrap()
                .extend_from_slice(&datagram[..size]);
        }
    });
}

/// Files of a home directory that hold credentials.
pub(super) const SECRET_FILES: [&str; 19] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".git-credentials",
    ".config/gh/hosts.yml",
    ".config/gcloud/application_default_credentials.json",
    ".kube/config",
    ".docker/config.json",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".gnupg/private-keys-v1.d/key",
    ".azure/msal_token_cache.json",
    ".config/op/config",
    ".password-store/mail.gpg",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".aegis/operator-token",
    ".local/share/keyrings/login.keyring",
];

/// Variables that hold credentials, or lead to an agent that has some.
pub(super) const SECRET_VARIABLES: [&str; 9] = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "NPM_TOKEN",
    "CARGO_REGISTRY_TOKEN",
    "SSH_AUTH_SOCK",
    "DATABASE_URL",
    "ANY_NAME_AT_ALL",
];
