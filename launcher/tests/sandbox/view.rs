//! What the command sees of the machine, and where it can write.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use aegis_launcher::sandbox::SandboxError;

use super::body::{Body, as_both_users};

#[test]
fn the_machine_is_read_only() {
    as_both_users("sandbox::view::the_machine_is_read_only", || {
        let places = "/ /usr /etc /opt /bin /home /root /run /var /mnt /aegis /aegis/bin \
                      /aegis/host/project /sys /proc /dev";
        let ended = Body::new().run(&format!(
            "for place in {places}; do [ $place != ~ ] && touch $place/x 2>/dev/null && echo wrote $place; done\n\
             mkdir /made 2>/dev/null && echo made\n\
             rm /aegis/bin/git 2>/dev/null && echo removed\n\
             echo x 2>/dev/null >/proc/sys/kernel/core_pattern && echo pattern\n\
             true"
        ));
        assert_eq!(ended.said, "");
    });
}

#[test]
fn it_can_write_where_it_should() {
    as_both_users("sandbox::view::it_can_write_where_it_should", || {
        let mut body = Body::new();
        let ended = body.run(
            "for place in . ~ /tmp /var/tmp /dev/shm; do\n\
             mkdir $place/a $place/b && echo x >$place/a/f && mv $place/a/f $place/b/ || echo $place\n\
             done; echo x >/dev/null; mkfifo ~/pipe; ln -s x ~/link; chmod 600 ~/b/f",
        );
        assert_eq!(ended.said, "");
        assert!(body.request.project.join("b/f").exists());
        assert!(body.private_home().join("b/f").exists());
        assert!(!body.outside().join("b").exists());
    });
}

#[test]
fn private_places_are_empty() {
    as_both_users("sandbox::view::private_places_are_empty", || {
        let mut body = Body::new();
        fs::write(body.outside().join("secret"), "x").unwrap();
        let outside = body.outside().display().to_string();
        let ended = body.run(&format!(
            "ls -A /root /run /mnt /media /srv /boot 2>/dev/null | grep -v -e : -e '^$' -e '^\\.'\n\
             ls -A {outside}; cat {outside}/secret /etc/shadow; ls /home/* -A | grep -v :; ls /var"
        ));
        let shown: Vec<_> = ended.said.lines().filter(|line| !line.is_empty()).collect();
        assert!(
            shown.contains(&"project") && !shown.contains(&"secret"),
            "{shown:?}"
        );
        assert!(!ended.said.contains("root:"), "{shown:?}");
        assert_eq!(shown.last(), Some(&"tmp"));
    });
}

/// The place is as readable as can be, so that nothing but the sandbox is in the way.
fn top_level_place() -> tempfile::TempDir {
    let place = tempfile::Builder::new()
        .prefix("aegis-test-")
        .tempdir_in("/")
        .unwrap();
    super::body::open_to_all(place.path());
    fs::write(place.path().join("secret"), "secret\n").unwrap();
    place
}

#[test]
fn a_place_of_the_root_that_is_not_listed_is_not_there() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let place = top_level_place();
    let link = place.path().with_extension("link");
    symlink(place.path(), &link).unwrap();
    let _listener = UnixListener::bind(place.path().join("socket")).unwrap();
    let at = place.path().display().to_string();
    let shown = Body::new().run(&format!(
        "ls -A /; cat {at}/secret {at}.link/secret; ls {at}"
    ));
    fs::remove_file(&link).unwrap();
    let known = [
        "aegis", "bin", "dev", "etc", "gnu", "home", "lib", "lib32", "lib64", "libx32", "nix",
        "opt", "proc", "root", "sbin", "snap", "sys", "tmp", "usr", "var",
    ];
    for line in shown.said.lines() {
        let is_known = known.contains(&line) || line.contains("No such file");
        assert!(is_known, "{line} in {}", shown.said);
    }
    assert_eq!(shown.said.matches("No such file").count(), 3);
}

