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
const KNOWN: &str = "ro, rw, shadow, session=ID|last, policy=FILE, audit=FILE, allow_other, noexec, \
                     threads=N, transport=auto|device|io-uring|fuser, io_uring, writeback, passthrough, \
                     nopassthrough, home=DIR, fsname=NAME";

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
    CommandError::told(&what, why, &format!("the options are {KNOWN}"))
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
