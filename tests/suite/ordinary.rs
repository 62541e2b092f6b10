//! Ordinary work inside the sandbox, landed, gives the same tree as the same work without it.
//!
//! Both runs happen at the same path, one after the other, so that even files that record absolute
//! paths have to be equal. What is left out of a comparison is named where it is left out.

use aegis_tests::{TestEnv, toolchain, tree};

/// Does `work` inside and lands it; then does it again on the seed, outside; compares.
#[track_caller]
fn assert_same_work(env: &TestEnv, options: &[&str], work: &str, except: &[&str]) {
    let project = env.project().display();
    let _ = env.sh(&format!("cp -a '{project}' \"$HOME/seed\"")).ok();
    let seed = tree::read(env.project(), &[]);

    let inside = env.run_with(options, work).ok();
    tree::assert_same(&tree::read(env.project(), &[]), &seed);
    env.land();
    let landed = tree::read(env.project(), except);

    let back = format!("cd; rm -rf '{project}'; cp -a \"$HOME/seed\" '{project}'");
    let _ = env.sh(&back).ok();
    let outside = env.sh(work).ok();
    let plain = tree::read(env.project(), except);
    tree::assert_same(&landed, &plain);
    assert_ne!(
        plain, seed,
        "the work changes nothing: the comparison shows nothing"
    );
    println!("inside {:.2?}, outside {:.2?}", inside.wall, outside.wall);
}

#[test]
fn a_rust_crate_builds_and_passes_its_tests() {
    let env = TestEnv::new();
    toolchain::install(&env);
    env.write("Cargo.toml", CARGO_TOML);
    env.write(
        "src/main.rs",
        "fn main() {\n    println!(\"{}\", adder::add(2, 3));\n}\n",
    );
    env.write("adder/Cargo.toml", ADDER_TOML);
    env.write("adder/src/lib.rs", ADDER);
    env.write("adder/build.rs", BUILD_SCRIPT);
    let work = "export CARGO_INCREMENTAL=0 CARGO_NET_OFFLINE=true CARGO_TERM_COLOR=never
        cargo build -q && cargo test -q --workspace --lib --bins && ./target/debug/crate-of-two > answer.txt
        test \"$(cat answer.txt)\" = 5";
    // Left out, because two builds outside differ there as well: incremental state is named by the
    // clock (and switched off), and cargo writes these in the order of a hash map.
    let except = ["target/.rustc_info.json", "target/debug/.fingerprint"];
    assert_same_work(&env, &[], work, &except);
}

#[test]
fn a_c_project_builds_twice() {
    let env = TestEnv::new();
    env.write("Makefile", MAKEFILE);
    env.write("main.c", "#include \"part.h\"\n#include <stdio.h>\nint main(void) { return printf(\"%d\\n\", part(20)) < 0; }\n");
    env.write(
        "part.c",
        "#include \"part.h\"\nint part(int x) { return 2 * x + SCALE; }\n",
    );
    env.write("part.h", "#define SCALE 2\nint part(int x);\n");
    // The second make must see from times alone that only one object is out of date.
    let work = "make -s && ./program > answer.txt && test \"$(make -q; echo $?)\" = 0
        sleep 0.02; sed -i 's/SCALE 2/SCALE 4/' part.h
        make > rebuilt.txt && ./program >> answer.txt
        rm -f main.o && make -s && mv answer.txt result.txt && ln -s result.txt latest";
    assert_same_work(&env, &[], work, &[]);
}

#[test]
fn an_npm_package_installs_from_a_tarball() {
    let env = TestEnv::new();
    env.write(
        "package.json",
        "{\n  \"name\": \"host\",\n  \"version\": \"1.0.0\"\n}\n",
    );
    env.write("package/package.json", PACKAGE);
    env.write("package/index.js", "module.exports = (x) => x * 2;\n");
    env.write(
        "package/bin/double",
        "#!/usr/bin/env node\nconsole.log(require('..')(21));\n",
    );
    let pack = "chmod +x package/bin/double && tar -czf double.tgz package && rm -r package";
    let _ = env.sh(pack).ok();
    let work = "npm install ./double.tgz --offline --no-audit --no-fund --loglevel=error
        ./node_modules/.bin/double > answer.txt && test \"$(cat answer.txt)\" = 42";
    assert_same_work(&env, &[], work, &[]);
}

