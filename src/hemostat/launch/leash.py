"""Run as a file: ties this process to the life of its parent, then becomes the command that it is given."""

# This stands between a parent and its child: `python -I -S leash.py agent|rank|alone COMMAND`. It imports
# next to nothing and costs about 10 ms (measured). Doing the same in a `preexec_fn` is not safe when the
# launcher has threads, and torch's agent offers no hook between its fork and its exec.

import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PARENT = "HEMOSTAT_PARENT_PID"
RESTARTS = "HEMOSTAT_RESTARTS"


def tie() -> None:
    """Ask Linux to kill this process as soon as its parent is gone; elsewhere do nothing.

    The setting survives `exec` but not `fork`, so each rank needs its own: the launcher ties torch's agent,
    and the agent starts every rank through this file again. When the launcher dies from SIGKILL, the agent
    is killed, and thereby all ranks. Linux ties to the thread that forked; both parents wait in that thread.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    expected = os.environ.get(PARENT)
    # the parent may have died between its fork and the line above
    if expected and os.getppid() != int(expected):
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Tie, arrange the standard streams of a rank, become the command."""
    kind, command = sys.argv[1], sys.argv[2:]
    tie()
    if kind == "rank":
        # The agent's own stderr is a log file; the user's stderr came along as its stdin, which is the only
        # other descriptor that the agent hands on. Several ranks could not share a keyboard anyway.
        os.dup2(0, 2)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
    os.environ[PARENT] = str(os.getpid())
    if RESTARTS in os.environ and kind != "agent":
        os.environ["TORCHELASTIC_RESTART_COUNT"] = os.environ[
            RESTARTS
        ]  # the agent knows of its own restarts only
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"error: command={command[0]!r}: cannot be run, {error.strerror}. Check the path.\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
