import type { DeviceId } from "@diskmesh/domain";
import { expect } from "chai";
import { type DevicePlace, planPlaces } from "./drive-places.js";

interface Drive {
  readonly label?: string;
  /** Device of which this is the recorded hardware. */
  readonly hardwareOf?: string;
}

/** The drive of a device, with the device's label. */
const own = (id: string): Drive => ({ label: id, hardwareOf: id });

/** Drives at the paths of devices, and what else is not as usual there. */
interface Case {
  readonly name: string;
  readonly drives: Readonly<Record<string, Drive>>;
  readonly other?: Readonly<Record<string, Partial<DevicePlace>>>;
  /** New path by device, named like the device to which the path belonged. */
  readonly moves: Readonly<Record<string, string>>;
}

const CASES: readonly Case[] = [
  { name: "drives in their places", drives: { a: own("a"), b: own("b") }, moves: {} },
  { name: "two drives swapped", drives: { a: own("b"), b: own("a") }, moves: { a: "b", b: "a" } },
  {
    name: "three drives in a circle",
    drives: { a: own("b"), b: own("c"), c: own("a") },
    moves: { a: "c", b: "a", c: "b" },
  },
  { name: "a drive in the place of a missing one", drives: { a: {}, b: own("a") }, moves: { a: "b", b: "a" } },
  {
    name: "a row of drives, one place on each, the last one missing",
    drives: { a: {}, b: own("a"), c: own("b") },
    moves: { a: "b", b: "c", c: "a" },
  },
  {
    name: "a drive with a label and one without, swapped",
    drives: { a: { hardwareOf: "b" }, b: own("a") },
    moves: { a: "b", b: "a" },
  },
  { name: "a drive without a label in another place", drives: { a: {}, b: { hardwareOf: "a" } }, moves: {} },
  { name: "the label on other hardware", drives: { a: {}, b: { label: "a" } }, moves: {} },
  { name: "the label on another device's hardware", drives: { a: {}, b: { label: "a", hardwareOf: "b" } }, moves: {} },
  { name: "swapped drives and a copy of one", drives: { a: {}, b: own("a"), c: { label: "a" } }, moves: {} },
  {
    name: "a copy in the device's place, and its drive elsewhere",
    drives: { a: { label: "a" }, b: own("a") },
    moves: {},
  },
  {
    name: "a label that two devices have",
    drives: { a: {}, b: own("a"), c: {} },
    other: { c: { labelId: "a" } },
    moves: {},
  },
  {
    name: "a device without a recorded label",
    drives: { a: own("b"), b: own("a") },
    other: { a: { labelId: undefined } },
    moves: { b: "a", a: "b" },
  },
  {
    name: "no recorded label at all",
    drives: { a: own("b"), b: own("a") },
    other: { a: { labelId: undefined }, b: { labelId: undefined } },
    moves: {},
  },
  { name: "a place that is in use", drives: { a: {}, b: own("a") }, other: { b: { isInUse: true } }, moves: {} },
  { name: "a device that is in use", drives: { a: {}, b: own("a") }, other: { a: { isInUse: true } }, moves: {} },
  { name: "a place at another offset", drives: { a: {}, b: own("a") }, other: { b: { offsetBytes: 1 } }, moves: {} },
  {
    name: "a place of another block size",
    drives: { a: {}, b: own("a") },
    other: { b: { blockSizeBytes: 512 } },
    moves: {},
  },
];

describe("the plan of places", () => {
  for (const { name, drives, other = {}, moves } of CASES)
    it(`${name} -> ${JSON.stringify(moves)}`, () => {
      const places = Object.entries(drives).map(
        ([id, { label }]): DevicePlace => ({
          ...{ deviceId: id as DeviceId, path: id, offsetBytes: 0, blockSizeBytes: 4_096, isInUse: false },
          ...{ labelId: id, foundLabelId: label },
          ...other[id],
        }),
      );
      const plan = planPlaces(places, (device, place) => drives[place.path]?.hardwareOf === device.deviceId);
      expect(Object.fromEntries(plan)).to.deep.equal(moves);
    });
});
