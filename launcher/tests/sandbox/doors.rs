//! The only ways out: sockets that the sandbox made and handed over.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread;

use aegis_launcher::terminal::Stdio;

use super::body::{Body, as_both_users};

#[test]
fn a_door_leads_to_its_holder() {
    as_both_users("sandbox::doors::a_door_leads_to_its_holder", || {
        let mut body = Body::new();
        body.request.doors = vec![7801, 7802];
        let script = "import socket,sys\n\
                      for port in (7801, 7802):\n\
                      \ts = socket.create_connection(('127.0.0.1', port)); s.sendall(b'knock')\n\
                      \tif s.recv(9) != b'who is it': sys.exit(1)\n";
        body.request.command = ["/usr/bin/python3", "-c", script]
            .into_iter()
            .map(Into::into)
            .collect();
        let mut waiting = body.build(&mut Stdio::prepare().unwrap()).unwrap();
        let doors = std::mem::take(&mut waiting.doors);
        assert_eq!(
            doors.iter().map(|door| door.port).collect::<Vec<_>>(),
            [7801, 7802]
        );
        let holders: Vec<_> = doors
            .into_iter()
            .map(|door| thread::spawn(|| answer(door.listener.into())))
            .collect();
        assert_eq!(waiting.go().unwrap().wait().unwrap().code, 0);
        for holder in holders {
            assert_eq!(holder.join().unwrap(), "knock");
        }
    });
}

#[test]
fn a_socket_in_a_place_that_is_shown_is_out_of_reach() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    // A read-only mount alone would not keep anybody from connecting.
    let place = tempfile::Builder::new()
        .prefix("aegis-test-")
        .tempdir_in("/opt")
        .unwrap();
    std::fs::create_dir(place.path().join("alone")).unwrap();
    std::fs::write(place.path().join("file"), "").unwrap();
    let sockets = [
        place.path().join("socket"),
        place.path().join("alone/socket"),
    ];
    let _listeners = sockets
        .clone()
        .map(|path| UnixListener::bind(path).unwrap());
    let [first, second] = sockets.map(|path| path.display().to_string());
    let ended = Body::new().run(&format!(
        "cat {}/file; /usr/bin/python3 - <<'end'\n\
         import socket\n\
         for path in ('{first}', '{second}'):\n\
         \ttry: socket.socket(socket.AF_UNIX).connect(path); print('reached', path)\n\
         \texcept OSError: print('no')\n\
         end",
        place.path().display()
    ));
    assert_eq!(ended.said, "no\nno\n");
}

fn answer(listener: TcpListener) -> String {
    let (mut caller, _) = listener.accept().unwrap();
    let mut said = [0; 5];
    caller.read_exact(&mut said).unwrap();
    caller.write_all(b"who is it").unwrap();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn the_hosts_sockets_are_out_of_reach() {
    as_both_users("sandbox::doors::the_hosts_sockets_are_out_of_reach", || {
        let mut body = Body::new();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("aegis-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _abstract = UnixListener::bind_addr(&address).unwrap();
        let _path = UnixListener::bind(body.outside().join("socket")).unwrap();
        let port = tcp.local_addr().unwrap().port();
        let ended = body.run(&format!(
            "/usr/bin/python3 - <<'end'\n\
             import socket\n\
             def reach(family, address):\n\
             \ttry: socket.socket(family).connect(address); print('reached', address)\n\
             \texcept OSError: print('no')\n\
             reach(socket.AF_INET, ('127.0.0.1', {port}))\n\
             reach(socket.AF_INET, ('192.0.2.1', 80))\n\
             reach(socket.AF_INET6, ('2001:db8::1', 80))\n\
             reach(socket.AF_UNIX, '\\0{name}')\n\
             reach(socket.AF_UNIX, '{}/socket')\n\
             end",
            body.outside().display()
        ));
        assert_eq!(ended.said, "no\nno\nno\nno\nno\n");
    });
}
