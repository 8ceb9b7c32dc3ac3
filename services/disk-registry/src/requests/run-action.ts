import type { ActionResult as ActionResultMessage } from "@diskmesh/api/registry";
import type { Context } from "../context.js";
import type { ActionResult } from "../model/action-result.js";
import type { Device, RegistryTables, RegistryTransaction } from "../model/schema.js";
import { actionResultMessage } from "./wire.js";

/** Thrown out of a transaction to undo it: the answer is what would have been done. */
class DryRun extends Error {
  constructor(readonly result: ActionResult) {
    super("dry run");
  }
}

/**
 * Runs a CMS action in one transaction, or finds out what it would do. What then waits for an order or an erase is woken;
 * `named` says where to look. It looks within the same transaction: another read would wait for another commit.
 */
export async function runAction(
  { tablet, workers }: Context,
  dryRun: boolean,
  action: (tx: RegistryTransaction) => ActionResult,
  named: (tables: RegistryTables) => readonly Device[],
): Promise<ActionResultMessage> {
  try {
    const done = await tablet.transact((tx) => {
      const result = action(tx);
      if (dryRun) throw new DryRun(result);
      return { result, devices: named(tx) };
    });
    workers.wakeDevices(done.devices);
    return actionResultMessage(done.result);
  } catch (error) {
    if (error instanceof DryRun) return actionResultMessage(error.result);
    throw error;
  }
}
