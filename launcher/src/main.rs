//! The aegis-os command: one binary, started as `aegis-os`, `git`, `aos` or `mount.aegisfs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    aegis_launcher::main()
}
