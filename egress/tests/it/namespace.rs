//! Listeners of another network namespace, and hosts with public addresses. Needs root.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, unshare};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::support::{
    House, Names, at, connect, exchange, options, read_to_end, read_until, serve_on, server, tunnel,
};
use crate::tls::Authority;

/// Runs `work` in a thread that has a network namespace of its own, with loopback up.
fn in_namespace<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::spawn(|| {
        let entered = unshare(CloneFlags::CLONE_NEWNET);
        assert_eq!(entered, Ok(()), "this test needs root");
        ip("link set lo up");
        work()
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test sets its own namespace up"
)]
fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.unwrap().success(), "ip {arguments}");
}

fn send_listener(socket: &UnixStream, listener: &TcpListener) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(
        socket,
        &[IoSlice::new(b"listener")],
        &mut control,
        SendFlags::empty(),
    )
    .unwrap();
}

fn receive_listener(socket: &UnixStream) -> TcpListener {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 16];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        flags,
    )
    .unwrap();
    let listener = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    listener.unwrap().into()
}

#[test]
fn a_listener_made_inside_is_served_from_outside() {
    let (inside, outside) = UnixStream::pair().unwrap();
    let host = server(|mut stream| stream.write_all(b"from the host").unwrap());
    let (opened, wait) = mpsc::channel::<()>();
    let sandbox = in_namespace(move || {
        let listener = TcpListener::bind("127.0.0.1:4000").unwrap();
        send_listener(&inside, &listener);
        drop(listener);
        wait.recv().unwrap();
        // Nothing of the host can be reached from here but through the listener.
        assert!(std::net::TcpStream::connect(host).is_err());
        let allowed = read_to_end(&mut tunnel("127.0.0.1:4000".parse().unwrap(), &at(host)));
        let refused = exchange(
            "127.0.0.1:4000".parse().unwrap(),
            "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
        );
        (allowed, refused)
    });
    let listener = receive_listener(&outside);
    let house = House::listening(listener, options(&[&at(host)]), &[]);
    opened.send(()).unwrap();
    let (allowed, refused) = sandbox.join().unwrap();
    assert_eq!(allowed, "from the host");
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let (summary, _) = house.close();
    assert_eq!((summary.connections, summary.refused), (1, 1));
}

/// The address of a host on a network that is not private, with a route to it over a veth pair.
const PUBLIC: &str = "93.184.216.34";

#[test]
fn a_name_is_looked_up_once_and_its_vetted_address_is_dialled() {
    let authority = Authority::for_names(&["site.example"]);
    let accept = authority.accept();
    let (ready, identity) = mpsc::channel();
    let (placed, wait) = mpsc::channel::<()>();
    let (finish, finished) = mpsc::channel::<()>();
    let far = in_namespace(move || {
        ready.send(nix::unistd::gettid()).unwrap();
        wait.recv().unwrap();
        ip(&format!("addr add {PUBLIC}/24 dev far"));
        ip("link set far up");
        let listener = TcpListener::bind((PUBLIC, 443)).unwrap();
        serve_on(listener, move |stream| {
            let connection = rustls::ServerConnection::new(accept.clone()).unwrap();
            let mut tls = rustls::StreamOwned::new(connection, stream);
            let mut line = [0; 5];
            if tls.read_exact(&mut line).is_ok() {
                tls.write_all(b"pong").unwrap();
                tls.conn.send_close_notify();
                tls.flush().unwrap();
            }
        });
        finished.recv().unwrap();
    });
    let far_thread = identity.recv().unwrap();
    let near = in_namespace(move || {
        let process = std::process::id();
        ip("link add near type veth peer name far");
        ip(&format!(
            "link set far netns /proc/{process}/task/{far_thread}/ns/net"
        ));
        ip("addr add 93.184.216.1/24 dev near");
        ip("link set near up");
        placed.send(()).unwrap();
        let names = Names::lead_to(&["127.0.0.1", PUBLIC, "10.0.0.1"]);
        let mut listed = options(&["site.example"]);
        listed.resolver = names.clone();
        let house = House::with(listed, &[]);
        let mut stream = connect(house.proxy);
        stream
            .write_all(b"CONNECT site.example:443 HTTP/1.1\r\nHost: site.example:443\r\n\r\n")
            .unwrap();
        let head = read_until(&mut stream, "\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let answer = crate::tls::ping(authority.client(), "site.example", stream).unwrap();
        assert_eq!(answer, "pong");
        assert_eq!(names.asked.load(Ordering::SeqCst), 1);
        // The other end of the pair is this machine, and its address is recognised as its own.
        let mut own = options(&["site.example"]);
        own.resolver = Names::lead_to(&["93.184.216.1"]);
        let own = House::with(own, &[]);
        let request = "CONNECT site.example:443 HTTP/1.1\r\nHost: site.example:443\r\n\r\n";
        let refused = exchange(own.proxy, request);
        assert!(refused.contains("an address of this machine"), "{refused}");
        assert_eq!(house.close().0.connections, 1);
    });
    near.join().unwrap();
    finish.send(()).unwrap();
    far.join().unwrap();
}
