//! The aegis-os command: one binary, started as `aegis-os`, `git` or `aos`.

use std::process::ExitCode;

fn main() -> ExitCode {
    aegis_launcher::main()
}
