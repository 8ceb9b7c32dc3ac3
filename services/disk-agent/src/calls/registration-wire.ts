import type { RegisterAgentResponse, RememberedRun, StampedDevice } from "@diskmesh/api/internal";
import { type DeviceId, parseDiskId, parseHostId, parseId } from "@diskmesh/domain";
import type { RememberedSession } from "../model/memory.js";
import type { RegistrationAnswer } from "../model/registration.js";
import { atLeast, parseOrder, parseRun, parseSessionNumber } from "./wire.js";

export function parseRegistrationAnswer(message: RegisterAgentResponse): RegistrationAnswer {
  const parse = (device: StampedDevice) => {
    const order = parseOrder(device);
    return {
      ...order,
      floor: atLeast("floor", device.floor, 0),
      sessions: device.runs.map((run) => parseRememberedRun(order.deviceId, run)),
    };
  };
  return {
    tabletId: parseId("tablet_id", message.tabletId),
    incarnation: parseId("incarnation", message.incarnation),
    predecessors: message.predecessors.map(({ tabletId, incarnation }) => ({
      tabletId: parseId("predecessors.tablet_id", tabletId),
      incarnation: parseId("predecessors.incarnation", incarnation),
    })),
    tabletGeneration: atLeast("tablet_generation", message.tabletGeneration, 1),
    allowed: message.allowedDevices.map(parse),
    unknown: message.unknownDevices.map(parse),
  };
}

function parseRememberedRun(deviceId: DeviceId, run: RememberedRun): RememberedSession {
  const { offsetBytes, sizeBytes } = parseRun({ deviceId, ...run });
  return {
    offsetBytes,
    sizeBytes,
    number: parseSessionNumber(run.sessionNumber),
    purpose: run.isErase ? "erase" : "disk",
    diskId: run.diskId === "" ? "" : parseDiskId(run.diskId),
    holderHostId: run.holderHostId === "" ? "" : parseHostId(run.holderHostId, "holder_host_id"),
    ended: run.ended,
  };
}