#[test]
fn a_project_in_a_place_that_is_not_listed_is_alone_there() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let place = top_level_place();
    let at = place.path().display().to_string();
    let mut body = Body::with_folder(place, OsStr::new("project"));
    fs::write(body.request.project.join("own"), "own\n").unwrap();
    body.request.read_only = vec![format!("{at}/real").into()];
    fs::write(body.outside().join("real/shown"), "shown\n").unwrap();
    let ended = body.run(&format!(
        "pwd; cat own real/shown {at}/real/shown; ls {at}; touch new {at}/new 2>/dev/null; ls"
    ));
    assert_eq!(
        ended.said,
        format!(
            "{at}/project\nown\ncat: real/shown: No such file or directory\nshown\nproject\nreal\nnew\nown\n"
        )
    );
}

#[test]
fn what_is_written_to_memory_is_bounded() {
    as_both_users(
        "sandbox::view::what_is_written_to_memory_is_bounded",
        || {
            let system = rustix::system::sysinfo();
            let most = system.totalram * u64::from(system.mem_unit) / 4;
            let ended = Body::new().run(
            "for place in /tmp /var/tmp /dev/shm; do df -B1 --output=size $place | tail -n 1; done\n\
             touch /dev/x 2>/dev/null || echo no; echo x >/dev/null && : </dev/urandom && echo yes",
        );
            let lines: Vec<_> = ended.said.lines().map(str::trim).collect();
            let [sizes @ .., "no", "yes"] = lines.as_slice() else {
                unreachable!("{}", ended.said)
            };
            for size in sizes {
                let size: u64 = size.parse().unwrap();
                // The kernel rounds to pages.
                assert!(size <= most + 4096 && size + 4096 >= most, "{size} {most}");
            }
            assert_eq!(sizes.len(), 3);
        },
    );
}

#[test]
fn the_project_can_have_any_name() {
    as_both_users("sandbox::view::the_project_can_have_any_name", || {
        let names: [&[u8]; 5] = [
            b"with space",
            b"two\nlines",
            b"--bind",
            b"\xff\xfe",
            b"'\"$(x)",
        ];
        for name in names {
            let mut body = Body::with_project(OsStr::from_bytes(name));
            let ended = body.run("pwd >inside; [ \"$AEGIS_PROJECT\" = \"$PWD\" ] && echo same");
            assert_eq!((ended.code, ended.said.as_str()), (0, "same\n"));
            let mut inside = fs::read(body.request.project.join("inside")).unwrap();
            assert_eq!(inside.pop(), Some(b'\n'));
            assert_eq!(inside, body.request.project.as_os_str().as_bytes());
        }
    });
}

#[test]
fn a_path_of_the_request_is_shown_read_only() {
    as_both_users(
        "sandbox::view::a_path_of_the_request_is_shown_read_only",
        || {
            let mut body = Body::new();
            let shared = body.outside().join("shared");
            fs::create_dir(&shared).unwrap();
            fs::write(shared.join("f"), "content").unwrap();
            symlink(&shared, body.outside().join("link")).unwrap();
            body.request.read_only = vec![shared.clone(), body.outside().join("link")];
            let outside = body.outside().display().to_string();
            let ended = body.run(&format!(
            "cat {outside}/shared/f {outside}/link/f; touch {outside}/shared/x 2>/dev/null || echo no"
        ));
            assert_eq!(ended.said, "contentcontentno\n");
            assert!(!shared.join("x").exists());
        },
    );
}

#[test]
fn the_home_and_the_sessions_cannot_be_asked_for() {
    let mut body = Body::new();
    body.request.command = vec!["true".into()];
    let sessions = body.outside().join("shared/sessions");
    fs::create_dir_all(&sessions).unwrap();
    body.request.hidden = vec![sessions.clone()];
    for path in [body.outside().join("shared"), sessions, "/".into()] {
        body.request.read_only = vec![path];
        assert!(matches!(body.plan(), Err(SandboxError::Path { .. })));
    }
    body.request.read_only = vec!["/no/such/place".into()];
    assert!(matches!(body.plan(), Err(SandboxError::Path { .. })));
}

