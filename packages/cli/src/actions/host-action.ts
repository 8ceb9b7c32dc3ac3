import { setTimeout as delay } from "node:timers/promises";
import { ActionCode, type ActionResult } from "@diskmesh/api/registry";
import { EndedWith, EXIT_CODES } from "../output/exit-codes.js";
import { short, sizeText } from "../output/output.js";
import type { ActionCall } from "./action.js";

const MIN_PAUSE_MS = 200;
const MAX_PAUSE_MS = 5_000;

/**
 * Requests an action that may take time: once, or with --wait until the action is done. Prints each change of the
 * answer.
 */
export async function repeatAction(
  { options, output, signal }: ActionCall,
  done: readonly ActionCode[],
  ask: (dryRun: boolean) => Promise<{ readonly result?: ActionResult | undefined }>,
): Promise<void> {
  let printed = "";
  for (;;) {
    const { result } = await ask(options.dryRun === true);
    if (result === undefined) throw new TypeError("the answer has no result");
    const isDone = done.includes(result.code);
    const text = textOf(result);
    if (isDone || result.code !== ActionCode.E_TRY_AGAIN || !options.wait || options.dryRun) {
      output.answer(result, text);
      if (isDone) return;
      throw new EndedWith(result.code === ActionCode.E_TRY_AGAIN ? EXIT_CODES.notYet : EXIT_CODES.failed);
    }
    if (text !== printed) output.say(text);
    printed = text;
    const pauseMs = Math.min(Math.max(result.retryAfterMs, MIN_PAUSE_MS), MAX_PAUSE_MS);
    await delay(pauseMs, undefined, { signal });
  }
}

function textOf({ code, message, dependentDiskIds, erase, unerasedDeviceIds }: ActionResult): string {
  const parts = [
    `${short(code)}${message === "" ? "" : `: ${message}`}`,
    dependentDiskIds.length > 0 && `disks: ${dependentDiskIds.join(" ")}`,
    erase && `erased ${sizeText(erase.bytesErased)} of ${sizeText(erase.bytesToErase)}`,
    unerasedDeviceIds.length > 0 && `not erased: ${unerasedDeviceIds.join(" ")}`,
  ];
  return parts.filter(Boolean).join("; ");
}
