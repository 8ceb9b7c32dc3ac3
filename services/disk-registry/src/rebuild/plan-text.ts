import { bytesText } from "@diskmesh/domain";
import type { RebuildPlan } from "../model/rebuild/plan.js";
import { countingDevices } from "../model/store/layout.js";
import type { Device, Disk } from "../model/store/schema.js";
import type { Answered } from "./ask-agents.js";

/** Returns the plan as lines for an operator. */
export function planText(plan: RebuildPlan, answered: readonly Answered[], fleetId: string): readonly string[] {
  const { hosts, devices, disks, silentHolders, leftDevices, leftDisks } = plan;
  const published = disks.filter(({ publication }) => publication !== undefined).length;
  const [sessions] = plan.counters.flatMap(({ name, value }) => (name === "session_number" ? value : []));
  return [
    `fleet ${fleetId}: ${hosts.length} hosts, ${devices.length} devices, ${disks.length} disks, ${published} of them published`,
    `tablet generation ${plan.tabletGeneration}; the next session number is ${(sessions ?? 0) + 1}`,
    ...answered.map(answerText),
    ...silentHolders.map(
      (hostId) => `host ${hostId}: has disks and did not answer: it is UNAVAILABLE until its agent registers`,
    ),
    ...devices.map(deviceText),
    ...leftDevices.map(
      ({ hostId, deviceId, reason }) => `device ${deviceId} on host ${hostId}: NOT TAKEN OVER: ${reason}`,
    ),
    ...disks.map(diskText),
    ...leftDisks.map(
      ({ diskId, reason }) => `disk ${diskId}: NOT REBUILT: ${reason}; its devices are held by an unknown disk`,
    ),
  ];
}

function answerText({ hostId, address, answer }: Answered): string {
  const at = `host ${hostId} at ${address}`;
  if ("error" in answer)
    return `${at}: NOT READ: ${answer.error}; disks with a part there are not rebuilt, and one that moved there last may be rebuilt from the bytes that it left`;
  const { registration, served } = answer.claims;
  const hears = answer.untilSilentMs > 0 ? "; it HEARS A REGISTRY" : "";
  return `${at}: ${registration.devices.length} devices in az ${registration.az}, serves ${served.length} disks${hears}`;
}

function deviceText({ deviceId, hostId, runs, unknownSession }: Device): string {
  const disks = runs.filter(({ diskId }) => diskId !== "").length;
  const held = unknownSession === undefined ? "" : `; held by an unknown disk: ${unknownSession.diskId || "no record"}`;
  return `device ${deviceId} on host ${hostId}: ${disks} runs of disks; the rest is erased${held}`;
}

function diskText(disk: Disk): string {
  const { diskId, sizeBytes, publication } = disk;
  const use = publication === undefined ? "not published" : `published to host ${publication.hostId}`;
  return `disk ${diskId}: ${bytesText(sizeBytes)} on ${countingDevices(disk).join(", ")}; ${use}`;
}
