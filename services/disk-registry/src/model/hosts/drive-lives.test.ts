import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import { aDisk, aHost, deviceId, diskId, hostId, leader, MIB, TestFleet } from "../../testing/fleet-fixture.js";
import { limits, NOW_MS, registration, reported } from "../../testing/registrations.js";
import { advance } from "../devices/attach-states.js";
import type { ReportedDevice } from "../devices/reported-devices.js";
import { NO_SHARED_SERIAL_NUMBERS } from "../devices/same-bytes.js";
import { ownerOf } from "../identity/labels.js";
import { labelDue, withLabel } from "../store/label-due.js";
import { partsOn } from "../store/layout.js";
import { disksOn } from "../store/runs.js";
import type { Device } from "../store/schema.js";
import { addDevice } from "./add-action.js";
import { adoptDevice } from "./adopt-action.js";
import { confirmDevice } from "./confirm-action.js";
import { registerAgent } from "./registration.js";

/** A drive, with the last write to each disk that it has. */
interface Drive {
  /** Empty: the kernel tells it from another drive until the next boot only. */
  readonly serialNumber: string;
  label: { readonly deviceId: string; readonly labelId: string } | "DAMAGED" | undefined;
  readonly writes: Map<string, number>;
}

const SLOTS = { h1: ["s1", "s2"], h2: ["s3", "s4"] } as const;
type HostName = keyof typeof SLOTS;
const HOSTS: readonly HostName[] = ["h1", "h2"];
const ALL_SLOTS = [...SLOTS.h1, ...SLOTS.h2];
const DISKS = { a: "s1", b: "s3" } as const;

/** Returns numbers from 0 to below 1, the same ones for a seed. */
function randomOf(seed: number): () => number {
  let state = seed + 0x9e3779b9;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x85ebca6b) + 0x6d2b79f5) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

function isSameLabel(a: Drive["label"], b: Drive["label"]): boolean {
  return typeof a === "object" && typeof b === "object" && a.labelId === b.labelId;
}

/** Drives that people swap, copy, move and damage while hosts are off, and an operator who knows what is on them. */
class Lives {
  readonly fleet = new TestFleet({ hosts: HOSTS.map((id) => aHost(id, { slices: true })) });
  readonly #drives = new Map<string, Drive>();
  readonly #shelf: Drive[] = [];
  readonly #acknowledged = new Map<string, number>();
  readonly #boots = { h1: 0, h2: 0 };
  readonly #random: () => number;
  #made = 0;
  /** Number of decisions that only the operator could make. */
  adopted = 0;

  constructor(
    seed: number,
    private readonly lie: (report: ReportedDevice) => ReportedDevice,
  ) {
    this.#random = randomOf(seed);
    for (const slot of ALL_SLOTS) this.#drives.set(slot, this.#newDrive());
    for (const host of HOSTS) this.#boot(host);
    for (const slot of ALL_SLOTS) this.#add(slot);
    for (const host of HOSTS) this.#register(host);
    for (const [name, slot] of Object.entries(DISKS)) this.#create(name, slot);
  }

  step(): void {
    const actions = [
      () => this.#write(),
      () => this.#write(),
      () => this.#boot(this.#pick(HOSTS)),
      () => this.#exchange(this.#pick(ALL_SLOTS), this.#pick(ALL_SLOTS)),
      () => this.#copyInPlace(this.#pick(ALL_SLOTS)),
      () => this.#copyBeside(this.#pick(ALL_SLOTS), this.#pick(ALL_SLOTS)),
      () => this.#spoil(this.#pick(ALL_SLOTS)),
      () => this.#takeOut(this.#pick(ALL_SLOTS)),
      () => this.#putBack(this.#pick(ALL_SLOTS)),
      () => this.#operate(),
    ];
    this.#pick(actions)();
  }

