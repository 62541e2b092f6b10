//! Writes outside the project, and to the real project.

use super::attack;

/// Reports the damage when the host's `~/.bashrc` was changed.
#[track_caller]
fn changes_the_shell(script: &str) {
    attack(
        |_| script.to_owned(),
        |world, _| world.home_has(".bashrc", "EVIL"),
    );
}

#[test]
fn appending_to_the_shells_start_file() {
    changes_the_shell("echo EVIL >> ~/.bashrc");
}

#[test]
fn writing_through_a_link_in_the_project() {
    changes_the_shell("ln -s ~/.bashrc link; echo EVIL >> link");
}

#[test]
fn writing_through_a_relative_link_that_climbs() {
    changes_the_shell("ln -s ../../.bashrc link; echo EVIL >> link; echo EVIL >> ../../.bashrc");
}

#[test]
fn writing_through_a_hard_link() {
    changes_the_shell("ln ~/.bashrc hard; echo EVIL >> hard");
}

#[test]
fn writing_beneath_an_inherited_directory() {
    changes_the_shell(
        "python3 -c 'import os
for fd in [57, *range(3, 64)]:
    try: os.write(os.open(\".bashrc\", os.O_WRONLY | os.O_APPEND, dir_fd=fd), b\"EVIL\"); break
    except OSError: pass'",
    );
}

#[test]
fn writing_through_the_root_of_any_process() {
    changes_the_shell(
        "for p in /proc/[0-9]*; do for way in root cwd; do
           echo EVIL >> $p/$way$HOME/.bashrc; done; done 2>/dev/null
         echo EVIL >> /proc/self/root$HOME/.bashrc",
    );
}

#[test]
fn removing_the_masks_in_a_namespace_of_its_own() {
    changes_the_shell(
        "unshare -Urm sh -c \"umount -l $HOME; umount -l /home; mount -o remount,rw,bind /
           echo EVIL >> $HOME/.bashrc\" || true
         mount -o remount,rw / || true; umount $HOME; echo EVIL >> ~/.bashrc",
    );
}

#[test]
fn writing_to_another_project() {
    attack(
        |_| "echo EVIL > ../sibling/file.txt".to_owned(),
        |world, _| world.home_has("src/sibling/file.txt", "EVIL"),
    );
}

#[test]
fn writing_to_the_real_project() {
    attack(
        |_| {
            "echo EVIL >> keep.txt
             for p in /aegis/host/project /proc/1/root$PWD; do echo EVIL >> $p/keep.txt; done"
                .to_owned()
        },
        |world, _| world.project_has("keep.txt", "EVIL"),
    );
}

#[test]
fn removing_the_whole_project() {
    attack(
        |_| "rm -rf -- * .git /aegis/host/project/*".to_owned(),
        |world, _| !world.project_has("keep.txt", "keep"),
    );
}

#[test]
fn leaving_files_where_others_look() {
    let name = |world: &super::World| format!("aegis-canary-{}", world.canary);
    let places = ["/tmp", "/var/tmp", "/dev/shm"];
    attack(
        |world| {
            let name = name(world);
            places
                .map(|place| format!("echo EVIL > {place}/{name}"))
                .join("\n")
        },
        |world, _| {
            let left = places.map(|place| std::path::Path::new(place).join(name(world)));
            let found = left.iter().any(|path| path.exists());
            left.iter()
                .for_each(|path| drop(std::fs::remove_file(path)));
            found
        },
    );
}

#[test]
fn replacing_what_the_host_runs() {
    // A toolchain in the home directory is shown inside, and must not be changed there.
    attack(
        |_| {
            "mkdir -p ~/.cargo/bin; printf '#!/bin/sh\\n' > ~/.cargo/bin/cargo
             mkdir -p ~/.local/bin; printf '#!/bin/sh\\n' > ~/.local/bin/git"
                .to_owned()
        },
        |world, _| {
            world.home_has(".cargo/bin/cargo", "sh") || world.home_has(".local/bin/git", "sh")
        },
    );
}
