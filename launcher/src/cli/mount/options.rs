//! The options of a mount as mount(8) and fstab(5) write them: `ro,threads=2,audit=/var/log/x`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use aegis_policies::path::escape;
use aegisfs::fuse::{Audience, Transport};

use crate::error::CommandError;
use crate::session::view::{Access, Continue, Wanted};

/// More threads than this only cost memory.
const MOST_THREADS: usize = 64;
/// What the system's own programs put there and act upon, or what is so whatever is said: the tree is
/// never `dev` or `suid`, permissions are always checked by the kernel, and times of access are the
/// file system's own affair.
const NOTHING_TO_DO: [&str; 38] = [
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "users",
    "nouser",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "exec",
    "async",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "diratime",
    "nodiratime",
    "silent",
    "loud",
    "mand",
    "nomand",
    "iversion",
    "noiversion",
    "nosymfollow",
    "default_permissions",
    "nonempty",
    "auto_unmount",
];
/// The same, with a value.
const NOTHING_TO_DO_WITH: [&str; 6] =
    ["user=", "uhelper=", "helper=", "comment=", "subtype=", "x-"];
/// What a person may say, and what it means.
const KNOWN: [(&str, &str); 16] = [
    ("ro", "as --ro"),
    ("rw", "as --shadow"),
    ("shadow", "as --shadow"),
    ("session=ID|last", "as --session"),
    ("policy=FILE", "as --policy"),
    ("audit=FILE", "as --audit"),
    (
        "allow_other",
        "other users may use the view; needs `user_allow_other` in /etc/fuse.conf unless you \
         are root",
    ),
    ("noexec", "no program in the view can be started"),
    (
        "home=DIR",
        "sessions and settings are there, not in ~/.aegis; AEGIS_HOME=DIR for other commands",
    ),
    ("threads=N", "so many threads answer, from 1 to 64"),
    (
        "transport=auto|device|io-uring|fuser",
        "how requests reach the server",
    ),
    ("io_uring", "as transport=io-uring"),
    (
        "writeback",
        "faster, but a killed server loses what was just written",
    ),
    (
        "passthrough",
        "the kernel reads from the files themselves where it can",
    ),
    ("nopassthrough", "every read is answered by the server"),
    ("fsname=NAME", "what the list of mounts shows as the source"),
];

/// The options for `--help`, one to a line or two.
pub(super) fn help() -> String {
    let known = KNOWN.iter();
    let line = |(option, meaning): &(&str, &str)| match option.len() + meaning.len() {
        ..=76 => format!("  {option:15} {meaning}\n"),
        _ => format!("  {option}\n                  {meaning}\n"),
    };
    known.map(line).collect()
}

/// Takes the options of one `-o` over into what is wanted; of two that contradict each other the
/// later one counts.
///
/// # Errors
/// When an option is not known, or its value can not be used.
pub fn apply(text: &OsStr, wanted: &mut Wanted) -> Result<(), CommandError> {
    let options = text.as_bytes().split(|byte| *byte == b',');
    for option in options.filter(|option| !option.is_empty()) {
        let (name, value) = match option.iter().position(|byte| *byte == b'=') {
            Some(at) => {
                let (name, value) = option.split_at(at);
                (name, value.get(1..))
            }
            None => (option, None),
        };
        set(name, value, wanted).map_err(|why| refused(option, why))?;
    }
    Ok(())
}

fn set(name: &[u8], value: Option<&[u8]>, wanted: &mut Wanted) -> Result<(), &'static str> {
    match (name, value) {
        (b"ro", None) => wanted.access = Access::ReadOnly,
        (b"rw" | b"shadow", None) => wanted.access = Access::Shadow,
        (b"session", Some(b"last")) => wanted.session = Continue::Last,
        (b"session", Some(id)) => wanted.session = Continue::Named(text(id)?.to_owned()),
        (b"policy", Some(path)) => wanted.policy = Some(file(path)?),
        (b"audit", Some(path)) => wanted.audit = Some(file(path)?),
        (b"home", Some(path)) => wanted.home = Some(file(path)?),
        (b"fsname", Some(name)) => wanted.looks.source = OsStr::from_bytes(name).to_owned(),
        (b"allow_other", None) => wanted.looks.audience = Audience::Everybody,
        (b"noexec", None) => wanted.looks.no_exec = true,
        (b"threads", Some(count)) => wanted.options.threads = threads(text(count)?)?,
        (b"transport", Some(name)) => wanted.options.transport = transport(text(name)?)?,
        (b"io_uring", None) => wanted.options.transport = Transport::IoUring,
        (b"writeback", None) => wanted.options.writeback = true,
        (b"passthrough", None) => wanted.options.passthrough = true,
        (b"nopassthrough", None) => wanted.options.passthrough = false,
        (other, None) if NOTHING_TO_DO.iter().any(|known| known.as_bytes() == other) => {}
        _ if is_for_others(name, value) => {}
        _ => return Err("it is not known here"),
    }
    Ok(())
}