  /**
   * Puts a drive with the last writes of each disk into the place of its device, and has the operator do what is needed
   * then. Of several such drives, those without a label and those with a former one may be refused.
   */
  settle(): void {
    for (const name of Object.keys(DISKS)) {
      const drives = [...this.#drives.values(), ...this.#shelf].filter((drive) => this.#isRight(drive, [name]));
      const refusals = drives.map((drive) => this.#refusalOf(drive, name));
      expect(refusals.at(-1), `${name}: ${refusals}`).to.equal("accepted");
    }
    for (const name of Object.keys(DISKS)) this.#requireRight(this.#deviceOf(name));
  }

  /** Returns why the drive is refused in the place of the disk's device; "accepted" once one is not. */
  #refusalOf(drive: Drive, name: string): string {
    const isAccepted = (): boolean => this.#deviceOf(name).replacement === undefined && this.#isHeld(name);
    if (isAccepted()) return "accepted";
    const slot = this.#deviceOf(name).deviceId;
    const from = ALL_SLOTS.find((each) => this.#drives.get(each) === drive);
    if (from === undefined) this.#exchangeWithShelf(slot, this.#shelf.indexOf(drive));
    else this.#exchange(from, slot);
    this.#boot(this.#hostOf(slot));
    this.#operate();
    return isAccepted() ? "accepted" : (this.#deviceOf(name).replacement?.refusedFor ?? "not held");
  }

  #isHeld(name: string): boolean {
    const { attachState, deviceId: slot } = this.#deviceOf(name);
    return attachState === "ATTACHED" && this.#isRight(this.#drives.get(slot), [name]);
  }

  #pick<T>(of: readonly T[]): T {
    return of[Math.floor(this.#random() * of.length)] as T;
  }

  #newDrive(writes = new Map<string, number>(), label: Drive["label"] = undefined): Drive {
    const serialNumber = this.#random() < 0.5 ? "" : `serial-${++this.#made}`;
    return { serialNumber, label, writes: new Map(writes) };
  }

  #device(slot: string): Device {
    return this.fleet.device(slot);
  }

  #deviceOf(name: string): Device {
    const devices = ALL_SLOTS.flatMap((slot) => this.fleet.tables.devices.get(deviceId(slot)) ?? []);
    return devices.find((device) => disksOn([device]).includes(diskId(name))) as Device;
  }

  #isRight(drive: Drive | undefined, names: readonly string[]): boolean {
    return names.every((name) => drive?.writes.get(name) === this.#acknowledged.get(name));
  }

  /** Requires that the drive in the device's place has the last write of each disk on the device. */
  #requireRight(device: Device): void {
    const names = disksOn([device]);
    const writes = JSON.stringify([...(this.#drives.get(device.deviceId)?.writes ?? [])]);
    expect(this.#isRight(this.#drives.get(device.deviceId), names), `${device.deviceId} has ${writes}`).to.equal(true);
  }

  #boot(host: HostName): void {
    this.#boots[host]++;
    this.#register(host);
  }

  /** Registers the host, and does what its registry and agent do with the answer. */
  #register(host: HostName): void {
    const boot = this.#boots[host];
    const devices = SLOTS[host].map((slot) => this.lie(this.#reportOf(host, slot, boot)));
    const start = { ...{ hostId: hostId(host), bootId: `${host}-${boot}`, slices: true }, address: `${host}:1` };
    this.fleet.transact((tx) => registerAgent(tx, registration(devices, start), leader, limits, NOW_MS));
    for (const slot of SLOTS[host]) this.#hold(slot);
  }

  #reportOf(host: HostName, slot: string, boot: number): ReportedDevice {
    const { serialNumber = "", label } = this.#drives.get(slot) ?? {};
    const place = { serialNumber, fileIdentity: `${host}-${boot} block ${slot}`, attached: false };
    const found = reported(slot, { ...place, labelState: label === undefined ? "NONE" : "DAMAGED" });
    if (label === undefined || label === "DAMAGED") return found;
    const readLabel = { fleetId: leader.tabletId, deviceId: deviceId(label.deviceId), labelId: label.labelId };
    return { ...found, labelState: "VALID", readLabel };
  }

  /** Confirms the attach, erases what no disk has, and writes a label where the device has none. */
  #hold(slot: string): void {
    const device = this.#device(slot);
    const drive = this.#drives.get(slot);
    const isDue = device.attachState === "ATTACHING" || labelDue(device) === "write";
    if (!isDue || device.replacement !== undefined || drive === undefined) return;
    this.#requireRight(device);
    for (const name of drive.writes.keys()) if (!disksOn([device]).includes(diskId(name))) drive.writes.delete(name);
    const labelId = device.label?.labelId ?? `label-${++this.#made}`;
    if (device.label === undefined) drive.label = { deviceId: slot, labelId };
    this.fleet.transact((tx) => {
      const held = device.attachState === "ATTACHING" ? advance(tx, device, "attach_confirmed", NOW_MS) : device;
      tx.devices.put(withLabel({ ...held, runs: held.runs.filter((run) => run.diskId !== "") }, labelId));
    });
  }

  #create(name: string, slot: string): void {
    const space = { deviceId: deviceId(slot), sizeBytes: MIB, slices: { first: 0, count: 2, sliceBytes: MIB } };
    this.fleet.transact((tx) => {
      tx.devices.put({ ...this.#device(slot), runs: [{ first: 0, count: 2, diskId: diskId(name) }] });
      tx.disks.put(aDisk(name, [slot], { parts: partsOn([space]), sizeBytes: MIB }));
    });
    this.#acknowledged.set(name, 0);
    this.#drives.get(slot)?.writes.set(name, 0);
  }

  #write(): void {
    const name = this.#pick(Object.keys(DISKS));
    const device = this.#deviceOf(name);
    if (device.attachState !== "ATTACHED" || device.replacement !== undefined) return;
    this.#requireRight(device);
    const number = (this.#acknowledged.get(name) ?? 0) + 1;
    this.#acknowledged.set(name, number);
    this.#drives.get(device.deviceId)?.writes.set(name, number);
  }

  #hostOf(slot: string): HostName {
    return SLOTS.h1.some((each) => each === slot) ? "h1" : "h2";
  }

  #replace(slot: string, drive: Drive): void {
    this.#drives.set(slot, drive);
    this.#boot(this.#hostOf(slot));
  }

