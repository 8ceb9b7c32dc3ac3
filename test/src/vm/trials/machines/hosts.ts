import { realpathSync, statSync } from "node:fs";
import { expect } from "chai";
import { HOLDER, STORAGE } from "../between-hosts.js";
import type { LifeOrder, SessionOrder, Way } from "../between-life.js";
import type { CheckedWriter } from "../checked-writer.js";
import { here, there } from "../machine-calls.js";

type Host = typeof HOLDER;
const ADDRESSES = { [HOLDER]: "10.79.0.1", [STORAGE]: "10.79.0.2" };
/** Port of the devices' host's agent. */
export const PORT = 4_300;
/** Blocks that writers write to. */
export const DEPTH = 4;
/** Rest after each write, so that the agents start soon on one processor. */
export const REST_MS = 20;

const hosts = { [HOLDER]: here, [STORAGE]: there };
const folders = new Map<string, string>();
let way: Way = "NVMe/TCP";
let lastSession = 0;

/** Sets up the drives and the network of a host. */
export async function setUp(hostId: Host): Promise<void> {
  folders.set(hostId, await machineOf(hostId).setUp(ADDRESSES[hostId] ?? ""));
}

export function machineOf(hostId: Host): typeof here | typeof there {
  return hosts[hostId] as typeof there;
}

/** Starts a life of a host's agent. */
export function begin(hostId: Host, killAfterMs?: number): Promise<string | undefined> {
  const folder = folders.get(hostId) ?? "";
  const order: LifeOrder = { folder, hostId, port: PORT, isFirst: false, addresses: ADDRESSES, way };
  return machineOf(hostId).begin(order, killAfterMs);
}

/** Has a host's agent execute an order. */
export function order(to: Host, verb: SessionOrder["verb"], sessionNumber: number, holderHostId = HOLDER) {
  return machineOf(to).order({ verb, sessionNumber, holderHostId });
}

/** Publishes the disk to the holder in a new session. */
export async function publish(): Promise<{ session: number; path: string }> {
  const session = ++lastSession;
  await order(STORAGE, "open", session);
  const path = await order(HOLDER, "serve", session);
  if (way === "node") expect(statSync(path).isSocket()).to.equal(true);
  else expect(realpathSync(path)).to.match(/^\/dev\/dm-/);
  return { session, path };
}

/** Ends the session of a writer by a new one of the devices' own host. The drive must have all writes that were acknowledged. */
export async function fence(writer: CheckedWriter): Promise<number> {
  const session = ++lastSession;
  await order(STORAGE, "open", session, STORAGE);
  const granted = Buffer.from(await there.blocks("a", DEPTH), "base64");
  expect(writer.faultsIn(granted), "writes that were lost").to.deep.equal([]);
  return session;
}

/** Starts the agents of both hosts for each test. */
export function useMachines(ofTests: Way = "NVMe/TCP"): void {
  before(async () => {
    for (const hostId of [STORAGE, HOLDER]) if (!folders.has(hostId)) await setUp(hostId);
  });
  beforeEach(async () => {
    way = ofTests;
    expect(await begin(STORAGE)).to.equal(`${PORT}`);
    expect(await begin(HOLDER)).to.not.equal(undefined);
  });
  afterEach(async () => {
    await here.kill();
    await there.kill();
  });
}
