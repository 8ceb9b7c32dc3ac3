import { execFile } from "node:child_process";
import { closeSync, copyFileSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Disk } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { HEAD_BYTES, makeDeviceFile, openFiles } from "./mesh/device-files.js";
import { registryFleet } from "./mesh/fleets.js";
import type { MeshPlan, PlacedMesh } from "./mesh/plan.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { ended } from "./mesh/typed-lines.js";
import { WatchedDisk } from "./mesh/watched-disk.js";
import { repositoryFolder } from "./repository-folder.js";

const REGISTRY = "disk-registry-1";
const DRIVE_BYTES = HEAD_BYTES + 8 * MIB_BYTES;
/** Places of drives by host. The last one is empty, and host-3 has none. */
const SLOTS = { "host-1": 2, "host-2": 2, "host-3": 0 } as const;
const EMPTY = "host-2-slot-2";
/** Sizes of disks; two thirds are on host-1, and each is used on its own host or on host-3. */
const SIZES_MIB = [4, 4, 4, 1, 1, 1];

/**
 * Drives are moved, swapped, copied, overwritten and damaged while all disks are read. No disk ever shows another one's bytes, and
 * each one is served again by itself, also where drives of one host have changed places, or by the one command that
 * `diskmesh why` names.
 */
describe("drives that are not where, or not what, they were", () => {
  let mesh: TestMesh;
  const disks = new Map<string, WatchedDisk>();

  before(async function () {
    leaveToVerify(this);
    mesh = await TestMesh.start(plan());
    await typed("add-host host-1 --wait");
    await typed("add-device host-2 host-2-slot-1 --wait");
    await eventually(async () => {
      const { devices } = await mesh.clients.registry.listDevices({});
      const added = devices.filter(({ deviceId }) => deviceId !== EMPTY);
      expect(added.filter(({ dirty, labelId }) => dirty || labelId === "").map(({ deviceId }) => deviceId)).to.be.empty;
    });
    for (const [index, mib] of SIZES_MIB.entries()) {
      const diskId = `disk-${index + 1}`;
      const hostId = index % 3 === 2 ? "host-2" : "host-1";
      await mesh.clients.registry.createDisk({ diskId, sizeBytes: mib * MIB_BYTES, hostId });
      const user = index % 2 === 0 ? hostId : "host-3";
      const { disk } = await eventually(() => mesh.clients.registry.publishDisk({ diskId, hostId: user }));
      const watched = new WatchedDisk(diskId, disk?.publication?.exportPath ?? "");
      await watched.begin();
      disks.set(diskId, watched);
    }
  });
  afterEach(() => {
    for (const { violations } of disks.values()) expect(violations.slice(0, 3)).to.deep.equal([]);
  });
  after(async () => {
    await Promise.all([...disks.values()].map((disk) => disk.stop()));
    await mesh?.[Symbol.asyncDispose]();
  });

  /** Returns a plan with all services, because `diskmesh why` asks the director first. */
  function plan(): MeshPlan {
    const fleet = registryFleet({
      hostIds: Object.keys(SLOTS),
      agent: (hostId, folder) => {
        const count = SLOTS[hostId as keyof typeof SLOTS];
        const devices = Array.from({ length: count }, (_, index) => ({
          deviceId: `${hostId}-slot-${index + 1}`,
          path: join(folder, "slots", `${hostId}-slot-${index + 1}`),
        }));
        for (const { deviceId, path } of devices) {
          mkdirSync(dirname(path), { recursive: true });
          if (deviceId !== EMPTY) makeDeviceFile(path, DRIVE_BYTES);
        }
        return { devices, tuning: { rescanIntervalMs: 200, probeIntervalMs: 200 } };
      },
    });
    const [registry, ...agents] = fleet.processes;
    const director = {
      service: "director" as const,
      config: (placed: PlacedMesh) => ({ nodes: { registries: [{ address: placed.address(REGISTRY) }] } }),
    };
    return {
      ...fleet,
      processes: [...(registry ? [registry] : []), { service: "cpi-dispatcher" }, director, ...agents],
    };
  }

  const typed = (line: string) => ended(mesh, line, 0);

  const slot = (deviceId: string): string => join(mesh.folder, "slots", deviceId);
  const move = (from: string, to: string): void => renameSync(slot(from), slot(to));
  const swap = (a: string, b: string): void => {
    move(a, "swapped");
    move(b, a);
    move("swapped", b);
  };

  /** Stops the agents while `act` changes their files, as when machines are off. */
  async function whileOff(hostIds: readonly string[], act: () => void): Promise<void> {
    await Promise.all(hostIds.map((hostId) => mesh.process(hostId).kill()));
    act();
    await Promise.all(hostIds.map((hostId) => mesh.process(hostId).start()));
  }

  const disksOn = async (deviceId: string): Promise<string[]> => {
    const { disks: listed } = await mesh.clients.registry.listDisks({});
    const isOn = ({ parts }: Disk) => parts.some(({ copies }) => copies.some((copy) => copy.deviceId === deviceId));
    return listed.filter(isOn).map(({ diskId }) => diskId);
  };

  /** Waits until `why` names the trouble of each disk, and returns the commands that it prints. */
  async function toldCommands(diskIds: readonly string[], reason: string): Promise<string[]> {
    expect(diskIds).to.not.be.empty;
    const told = await eventually(async () => {
      const texts = await Promise.all(diskIds.map((diskId) => typed(`why disk ${diskId}`)));
      for (const text of texts) expect(text).to.match(new RegExp(`^ +${reason}\\b`, "m"));
      return texts;
    });
    return [...new Set(told.flatMap((text) => [...text.matchAll(/: (diskmesh .*)$/gm)].map(([, line = ""]) => line)))];
  }

  /** Types the one command that `why` prints for each of the disks. */
  async function cure(diskIds: readonly string[], reason: string): Promise<string> {
    // No command is printed before the former place's agent has said what is there.
    const [command = ""] = await eventually(async () => {
      const commands = await toldCommands(diskIds, reason);
      expect(commands).to.have.lengthOf(1);
      return commands;
    });
    await typed(command.replace(/^diskmesh /, ""));
    return command;
  }

  /** Waits until all disks are read, and none is in trouble. */
  async function allServed(): Promise<void> {
    await Promise.all([...disks.values()].map((disk) => disk.whenRead()));
    await eventually(async () => {
      const { disks: listed } = await mesh.clients.registry.listDisks({});
      expect(listed.filter(({ trouble }) => trouble).map(({ trouble }) => trouble?.sentence)).to.deep.equal([]);
    });
  }

  it("a drive in another host's slot is that host's device once it is adopted, and its former place serves it no more", async () => {
    const moved = await disksOn("host-1-slot-1");
    expect(moved.length).to.be.above(1);
    move("host-1-slot-1", EMPTY);
    expect(await cure(moved, "FOUND_ELSEWHERE")).to.equal(`diskmesh adopt-device host-2 ${EMPTY}`);
    await allServed();
    expect(await disksOn(EMPTY)).to.deep.equal(moved);
    // A copy of the drive comes into the former place.
    copyFileSync(slot(EMPTY), slot("host-1-slot-1"));
    await eventually(async () => expect((await mesh.device("host-1-slot-1")).trouble?.code).to.equal("LABEL_TWICE"));
    await Promise.all([REGISTRY, "host-1", "host-2"].map((name) => mesh.process(name).restart()));
    await allServed();
    expect(await disksOn(EMPTY)).to.deep.equal(moved);
    expect(openFiles(mesh.process("host-1").pid, true)).to.not.include(slot("host-1-slot-1"));
    rmSync(slot("host-1-slot-1"));
    await eventually(async () => expect((await mesh.device(EMPTY)).trouble).to.equal(undefined));
  });

  for (const off of [false, true]) {
    const when = off ? "while their hosts are off" : "at work";
    const swapped = async (a: string, b: string) => {
      const hosts = [...new Set([a, b].map((deviceId) => deviceId.slice(0, "host-1".length)))];
      await (off ? whileOff(hosts, () => swap(a, b)) : swap(a, b));
    };

    it(`drives ${EMPTY} and host-2-slot-1 of one host, swapped ${when}, go on where they are, and once they are back`, async () => {
      const places = [EMPTY, "host-2-slot-1"] as const;
      const paths = async () => Promise.all(places.map(async (deviceId) => (await mesh.device(deviceId)).path));
      const former = await paths();
      for (const expected of [former.toReversed(), former]) {
        await swapped(...places);
        await eventually(async () => expect(await paths()).to.deep.equal(expected));
        await allServed();
      }
    });

    it(`drives ${EMPTY} and host-1-slot-2 of two hosts, swapped ${when}, show no disk another's bytes, and go on once each is back`, async () => {
      const places = [EMPTY, "host-1-slot-2"] as const;
      const affected = [...(await disksOn(places[0])), ...(await disksOn(places[1]))];
      await swapped(...places);
      expect(await toldCommands(affected, "FOUND_ELSEWHERE"), "no command puts drives with disks in order").to.be.empty;
      await swapped(...places);
      await allServed();
    });
  }

  it("a copy in the place of the drive is the device once it is adopted", async () => {
    const affected = await disksOn(EMPTY);
    await whileOff(["host-2"], () => {
      copyFileSync(slot(EMPTY), slot("copy"));
      move(EMPTY, "original");
      move("copy", EMPTY);
    });
    expect(await cure(affected, "REPLACED")).to.equal(`diskmesh adopt-device host-2 ${EMPTY}`);
    await allServed();
    rmSync(slot("original"));
  });

  for (const off of [false, true])
    it(`a label that was overwritten ${off ? "while its host was off" : "in use"} is written again once the drive is confirmed`, async () => {
      const affected = await disksOn(EMPTY);
      const { labelId } = await mesh.device(EMPTY);
      const zero = () => overwrite(EMPTY, Buffer.alloc(HEAD_BYTES));
      await (off ? whileOff(["host-2"], zero) : zero());
      const commands = await toldCommands(affected, "LABEL_LOST");
      expect(commands).to.deep.equal([`diskmesh confirm-device host-2 ${EMPTY}`]);
      if (!off) await Promise.all(affected.map((diskId) => disks.get(diskId)?.whenRead()));
      expect((await mesh.device(EMPTY)).labelId, "nothing is labelled by itself").to.equal(labelId);
      await cure(affected, "LABEL_LOST");
      await eventually(async () => {
        const device = await mesh.device(EMPTY);
        expect(device.labelId).to.not.be.oneOf(["", labelId]);
      });
      await allServed();
    });

  it("a base folder that is lost is made anew, by itself", async () => {
    const hostIds = Object.keys(SLOTS);
    await whileOff(hostIds, () => {
      for (const hostId of hostIds) rmSync(mesh.baseFolder(hostId), { recursive: true });
    });
    await allServed();
  });

  it("a registry from a backup finds drives that moved since, and goes on by itself where none did", async () => {
    const file = (name: string) => join(mesh.folder, `${name}.backup`);
    await typed(`backup registry ${file("before")}`);
    const moved = await disksOn(EMPTY);
    move(EMPTY, "host-1-slot-1");
    await cure(moved, "FOUND_ELSEWHERE");
    await allServed();
    await restore(file("before"));
    expect(await cure(moved, "FOUND_ELSEWHERE")).to.equal("diskmesh adopt-device host-1 host-1-slot-1");
    await allServed();
    await typed(`backup registry ${file("after")}`);
    await restore(file("after"));
    await allServed();
    expect(await disksOn("host-1-slot-1")).to.deep.equal(moved);
  });

  it("a drive whose first half is noise shows no disk the bytes of another", async () => {
    const affected = await disksOn("host-1-slot-1");
    for (const diskId of affected) (disks.get(diskId) as WatchedDisk).content.isDamaged = true;
    await whileOff(["host-1"], () => overwrite("host-1-slot-1", Buffer.alloc(DRIVE_BYTES / 2, "noise")));
    expect(await cure(affected, "LABEL_LOST")).to.equal("diskmesh confirm-device host-1 host-1-slot-1");
    await allServed();
  });

  function overwrite(deviceId: string, bytes: Buffer): void {
    const file = openSync(slot(deviceId), "r+");
    writeSync(file, bytes, 0, bytes.length, 0);
    closeSync(file);
  }

  async function restore(file: string): Promise<void> {
    await mesh.process(REGISTRY).stop();
    const program = join(repositoryFolder, "services/disk-registry/dist/restore.js");
    const options = ["--config", join(mesh.folder, `${REGISTRY}.yaml`), "--from", file, "--replace"];
    await promisify(execFile)(process.execPath, [program, ...options]);
    await mesh.process(REGISTRY).start();
  }
});
