//! inotify(7) on the mount.

use super::super::bed::Bed;

/// Who watches a directory or a file is told what others change through the mount.
#[test]
fn watchers_see_what_is_changed_through_the_mount() {
    let mut bed = Bed::furnished();
    let program = r#"
IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_FROM, IN_TO, IN_CREATE, IN_DELETE, IN_SELF = 2, 4, 8, 64, 128, 256, 512, 1024
names = {2: "modify", 4: "attrib", 8: "close", 64: "from", 128: "to", 256: "create", 512: "delete", 1024: "self"}
watch = libc.inotify_init1(os.O_NONBLOCK)
for place in [b"a", b"x"]:
    assert libc.inotify_add_watch(watch, place, sum(names)) > 0

def work():
    write("a/new", "text")
    os.chmod("a/new", 0o600)
    os.rename("a/new", "a/b/out")
    os.rename("a/b/out", "a/in")
    os.unlink("a/y")
    write("x", "first write", "a")
    os.unlink("x")

assert ended(child(work)) == 0
data, at, seen = os.read(watch, 65536), 0, []
while at < len(data):
    _, mask, _, length = struct.unpack_from("iIII", data, at)
    name = data[at + 16:at + 16 + length].rstrip(b"\0").decode()
    seen.append((name, names.get(mask & 0xfff)))
    at += 16 + length
print(seen)
"#;
    let plain = bed.root().join("plain");
    std::fs::create_dir(&plain).unwrap();
    super::super::bed::furnish(&plain);
    let expected = super::run_in(&plain, program, &[]);
    assert!(expected.contains("('new', 'create')"), "{expected}");
    assert_eq!(super::run_in(&bed.mount(), program, &[]), expected);
}
