import { renameSync, truncateSync } from "node:fs";
import { AttachState, Health, HostState } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "../mesh/device-files.js";
import { changeDevices } from "../mesh/steps.js";
import type { TestMesh } from "../mesh/test-mesh.js";
import { done } from "../mesh/typed-lines.js";
import { rebootWithDrive, takeDriveOut, whyNoReboot } from "./reboots.js";
import type { Trouble } from "./trouble.js";

/** Pool of the second device of each host. */
export const SPARE_POOL = "spare";
const DEVICE = "host-4-device-1";
const SPARE = "host-4-device-2";
/** Disk on that spare device. */
const DISK = "on-spare";

async function moveFile(mesh: TestMesh, from: string, to: string): Promise<void> {
  const file = mesh.deviceFile("host-4", 0);
  renameSync(`${file}${from}`, `${file}${to}`);
  await mesh.agentClient("host-4").rescanDevices({});
}

/** Puts the former file of the device back, and takes the device in. */
async function putBack(mesh: TestMesh): Promise<void> {
  await moveFile(mesh, ".former", "");
  await eventually(async () => expect((await mesh.device(DEVICE)).health).to.equal(Health.ERROR));
  await done(mesh, `add-device host-4 ${DEVICE} --wait`);
}

/** Puts other hardware in the device's place. */
async function replace(mesh: TestMesh): Promise<void> {
  await moveFile(mesh, "", ".former");
  makeDeviceFile(mesh.deviceFile("host-4", 0), 2 * MIB_BYTES);
  await mesh.agentClient("host-4").rescanDevices({});
}

/** Takes the device out of the agent's config. */
async function takeOut(mesh: TestMesh): Promise<void> {
  await changeDevices(mesh, "host-4", (devices) => devices.filter(({ deviceId }) => deviceId !== DEVICE));
}

async function putIn(mesh: TestMesh): Promise<void> {
  const device = { deviceId: DEVICE, path: mesh.deviceFile("host-4", 0) };
  await changeDevices(mesh, "host-4", (devices) => [device, ...devices]);
  await done(mesh, `add-device host-4 ${DEVICE} --wait`);
}

async function isRemoved(mesh: TestMesh): Promise<void> {
  const { attachState, detachConfirmed } = await mesh.device(DEVICE);
  expect([attachState, detachConfirmed]).to.deep.equal([AttachState.DETACHED, true]);
}

/** Creates a disk on the host's spare device. */
async function createSpare({ clients: { registry } }: TestMesh): Promise<void> {
  const request = { diskId: DISK, hostId: "host-4", pool: SPARE_POOL, sizeBytes: MIB_BYTES };
  await eventually(() => registry.createDisk(request));
}

const deleteSpare = ({ clients: { registry } }: TestMesh) => {
  return eventually(() => registry.deleteDisk({ diskId: DISK }));
};

async function hostIs({ clients: { registry } }: TestMesh, hostId: string, state: HostState): Promise<void> {
  await eventually(async () => expect((await registry.getHost({ hostId })).host?.state).to.equal(state));
}

const kill = async (mesh: TestMesh) => {
  await mesh.process("host-4").kill();
  await hostIs(mesh, "host-4", HostState.UNAVAILABLE);
};

/** Starts the host's agent again, and adds the host with its devices. */
const bringBack = async (mesh: TestMesh) => {
  await done(mesh, "set-host-state online host-4");
  await mesh.process("host-4").start();
  await done(mesh, "add-host host-4 --wait");
};

const markDead = (mesh: TestMesh) => done(mesh, "set-host-state dead host-4 --reason test");

/** Publishes a disk of host-4's spare device to host-4. */
async function serve(mesh: TestMesh): Promise<void> {
  await createSpare(mesh);
  await eventually(() => mesh.clients.registry.publishDisk({ diskId: DISK, hostId: "host-4" }));
}

async function isFenced({ clients: { registry } }: TestMesh): Promise<void> {
  expect((await registry.getDisk({ diskId: DISK })).disk?.fence?.hostId).to.equal("host-4");
}

const unpublish = ({ clients: { registry } }: TestMesh) => {
  return eventually(() => registry.unpublishDisk({ diskId: DISK }));
};

/** Asks for a removal of the spare device, whose disk finds no other device. */
async function removeSpare(mesh: TestMesh): Promise<void> {
  await createSpare(mesh);
  await mesh.typed("set-host-state", "cordoned", "host-3", "--reason", "test");
  await mesh.typed("remove-device", "host-4", SPARE);
}

