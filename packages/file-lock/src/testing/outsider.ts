import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

/** Kinds of locks on Linux: "ofd byte" locks one byte, the others the whole file. */
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

/** A separate program that tries to lock a file and, if it succeeds, holds the lock until it is released. */
export class Outsider implements AsyncDisposable {
  private constructor(
    private readonly process: ChildProcess,
    /** Output of the program: "locked", or the reason why locking failed. */
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
