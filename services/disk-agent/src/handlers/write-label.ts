import type { WriteLabelRequest, WriteLabelResponse } from "@diskmesh/api/internal";
import { InvalidStateError } from "@diskmesh/domain";
import { acceptFrom } from "../calls/accept-request.js";
import type { AgentContext } from "../calls/context.js";
import { encodeOutcome, parseLeaderStamp, parseSessionNumber } from "../calls/wire.js";
import { parseLabel, parseLabelRun } from "../labels/label-wire.js";
import { withDevice } from "../model/memory.js";

export async function writeLabel(context: AgentContext, request: WriteLabelRequest): Promise<WriteLabelResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const run = parseLabelRun(request);
  const sessionNumber = parseSessionNumber(request.sessionNumber);
  const wanted = request.label && parseLabel(request.label);
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  if (context.orders.labels.isDisks(run))
    throw new InvalidStateError(`a disk has the first bytes of device ${run.deviceId}: no label is written there`, {
      about: { device_id: run.deviceId },
    });
  const { ledger } = context;
  const remember = async (labelId: string | undefined): Promise<void> => {
    ledger.remember(withDevice(ledger.memory, run.deviceId, { labelId }));
    await ledger.durable();
  };
  const before = ledger.memory.devices.get(run.deviceId)?.labelId;
  // After a kill amid the writing, the former label would have the next life refuse the device.
  if (before !== undefined && before !== wanted?.labelId) await remember(undefined);
  const { outcome, label } = await context.orders.labels.write(run, sessionNumber, wanted, stamp);
  if (outcome.outcome === "done") await remember(label?.labelId);
  return { outcome: encodeOutcome(outcome), label };
}
