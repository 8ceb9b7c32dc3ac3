import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silentLogger } from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { createLogger } from "../telemetry/log.js";
import { type GroupMemory, MemoryWatch, readGroupMemory } from "./memory-watch.js";

describe("the memory of a process's control group", () => {
  it("is what the kernel cannot drop, against the limit", async () => {
    const root = temporaryFolder();
    mkdirSync(join(root, "system.slice", "agent.service"), { recursive: true });
    const write = (name: string, text: string) => writeFileSync(join(root, "system.slice/agent.service", name), text);
    const procFile = join(root, "cgroup");
    writeFileSync(procFile, "1:cpu:/\n0::/system.slice/agent.service\n");
    expect(await readGroupMemory(procFile, root)).to.equal(undefined);
    write("memory.current", "900\n");
    write("memory.stat", "anon 500\ninactive_file 300\nactive_file 100\n");
    write("memory.max", "max\n");
    expect(await readGroupMemory(procFile, root)).to.equal(undefined);
    write("memory.max", "1000\n");
    expect(await readGroupMemory(procFile, root)).to.deep.equal({ usedBytes: 600, limitBytes: 1_000 });
  });

  it("is read of a group of version 1, too, whose limit may be near 2^63 for none", async () => {
    const root = temporaryFolder();
    mkdirSync(join(root, "memory", "docker", "one"), { recursive: true });
    const write = (name: string, text: string) => writeFileSync(join(root, "memory/docker/one", name), text);
    const procFile = join(root, "cgroup");
    writeFileSync(procFile, "4:cpu,cpuacct:/docker/one\n3:memory:/docker/one\n0::/\n");
    write("memory.usage_in_bytes", "900\n");
    write("memory.stat", "inactive_file 10\ntotal_inactive_file 300\n");
    write("memory.limit_in_bytes", "9223372036854771712\n");
    expect(await readGroupMemory(procFile, root)).to.equal(undefined);
    write("memory.limit_in_bytes", "1000\n");
    expect(await readGroupMemory(procFile, root)).to.deep.equal({ usedBytes: 600, limitBytes: 1_000 });
    renameSync(join(root, "memory/docker/one"), join(root, "own"));
    rmSync(join(root, "memory"), { recursive: true });
    renameSync(join(root, "own"), join(root, "memory"));
    expect((await readGroupMemory(procFile, root))?.usedBytes, "in a container").to.equal(600);
  });

  it("near its limit is an alert until it is clearly below", async () => {
    const clock = new ManualClock();
    let memory: GroupMemory | undefined;
    const log = createLogger({ service: "test", level: "info", destination: { write: () => {} } });
    const watch = new MemoryWatch({ read: async () => memory, clock, log });
    const names: string[][] = [];
    for (const usedBytes of [undefined, 899, 900, 851, 849, 899]) {
      memory = usedBytes === undefined ? undefined : { usedBytes, limitBytes: 1_000 };
      await clock.advance(5_000);
      names.push([...log.alerts.current.keys()]);
    }
    watch.close();
    expect(names).to.deep.equal([[], [], ["memory"], ["memory"], [], []]);
    expect(silentLogger.alerts).to.equal(undefined);
  });
});
