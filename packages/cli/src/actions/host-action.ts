import { setTimeout as delay } from "node:timers/promises";
import { ActionCode, type ActionResult } from "@diskmesh/api/registry";
import { msOfDuration } from "@diskmesh/rpc";
import type { Mesh } from "../mesh/mesh.js";
import { EndedWith, EXIT_CODES } from "../output/exit-codes.js";
import { short, sizeText } from "../output/output.js";
import { sizeBytesOf } from "../output/values.js";
import { type Action, type ActionCall, textOption } from "./action.js";

const MIN_PAUSE_MS = 200;
const MAX_PAUSE_MS = 5_000;

/** The arguments and options of these actions; each RPC has the fields that its action offers. */
interface Wanted {
  readonly hostId: string;
  readonly deviceId: string;
  readonly dryRun: boolean;
  readonly keepData: boolean;
  readonly force: boolean;
  readonly acceptUnidentified: boolean;
  readonly eraseForeign: boolean;
  /** 0 for the size that the registry chooses. */
  readonly sliceBytes: number;
}

type Ask = (registry: Mesh["registry"], wanted: Wanted) => Promise<{ readonly result?: ActionResult | undefined }>;

/** Returns an action on a host or device that may take time. `ask` makes the call. */
export function hostAction(facts: Omit<Action, "run">, ask: Ask): Action {
  return {
    ...facts,
    run: (call) => {
      const { args, mesh, options } = call;
      const [hostId = "", deviceId = ""] = args;
      const flag = (name: string) => options[name] === true;
      const [dryRun, keepData, force] = [flag("dryRun"), flag("keepData"), flag("force")];
      const [acceptUnidentified, eraseForeign] = [flag("acceptUnidentified"), flag("eraseForeign")];
      const sliceSize = textOption(options, "sliceSize");
      const sliceBytes = sliceSize === "" ? 0 : sizeBytesOf(sliceSize);
      const wanted = { hostId, deviceId, dryRun, keepData, force, acceptUnidentified, eraseForeign, sliceBytes };
      return repeat(call, () => ask(mesh.registry, wanted));
    },
  };
}

/** Calls once, or with --wait until the action is done. Prints each change of the answer. */
async function repeat({ options, output, signal }: ActionCall, ask: () => ReturnType<Ask>): Promise<void> {
  let printed = "";
  for (;;) {
    const { result } = await ask();
    if (result === undefined) throw new TypeError("the answer has no result");
    const isDone = result.code === ActionCode.S_OK || result.code === ActionCode.S_ALREADY;
    const text = textOf(result);
    if (isDone || result.code !== ActionCode.E_TRY_AGAIN || !options.wait || options.dryRun) {
      output.answer(result, text);
      if (isDone) return;
      throw new EndedWith(result.code === ActionCode.E_TRY_AGAIN ? EXIT_CODES.notYet : EXIT_CODES.failed);
    }
    if (text !== printed) output.say(text);
    printed = text;
    const pauseMs = Math.min(Math.max(msOfDuration(result.retryDelay), MIN_PAUSE_MS), MAX_PAUSE_MS);
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
