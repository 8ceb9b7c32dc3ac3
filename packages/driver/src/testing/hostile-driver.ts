import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { Driver, nodeMethod, z } from "../index.js";

const post = (description: string) => ({ httpMethods: ["POST"], async: false, description, exclusiveLock: false });

/**
 * Reads what its service has, and leaves processes that nobody can tell as its own.
 * @public loaded by its path
 */
export default class HostileDriver extends Driver {
  static override readonly driverName: string = "hostile";

  /** Returns the driver's own rights, and how each attempt to reach the service ended. */
  look = nodeMethod({ ...post("looks around"), args: z.strictObject({ files: z.array(z.string()) }) }, ({ files }) => {
    const { ppid } = process;
    const status = readFileSync("/proc/self/status", "utf8");
    const ofStatus = (name: string): string => new RegExp(`^${name}:(.*)$`, "m").exec(status)?.[1]?.trim() ?? "";
    return {
      user: ofStatus("Uid"),
      groups: ofStatus("Groups"),
      capabilities: ofStatus("CapPrm"),
      noNewPrivileges: ofStatus("NoNewPrivs"),
      files: Object.fromEntries(
        files.map((file) => [file, attempt(() => readFileSync(file.replace("SERVICE", String(ppid)), "latin1"))]),
      ),
      descriptors: readdirSync("/proc/self/fd").flatMap((fd) => linkOf(`/proc/self/fd/${fd}`)),
      signal: attempt(() => process.kill(ppid, 0)),
      groupFolder: groupFolder(),
    };
  });

  /** Leaves a process behind: forked twice, in a session of its own, without environment and pipes. */
  escape = nodeMethod(post("leaves a process behind"), () => {
    const script = "setsid env -i sleep 3600 </dev/null >/dev/null 2>&1 & echo $!";
    return { pid: Number(execFileSync("/bin/sh", ["-c", script], { encoding: "utf8" })) };
  });

  /** Tries to move itself to the service's control group. */
  leave_group = nodeMethod(
    { ...post("leaves its control group"), args: z.strictObject({ folder: z.string() }) },
    (args) =>
      attempt(() => {
        const { status } = spawnSync("/bin/sh", ["-c", `echo ${process.pid} > ${args.folder}/cgroup.procs`]);
        if (status !== 0) throw Object.assign(new Error("refused"), { code: "EACCES" });
      }),
  );
}

function attempt(work: () => unknown): string {
  try {
    work();
    return "done";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

/** Returns the folder of the driver's control group; empty without. */
function groupFolder(): string {
  const path = /^0::(.*)$/m.exec(readFileSync("/proc/self/cgroup", "latin1"))?.[1] ?? "";
  const mounts = readFileSync("/proc/self/mountinfo", "latin1").split("\n");
  const mountPoint = mounts.find((line) => line.includes(" - cgroup2 "))?.split(" ")[4];
  return mountPoint === undefined ? "" : mountPoint + path;
}

function linkOf(path: string): string[] {
  try {
    return [readlinkSync(path)];
  } catch {
    return [];
  }
}
