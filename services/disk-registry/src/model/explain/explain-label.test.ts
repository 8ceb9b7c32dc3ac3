import { expect } from "chai";
import { known } from "../../testing/causes.js";
import { aDevice, aHost, type DeviceFields, deviceId, diskId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import type { Host } from "../store/schema.js";
import { causesOf } from "./explain.js";

const LABEL = "a".repeat(32);
const { path, offsetBytes, sizeBytes, blockSizeBytes } = aDevice("d1");
const replacement = { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber: "s-2" };

interface Row {
  readonly title: string;
  /** Host of d1. */
  readonly h1?: Partial<Host>;
  readonly d1?: DeviceFields;
  /** Device of host h2, which is not added. Undefined: there is none. */
  readonly p1?: DeviceFields;
  readonly of: "d1" | "p1";
  readonly reason: string | undefined;
  readonly command?: string;
}

const holding: DeviceFields = { diskId: diskId("x"), label: { labelId: LABEL } };
const ofD1: DeviceFields = { foundLabel: { labelId: LABEL, deviceId: deviceId("d1") } };

const ofP1: DeviceFields = { foundLabel: { labelId: LABEL, deviceId: deviceId("p1") } };

const rows: readonly Row[] = [
  {
    title: "its drive is in another place",
    ...{ d1: { ...holding, missing: true }, p1: ofD1 },
    of: "d1",
    reason: "FOUND_ELSEWHERE",
    command: "diskmesh adopt-device h2 p1",
  },
  {
    title: "it has the drive of another device",
    ...{ d1: { ...holding, missing: true }, p1: ofD1 },
    of: "p1",
    reason: "FOUND_ELSEWHERE",
    command: "diskmesh adopt-device h2 p1",
  },
  {
    title: "its drive is in the place of a device with disks",
    ...{ d1: { ...holding, missing: true }, p1: { ...ofD1, diskId: diskId("y") } },
    of: "d1",
    reason: "FOUND_ELSEWHERE",
  },
  {
    title: "a copy of its drive is in another place",
    ...{ d1: holding, p1: ofD1 },
    of: "d1",
    reason: "LABEL_TWICE",
    command: "diskmesh add-device h2 p1 --erase-foreign",
  },
  {
    title: "it has a copy of the drive of another device",
    ...{ d1: holding, p1: ofD1 },
    of: "p1",
    reason: "LABEL_TWICE",
    command: "diskmesh add-device h2 p1 --erase-foreign",
  },
  {
    title: "its drive, or a copy of it, is in another place, and its host is silent",
    ...{ h1: { state: "UNAVAILABLE" as const }, d1: holding, p1: ofD1 },
    of: "d1",
    reason: "FOUND_ELSEWHERE",
  },
  {
    title: "it has the drive, or a copy of it, of another device that its agent has not opened",
    ...{ d1: { ...holding, attachState: "ATTACHING" }, p1: ofD1 },
    of: "p1",
    reason: "FOUND_ELSEWHERE",
  },
  {
    title: "its place has a copy of its drive",
    d1: { ...holding, replacement: { ...replacement, refusedFor: "LABEL_ON_OTHER_HARDWARE" } },
    of: "d1",
    reason: "REPLACED",
    command: "diskmesh adopt-device h1 d1",
  },
  {
    title: "its drive is shorter than it was",
    d1: { ...holding, replacement: { ...replacement, sizeBytes: 1, refusedFor: "LABEL_ON_OTHER_HARDWARE" } },
    of: "d1",
    reason: "REPLACED",
  },
  {
    title: "its label was overwritten while it was in use",
    d1: { ...holding, health: "ERROR", healthMessage: "device d1 has lost its label: zeros", labelState: "NONE" },
    of: "d1",
    reason: "LABEL_LOST",
    command: "diskmesh confirm-device h1 d1",
  },
  {
    title: "its label was overwritten, and its last disk is deleted",
    d1: { label: { labelId: LABEL }, health: "ERROR", labelState: "DAMAGED" },
    of: "d1",
    reason: "LABEL_LOST",
    command: "diskmesh confirm-device h1 d1",
  },
  {
    title: "its label was overwritten before its agent opened it",
    d1: { ...holding, replacement: { ...replacement, refusedFor: "LABEL_LOST" }, health: "ERROR" },
    of: "d1",
    reason: "LABEL_LOST",
    command: "diskmesh confirm-device h1 d1",
  },
  {
    title: "two drives have its label, and neither is proven",
    d1: { ...holding, replacement: { ...replacement, refusedFor: "LABEL_TWICE" } },
    of: "d1",
    reason: "LABEL_TWICE",
    command: "diskmesh adopt-device h1 d1",
  },
  {
    title: "its place has the drive of a device in use, which nobody may erase",
    d1: { ...ofP1, replacement: { ...replacement, refusedFor: "LABEL_OF_OTHER_DEVICE" } },
    p1: { label: { labelId: LABEL } },
    of: "d1",
    reason: "REPLACED",
  },
  {
    title: "its place has the drive of a device without disks that is gone",
    d1: { ...ofP1, replacement: { ...replacement, refusedFor: "LABEL_OF_OTHER_DEVICE" } },
    p1: { label: { labelId: LABEL }, missing: true },
    of: "d1",
    reason: "REPLACED",
    command: "diskmesh add-device h1 d1 --erase-foreign",
  },
  {
    title: "its place has a drive of another fleet, and it has no disk",
    d1: { ...{ label: { labelId: LABEL } }, replacement: { ...replacement, refusedFor: "LABEL_OF_OTHER_FLEET" } },
    of: "d1",
    reason: "REPLACED",
    command: "diskmesh add-device h1 d1 --erase-foreign",
  },
  {
    title: "its place has a drive of another fleet, and a disk is on it",
    d1: { ...holding, replacement: { ...replacement, refusedFor: "LABEL_OF_OTHER_FLEET" } },
    of: "d1",
    reason: "REPLACED",
  },
  {
    title: "it is of another fleet",
    p1: { foundLabel: { labelId: LABEL, deviceId: deviceId("z"), fleetId: "other" } },
    of: "p1",
    reason: "FOREIGN_LABEL",
    command: "diskmesh add-device h2 p1 --erase-foreign",
  },
  {
    title: "its drive is of a device that was removed",
    d1: { attachState: "DETACHED", detachConfirmed: true, label: { labelId: LABEL } },
    p1: ofD1,
    of: "p1",
    reason: "NOT_ADDED",
    command: "diskmesh add-host h2",
  },
];

describe("the causes of a device with a label", () => {
  for (const { title, h1 = {}, d1 = {}, p1, of, reason, command } of rows)
    it(`${title} -> ${reason}`, () => {
      const place = p1 && aDevice("p1", { hostId: hostId("h2"), attachState: "UNKNOWN", detachConfirmed: true, ...p1 });
      const devices = [aDevice("d1", d1), ...(place === undefined ? [] : [place])];
      const fleet = new TestFleet({ hosts: [aHost("h1", h1), aHost("h2")], devices });
      const causes = causesOf(fleet.tables, { kind: "DEVICE", name: deviceId(of) }, known());
      const [cause] = causes;
      expect(cause?.reason).to.equal(reason);
      if (reason !== "NOT_ADDED") expect(causes.map((each) => each.reason)).to.not.include("NOT_ADDED");
      expect((cause?.cures ?? []).flatMap(([, each]) => each || [])).to.deep.equal(
        command === undefined ? [] : [command],
      );
      // The command of a cure that would be refused is in no text either.
      if (command === undefined) expect(cause?.message).not.to.contain("diskmesh ");
    });
});