#[test]
fn a_link_left_in_the_private_home_leads_nowhere() {
    let mut body = Body::new();
    let target = body.outside().join("target");
    fs::create_dir(&target).unwrap();
    let shown = aegis_home().join(".aegis-test-shown/deep");
    // The agent of an earlier run put a link on the way to what is mounted in its home.
    symlink(&target, body.private_home().join(".aegis-test-shown")).unwrap();
    fs::create_dir_all(&shown).unwrap();
    body.request.read_only = vec![shown.clone()];
    let ended = body.run(&format!("ls -d {}", shown.display()));
    fs::remove_dir(&shown).unwrap();
    fs::remove_dir(shown.parent().unwrap()).unwrap();
    assert_eq!(ended.code, 0, "{}", ended.said);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    assert!(
        body.private_home()
            .join(".aegis-test-shown.replaced-1")
            .is_symlink()
    );
}

#[test]
fn a_file_that_the_host_replaces_stays_hidden() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    // A place that is shown, as /etc is.
    let place = tempfile::Builder::new()
        .prefix("aegis-test-")
        .tempdir_in("/opt")
        .unwrap();
    let secret = place.path().join("secret");
    for name in ["secret", "other"] {
        fs::write(place.path().join(name), format!("{name}\n")).unwrap();
    }
    // Otherwise readable for everybody, so that nothing but the lock is in the way.
    super::body::open_to_all(place.path());
    let mut body = Body::new();
    body.masks = vec![secret.clone()];
    let at = place.path().display().to_string();
    body.request.command = ["sh", "-c"]
        .map(Into::into)
        .into_iter()
        .chain([format!(
            "touch ready; until [ -e go ]; do sleep 0.02; done; cat {at}/* >out 2>err"
        )
        .into()])
        .collect();
    let (running, _open) = body.start();
    let project = body.request.project.clone();
    while !project.join("ready").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    fs::write(place.path().join("new"), "new\n").unwrap();
    rustix::fs::rename(place.path().join("new"), &secret).unwrap();
    fs::write(project.join("go"), "").unwrap();
    running.wait().unwrap();
    assert_eq!(fs::read_to_string(project.join("out")).unwrap(), "other\n");
    assert!(
        fs::read_to_string(project.join("err"))
            .unwrap()
            .contains("Permission denied")
    );
}

#[test]
fn what_vanishes_before_it_is_hidden_stops_nothing() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let place = tempfile::Builder::new()
        .prefix("aegis-test-")
        .tempdir_in("/opt")
        .unwrap();
    let mut body = Body::new();
    body.masks = vec![place.path().join("gone")];
    assert_eq!(body.run("true").code, 0);
}

#[test]
fn git_itself_works_beside_the_shim() {
    as_both_users("sandbox::view::git_itself_works_beside_the_shim", || {
        // The host's /etc/gitconfig is hidden; git takes one that is refused for a fault.
        let ended = Body::new().run(
            "PATH=${PATH#/aegis/bin:}; command -v git | grep aegis; git init -q . && git status -s",
        );
        assert_eq!((ended.code, ended.said.as_str()), (0, "?? .said\n"));
    });
}

#[test]
fn an_old_bubblewrap_builds_the_same() {
    as_both_users("sandbox::view::an_old_bubblewrap_builds_the_same", || {
        let mut body = Body::with_project(OsStr::from_bytes(b"a\nb"));
        body.is_old = true;
        let ended = body.run("pwd; touch ~/x made; ls /aegis/host/project /aegis/bin");
        assert!(
            ended.said.contains("aegis-os\naos\ngit\n"),
            "{}",
            ended.said
        );
        assert!(body.request.project.join("made").exists());
    });
}

fn aegis_home() -> std::path::PathBuf {
    std::env::var_os("HOME").unwrap().into()
}
