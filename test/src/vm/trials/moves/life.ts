import { DEVICE_BYTES, dmsetup, EngineScene } from "@diskmesh/disk-agent/testing";
import { expect } from "chai";
import { formerLife } from "../life.js";
import { DISK, MoveOrders, SESSION } from "./orders.js";

/** Devices between which the disk moves, in turns. */
const PLACES = ["a", "b"];
const GARBAGE = Buffer.alloc(DEVICE_BYTES, 0xee);

/** Returns a session above all that a former life may have begun. */
function nextSession({ fixture }: EngineScene): number {
  const { devices } = fixture.ledger.memory;
  return 1 + Math.max(...[...devices.values()].flatMap(({ sessions = [] }) => sessions.map((each) => each.number)));
}

/**
 * Moves a disk to and fro, and kills the process right before the given call of dmsetup, counted from 1. The orders that the
 * agent remembers tell the next life where the registry was. Prints a line once the disk is served, and after each move.
 */
export async function liveMove(folder: string, lastCall: number): Promise<void> {
  let calls = 0;
  const former = await formerLife(folder);
  const scene = new EngineScene("kernel", former, {
    whyNoBlockDevices: "the test uses sockets",
    dmsetup: (args, timeoutMs) => {
      calls += 1;
      if (calls === lastCall) process.kill(process.pid, "SIGKILL");
      return dmsetup(args, timeoutMs);
    },
  });
  const say = (line: string) => process.stdout.write(`${line}\n`);
  await scene.start();
  const spec = scene.fixture.ledger.memory.exports.get(DISK)?.spec;
  if (spec === undefined) await scene.publish(DISK, SESSION, ["a"]);
  const [extent] = spec?.extents ?? [];
  const now = { id: extent?.deviceId ?? "a", ...(extent?.sessionNumber && { sessionNumber: extent.sessionNumber }) };
  const orders = new MoveOrders(scene, now, spec?.revision ?? 0);
  let to = extent?.target && { id: extent.target.deviceId as string, sessionNumber: extent.target.sessionNumber ?? 0 };
  if (to !== undefined) {
    // The last order may have died before its end, and is repeated.
    orders.revision -= 1;
    if (extent !== undefined) await orders.serve(extent);
  }
  const path = scene.exports.find(DISK);
  if (path === undefined) throw new Error("the disk is not served");
  say(`served ${path}`);
  for (;;) {
    if (to === undefined) {
      const id = PLACES.find((each) => each !== orders.now.id) ?? "";
      await release(scene, id, nextSession(scene));
      to = { id, sessionNumber: nextSession(scene) };
      await orders.begin(to);
      say(`begun ${id}`);
    }
    const { answer } = await ended(orders, to);
    if (answer.is === "failed") {
      say(`failed ${answer.message}`);
      expect.fail(`the move to ${to.id} failed: ${answer.message}`);
    }
    say(`equal ${to.id}`);
    await orders.count(to);
    say(`moved ${to.id}`);
    to = undefined;
  }
}

async function ended(orders: MoveOrders, to: { readonly id: string }): Promise<ReturnType<MoveOrders["ask"]>> {
  for (;;) {
    const status = orders.ask(to);
    if (status.answer.is !== "copying") return status;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Takes a device from its former session, and overwrites it. */
async function release(scene: EngineScene, id: string, session: number): Promise<void> {
  await scene.open("disk-2", session, [id]);
  const device = scene.fixture.device(id);
  await device.write(session, 0, GARBAGE, { fua: false });
  await device.flush(session, 0);
}