  #exchange(a: string, b: string): void {
    const [atA, atB] = [this.#drives.get(a), this.#drives.get(b)];
    if (a === b || atA === undefined || atB === undefined) return;
    this.#drives.set(a, atB).set(b, atA);
    const hosts = new Set([a, b].map((slot) => this.#hostOf(slot)));
    for (const host of this.#random() < 0.5 ? hosts : [...hosts].reverse()) this.#boot(host);
  }

  /** Replaces a failing drive by a new one with all its bytes. */
  #copyInPlace(slot: string): void {
    const { writes, label } = this.#drives.get(slot) as Drive;
    // Nothing identifies a copy without a label on other hardware, so that its disk is lost.
    if (typeof label !== "object") return;
    const copy = this.#newDrive(writes, label);
    // Nothing would tell an outdated drive, or the twin of one on the shelf, if it had no serial number.
    const mustBeTold = this.#isTwin(copy) || !this.#isRight(copy, [...writes.keys()]);
    this.#replace(slot, mustBeTold ? { ...copy, serialNumber: `serial-${++this.#made}` } : copy);
  }

  /** Copies a drive over another one that no disk is on. The host with the copy is the first to register. */
  #copyBeside(from: string, to: string): void {
    const [source, target] = [this.#drives.get(from) as Drive, this.#drives.get(to) as Drive];
    if (from === to || disksOn([this.#device(to)]).length > 0 || this.#isRightForAny(target)) return;
    this.#replace(to, { ...target, label: source.label, writes: new Map(source.writes) });
    this.#boot(this.#hostOf(from));
  }

  #isRightForAny(drive: Drive): boolean {
    return Object.keys(DISKS).some((name) => this.#isRight(drive, [name]));
  }

  #spoil(slot: string): void {
    const drive = this.#drives.get(slot) as Drive;
    const device = this.#device(slot);
    if (device.replacement !== undefined || (disksOn([device]).length === 0 && this.#isRightForAny(drive))) return;
    drive.label = this.#random() < 0.5 ? "DAMAGED" : undefined;
    this.#boot(this.#hostOf(slot));
  }

  /** Returns whether only the sight of both tells the drive from a copy: neither has a serial number. */
  #isTwin(drive: Drive): boolean {
    const { serialNumber, label } = drive;
    if (serialNumber !== "" || typeof label !== "object") return false;
    const others = [...this.#drives.values(), ...this.#shelf].filter((each) => each !== drive);
    return others.some((other) => other.serialNumber === "" && isSameLabel(other.label, label));
  }

  #takeOut(slot: string): void {
    const drive = this.#drives.get(slot) as Drive;
    if (this.#isTwin(drive)) return;
    this.#shelf.push(drive);
    this.#replace(slot, this.#newDrive());
  }

  #putBack(slot: string): void {
    if (this.#shelf.length > 0 && !this.#isTwin(this.#drives.get(slot) as Drive))
      this.#exchangeWithShelf(slot, Math.floor(this.#random() * this.#shelf.length));
  }

  #exchangeWithShelf(slot: string, at: number): void {
    const [drive] = this.#shelf.splice(at, 1);
    this.#shelf.push(this.#drives.get(slot) as Drive);
    this.#replace(slot, drive as Drive);
  }

  #operate(): void {
    for (const slot of ALL_SLOTS) this.#decide(slot);
    for (const host of HOSTS) this.#register(host);
  }

  /** Does what the causes of the device offer, where the operator knows that it is right. */
  #decide(slot: string): void {
    const device = this.fleet.tables.devices.get(deviceId(slot));
    const drive = this.#drives.get(slot) as Drive;
    if (device === undefined) return;
    const call = { nowMs: NOW_MS, shared: NO_SHARED_SERIAL_NUMBERS };
    const selector = { deviceId: deviceId(slot) };
    const names = disksOn([device]);
    if (device.replacement !== undefined && names.length > 0 && this.#isRight(drive, names)) {
      this.#unlessRefused(() => this.fleet.transact((tx) => confirmDevice(tx, selector, call)));
      this.#unlessRefused(() => this.#adopt(slot));
      return;
    }
    if (names.length > 0) return;
    const former = device.foundLabel && ownerOf(this.fleet.tables, device.foundLabel);
    if (former !== undefined && former !== device && this.#isRight(drive, disksOn([former])))
      this.#unlessRefused(() => this.#adopt(slot));
    if (!this.#isRightForAny(drive)) this.#add(slot);
  }

  #adopt(slot: string): void {
    const call = { nowMs: NOW_MS, shared: NO_SHARED_SERIAL_NUMBERS };
    this.fleet.transact((tx) => adoptDevice(tx, { deviceId: deviceId(slot) }, call));
    this.adopted++;
  }

  #add(slot: string): void {
    const call = { nowMs: NOW_MS, waitingRetryAfterMs: 1, acceptUnidentified: true, eraseForeign: true };
    this.#unlessRefused(() => this.fleet.transact((tx) => addDevice(tx, { deviceId: deviceId(slot) }, call)));
  }

  #unlessRefused(act: () => unknown): void {
    try {
      act();
    } catch (error) {
      if (!(error instanceof InvalidStateError)) throw error;
    }
  }
}

const SEEDS = 100;
const STEPS = 40;

function live(seed: number, lie: (report: ReportedDevice) => ReportedDevice = (report) => report): number {
  const lives = new Lives(seed, lie);
  for (let step = 0; step < STEPS; step++) lives.step();
  lives.settle();
  return lives.adopted;
}

/** Returns whether a life with these reports breaks a promise. */
function isFound(lie: (report: ReportedDevice) => ReportedDevice): boolean {
  for (let seed = 1; seed <= SEEDS; seed++)
    try {
      live(seed, lie);
    } catch {
      return true;
    }
  return false;
}

describe("drives that are swapped, copied, moved and damaged", () => {
  it("give no byte under another's name, and serve their disks again once they are in place", () => {
    let adopted = 0;
    for (let seed = 1; seed <= SEEDS; seed++)
      try {
        adopted += live(seed);
      } catch (error) {
        throw new Error(`seed ${seed}: ${error}`, { cause: error });
      }
    expect(adopted).to.be.greaterThan(SEEDS / 10);
  });

  it("would give bytes under another's name if the label were believed without the hardware", () => {
    expect(isFound((report) => ({ ...report, serialNumber: "" }))).to.equal(true);
  });

  it("would give bytes under another's name if all drives had one label", () => {
    const readLabel = { fleetId: leader.tabletId, deviceId: deviceId("s1"), labelId: "the same" };
    expect(isFound((report) => (report.readLabel ? { ...report, readLabel } : report))).to.equal(true);
  });
});
