import { existsSync } from "node:fs";
import { join } from "node:path";
import { DEVICE_BYTES, dmsetup, EngineScene, readMemory, specOf } from "@diskmesh/disk-agent/testing";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";

export const DISK = "disk-1" as DiskId;
export const OTHER_DISK = "disk-2" as DiskId;
/** Steps of a life. It prints a line once a step is done, that of `published` with the path of the disk. */
export const STEPS = ["begun", "started", "published", "grown", "ended", "fenced", "detached"] as const;
/** Session of the disk, and the one that fences it. */
export const SESSION = 1;
const FENCE = 3;

/** Returns the options of a life in a folder: what the lives before it remember. */
export async function formerLife(folder: string) {
  const cache = join(folder, "cache.json");
  const found = existsSync(cache) ? await readMemory("host-1" as HostId, cache) : undefined;
  return { folder, ...(found !== undefined && "memory" in found && { memory: found.memory }) };
}

/** Orders each kind of change, and kills the process right before the given call of dmsetup, counted from 1. */
export async function live(folder: string, lastCall: number): Promise<void> {
  let calls = 0;
  const scene = new EngineScene("kernel", await formerLife(folder), {
    whyNoBlockDevices: "the test uses sockets",
    dmsetup: (args, timeoutMs) => {
      calls += 1;
      if (calls === lastCall) process.kill(process.pid, "SIGKILL");
      return dmsetup(args, timeoutMs);
    },
  });
  const done = (step: (typeof STEPS)[number], path = "") => process.stdout.write(`${step} ${path}\n`);
  done("begun");
  await scene.start();
  done("started");
  const spec = specOf(DISK, SESSION, ["a", "b"]);
  await scene.open(DISK, SESSION, ["a", "b"]);
  const short = spec.extents.slice(0, 1).map((extent) => ({ ...extent, sizeBytes: DEVICE_BYTES / 2 }));
  done("published", await scene.exports.serve({ ...spec, extents: short }));
  await scene.exports.serve({ ...spec, revision: 1 });
  done("grown");
  await scene.publish(OTHER_DISK, 2, ["c"]);
  await scene.exports.end(OTHER_DISK, 2);
  done("ended");
  await scene.open(DISK, FENCE, ["a", "b"]);
  done("fenced");
  await scene.detach("a" as DeviceId, 1);
  done("detached");
  process.kill(process.pid, "SIGKILL");
}
