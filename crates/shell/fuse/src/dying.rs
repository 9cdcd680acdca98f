//! Detects whether a thread of another process is about to die.
//!
//! The kernel sends an INTERRUPT for every signal, even for a signal that the program handles. This
//! module detects only signals that end the process: the kernel converts each of these signals into
//! a SIGKILL that is pending for every thread, and `/proc` shows the pending signals.

use std::fs;

/// The bit of SIGKILL in a set of signals.
const KILL: u64 = 1 << 8;
/// The flag of a process that a signal has ended, in the ninth field of its `stat`.
const SIGNALED: u32 = 0x400;

/// Returns true if a thread is about to die by a signal, or no longer exists. A thread in another
/// process namespace (thread id 0) counts as dying.
///
/// The function reads `stat` only of a process that has no memory any more. While a process starts
/// another program (`execve`), the kernel blocks readers of its `stat`, and that start may itself
/// wait for the FLUSH request about which this function is called. A read of `stat` would then be a
/// deadlock.
pub(crate) fn is_dying(thread: u32) -> bool {
    if thread == 0 {
        return true;
    }
    let Ok(status) = fs::read_to_string(format!("/proc/{thread}/status")) else { return true };
    if is_kill_pending(&status) || has_memory(&status) {
        return is_kill_pending(&status);
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{thread}/stat")) else { return true };
    has_been_signaled(&stat)
}

/// Returns true if the process has memory. A process that ends releases its memory before it closes
/// its files.
fn has_memory(status: &str) -> bool {
    status.lines().any(|line| line.starts_with("VmSize:"))
}

fn is_kill_pending(status: &str) -> bool {
    let pending = status
        .lines()
        .filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
    pending.filter_map(|set| u64::from_str_radix(set.trim(), 16).ok()).any(|set| set & KILL != 0)
}

fn has_been_signaled(stat: &str) -> bool {
    // The second field of `stat` is the name, which may contain any characters. The name ends at
    // the last parenthesis, so the parser counts the other fields from there.
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u32>().ok()).is_some_and(|flags| flags & SIGNALED != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_signal_that_ends_the_process_counts() {
        let status =
            |private: &str, shared: &str| format!("SigPnd:\t{private}\nShdPnd:\t{shared}\n");
        assert!(is_kill_pending(&status("0000000000000100", "0000000000000000")));
        assert!(is_kill_pending(&status("0000000000000000", "0000000000000100")));
        assert!(!is_kill_pending(&status("0000000000000002", "0000000000004000")));
        assert!(has_memory("VmPeak:\t1 kB\nVmSize:\t1 kB\n") && !has_memory("Name:\ta\n"));
        assert!(has_been_signaled("12 (a ) b) Z 1 1 1 0 -1 4195332 0 0"));
        assert!(!has_been_signaled("12 (a ) b) S 1 1 1 0 -1 4194304 0 0"));
    }

    #[test]
    fn running_process_is_not_dying() {
        assert!(!is_dying(std::process::id()));
        assert!(is_dying(0));
        assert!(is_dying(u32::MAX));
    }
}
