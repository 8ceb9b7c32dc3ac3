import { expect } from "chai";
import type { Known, Subject } from "../model/explain/cause.js";
import { causesOf, troubleOf } from "../model/explain/explain.js";
import { noteMassSilence } from "../model/hosts/vigil.js";
import type { Disk, Host, Publication } from "../model/store/schema.js";
import { aDevice, aDisk, aHost, type DeviceFields, deviceId, diskId, hostId, TestFleet } from "./fleet-fixture.js";

export const [h1, h2] = [hostId("h1"), hostId("h2")];
export const HOST: Subject = { kind: "HOST", name: h1 };
export const DEVICE: Subject = { kind: "DEVICE", name: deviceId("d1") };
export const DISK: Subject = { kind: "DISK", name: diskId("x") };
export const POOL: Subject = { kind: "POOL", name: "default" };
export const VM: Subject = { kind: "VM", name: "vm-1" };
export const OTHER_HOST: Subject = { kind: "HOST", name: h2 };

export const known = (fields: Partial<Known> = {}): Known => ({
  whySuspected: () => undefined,
  lastHeardAtMs: () => 500,
  missingNeedsOf: () => [],
  refusalOf: () => undefined,
  refusedRegistrationOf: () => undefined,
  progressOf: () => ({ nextAttemptAtMs: 900, erasedBytes: 16 * 2 ** 20, pending: undefined }),
  moveProgressOf: () => undefined,
  openIoOf: () => undefined,
  engineOf: () => undefined,
  standsStill: () => undefined,
  serialNumbersOfMany: new Set(),
  ...fields,
});
export const suspects: Partial<Known> = { whySuspected: (id) => (id === h1 ? "host h1 is suspected" : undefined) };
export const refusedAt = (lastAtMs: number): Partial<Known> => ({
  refusalOf: (id) =>
    id === h1 ? { message: "a client at ADDRESS is refused: why", sinceMs: 550, lastAtMs } : undefined,
});
export const registrationRefused: Partial<Known> = {
  refusedRegistrationOf: (id) =>
    id === h1 ? { address: "10.0.0.8:7040", message: "why it is refused", sinceMs: 550, lastAtMs: 600 } : undefined,
};
export const word = { by: "operator ada", atMs: 300, reason: "no power" };
export const published = (state: Publication["state"], fields: Partial<Publication> = {}): Publication => ({
  hostId: h2,
  state,
  sessionNumber: 7,
  exportPath: "",
  attempts: 2,
  lastError: "timed out",
  ...fields,
});

interface Scene {
  readonly host?: Partial<Host>;
  readonly otherHost?: Partial<Host>;
  readonly device?: DeviceFields;
  readonly disk?: Partial<Disk>;
  readonly known?: Partial<Known>;
  readonly isMass?: boolean;
}

interface Expected {
  readonly reason: string;
  readonly says: RegExp;
  readonly sinceMs?: number;
  readonly nextTryAtMs?: number;
  readonly becauseOf?: readonly Subject[];
  readonly isRoutine?: true;
  readonly isEcho?: true;
  /** Commands that the cures must contain. */
  readonly commands?: readonly string[];
  /** Number of cures, with and without commands; undefined for any. */
  readonly cureCount?: number;
}

/**
 * A scene, and the causes that explain must return for the subject. Host h1 has device d1, which holds disk x if the
 * scene has a disk; h2 serves the disk.
 */
export type ExplainRow = readonly [cause: string, subject: Subject, scene: Scene, expected: readonly Expected[]];

/** Declares a test for each row. */
export function testCauses(rows: readonly ExplainRow[]): void {
  for (const [cause, subject, scene, expected] of rows)
    it(`${subject.kind}: ${cause} -> ${expected.map(({ reason }) => reason).join(", ") || "no cause"}`, () => {
      const fleet = new TestFleet({
        hosts: [aHost("h1", scene.host), aHost("h2", scene.otherHost)],
        devices: [aDevice("d1", { ...(scene.disk !== undefined && { diskId: diskId("x") }), ...scene.device })],
        disks: scene.disk === undefined ? [] : [aDisk("x", ["d1"], scene.disk)],
      });
      if (scene.isMass) fleet.transact((tx) => noteMassSilence(tx, true, 1));
      const found = causesOf(fleet.tables, subject, known(scene.known));
      expect(troubleOf(fleet.tables, subject, known(scene.known))?.reason).to.equal(
        expected.find(({ isRoutine }) => !isRoutine)?.reason,
      );
      expect(found.map(({ reason }) => reason)).to.deep.equal(expected.map(({ reason }) => reason));
      const ofAct = found.filter(({ isRoutine }) => !isRoutine);
      const isCured = ofAct.some(({ cures = [], becauseOf = [] }) => cures.length + becauseOf.length > 0);
      expect(isCured, "somebody must act, and a cause has a cure, or names what it waits for").to.equal(
        ofAct.length > 0,
      );
      for (const [index, { says, commands = [], cureCount, ...rest }] of expected.entries()) {
        const { message, cures = [], subject: of, ...told } = found[index] as (typeof found)[number];
        expect(of).to.deep.equal(subject);
        expect(message).to.match(says);
        expect(cures.map(([, command]) => command).filter(Boolean)).to.deep.equal(commands);
        expect(cures).to.have.length(cureCount ?? cures.length);
        const set = Object.fromEntries(
          Object.entries(told).filter(([, value]) => value !== undefined && value !== false),
        );
        expect(set).to.deep.equal({ ...(told.becauseOf === undefined ? {} : { becauseOf: [] }), ...rest });
      }
    });
}
