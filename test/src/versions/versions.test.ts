import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Task } from "@diskmesh/api/director";
import { PublicationState } from "@diskmesh/api/registry";
import { messageOf } from "@diskmesh/domain";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { CheckedWriter } from "../mesh/checked-writer.js";
import { Load } from "../mesh/load.js";
import { addHosts, deployInstances, devicesReady, retrying } from "../mesh/steps.js";
import { openStore, type Store } from "../mesh/stores.js";
import { repositoryFolder } from "../repository-folder.js";
import { lastLines, PROCESSES, replace, startVersions, type Versions, versionsIn } from "./versions.js";

const DISK_BYTES = 1_048_576;

/**
 * Starts a task, and requires that it succeeds. A failed task counts as a failed call, even if a second try would
 * succeed.
 */
async function ended(what: string, start: () => Promise<{ task?: Task | undefined }>): Promise<void> {
  const { task } = await retrying(what, start);
  if (task?.state !== "TASK_STATE_DONE")
    throw new Error(`${what}: task ${task?.taskId} is ${task?.state}: ${task?.result}`);
}

describe("this version and the last release side by side", function () {
  this.timeout(1_200_000);
  let versions: Versions;
  let store: Store;

  before(async function () {
    leaveToVerify(this);
    if (readFileSync(join(repositoryFolder, "proto/deliberate-breaks.json"), "utf8").trim() !== "[]")
      return skipBecause(this, "proto/deliberate-breaks.json lists breaks since the last release");
    const opened = await openStore("mongodb");
    if (typeof opened === "string") return skipBecause(this, opened);
    store = opened;
    const { ensureLastRelease } = await import(join(repositoryFolder, "deploy/local/bootstrap/last-release.mjs"));
    try {
      versions = versionsIn(await ensureLastRelease(repositoryFolder));
    } catch (error) {
      if (/is not in this history/.test(messageOf(error))) return skipBecause(this, messageOf(error));
      throw error;
    }
  });
  after(() => store?.remove());

  it("an upgrade one by one and its reversal fail no call, and I/O only where the agent restarts", async () => {
    await using mesh = await startVersions(store, versions);
    const { registry, tasks } = mesh.clients;
    await addHosts(mesh);
    await devicesReady(mesh);
    const [first = "", second = ""] = await deployInstances(mesh);

    const restarting = new Set<string>();
    /**
     * Returns a function that waits until the host serves its disks in new sessions, because a restarted agent first
     * serves the former ones.
     */
    const sessionsAt = async (hostId: string): Promise<() => Promise<void>> => {
      const served = async () => {
        const { disks } = await retrying("ListDisks", () => registry.listDisks({}));
        return disks.filter(({ diskId, publication }) => /^on-/.test(diskId) && publication?.hostId === hostId);
      };
      const before = new Map(
        (await served()).map(({ diskId, publication }) => [diskId, publication?.sessionNumber ?? 0]),
      );
      return async () => {
        for (const { diskId, publication } of await served()) {
          expect(publication?.state, diskId).to.equal(PublicationState.PUBLISHED);
          expect(publication?.sessionNumber, diskId).to.be.above(before.get(diskId) ?? 0);
        }
      };
    };
    const writer = async (diskId: string, devicesOf: string, servedBy: string) => {
      await retrying("CreateDisk", () => registry.createDisk({ diskId, sizeBytes: DISK_BYTES, hostId: devicesOf }));
      const { disk } = await retrying("PublishDisk", () => registry.publishDisk({ diskId, hostId: servedBy }));
      return new CheckedWriter(diskId, disk?.publication?.exportPath ?? "", () => restarting.has(servedBy));
    };
    const writers = [
      await writer("on-h1", "h1", "h1"),
      await writer("on-h2", "h2", "h2"),
      // The disk's device is on another host than its user, so its I/O waits while that host's agent is away.
      await writer("on-h3-at-h1", "h3", "h1"),
    ];
    const calls = [
      new Load(() => retrying("ListHosts", () => registry.listHosts({}))),
      new Load((number) =>
        retrying("SetDiskLabels", () =>
          registry.setDiskLabels({ diskId: "on-h2", labels: [{ name: "round", value: `${number}` }] }),
        ),
      ),
      new Load(() => retrying("ListTasks", () => tasks.listTasks({ pageSize: 10 }))),
      new Load(async (number) => {
        const instanceId = number % 2 === 0 ? first : second;
        const wanted = { diskName: "moving", instanceId, diskPoolName: "default", sizeBytes: DISK_BYTES, wait: true };
        await ended("ProvideDynamicDisk", () => mesh.clients.disks.provideDynamicDisk(wanted));
        await ended("DetachDynamicDisk", () =>
          mesh.clients.disks.detachDynamicDisk({ diskName: "moving", wait: true }),
        );
      }),
    ];

    try {
      for (const version of ["present", "last"] as const)
        for (const { name, service } of PROCESSES) {
          const step = `${name} became ${version}`;
          const servedAnew = service === "disk-agent" ? await sessionsAt(name) : async () => {};
          if (service === "disk-agent") restarting.add(name);
          await replace(mesh, name, service, versions[version](service));
          await eventually(servedAnew);
          const before = writers.map(({ wholeRounds }) => wholeRounds);
          await eventually(() => {
            for (const [index, { diskId, wholeRounds }] of writers.entries())
              expect(wholeRounds, `${diskId} when ${step}`).to.be.above(before[index] ?? 0);
          });
          restarting.delete(name);
          await Promise.all(calls.map((load) => load.anotherRound())).catch((error) => {
            const failures = calls.flatMap((load) => load.failures).join("\n");
            throw new Error(`calls do not go on when ${step}: ${messageOf(error)}\n${failures}\n${lastLines(mesh)}`);
          });
        }
    } finally {
      await Promise.all([...writers, ...calls].map((each) => each.stop()));
    }
    const failures = [...writers.flatMap(({ faults }) => faults), ...calls.flatMap((load) => load.failures)];
    expect(failures, failures.join("\n")).to.deep.equal([]);
    for (const load of calls) expect(load.rounds).to.be.above(PROCESSES.length);
  });
});
