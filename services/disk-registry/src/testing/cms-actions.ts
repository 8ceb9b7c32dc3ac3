import { DomainError, type Reason } from "@diskmesh/domain";
import { expect } from "chai";
import type { ActionResult } from "../model/devices/action-result.js";
import { addDevice, addHost } from "../model/hosts/add-action.js";
import { purgeDevice, purgeHost } from "../model/hosts/purge-action.js";
import { type RemovalCall, type RemovalLimits, removeDevice, removeHost } from "../model/hosts/remove-action.js";
import { isDirty } from "../model/store/runs.js";
import type { Publication, RegistryTransaction } from "../model/store/schema.js";
import { aDevice, aHost, deviceId, diskId, type Fleet, hostId, MIB, TestFleet } from "./fleet-fixture.js";

/** Current time in these tests. */
export const NOW_MS = 10_000_000;
export const limits: RemovalLimits = {
  unavailableRemovalTimeoutMs: 3_600_000,
  closingRetryAfterMs: 1_000,
  erasingRetryAfterMs: 2_000,
  waitingRetryAfterMs: 10_000,
  maxWaitingRetryAfterMs: 300_000,
};
export const h1 = hostId("h1");
export const removalCall = (keepData: boolean): RemovalCall => ({
  keepData,
  limits,
  moveProgressOf: () => undefined,
  // Reports erase progress as an agent would, by device name.
  eraseState: ({ deviceId }) => ({
    erasedBytes: deviceId === "half" ? 32 * MIB : 0,
    failedTries: deviceId === "bad" ? 3 : 0,
  }),
  nowMs: NOW_MS,
  listenedMs: NOW_MS,
});

type Act = (tx: RegistryTransaction) => ActionResult;
export const actions = {
  addHost: (tx: RegistryTransaction) => addHost(tx, h1, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
  addD1: (tx: RegistryTransaction) =>
    addDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
  addD1Unidentified: (tx: RegistryTransaction) =>
    addDevice(
      tx,
      { deviceId: deviceId("d1") },
      { nowMs: NOW_MS, waitingRetryAfterMs: 10_000, acceptUnidentified: true },
    ),
  addPath: (tx: RegistryTransaction) =>
    addDevice(tx, { hostId: h1, path: "/dev/shared" }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
  addD1OfH2: (tx: RegistryTransaction) =>
    addDevice(tx, { hostId: hostId("h2"), deviceId: deviceId("d1") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
  removeHost: (tx: RegistryTransaction) => removeHost(tx, h1, removalCall(false)),
  removeHostKeeping: (tx: RegistryTransaction) => removeHost(tx, h1, removalCall(true)),
  removeD1: (tx: RegistryTransaction) => removeDevice(tx, { deviceId: deviceId("d1") }, removalCall(false)),
  removeD1Keeping: (tx: RegistryTransaction) => removeDevice(tx, { deviceId: deviceId("d1") }, removalCall(true)),
  removePath: (tx: RegistryTransaction) => removeDevice(tx, { hostId: h1, path: "/dev/shared" }, removalCall(false)),
  purgeHost: (tx: RegistryTransaction) => purgeHost(tx, h1, false),
  purgeHostForce: (tx: RegistryTransaction) => purgeHost(tx, h1, true),
  purgeD1: (tx: RegistryTransaction) => purgeDevice(tx, { deviceId: deviceId("d1") }, false, NOW_MS),
  purgeD1Force: (tx: RegistryTransaction) => purgeDevice(tx, { deviceId: deviceId("d1") }, true, NOW_MS),
} satisfies Record<string, Act>;

export const unknown = (id: string, more = {}) => aDevice(id, { attachState: "UNKNOWN", dirty: true, ...more });
export const attached = (id: string, more = {}) => aDevice(id, more);
export const held = (id: string, disk: string, more = {}) => aDevice(id, { diskId: diskId(disk), ...more });
export const dirty = { dirty: true };
export const onShared = { path: "/dev/shared" };
export const publishedTo = (host: string, state: Publication["state"]): Publication => ({
  hostId: hostId(host),
  state,
  sessionNumber: 5,
  exportPath: "/x",
  attempts: 0,
  lastError: "",
});
export const silentSince = (silentAtListenedMs: number) => [
  aHost("h1", { state: "UNAVAILABLE", silentAtListenedMs, stateMessage: "silent" }),
];

export interface ActionRow {
  readonly cause: string;
  readonly fleet: Fleet;
  readonly action: keyof typeof actions;
  /** Code of the result, or reason of the error. */
  readonly code: ActionResult["code"] | Reason;
  readonly says?: string;
  readonly dependent?: readonly string[];
  /** Devices after the action as "state generation flags"; null when the device is gone. */
  readonly devices?: Readonly<Record<string, string | null>>;
  readonly wish?: boolean;
  readonly retryAfterMs?: number;
  /** Expected progress as "MiB erased / MiB to erase". */
  readonly erase?: string;
  readonly unerased?: readonly string[];
}

/** Declares a test for each row. */
export function testActions(rows: readonly ActionRow[]): void {
  for (const row of rows) {
    it(`${row.cause} -> ${row.code}`, () => {
      const fleet = new TestFleet(row.fleet);
      const result = resultOf(fleet, row.action);
      expect(result.code, result.message).to.equal(row.code);
      if (row.retryAfterMs !== undefined) expect(result.retryAfterMs).to.equal(row.retryAfterMs);
      if (row.says !== undefined) expect(result.message).to.contain(row.says);
      expect(result.dependentDiskIds).to.deep.equal(row.dependent ?? []);
      const erase = result.erase && `${result.erase.bytesErased / MIB} / ${result.erase.bytesToErase / MIB}`;
      expect(erase).to.equal(row.erase);
      expect(result.unerasedDeviceIds ?? []).to.deep.equal(row.unerased ?? []);
      expect(result.retryAfterMs > 0).to.equal(row.code === "E_TRY_AGAIN");
      for (const [id, expected] of Object.entries(row.devices ?? {})) expect(shown(fleet, id), id).to.equal(expected);
      if (row.wish !== undefined) expect(fleet.host("h1").removalRequested).to.equal(row.wish);
    });
  }
}

/** Returns the result, or the error in its place. */
function resultOf(fleet: TestFleet, action: keyof typeof actions): Omit<ActionResult, "code"> & { code: string } {
  try {
    return fleet.transact(actions[action]);
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return { code: error.reason, message: error.message, retryAfterMs: 0, dependentDiskIds: [] };
  }
}

function shown(fleet: TestFleet, id: string): string | null {
  const device = fleet.tables.devices.get(id);
  if (device === undefined) return null;
  return `${device.attachState} ${device.generation}${isDirty(device) ? " dirty" : ""}${device.removalRequested ? " wish" : ""}${device.keepData ? " keep" : ""}`;
}
