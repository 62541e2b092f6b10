//! The system call filter, as data.

use serde::Deserialize;

/// Everything that is not named here is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seccomp {
    /// System calls refused whatever their arguments.
    pub syscall: Vec<SyscallRule>,
    /// Refused when one argument has any of some bits.
    pub flag: Vec<FlagRule>,
    /// Address families that socket(2) may make. Every other family is EAFNOSUPPORT.
    pub family: Vec<SocketFamily>,
    /// ioctl(2) requests that are refused. Only the low 32 bits count (CVE-2023-1523).
    pub ioctl: Vec<IoctlRule>,
}

/// A system call that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyscallRule {
    /// Its name in the kernel's tables. One that the architecture does not have is left out.
    pub name: String,
    /// What happens.
    pub action: Action,
    /// Why.
    pub reason: String,
}

/// What a refused system call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It fails with this error.
    Errno(Errno),
    /// The process dies (SIGSYS).
    Kill,
}

/// The errors that rules use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Errno {
    /// Operation not permitted: 1.
    Eperm,
    /// Function not implemented, so that callers fall back: 38.
    Enosys,
    /// Address family not supported: 97.
    Eafnosupport,
}

/// A system call that is refused for some values of an argument.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlagRule {
    /// The system call.
    pub name: String,
    /// Which argument, from 0.
    pub argument: u8,
    /// Refused when the argument has any of these bits.
    pub any_of: u64,
    /// What happens.
    pub action: Action,
    /// Why.
    pub reason: String,
}

/// An address family that may be used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketFamily {
    /// Its name.
    pub name: String,
    /// Its number, the first argument of socket(2).
    pub value: u32,
    /// The socket types that are allowed with it, without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
    pub types: Vec<u32>,
    /// The protocols that are allowed with it; empty for any.
    #[serde(default)]
    pub protocols: Vec<u32>,
    /// Why.
    pub reason: String,
}

/// A request of ioctl(2) that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoctlRule {
    /// Its name.
    pub name: String,
    /// Its number.
    pub request: u32,
    /// What happens.
    pub action: Action,
    /// Why.
    pub reason: String,
}

impl Errno {
    /// The number on Linux.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Eperm => 1,
            Self::Enosys => 38,
            Self::Eafnosupport => 97,
        }
    }
}
