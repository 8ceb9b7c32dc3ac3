import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

/** How another program locks a file: all of it, or one byte, with each of the kinds of locks that Linux has. */
export type OutsiderLock = "flock" | "posix" | "ofd" | "ofd byte";

const SCRIPT = `
import fcntl, os, struct, sys
path, kind = sys.argv[1:]
fd = os.open(path, os.O_RDWR)
first, length = (101, 1) if kind == "ofd byte" else (0, 0)
request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, first, length, 0)
F_OFD_SETLK = 37
try:
    if kind == "flock": fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif kind == "posix": fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else: fcntl.fcntl(fd, F_OFD_SETLK, request)
    print("locked", flush=True)
except OSError as error:
    print(error.strerror, flush=True)
sys.stdin.read()
`;

/** Another program with a lock on a file, or one that did not get it, until it is let go. */
export class Outsider implements AsyncDisposable {
  private constructor(
    private readonly process: ChildProcess,
    /** "locked", or why not. */
    readonly said: string,
  ) {}

  static async lock(path: string, kind: OutsiderLock): Promise<Outsider> {
    const child = spawn("python3", ["-c", SCRIPT, path, kind], { stdio: ["pipe", "pipe", "inherit"] });
    const [text] = await once(child.stdout, "data");
    return new Outsider(child, String(text).trim());
  }

  get pid(): number {
    return this.process.pid as number;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await exited;
  }
}
