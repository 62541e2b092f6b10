//! The system call filter: the table of aegis-policies as programs for the kernel.

use std::collections::BTreeMap;

use aegis_policies::tables::{Action, Errno, Seccomp, SocketFamily};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::syscalls;

/// socket(2) and socketpair(2) carry flags above the type (SOCK_TYPE_MASK of linux/net.h).
const SOCKET_TYPES: u64 = 0xf;
/// x32 system calls have this bit (__X32_SYSCALL_BIT of asm/unistd.h).
const X32_BIT: u32 = 0x4000_0000;
/// What a tracer writes to skip a call (seccomp(2)); no call has this number.
const NO_CALL: u32 = u32::MAX;

/// A refused call that returns this error looks as if it had been carried out.
const PRETENDED: u32 = 0;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
/// By the error that a refused call returns; `None` kills.
type ByAction = BTreeMap<Option<u32>, Rules>;

/// Why the filter could not be built.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    /// The table names a system call that this program does not know.
    #[error("the filter names `{0}`, which is no system call")]
    Unknown(String),
    /// The filter does not fit the kernel's format.
    #[error("the filter cannot be compiled: {0}")]
    Compiler(#[from] seccompiler::BackendError),
    /// The kernel refuses the filter.
    #[error("the kernel refuses the filter: {0}")]
    Kernel(#[from] seccompiler::Error),
}

/// Compiles the table; the programs are to be installed in order, and the strictest one decides.
pub(super) fn compile(table: &Seccomp) -> Result<Vec<BpfProgram>, FilterError> {
    let mut by_action = ByAction::new();
    for rule in &table.syscall {
        // An architecture need not have every call.
        if let Some(number) = number(&rule.name)? {
            // No rules at all means: whatever the arguments.
            rules(&mut by_action, rule.action).insert(number, Vec::new());
        }
    }
    for rule in &table.flag {
        if let Some(number) = number(&rule.name)? {
            let chain = flag_rules(rule.argument, rule.any_of)?;
            rules(&mut by_action, rule.action)
                .entry(number)
                .or_default()
                .extend(chain);
        }
    }
    for rule in &table.ioctl {
        let request = equal(1, rule.request.into())?;
        let chain = rules(&mut by_action, rule.action)
            .entry(libc::SYS_ioctl)
            .or_default();
        chain.push(SeccompRule::new(vec![request])?);
    }
    let refused = rules(&mut by_action, Action::Errno(Errno::Eafnosupport));
    // socketpair(2) makes sockets of the same families from the same arguments.
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        refused.insert(call, socket_rules(&table.family)?);
    }
    by_action.insert(Some(PRETENDED), core_limit_rules()?);
    let mut programs = vec![foreign_numbers()];
    for (error, rules) in by_action {
        programs.push(program(error, rules)?);
    }
    Ok(programs)
}

/// Installs the programs on this thread; they hold for everything it starts.
pub(super) fn install(programs: &[BpfProgram]) -> Result<(), FilterError> {
    for program in programs {
        seccompiler::apply_filter(program)?;
    }
    Ok(())
}

fn number(name: &str) -> Result<Option<i64>, FilterError> {
    syscalls::number(name).ok_or_else(|| FilterError::Unknown(name.to_owned()))
}

fn rules(by_action: &mut ByAction, action: Action) -> &mut Rules {
    by_action.entry(returned(action)).or_default()
}

const fn returned(action: Action) -> Option<u32> {
    match action {
        Action::Errno(errno) => Some(errno.number().unsigned_abs()),
        Action::Kill => None,
    }
}

fn program(error: Option<u32>, rules: Rules) -> Result<BpfProgram, FilterError> {
    let refused = error.map_or(SeccompAction::KillProcess, SeccompAction::Errno);
    // The compiled program kills a process of another architecture before it looks at a number.
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?;
    Ok(filter.try_into()?)
}

/// One rule per bit: any of them is enough.
fn flag_rules(argument: u8, any_of: u64) -> Result<Vec<SeccompRule>, FilterError> {
    (0..u64::BITS)
        .map(|bit| 1_u64 << bit)
        .filter(|bit| any_of & bit != 0)
        .map(|bit| {
            let comparison = SeccompCmpOp::MaskedEq(bit);
            let set = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, comparison, bit)?;
            Ok(SeccompRule::new(vec![set])?)
        })
        .collect()
}

/// Refuses every family that is not listed, and for a listed one every other type and protocol.
fn socket_rules(families: &[SocketFamily]) -> Result<Vec<SeccompRule>, FilterError> {
    let others: Result<Vec<_>, _> = families
        .iter()
        .map(|family| different(0, family.value.into()))
        .collect();
    let mut refused = vec![SeccompRule::new(others?)?];
    for family in families {
        let is_family = || equal(0, family.value.into());
        for kind in
            (0..=SOCKET_TYPES).filter(|kind| !family.types.iter().any(|t| u64::from(*t) == *kind))
        {
            let comparison = SeccompCmpOp::MaskedEq(SOCKET_TYPES);
            let is_type = SeccompCondition::new(1, SeccompCmpArgLen::Dword, comparison, kind)?;
            refused.push(SeccompRule::new(vec![is_family()?, is_type])?);
        }
        if !family.protocols.is_empty() {
            let mut other = vec![is_family()?];
            for protocol in &family.protocols {
                other.push(different(2, (*protocol).into())?);
            }
            refused.push(SeccompRule::new(other)?);
        }
    }
    Ok(refused)
}

/// The limit on core dumps stays what the stage set. Programs that hold secrets lower it and end
/// when that fails, so they are told that it was done.
fn core_limit_rules() -> Result<Rules, FilterError> {
    let core = u64::from(libc::RLIMIT_CORE);
    let is_given = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    let prlimit = SeccompRule::new(vec![equal(1, core)?, is_given])?;
    let setrlimit = SeccompRule::new(vec![equal(0, core)?])?;
    Ok(Rules::from([
        (libc::SYS_prlimit64, vec![prlimit]),
        (libc::SYS_setrlimit, vec![setrlimit]),
    ]))
}

/// The kernel takes these arguments as 32-bit numbers, so only the low half counts.
fn equal(argument: u8, value: u64) -> Result<SeccompCondition, FilterError> {
    Ok(SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        value,
    )?)
}

fn different(argument: u8, value: u64) -> Result<SeccompCondition, FilterError> {
    Ok(SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Ne,
        value,
    )?)
}

/// Kills a process that uses x32 numbers, which the table's numbers say nothing about.
fn foreign_numbers() -> BpfProgram {
    let load_number = instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0);
    let is_no_call = instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, NO_CALL);
    let is_foreign = instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, 0, X32_BIT);
    let allow = instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW);
    let kill = instruction(
        libc::BPF_RET | libc::BPF_K,
        0,
        0,
        libc::SECCOMP_RET_KILL_PROCESS,
    );
    vec![load_number, is_no_call, is_foreign, allow, kill]
}

fn instruction(code: u32, if_true: u8, if_false: u8, value: u32) -> sock_filter {
    // Codes of classic BPF fit into 16 bits (linux/filter.h).
    sock_filter {
        code: code as u16,
        jt: if_true,
        jf: if_false,
        k: value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_compiles() {
        let programs = compile(&aegis_policies::tables::seccomp().unwrap()).unwrap();
        assert!(programs.len() >= 4);
        // BPF_MAXINSNS of linux/bpf_common.h
        assert!(programs.iter().all(|program| program.len() <= 4096));
    }
}
