import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { DynamicDisk, Instance } from "@diskmesh/api/director";
import { replaceFile } from "@diskmesh/atomic-file";
import { InvalidStateError } from "@diskmesh/domain";
import type { MeshLayout } from "../layout.js";
import { deploy, describeInstance, updateCloudConfig } from "./deployment.js";
import { detachDisk, findDisk, linkOf, provideDisk } from "./disk.js";
import { checksumOf, type UsedDisk, writeData } from "./disk-data.js";
import { addHosts, devicesAttached, devicesErased } from "./hosts.js";
import { currentSession, type Session, writeLateBySession } from "./late-write.js";
import { type Scene, waitFor } from "./scene.js";

/** Runs a step, and prints a line with its result. */
export type Tell = <T>(title: string, step: () => Promise<T>, describe: (result: T) => string) => Promise<T>;

/**
 * Attaches a disk to an instance on one host, writes data, detaches it, and reads the same data from an instance on
 * another host. Can run again on the state of an earlier run. Returns the instances; the first has no disk at the end.
 */
export async function tellStory(scene: Scene, tell: Tell): Promise<readonly [Instance, Instance]> {
  const same = (text: string) => text;
  await tell("hosts added", () => addHosts(scene), same);
  await tell("devices ATTACHED", () => devicesAttached(scene), same);
  await tell("cloud config", () => updateCloudConfig(scene), same);
  const [one, two] = await tell(
    "deployment",
    () => deploy(scene),
    (both) => both.map(describeInstance).join(", "),
  );
  await findEarlierDisk(scene, tell, [one, two]);
  await tell("devices erased", () => devicesErased(scene), same);

  const disk = await tell(
    "disk provided",
    () => provideDisk(scene, one),
    (made) => `${made.diskName} for ${describeInstance(one)}`,
  );
  const link = linkOf(scene.layout, one.agentId, disk.diskCid);
  // Deletes the old checksum file first, because no checksum is valid while data is being written.
  await rm(checksumFile(scene.layout), { force: true });
  const { used, checksum } = await tell(
    "16 MiB written",
    () => writeData(scene, link),
    (written) => `sha256 ${short(written.checksum)} in ${written.place}`,
  );
  try {
    await replaceFile(checksumFile(scene.layout), `${JSON.stringify({ sha256: checksum })}\n`);
    const session = await currentSession(scene, disk.diskCid);
    await tell(
      "disk detached",
      () => detachDisk(scene),
      () => `from ${describeInstance(one)}`,
    );
    await tell(
      "disk provided",
      () => provideDisk(scene, two),
      () => `for ${describeInstance(two)}`,
    );
    await tell(
      "checksum equal",
      () => expectChecksum(scene, two, disk, checksum),
      (sum) => `sha256 ${short(sum)} on ${two.agentId}`,
    );
    await tell(`late write of ${one.agentId} refused`, () => lateWrite(scene, used, session), same);
    await tell(
      "checksum still equal",
      () => expectChecksum(scene, two, disk, checksum),
      (sum) => `sha256 ${short(sum)}`,
    );
    return [one, two];
  } finally {
    await used.release();
  }
}

// Checks the data on the disk of an earlier run, and detaches the disk.
async function findEarlierDisk(scene: Scene, tell: Tell, instances: readonly Instance[]): Promise<void> {
  const disk = await findDisk(scene);
  if (!disk || disk.instanceId === "") return;
  const owner = instances.find(({ instanceId }) => instanceId === disk.instanceId);
  const checksum = await rememberedChecksum(scene.layout);
  if (owner && checksum !== undefined)
    await tell(
      "disk of the last run found",
      () => expectChecksum(scene, owner, disk, checksum),
      (sum) => `sha256 ${short(sum)} on ${owner.agentId}, as it was left`,
    );
  await tell(
    "disk detached",
    () => detachDisk(scene),
    () => "to tell the story again",
  );
}

async function expectChecksum(scene: Scene, instance: Instance, disk: DynamicDisk, expected: string): Promise<string> {
  const link = linkOf(scene.layout, instance.agentId, disk.diskCid);
  const found = await checksumOf(scene, link);
  if (found !== expected)
    throw new InvalidStateError(`the disk's bytes changed: sha256 ${found}, written was ${expected}`);
  return found;
}

async function lateWrite(scene: Scene, used: UsedDisk, session: Session): Promise<string> {
  const byProgram = await used.writeLate();
  const bySession = await waitFor(scene, "an answer to the late write", () =>
    writeLateBySession(scene.layout, session),
  );
  return `its program: ${byProgram}; its agent: ${bySession}`;
}

function checksumFile(layout: MeshLayout): string {
  return join(layout.stateFolder, "story.json");
}

async function rememberedChecksum(layout: MeshLayout): Promise<string | undefined> {
  try {
    return (JSON.parse(await readFile(checksumFile(layout), "utf8")) as { sha256?: string }).sha256;
  } catch {
    return undefined;
  }
}

function short(checksum: string): string {
  return `${checksum.slice(0, 16)}...`;
}
