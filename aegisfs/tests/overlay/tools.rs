//! Ordinary work on a mount and on a plain copy: it ends the same way and leaves the same tree.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::bed::{Bed, furnish};
use super::tree::{dump, fingerprint};

/// What people and agents do. Each starts in a furnished directory and must leave the same tree
/// wherever it runs; `git` in a fixed environment makes the same objects.
pub const WORK: &[(&str, &str)] = &[
    (
        "editor",
        "printf 'new\\n' > a/.x.tmp && cp -p a/x a/x~ && mv a/.x.tmp a/x && rm a/x~ \
        && sed -i 's/host/agent/' a/y d/y && printf 'wq\\n' | ex -s d/z && touch -d @1000000000 d/z",
    ),
    (
        "git",
        "git init -q . && git add -A && git commit -qm one && echo more >> a/x && git rm -q d/y \
        && git mv d e && git add -A && git commit -qm two && git stash list && git checkout -q -b side HEAD~1 \
        && echo side > side && git add side && git commit -qm three && git checkout -q main \
        && git merge -q side -m merged && git rebase -q HEAD~1 && git diff HEAD~1 > diff \
        && git fsck --strict && test -z \"$(git status --porcelain | grep -v diff)\" \
        && git worktree add -q ../w-$$ && git worktree remove ../w-$$ && git gc -q && rm -rf .git",
    ),
    (
        "sqlite",
        "sqlite3 db 'create table t(a,b); create index i on t(a)' \
        && for n in 1 2 3 4 5; do sqlite3 db \"begin; insert into t select value, value*$n \
           from generate_series(1,200); commit\"; done \
        && sqlite3 db 'pragma journal_mode=wal; delete from t where a%3=0; pragma wal_checkpoint(truncate); \
           pragma integrity_check; vacuum' && sqlite3 db 'select count(*),sum(b) from t' > sums && rm db",
    ),
    (
        "python",
        "python3 - <<'P'\nimport os,shutil,tempfile,mmap,zipfile\n\
shutil.copytree('a','copy'); shutil.move('copy/b','b2'); shutil.rmtree('copy')\n\
shutil.make_archive('z','tar','d'); os.remove('z.tar')\n\
f=open('x','r+b'); m=mmap.mmap(f.fileno(),0); m[0:3]=b'MAP'; m.flush(); m.close(); f.close()\n\
assert open('x').read().startswith('MAP')\n\
t=tempfile.TemporaryFile(dir='.'); t.write(b'q'*100000); t.seek(0); assert len(t.read())==100000\n\
os.truncate('a/y',3); os.link('a/y','a/y2'); os.replace('a/y2','a/y3')\n\
open('log','a').write('1'); open('log','a').write('2'); assert open('log').read()=='12'\n\
P",
    ),
    (
        "make",
        "printf 'out: main.o util.o\\n\\tcc -o out main.o util.o\\n%%.o: %%.c\\n\\tcc -c -o $@ $<\\n' > Makefile \
        && echo 'int f(void); int main(void){return f();}' > main.c && echo 'int f(void){return 0;}' > util.c \
        && make -s && ./out && make -s -q && touch -d '1 hour' util.c && ! make -s -q && make -s 2>/dev/null && ./out \
        && rm -f out *.o && touch -d @1000000000 util.c",
    ),
    (
        "locks",
        "exec 9>lock; flock 9; ! flock -n lock true; flock -u 9; flock -n lock true; rm lock; \
        python3 -c 'import fcntl; f=open(\"x\",\"r+\"); fcntl.lockf(f,fcntl.LOCK_EX)'",
    ),
    (
        "archives",
        "tar cf t.tar a d x s && mkdir out && tar xpf t.tar -C out && rm t.tar && diff -r a out/a \
        && cp -a a a2 && diff -r a a2 && rm -r a && mv a2 a && find . -type f | sort > /tmp/names-$$ \
        && mv /tmp/names-$$ names && rm -r out",
    ),
    (
        "moves",
        "mv a moved && mv moved/b b && mkdir a && mv b a/b && echo own > a/b/own && mv a/b/c c \
        && mv -T c empty && mv moved/x d/x && rmdir moved 2>/dev/null; rm moved/y && rmdir moved && ls -R > list",
    ),
];

#[test]
fn ordinary_work_ends_as_on_a_plain_directory() {
    for (name, script) in WORK {
        let mut bed = Bed::furnished();
        let model = bed.root().join("model");
        fs::create_dir(&model).unwrap();
        furnish(&model);
        let host = fingerprint(&bed.project());
        run(&model, name, script);
        run(&bed.mount(), name, script);
        assert_eq!(dump(&bed.mnt()), dump(&model), "{name}");
        bed.remount();
        assert_eq!(dump(&bed.mnt()), dump(&model), "{name}, replayed");
        assert_eq!(
            fingerprint(&bed.project()),
            host,
            "{name} changed the host's tree"
        );
    }
}

#[test]
fn a_repository_of_the_host_stays_as_it_is() {
    let mut bed = Bed::furnished();
    run(
        &bed.project(),
        "set up",
        "git init -q . && git add -A && git commit -qm one",
    );
    let host = fingerprint(&bed.project());
    let work = "test -z \"$(git status --porcelain)\" && echo more >> x && git add x \
        && git commit -qm two && git stash -q || true; git checkout -q -b other && git tag t \
        && test $(git log --oneline | wc -l) = 2 && ! git config core.fsmonitor ./x \
        && ! cp x .git/hooks/pre-commit && ! mv .git g && ! rm .git/config && git fsck";
    run(&bed.mount(), "work", work);
    bed.remount();
    run(
        &bed.mnt(),
        "look",
        "git fsck && test $(git log --oneline | wc -l) = 2",
    );
    assert_eq!(fingerprint(&bed.project()), host);
}

/// The index of the host is right as it is: nothing has to be hashed again.
#[test]
fn git_believes_the_hosts_index() {
    let mut bed = Bed::furnished();
    run(
        &bed.project(),
        "set up",
        "git init -q . && git add -A && git commit -qm one; sleep 1.1; \
        touch .git/index",
    );
    let mnt = bed.mount();
    run(&mnt, "status", "git diff-files --quiet");
}

pub fn run(directory: &Path, name: &str, script: &str) {
    let output = command(directory, script).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{name} in {directory:?}: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr),
    );
}

/// A shell in an environment in which git makes the same commits every time.
pub fn command(directory: &Path, script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(directory);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_COUNT", "2"),
        ("GIT_CONFIG_KEY_0", "init.defaultBranch"),
        ("GIT_CONFIG_VALUE_0", "main"),
        ("GIT_CONFIG_KEY_1", "advice.detachedHead"),
        ("GIT_CONFIG_VALUE_1", "false"),
        ("GIT_AUTHOR_NAME", "n"),
        ("GIT_AUTHOR_EMAIL", "e@e"),
        ("GIT_AUTHOR_DATE", "1000000000 +0000"),
        ("GIT_COMMITTER_NAME", "n"),
        ("GIT_COMMITTER_EMAIL", "e@e"),
        ("GIT_COMMITTER_DATE", "1000000000 +0000"),
    ] {
        command.env(name, value);
    }
    command
}