async function stayOnSpare(mesh: TestMesh): Promise<void> {
  await removeSpare(mesh);
  await done(mesh, `cancel-move ${DISK}`);
}

const keepSpare = async (mesh: TestMesh) => {
  await done(mesh, "set-host-state online host-3");
  await done(mesh, `add-host host-4`);
  await deleteSpare(mesh);
  await done(mesh, `add-device host-4 ${SPARE} --wait`);
};

async function movesAgain(mesh: TestMesh): Promise<void> {
  const { causes } = JSON.parse(await done(mesh, `why disk ${DISK} --json`)) as { causes: { reason: string }[] };
  expect(causes.map(({ reason }) => reason)).to.include("MOVING");
}

const ofHost = { asked: ["host", "host-4"] } as const;
const ofDevice = { asked: ["device", DEVICE] } as const;
const ofSpare = { asked: ["device", SPARE], reason: "REMOVAL_WAITS" } as const;

export const FLEET_TROUBLES: readonly Trouble[] = [
  {
    ...{ title: "a device that was never added", ...ofDevice, reason: "NOT_ADDED" },
    make: async () => {},
    cure: /^diskmesh add-host host-4$/,
    after: (mesh) => done(mesh, "add-host host-4 --wait"),
  },
  {
    ...{ title: "a cordoned host", ...ofHost, reason: "CORDONED" },
    make: (mesh) => done(mesh, "set-host-state cordoned host-4 --reason test"),
    cure: /^diskmesh set-host-state online host-4$/,
  },
  {
    ...{ title: "a host that is marked as dead by mistake", ...ofHost, reason: "SAID_DEAD" },
    make: markDead,
    cure: /^diskmesh set-host-state online host-4$/,
    after: (mesh) => hostIs(mesh, "host-4", HostState.ONLINE),
  },
  {
    ...{ title: "a dead host with a disk", ...ofHost, reason: "SAID_DEAD" },
    make: async (mesh) => {
      await serve(mesh);
      await markDead(mesh);
    },
    cure: /^diskmesh fence-host host-4 --reason WHY$/,
    gone: isFenced,
    after: async (mesh) => {
      await done(mesh, "set-host-state online host-4");
      await deleteSpare(mesh);
    },
  },
  {
    ...{ title: "a silent host with a disk", ...ofHost, reason: "AGENT_SILENT" },
    make: async (mesh) => {
      await serve(mesh);
      await kill(mesh);
    },
    cure: /^diskmesh fence-host host-4 --reason WHY$/,
    gone: isFenced,
    after: async (mesh) => {
      await bringBack(mesh);
      await deleteSpare(mesh);
    },
  },
  {
    ...{ title: "a silent host", ...ofHost, reason: "AGENT_SILENT" },
    make: kill,
    cure: /^diskmesh set-host-state dead host-4 --reason WHY$/,
    gone: (mesh) => hostIs(mesh, "host-4", HostState.DEAD),
    after: bringBack,
  },
  {
    ...{ title: "a removal by mistake", ...ofHost, reason: "REMOVAL_WAITS" },
    make: async (mesh) => {
      await serve(mesh);
      await mesh.typed("remove-host", "host-4");
    },
    cure: /^diskmesh add-host host-4$/,
    after: async (mesh) => {
      await unpublish(mesh);
      await deleteSpare(mesh);
    },
  },
  {
    ...{ title: "a removal that waits", ...ofHost, reason: "REMOVAL_WAITS" },
    make: async (mesh) => {
      await serve(mesh);
      await mesh.typed("remove-host", "host-4");
    },
    cure: /^diskmesh remove-host host-4 --wait$/,
    meanwhile: unpublish,
    after: async (mesh) => {
      await done(mesh, "add-host host-4 --wait");
      await deleteSpare(mesh);
    },
  },
  {
    ...{ title: "a removal of a host that never comes back", ...ofHost, reason: "REMOVAL_WAITS" },
    make: async (mesh) => {
      await createSpare(mesh);
      await kill(mesh);
      await mesh.typed("remove-host", "host-4");
    },
    cure: /^diskmesh purge-host host-4 --force$/,
    gone: async (mesh) => expect((await mesh.typed("why", "host", "host-4")).code).to.equal(1),
    after: async (mesh) => {
      await mesh.process("host-4").start();
      await deleteSpare(mesh);
      await done(mesh, "add-host host-4 --wait");
    },
  },
  {
    ...{ title: "a device that an operator distrusts", ...ofDevice, reason: "UNHEALTHY" },
    make: (mesh) => done(mesh, `set-device-state error ${DEVICE} --reason test`),
    cure: new RegExp(`^diskmesh set-device-state online ${DEVICE}$`),
  },
  {
    ...{ title: "other hardware in a device's place", ...ofDevice, reason: "REPLACED" },
    make: replace,
    cure: new RegExp(`^diskmesh add-device host-4 ${DEVICE}$`),
    after: putBack,
  },
  {
    ...{ title: "a clean device that is gone", ...ofDevice, reason: "NOT_REPORTED" },
    make: async (mesh) => {
      await eventually(async () => expect((await mesh.device(DEVICE)).dirty).to.equal(false));
      await takeOut(mesh);
    },
    cure: new RegExp(`^diskmesh remove-device host-4 ${DEVICE}`),
    gone: isRemoved,
    after: putIn,
  },
  {
    ...{ title: "a used device that is gone", ...ofDevice, reason: "NOT_REPORTED" },
    make: async (mesh) => {
      const { registry } = mesh.clients;
      const used = { diskId: "used", hostId: "host-4", sizeBytes: MIB_BYTES };
      await eventually(() => registry.createDisk(used));
      await takeOut(mesh);
      await eventually(() => registry.deleteDisk({ diskId: "used" }));
    },
    cure: new RegExp(`^diskmesh remove-device host-4 ${DEVICE}`),
    gone: isRemoved,
    after: putIn,
  },
  {
    ...{ title: "a device that has grown", ...ofDevice, reason: "UNHEALTHY" },
    make: async (mesh) => {
      truncateSync(mesh.deviceFile("host-4", 0), 4 * MIB_BYTES);
      await mesh.agentClient("host-4").rescanDevices({});
    },
    cure: new RegExp(`^diskmesh add-device host-4 ${DEVICE}$`),
    gone: async (mesh) => expect((await mesh.device(DEVICE)).sizeBytes).to.equal(4 * MIB_BYTES),
  },
  {
    ...{
      title: "a drive that nothing identifies after a reboot",
      asked: ["device", "host-4-drive"],
      reason: "REPLACED",
    },
    problem: whyNoReboot,
    make: rebootWithDrive,
    cure: /^diskmesh confirm-device host-4 host-4-drive$/,
    after: takeDriveOut,
  },
  {
    ...{ title: "a disk that cannot move", asked: ["disk", DISK], reason: "MOVING" },
    make: removeSpare,
    cure: new RegExp(`^diskmesh cancel-move ${DISK}$`),
    after: keepSpare,
  },
  {
    ...{ title: "a disk that could move to a cordoned host", asked: ["disk", DISK], reason: "MOVING" },
    make: removeSpare,
    cure: /diskmesh set-host-state online host-3/,
    gone: async ({ clients: { registry } }) => {
      const { devices } = await registry.listDevices({ hostId: "host-3" });
      expect(devices.map(({ diskId }) => diskId)).to.include(DISK);
    },
    after: keepSpare,
  },
  {
    ...{ title: "a device to be removed, whose disk does not move", ...ofSpare },
    make: stayOnSpare,
    cure: new RegExp(`^diskmesh remove-device host-4 ${SPARE}$`),
    gone: movesAgain,
    after: keepSpare,
  },
  {
    ...{ title: "a device removed by mistake", ...ofSpare },
    make: stayOnSpare,
    cure: new RegExp(`^diskmesh add-device host-4 ${SPARE}$`),
    after: keepSpare,
  },
  {
    ...{ title: "a host to be removed, whose disk does not move", ...ofSpare },
    make: async (mesh) => {
      await createSpare(mesh);
      await mesh.typed("set-host-state", "cordoned", "host-3", "--reason", "test");
      await mesh.typed("remove-host", "host-4");
      await done(mesh, `cancel-move ${DISK}`);
    },
    cure: /^diskmesh remove-host host-4$/,
    gone: movesAgain,
    after: async (mesh) => {
      await keepSpare(mesh);
      await done(mesh, "add-host host-4 --wait");
    },
  },
];