fn is_for_others(name: &[u8], value: Option<&[u8]>) -> bool {
    let mut whole = name.to_vec();
    if value.is_some() {
        whole.push(b'=');
    }
    let starts = |known: &&str| whole.to_ascii_lowercase().starts_with(known.as_bytes());
    NOTHING_TO_DO_WITH.iter().any(starts)
}

fn text(value: &[u8]) -> Result<&str, &'static str> {
    std::str::from_utf8(value).map_err(|_| "its value is not text")
}

fn file(value: &[u8]) -> Result<PathBuf, &'static str> {
    if value.is_empty() {
        return Err("it names no file");
    }
    Ok(OsString::from(OsStr::from_bytes(value)).into())
}

fn threads(value: &str) -> Result<usize, &'static str> {
    let count = value.parse().ok();
    let count = count.filter(|count| (1..=MOST_THREADS).contains(count));
    count.ok_or("a count of threads is from 1 to 64")
}

fn transport(value: &str) -> Result<Transport, &'static str> {
    match value {
        "auto" => Ok(Transport::Auto),
        "device" => Ok(Transport::Device),
        "io-uring" => Ok(Transport::IoUring),
        "fuser" => Ok(Transport::Fuser),
        _ => Err("there is no such transport"),
    }
}

fn refused(option: &[u8], why: &str) -> CommandError {
    let what = format!("the mount option `{}` can not be used", escape(option));
    let known = KNOWN.map(|(option, _)| option).join(", ");
    CommandError::told(&what, why, &format!("the options are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        apply(OsStr::new(text), &mut wanted)
            .map(|()| wanted)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_fstab_may_say_is_understood() {
        let wanted = applied(
            "rw,nosuid,nodev,noauto,user=me,x-systemd.automount,X-mount.mkdir,_netdev,comment=a b,\
             ro,threads=3,transport=io-uring,writeback,nopassthrough,session=2026,policy=/p,\
             audit=/a=b,allow_other,noexec,fsname=/src",
        )
        .unwrap();
        assert_eq!(wanted.access, Access::ReadOnly);
        assert_eq!(wanted.options.threads, 3);
        assert_eq!(wanted.options.transport, Transport::IoUring);
        assert!(wanted.options.writeback && !wanted.options.passthrough);
        assert_eq!(wanted.session, Continue::Named("2026".into()));
        assert_eq!(wanted.policy, Some("/p".into()));
        assert_eq!(wanted.audit, Some("/a=b".into()));
        assert!(wanted.looks.no_exec);
        assert_eq!(wanted.looks.audience, Audience::Everybody);
        assert_eq!(wanted.looks.source, "/src");
    }

    #[test]
    fn everything_that_is_offered_is_understood() {
        for (option, _) in KNOWN {
            let value = option
                .replace("=N", "=1")
                .replace("auto|device|io-uring|", "");
            applied(&value).unwrap();
        }
        let longest = help().lines().map(str::len).max();
        assert!(longest <= Some(110), "{}", help());
    }

    #[test]
    fn rings_have_a_short_name() {
        let transport = |text| applied(text).unwrap().options.transport;
        assert_eq!(transport("io_uring"), transport("transport=io-uring"));
    }

    #[test]
    fn the_later_of_two_counts() {
        assert_eq!(applied("ro,rw").unwrap().access, Access::Shadow);
        assert_eq!(applied("shadow,ro").unwrap().access, Access::ReadOnly);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for option in [
            "sync",
            "threads=0",
            "threads=65",
            "threads=x",
            "threads",
            "transport=9p",
            "ro=1",
            "session",
            "audit=",
            "uid=0",
            "Ro",
        ] {
            let error = applied(option).unwrap_err();
            assert!(error.contains(option), "{error}");
        }
        assert_eq!(applied(",,").unwrap().access, Access::Shadow);
    }
}
