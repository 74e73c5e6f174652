"""Starting a process that ends when its parent ends, however the parent ends.

Linux only (PR_SET_PDEATHSIG); elsewhere the process is started all the same and has to be stopped by its starter.
The kernel ties the child to the *thread* that started it: that thread must live as long as the child may.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

# A program of its own instead of preexec_fn, which may deadlock in a process that has threads. The parent can die
# before prctl: then the signal never comes, but the parent's id has changed by then. What follows is exec, so the
# process id that the starter knows is that of the program it asked for.
_TETHER = """
import ctypes, os, sys
parent, signum = int(sys.argv[1]), int(sys.argv[2])
if sys.platform == "linux":
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(1, signum, 0, 0, 0) != 0:
        sys.exit("prctl(PR_SET_PDEATHSIG) failed: " + os.strerror(ctypes.get_errno()))
if os.getppid() != parent:
    sys.exit("the starter ended before this process was started")
try:
    os.execvp(sys.argv[3], sys.argv[3:])
except OSError as problem:
    sys.exit(f"cannot run {sys.argv[3]}: {problem.strerror}")
"""


TETHER_SIGNAL = signal.SIGHUP
"""For children to which a second SIGTERM means "at once": the kernel sends the death signal once for each thread of
the parent that the child was handed on to, so it must be one that may come twice."""


def start_tethered(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
    keep_fds: Sequence[int] = (),
    death_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Run ``command`` in a session of its own, so that Ctrl-C in a terminal reaches only its starter.

    It gets ``death_signal`` when the calling thread (hence also when this process) ends. ``output`` takes stdout and
    stderr (None: inherited). A command that cannot be executed ends with exit code 1 and says why in its output.
    """
    return subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _TETHER,
            str(os.getpid()),
            str(int(death_signal)),
            *command,
        ],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        pass_fds=keep_fds,
        start_new_session=True,
    )
