import type { ActionResult as ActionResultMessage } from "@diskmesh/api/registry";
import type { ActionResult } from "../model/devices/action-result.js";
import type { Device, RegistryTables, RegistryTransaction } from "../model/store/schema.js";
import { actionResultMessage } from "../requests/wire.js";
import type { ChangeContext } from "./context.js";

/** Thrown inside the transaction of a dry run, so that the transaction is rolled back. */
class DryRun extends Error {
  constructor(readonly result: unknown) {
    super("dry run");
  }
}

/** Runs a transaction; with `dryRun`, undoes it and returns the result that it would have had. */
export async function transactUnlessDry<T>(
  tablet: ChangeContext["tablet"],
  dryRun: boolean,
  transaction: (tx: RegistryTransaction) => T,
): Promise<T> {
  if (!dryRun) return tablet.transact(transaction);
  try {
    return await tablet.transact((tx) => {
      throw new DryRun(transaction(tx));
    });
  } catch (error) {
    if (error instanceof DryRun) return error.result as T;
    throw error;
  }
}

/**
 * Runs a CMS action, or a dry run of it, in one transaction. Then wakes the workers of the devices that await an order
 * or an erase. `named` returns these devices; it runs in the same transaction, because a separate read would wait for
 * another commit.
 */
export async function runAction(
  { tablet, workers, doing }: ChangeContext,
  dryRun: boolean,
  action: (tx: RegistryTransaction) => ActionResult,
  named: (tables: RegistryTables) => readonly Device[],
): Promise<ActionResultMessage> {
  const done = await transactUnlessDry(tablet, dryRun, (tx) => {
    const result = action(tx);
    // A dry run is not recorded.
    if (!dryRun) Object.assign(doing, { answer: result.code, message: result.message });
    return { result, devices: named(tx) };
  });
  if (!dryRun) workers.wakeDevices(done.devices);
  return actionResultMessage(done.result);
}
