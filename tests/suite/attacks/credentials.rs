//! Credentials: files, variables, neighbours, the keyring.

use super::attack;
use super::world::{SECRET_FILES, SECRET_VARIABLES};

#[test]
fn files_in_the_home_directory() {
    for file in SECRET_FILES {
        attack(
            |_| format!("cat ~/{file}"),
            |world, seen| seen.output().contains(&world.canary),
        );
    }
}

#[test]
fn a_projects_own_secrets() {
    attack(
        |world| {
            world.env.write(".env", format!("TOKEN={}\n", world.canary));
            "cat .env; cat /aegis/host/project/.env; grep -rs TOKEN . /aegis/host /proc/self/root/aegis
             ln .env plain && cat plain; mv .env other && cat other; cp .env third && cat third
             ln -s .env link && cat link; dd if=.env; python3 -c 'print(open(\".env\").read())'"
                .to_owned()
        },
        |world, seen| seen.output().contains(&world.canary),
    );
}

#[test]
fn variables_of_the_launcher() {
    for name in SECRET_VARIABLES {
        attack(
            |_| format!("printenv {name}"),
            |world, seen| seen.output().contains(&world.canary),
        );
    }
}

#[test]
fn variables_of_every_process_that_can_be_seen() {
    attack(
        |_| "cat /proc/[0-9]*/environ | tr '\\0' '\\n'".to_owned(),
        |world, seen| seen.output().contains(&world.canary),
    );
}

#[test]
fn command_lines_of_every_process_that_can_be_seen() {
    attack(
        |world| {
            format!(
                "cat /proc/{}/cmdline; cat /proc/[0-9]*/cmdline",
                world.victim()
            )
        },
        |_, seen| seen.stdout.contains("sleep\x00600"),
    );
}

#[test]
fn variables_of_a_neighbour() {
    attack(
        |world| format!("tr '\\0' '\\n' < /proc/{}/environ", world.victim()),
        |world, seen| {
            seen.output()
                .contains(&format!("VICTIM_TOKEN={}", world.canary))
        },
    );
}

#[test]
fn keys_in_the_session_keyring() {
    attack(
        |_| {
            "python3 - <<'END'
import ctypes
libc = ctypes.CDLL(None)
key = libc.syscall(250, 10, -3, b'user', b'aegis-canary', 0)
held = ctypes.create_string_buffer(100)
size = libc.syscall(250, 11, key, held, 100)
print(held.raw[:max(size, 0)])
END"
            .to_owned()
        },
        |world, seen| seen.stdout.contains(&world.canary),
    );
}

/// Looks everywhere at once, as a thief with time would.
#[test]
fn a_search_of_everything_that_can_be_read() {
    attack(
        |world| {
            // The word is put together inside, so that the search does not find its own text.
            let (head, tail) = world.canary.split_at(12);
            format!(
                "grep -rlsaF --devices=skip --exclude-dir=sys --exclude-dir=proc \
                   -e '{head}'\"\"'{tail}' \
                   $HOME /aegis /run /tmp /var /etc /mnt /media /opt /srv . > /tmp/found-$$
                 grep -v \"^/tmp/found\" /tmp/found-$$ | sed 's/^/FOUND /'; rm -f /tmp/found-$$"
            )
        },
        |_, seen| seen.stdout.contains("FOUND"),
    );
}