#[test]
fn a_database_loads_with_a_journal_and_with_a_log() {
    let env = TestEnv::new();
    env.write(
        "seed.sql",
        "create table seed(a);\ninsert into seed values('x');\n",
    );
    let _ = env.sh("sqlite3 old.db < seed.sql").ok();
    let work = "
        { echo 'create table t(id integer primary key, text);'; echo 'begin;'
          for i in $(seq 5000); do echo \"insert into t(text) values('row $i');\"; done
          echo 'commit; create index by_text on t(text);'; } > load.sql
        sqlite3 new.db < load.sql
        sqlite3 old.db 'update seed set a = hex(zeroblob(50000)); vacuum;'
        # A log needs shared memory: mmap(MAP_SHARED) on the file system under test.
        sqlite3 log.db 'pragma journal_mode=wal;' 'create table t(a);' 'insert into t values(1);'
        test \"$(sqlite3 new.db 'select count(*) from t; pragma integrity_check;' | tr '\\n' ' ')\" = '5000 ok '
        ! ls *-wal *-shm *-journal 2>/dev/null";
    assert_same_work(&env, &[], work, &[]);
}

#[test]
fn files_of_every_kind_land() {
    let env = TestEnv::with_repository();
    env.write("a/deep/file.txt", "deep\n");
    env.write("gone.txt", "gone\n");
    env.write("script.sh", "#!/bin/sh\necho hi\n");
    env.write("big.bin", vec![7_u8; 3 << 20]);
    let work = r#"
        mv a renamed && rm gone.txt && chmod 755 script.sh && chmod 600 keep.txt
        ln -s ../keep.txt renamed/link && mkdir -m 700 private && echo x > private/x
        printf 'nul\0byte\377' > binary.bin && : > empty && mkdir empty-directory
        printf 'new middle' | dd of=big.bin bs=1 seek=1500000 conv=notrunc status=none
        truncate -s 2M big.bin && printf tail >> big.bin
        echo strange > 'a name with  spaces'; echo byte > $'\xff\xfe'; echo accent > 'é'
        echo v2 > keep.new && mv keep.new keep.txt && rmdir empty-directory && mkdir empty-directory
        mkdir -p x/y/z && mv renamed/deep x/y/z/ && cp -a x copy && rm -r x/y"#;
    // The index records times and inode numbers, which differ between the two runs by nature.
    assert_same_work(&env, &[], work, &[".git/index"]);
}

const CARGO_TOML: &str = r#"[package]
name = "crate-of-two"
version = "0.1.0"
edition = "2021"

[dependencies]
adder = { path = "adder" }

[workspace]
members = ["adder"]
"#;

const ADDER_TOML: &str = r#"[package]
name = "adder"
version = "0.1.0"
edition = "2021"
"#;

const ADDER: &str = r#"include!(concat!(env!("OUT_DIR"), "/made.rs"));

pub fn add(left: i32, right: i32) -> i32 {
    left + right + ZERO
}

#[test]
fn adds() {
    assert_eq!(add(2, 2), 4);
}
"#;

const BUILD_SCRIPT: &str = r#"fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    std::fs::write(format!("{out}/made.rs"), "const ZERO: i32 = 0;").unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
"#;

const MAKEFILE: &str = "CFLAGS = -O1 -MMD -Wdate-time
program: main.o part.o
\tcc -o $@ $^
-include *.d
";

const PACKAGE: &str = r#"{
  "name": "double",
  "version": "1.2.3",
  "main": "index.js",
  "bin": { "double": "bin/double" }
}
"#;
