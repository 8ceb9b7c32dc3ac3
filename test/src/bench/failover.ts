import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { wholeFleet } from "../mesh/fleets.js";
import { addHosts, deleteDisk, detachDisk, devicesReady, runTask } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import type { Bench, Round } from "./measure.js";

/** The host that has the bytes, the host that stands still, and the host on which the disk goes on. */
const [BYTES, HUNG, NEXT] = ["host-3", "host-1", "host-2"] as const;
const DISK_BYTES = 16 * MIB_BYTES;
const diskName = "bench";
const WRITTEN = Buffer.alloc(4_096, "w");

/**
 * Measures a disk on a host: providing it, and its way to another host when its host stands still. An operator fences the
 * host at once, so the times are those of diskmesh, without the silence that a monitor would wait for.
 */
export async function startFailover(report: (line: string) => void): Promise<Bench> {
  report("a mesh of 3 hosts");
  const fleet = { hosts: 3, devicesPerHost: 2, deviceSizeBytes: DISK_BYTES + 8 * MIB_BYTES };
  const overrides = { "disk-registry": { heartbeat: { timeoutMs: 600_000 } } };
  const mesh = await TestMesh.start(wholeFleet({ ...fleet, overrides }));
  await addHosts(mesh);
  return {
    warmUpRounds: 3,
    rounds: 9,
    round: () => round(mesh),
    [Symbol.asyncDispose]: () => mesh[Symbol.asyncDispose](),
  };
}

async function round(mesh: TestMesh): Promise<Round> {
  const { disks, registry } = mesh.clients;
  const attach = (hostId: string) => runTask("attach", () => disks.attachDynamicDisk({ diskName, hostId, wait: true }));
  const place = { diskName, hostId: BYTES, sizeBytes: DISK_BYTES };
  await devicesReady(mesh);
  const provide = await timed(() => runTask("provide", () => disks.provideDynamicDisk({ ...place, wait: true })));
  await detachDisk(mesh, diskName);
  await attach(HUNG);
  const late = await opened(mesh);
  await late.write(0, WRITTEN, { fua: true });
  const agent = mesh.process(HUNG);
  agent.signal("SIGSTOP");
  try {
    const fence = await timed(() => registry.fenceHost({ hostId: HUNG, reason: "it stands still" }));
    const goesOn = await timed(async () => {
      await detachDisk(mesh, diskName);
      await attach(NEXT);
      const next = await opened(mesh);
      if (!WRITTEN.equals(await next.read(0, WRITTEN.length))) throw new Error("the disk lost what was acknowledged");
      await next.disconnect();
    });
    agent.signal("SIGCONT");
    const isWritten = await late.write(0, Buffer.alloc(WRITTEN.length), { fua: true }).then(
      () => true,
      () => false,
    );
    if (isWritten) throw new Error("the fenced host wrote");
    return {
      provide: { value: provide, unit: "ms" },
      fence: { value: fence, unit: "ms" },
      failover: { value: fence + goesOn, unit: "ms" },
    };
  } finally {
    agent.signal("SIGCONT");
    late.destroy();
    await detachDisk(mesh, diskName);
    await deleteDisk(mesh, diskName);
  }
}

/** Connects to the disk at its path on its host. */
async function opened(mesh: TestMesh): Promise<NbdClient> {
  const { disk } = await mesh.clients.disks.getDynamicDisk({ diskName });
  const socketPath = disk?.path ?? "";
  return eventually(() => NbdClient.connect({ socketPath }));
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const beganAtMs = performance.now();
  await work();
  return performance.now() - beganAtMs;
}
