import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Child } from "./child-process.js";
import { eventually } from "./eventually.js";
import { onExit } from "./on-exit.js";

const START_TIMEOUT_MS = 20_000;
const CACHE_TIMEOUT_MS = 20_000;

/** A device file that can be made to fail or hang. nbdkit serves it, and FUSE shows it as a file. */
export class Drive {
  readonly #forget: () => void;

  private constructor(
    readonly path: string,
    /** File below the drive, which has the bytes that the drive has written. */
    readonly image: string,
    private readonly failingFile: string,
    private readonly server: Child,
    private readonly fuse: Child,
  ) {
    // Unmounts at exit, because the test's folder could not be deleted otherwise.
    this.#forget = onExit(() => this.#unmount());
  }

  /** Returns why this machine cannot provide such a drive; undefined when it can. */
  static problem(): string | undefined {
    if (!existsSync("/dev/fuse")) return "there is no /dev/fuse";
    for (const program of ["nbdkit", "nbdfuse"])
      if (spawnSync(program, ["--version"]).error !== undefined) return `${program} is not on PATH`;
    return undefined;
  }

  static async open(folder: string, sizeBytes: number): Promise<Drive> {
    mkdirSync(folder, { recursive: true });
    const at = (name: string) => join(folder, name);
    for (const name of ["image", "drive"]) writeFileSync(at(name), "");
    execFileSync("truncate", ["-s", `${sizeBytes}`, at("image")]);
    const failing = at("failing");
    const errors = ["error=EIO", "error-rate=100%", `error-file=${failing}`];
    const server = new Child({
      name: "nbdkit",
      command: "nbdkit",
      args: ["--foreground", "--unix", at("socket"), "--filter=error", "file", at("image"), ...errors],
      logFile: at("nbdkit.log"),
    });
    await eventually(() => existsSync(at("socket")), { timeoutMs: START_TIMEOUT_MS });
    const fuse = new Child({
      name: "nbdfuse",
      command: "nbdfuse",
      args: [at("drive"), "--unix", at("socket")],
      logFile: at("nbdfuse.log"),
    });
    const isMounted = () => spawnSync("mountpoint", ["-q", at("drive")]).status === 0;
    await eventually(isMounted, { timeoutMs: START_TIMEOUT_MS });
    return new Drive(at("drive"), at("image"), failing, server, fuse);
  }

  /** Makes every request fail with EIO. Data in the kernel's cache is still read. */
  fail(): void {
    writeFileSync(this.failingFile, "");
  }

  mend(): void {
    rmSync(this.failingFile, { force: true });
  }

  /** Leaves every request unanswered. */
  hang(): void {
    // Drops the kernel's cache, which may contain the whole small drive and would still answer.
    execFileSync("dd", [`if=${this.path}`, "iflag=nocache", "count=0", "status=none"], { timeout: CACHE_TIMEOUT_MS });
    this.server.signal("SIGSTOP");
  }

  resume(): void {
    this.server.signal("SIGCONT");
  }

  async close(): Promise<void> {
    this.#forget();
    this.resume();
    this.#unmount();
    for (const child of [this.fuse, this.server]) {
      if (child.exit === undefined) child.signal("SIGKILL");
      await child.exited;
    }
  }

  #unmount(): void {
    spawnSync("umount", ["--lazy", this.path]);
  }
}
