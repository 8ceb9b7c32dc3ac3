import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DynamicDisk, Instance } from "@diskmesh/api/director";
import { replaceFile } from "@diskmesh/atomic-file";
import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { DEPLOYMENT, type MeshLayout } from "../mesh/layout.js";
import { deploy, describeInstance, updateCloudConfig } from "./deployment.js";
import { detachDisk, fenceUser, findDisk, linkOf, provideDisk } from "./disk.js";
import { checksumOf, type UsedDisk, writeData } from "./disk-data.js";
import { addHosts, devicesAttached, devicesErased } from "./hosts.js";
import { currentSession, type Session, writeLateBySession } from "./late-write.js";
import { moveDisk, removeHost, spareHost } from "./removal.js";
import { type Scene, waitFor } from "./scene.js";

const same = (text: string): string => text;

/** Runs a step, and prints a line with its result. */
export type Tell = <T>(title: string, step: () => Promise<T>, describe: (result: T) => string) => Promise<T>;

/** Returns whether the story was told to its end on this state, which belongs to the user from then on. */
export const isStoryTold = (layout: MeshLayout): boolean => existsSync(toldFile(layout));

/** Returns the present instances of the story's deployment, without a change of anything. */
export const presentInstances = ({ clients }: Scene): Promise<readonly Instance[]> =>
  clients.deployments.listInstances({ deployment: DEPLOYMENT }).then(
    ({ instances }) => instances,
    (error: unknown) => {
      if (error instanceof NotFoundError) return [];
      throw error;
    },
  );

/**
 * Attaches a disk to an instance on one host, writes data, fences the host, and reads the same data from an instance on
 * another host. Moves the disk to a third host while it is in use, and removes that host. Can run again on the state of
 * an interrupted run. Returns the instances; the first has no disk at the end.
 */
export async function tellStory(scene: Scene, tell: Tell): Promise<readonly [Instance, Instance]> {
  await tell("hosts added", () => addHosts(scene), same);
  await tell("devices ATTACHED", () => devicesAttached(scene), same);
  await tell("cloud config", () => updateCloudConfig(scene), same);
  const [one, two] = await tell(
    "deployment",
    () => deploy(scene),
    (both) => both.map(describeInstance).join(", "),
  );
  await detachEarlierDisk(scene, tell);
  await tell("devices erased", () => devicesErased(scene), same);

  const disk = await tell(
    "disk provided",
    () => provideDisk(scene, one),
    (made) => `${made.diskName} for ${describeInstance(one)}`,
  );
  const link = linkOf(scene.layout, one.agentId, disk.diskCid);
  const { used, checksum } = await tell(
    "16 MiB written",
    () => writeData(scene, link),
    (written) => `sha256 ${short(written.checksum)} in ${written.place}`,
  );
  try {
    const session = await currentSession(scene, disk.diskCid);
    await tell(
      `${one.agentId} fenced`,
      () => fenceUser(scene, disk.diskCid),
      () => "its program goes on with the disk",
    );
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
    await emptySpareHost(scene, tell, [one, two], { disk, checksum });
    await replaceFile(toldFile(scene.layout), "{}\n");
    return [one, two];
  } finally {
    await used.release();
  }
}

/** Moves the disk, which the second instance uses, to the host without an instance, and removes that host. */
async function emptySpareHost(
  scene: Scene,
  tell: Tell,
  instances: readonly [Instance, Instance],
  { disk, checksum }: { readonly disk: DynamicDisk; readonly checksum: string },
): Promise<void> {
  const [, user] = instances;
  const hostId = spareHost(instances);
  const move = { diskId: disk.diskCid, hostId, link: linkOf(scene.layout, user.agentId, disk.diskCid) };
  await tell("disk moved in use", () => moveDisk(scene, move), same);
  await tell(`${hostId} removed`, () => removeHost(scene, move), same);
  await tell(
    "checksum equal",
    () => expectChecksum(scene, user, disk, checksum),
    (sum) => `sha256 ${short(sum)} on ${user.agentId}`,
  );
  await tell("hosts added", () => addHosts(scene), same);
}

/** Detaches the disk of an interrupted run. */
async function detachEarlierDisk(scene: Scene, tell: Tell): Promise<void> {
  const disk = await findDisk(scene);
  if (!disk || disk.instanceId === "") return;
  await tell(
    "disk detached",
    async () => {
      // The interrupted run may have left the disk mounted.
      await fenceUser(scene, disk.diskCid);
      await detachDisk(scene);
    },
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

const toldFile = (layout: MeshLayout): string => join(layout.stateFolder, "story.json");

function short(checksum: string): string {
  return `${checksum.slice(0, 16)}...`;
}
